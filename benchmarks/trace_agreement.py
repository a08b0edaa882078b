"""Compare what devicelint says of public models with what a trace of their construction shows.

In: a Python with PyTorch and the packages (timm, diffusers) installed.  Out: two numbers for each:
of the findings on lines that ran, the share that the run confirms; of the constructions without a
device that the run saw, the share that had been reported.  Never here: a download, a change.

    python benchmarks/trace_agreement.py --python PYTHON timm timm-classes diffusers

Versions that the numbers in `docs/trace.md` are of: torch 2.13.0, timm 1.0.31, diffusers 0.42.1.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import inspect
import json
import os
import pkgutil
import random
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
#: Findings on what a trace sees call by call.
CODES = {f"DVL00{number}" for number in range(1, 10)}
HUGE = (
    "giant",
    "gigantic",
    "huge",
    "enormous",
    "xlarge",
    "so400m",
    "_xl",
    "7b",
    "large",
    "2b",
    "1b",
)
#: Models with more parameters than this are left out: they show nothing that smaller ones do not.
MOST_PARAMETERS = 40_000_000


# In the packages' own Python ----------------------------------------------------------------------


def build(package: str, wanted: int, output: Path) -> None:
    """Build models under the recorder, and write what it saw."""
    sys.path.insert(0, str(ROOT))
    warnings.simplefilter("ignore")
    from devicelint.trace import record
    from devicelint.trace.events import construction_json

    keep = None
    try:
        import torchvision  # noqa: F401
    except RuntimeError:
        for name in [name for name in sys.modules if name.startswith("torchvision")]:
            del sys.modules[name]
        keep = with_operators()
    except ImportError:
        pass
    builders = BUILDERS[package]()
    built, failed, faults, started = 0, Counter[str](), Counter[str](), time.perf_counter()
    seen: list[object] = []
    for builder in builders:
        if built >= wanted:
            break
        try:
            with record() as log:
                builder()
            built += 1
        except Exception as error:  # noqa: BLE001 - not every class can be built by guessing
            failed[type(error).__name__] += 1
        if sys.stderr.isatty() and built % 10 == 0:
            print(f"{package}: {built} of {wanted}", end="\r", file=sys.stderr)
        seen.extend(construction_json(item) for item in log.constructions)
        faults.update(log.faults)
        gc.collect()
    del keep
    location = Path(importlib.import_module(package.partition("-")[0]).__file__ or "").parent
    document = {
        "package": package,
        "folder": str(location),
        "built": built,
        "failed": dict(failed),
        "faults": dict(faults),
        "seconds": time.perf_counter() - started,
        "constructions": seen,
    }
    output.write_text(json.dumps(document), encoding="utf-8")


def with_operators() -> object:
    """Declare the operators of torchvision, where its C++ part is missing."""
    import torch

    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library


def timm_models() -> Iterator[Callable[[], object]]:
    """Yield builders of timm's models, in an order that is mixed and always the same."""
    import timm
    import torch

    names = [name for name in timm.list_models() if not any(word in name for word in HUGE)]
    random.Random(7).shuffle(names)
    for name in names:
        with contextlib.suppress(Exception), torch.device("meta"):  # not all can be built there
            model = timm.create_model(name, pretrained=False)
            if sum(one.numel() for one in model.parameters()) > MOST_PARAMETERS:
                continue
        yield lambda name=name: timm.create_model(name, pretrained=False)


def classes_of(package: str) -> Iterator[Callable[[], object]]:
    """Yield builders of a package's module classes, with small numbers where they take numbers."""
    import torch

    classes: dict[str, type] = {}
    root = importlib.import_module(package)
    for module in pkgutil.walk_packages(root.__path__, f"{package}."):
        try:
            loaded = importlib.import_module(module.name)
        except Exception:  # noqa: BLE001 - optional dependencies are not there
            continue
        for name, value in vars(loaded).items():
            is_module = isinstance(value, type) and issubclass(value, torch.nn.Module)
            if is_module and value.__module__ == module.name:
                classes[f"{module.name}.{name}"] = value
    # Whole models first: what they are made of is built with them.
    ordered = sorted(
        classes.items(), key=lambda item: (not hasattr(item[1], "from_config"), item[0])
    )
    for _, cls in ordered:
        arguments = small_arguments(cls)
        if arguments is not None:
            yield lambda cls=cls, arguments=arguments: cls(**arguments)


#: what is built, and how many of it
BUILDERS: dict[str, Callable[[], Iterator[Callable[[], object]]]] = {
    "timm": timm_models,
    "timm-classes": partial(classes_of, "timm"),
    "diffusers": partial(classes_of, "diffusers.models"),
}
COUNTS = {"timm": 300, "timm-classes": 1_000, "diffusers": 100}

SMALL = {
    "num_layers": 1, "num_single_layers": 1, "num_refiner_layers": 1, "depth": 1, "n_layers": 1,
    "num_attention_heads": 2, "attention_head_dim": 32, "num_heads": 2, "heads": 2, "dim_head": 32,
    "dim": 64, "in_channels": 4, "out_channels": 4, "channels": 32, "hidden_size": 64,
    "embed_dim": 64, "inner_dim": 64, "theta": 10_000, "embedding_dim": 64, "in_features": 64,
    "norm_num_groups": 4, "joint_attention_dim": 64, "pooled_projection_dim": 64,
    "cross_attention_dim": 64, "sample_size": 16, "caption_channels": 64, "layers_per_block": 1,
}  # fmt: skip


def small_arguments(cls: type) -> dict[str, object] | None:
    """Guess arguments with which a class is built and stays small; None if there are none."""
    import torch

    parameters = {
        name: parameter
        for name, parameter in inspect.signature(cls).parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
    required = {
        name: SMALL.get(name, 32)
        for name, parameter in parameters.items()
        if parameter.default is parameter.empty
    }
    small = {name: value for name, value in SMALL.items() if name in parameters}
    for arguments in ({**small, **required}, required):
        try:
            with torch.device("meta"):
                size = sum(one.numel() for one in cls(**arguments).parameters())
        except RuntimeError:  # a value is read: what else is there may be large
            size = 0 if not hasattr(cls, "from_config") else MOST_PARAMETERS
        except Exception:  # noqa: BLE001 - the arguments do not fit
            continue
        if size < MOST_PARAMETERS:
            return arguments
    return None


# Here ---------------------------------------------------------------------------------------------


def compare(document: dict[str, object], verbose: bool) -> dict[str, object]:
    """Hold the findings of a package against what was seen."""
    folder = Path(str(document["folder"]))
    findings = findings_of(folder)
    sites = sites_of(document["constructions"], folder)
    ran = confirmed = 0
    wrong: list[str] = []
    reported = set()
    for finding in findings:
        place = (str(folder.parent / finding["path"]), finding["line"], finding["column"])
        reported.add(place)
        site = sites.get(place)
        if site is None:
            continue
        ran += 1
        if site["named"] & {"no", "none"}:
            confirmed += 1
        else:
            wrong.append(f"{finding['path']}:{finding['line']} {finding['code']} {site['named']}")
    unnamed = {place: site for place, site in sites.items() if "no" in site["named"]}
    expected = {place: site for place, site in unnamed.items() if not is_silent(site)}
    missed = sorted(
        f"{Path(place[0]).relative_to(folder.parent)}:{place[1]}:{place[2]} {site['callable']} "
        f"{sorted(site['fates'])}"
        for place, site in expected.items()
        if place not in reported
    )
    if verbose:
        print("\n".join(["not confirmed:", *wrong, "not reported:", *missed]))
    return {
        "package": document["package"],
        "models": document["built"],
        "not built": document["failed"],
        "faults": document["faults"],
        "seconds": round(float(str(document["seconds"])), 1),
        "findings that ran": ran,
        "confirmed": confirmed,
        "confirmed share": round(confirmed / ran, 4) if ran else None,
        "constructions without a device": len(unnamed),
        "less deliberate silence": len(expected),
        "reported": len(expected) - len(missed),
        "reported share": round(1 - len(missed) / len(expected), 4) if expected else None,
        "reported share, raw": round(len(reported & set(unnamed)) / len(unnamed), 4)
        if unnamed
        else None,
    }


def findings_of(folder: Path) -> list[dict[str, Any]]:
    """Check a copy of a package that stands alone, as its repository does."""
    with tempfile.TemporaryDirectory() as place:
        shutil.copytree(folder, Path(place) / folder.name)
        run = subprocess.run(
            [
                *(sys.executable, "-m", "devicelint", "check", "--isolated", "--no-cache"),
                *("--exit-zero", "--output-format", "json", folder.name),
            ],
            cwd=place,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
    if not run.stdout.startswith("{"):
        sys.exit(run.stderr)
    return [one for one in json.loads(run.stdout)["findings"] if one["code"] in CODES]


def sites_of(constructions: object, folder: Path) -> dict[tuple[str, int, int], dict[str, object]]:
    """Join what was seen at one place; only the package's own code counts."""
    sites: dict[tuple[str, int, int], dict[str, object]] = {}
    assert isinstance(constructions, list)
    for item in constructions:
        path, line, column, *_ = item["place"]
        if item["kind"] in ("module", "internal") or not path.startswith(str(folder)):
            continue
        site = sites.setdefault(
            (path, line, column),
            {"named": set(), "fates": set(), "moved": False, "empty": True, "placed": True,
             "callable": item["callable"]},
        )  # fmt: skip
        site["named"].add(item["named"])
        site["fates"] |= {one["fate"] for one in item["destinations"]}
        site["moved"] |= item["moved"]
        site["empty"] &= item["empty"]
        site["placed"] &= bool(item["context"]) and item["context"] == item["device"]
    return sites


def is_silent(site: dict[str, object]) -> bool:
    """Tell the shapes that devicelint leaves alone on purpose, as far as a trace can see them.

    They are: empty placeholders, values moved to a device at once, sources of a copy into what is
    there, and what the library itself builds in a device context.
    """
    fates = site["fates"]
    assert isinstance(fates, set)
    copied = "existing" in fates and not fates - {"existing", "gone"}
    return bool(site["empty"] or site["moved"] or site["placed"] or copied)


def main() -> None:
    """Build each package's models in its Python, and compare here."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", nargs="+", choices=[*BUILDERS])
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--count", type=int, help="how many to build at most")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--seen", type=Path, help="keep what was seen in this folder, and reuse it")
    parser.add_argument("--build", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    for package in options.packages:
        count = options.count or COUNTS[package]
        if options.build:
            build(package, count, options.build)
            continue
        with tempfile.TemporaryDirectory() as temporary:
            seen = (options.seen or Path(temporary)) / f"{package}.json"
            if not seen.exists():
                subprocess.run(
                    [options.python, __file__, package, "--count", str(count), "--build", seen],
                    check=True,
                )
            document = json.loads(seen.read_text(encoding="utf-8"))
        print(json.dumps(compare(document, options.verbose), indent=2))


if __name__ == "__main__":
    main()
