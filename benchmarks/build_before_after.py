"""Build the module classes of a package before and after its fixes, and compare what they hold.

In: folders with the sources of packages (timm, diffusers), and an interpreter that has PyTorch and
what the packages import; torchvision is replaced by a stand-in.  Out: how many classes were built,
how many of them hold a fixed call, and every difference.  Never here: a judgement about a finding.

The fixes are made with `device-expression = '"cpu"'`, on copies.  Both sides are built with the
same seed, on the CPU, with uninitialised memory filled; then parameters, buffers and tensors in
plain attributes must have the same shapes, dtypes and bytes.

    python benchmarks/build_before_after.py FOLDER... --python VENV/bin/python [--json FILE]
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import importlib.abc
import importlib.machinery
import inspect
import io
import json
import pkgutil
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import types
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

#: What a required argument gets, by name; the first that fits, tried in this order.
GUESSES: tuple[tuple[tuple[str, ...], object], ...] = (
    (("num_heads", "heads", "num_attention_heads", "n_heads", "nhead"), 4),
    (("dim_head", "attention_head_dim", "head_dim"), 8),
    (("kernel_size", "kernel", "patch_size", "window_size", "scale", "pool_size"), 4),
    (("stride", "dilation", "groups", "reduction", "expansion", "num_groups", "upscale"), 1),
    (("num_layers", "depth", "n_layers", "layers", "num_blocks"), 1),
    (("img_size", "input_size", "image_size", "feat_size", "resolution", "seq_len"), 16),
    (("size", "sizes", "shape", "spatial_shape"), (4, 4)),
    (("act_fn", "activation_fn", "activation"), "gelu"),
    (("axes_dim", "axes_dims"), [8, 8, 16]),
    (("theta", "base", "temperature"), 10000),
    (("eps", "drop_prob", "dropout", "p", "ratio", "alpha", "gamma", "sigma"), 0.5),
    (("in_chs", "out_chs", "mid_chs", "channels", "num_features", "num_classes"), 32),
)

#: What makes a model small enough, where its constructor has such a parameter with a default.
SMALLER: dict[str, object] = {
    "num_layers": 1,
    "num_single_layers": 1,
    "num_refiner_layers": 1,
    "num_attention_heads": 4,
    "attention_head_dim": 16,
    "depth": 1,
    "embed_dim": 64,
    "img_size": 32,
}

#: CPU seconds for one class (one that takes longer is left out), and bytes of memory for all
LIMIT = 5
MEMORY = 12 << 30


# The child: builds, in the interpreter that has PyTorch ------------------------------------------


class StandInClass(type):
    """A class whose every attribute is there: its own name."""

    def __getattr__(cls, name: str) -> str:
        if name.startswith("__"):
            raise AttributeError(name)
        return name


class StandIn(types.ModuleType):
    """A module in which every name is a class of its own that does nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = StandInClass(name, (), {"__init__": lambda self, *args, **kwargs: None})
        setattr(self, name, made)
        return made


class StandInFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds a stand-in for torchvision, whose builds tie it to one build of PyTorch."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> Any:
        if fullname.partition(".")[0] != "torchvision":
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: Any) -> types.ModuleType:
        made = StandIn(spec.name)
        made.__path__ = []
        return made

    def exec_module(self, module: types.ModuleType) -> None:
        module.__dict__["__version__"] = "0.0"


class TooSlowError(BaseException):
    """A class took longer than its limit to build; no handler in its code may catch that."""


def build_all(package: str) -> dict[str, Any]:
    """Build every module class of a package that builds, and describe what it holds."""
    import torch

    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    sys.meta_path.append(StandInFinder())
    built: dict[str, Any] = {}
    for cls in classes_of(package):
        name = f"{cls.__module__}.{cls.__qualname__}"
        try:
            module = build(cls)
        except TooSlowError:
            built[name] = None
            continue
        if module is not None:
            built[name] = {"tensors": tensors_of(module), "holds": holds(module, package)}
        del module
    return built


def classes_of(package: str) -> list[type]:
    """Import all of a package and list its module classes, as far as it can be imported."""
    import torch

    found: dict[str, type] = {}
    root = importlib.import_module(package)
    names = [
        one.name for one in pkgutil.walk_packages(root.__path__, f"{package}.", lambda _: None)
    ]
    for name in sorted(names):
        if ".pipelines." in name or name.endswith("__main__"):
            continue
        try:
            module = importlib.import_module(name)
        except BaseException:  # noqa: BLE001 - whatever an optional dependency does
            continue
        for value in vars(module).values():
            if (
                isinstance(value, type)
                and issubclass(value, torch.nn.Module)
                and value.__module__ == name
            ):
                found[f"{name}.{value.__qualname__}"] = value
    return [found[name] for name in sorted(found)]


def build(cls: type) -> Any:
    """Build a class with guessed arguments; None if that fails."""
    import torch

    for arguments in guesses(cls):
        random.seed(0)
        torch.manual_seed(0)
        with contextlib.suppress(ImportError):
            importlib.import_module("numpy").random.seed(0)
        signal.setitimer(signal.ITIMER_PROF, LIMIT)
        try:
            return cls(**arguments)
        except TooSlowError:
            raise
        except Exception:  # noqa: BLE001 - a wrong guess fails in any way
            continue
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    return None


def guesses(cls: type) -> Iterator[dict[str, object]]:
    """Yield arguments to try: what is required, then also what makes it smaller."""
    try:
        parameters = [*inspect.signature(cls.__init__).parameters.values()][1:]
    except (TypeError, ValueError):
        return
    required: dict[str, object] = {}
    smaller: dict[str, object] = {}
    for one in parameters:
        if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            continue
        if one.default is one.empty:
            required[one.name] = guess(one)
        elif one.name in SMALLER and isinstance(one.default, int):
            smaller[one.name] = SMALLER[one.name]
    if smaller:
        yield required | smaller
    yield required


def guess(parameter: inspect.Parameter) -> object:
    """Guess an argument by its name, else by its annotation."""
    for names, value in GUESSES:
        if parameter.name in names:
            return value
    written = str(parameter.annotation)
    if "Tuple" in written or "List" in written or "Sequence" in written or "tuple" in written:
        return (32, 32)
    if "bool" in written:
        return False
    if "str" in written:
        return "gelu"
    return 32


def tensors_of(module: Any) -> dict[str, list[str]]:
    """Describe parameters, buffers and tensors in plain attributes: shape, dtype, place, bytes."""
    import torch

    found: dict[str, Any] = {}
    for prefix, part in module.named_modules():
        for kind in ("_parameters", "_buffers", ""):
            values = getattr(part, kind) if kind else vars(part)
            for name, value in values.items():
                collect(found, f"{prefix}:{kind}:{name}", value)
    described = {}
    for name, tensor in found.items():
        plain = tensor.detach()
        digest = ""
        if plain.layout is torch.strided and plain.device.type == "cpu" and not plain.is_quantized:
            raw = plain.contiguous().reshape(-1).view(torch.uint8) if plain.numel() else plain
            digest = hashlib.sha256(raw.numpy().tobytes()).hexdigest()[:16]
        described[name] = [str(tuple(plain.shape)), str(plain.dtype), str(plain.device), digest]
    return described


def collect(found: dict[str, Any], name: str, value: object) -> None:
    """Find tensors in a value and the containers in it."""
    import torch

    if isinstance(value, torch.Tensor):
        found[name] = value
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            collect(found, f"{name}[{number}]", item)
    elif isinstance(value, dict) and not name.endswith(("_parameters", "_buffers", "_modules")):
        for key, item in value.items():
            collect(found, f"{name}[{key!r}]", item)


def holds(module: Any, package: str) -> list[str]:
    """List the classes of the package whose constructors ran."""
    return sorted(
        {
            f"{base.__module__}.{base.__qualname__}"
            for part in module.modules()
            for base in type(part).__mro__
            if base.__module__.partition(".")[0] == package
        }
    )


def child(package: str, target: str) -> None:
    """Build one package and write what was built."""

    def stop(number: int, frame: object) -> None:
        raise TooSlowError

    signal.signal(signal.SIGPROF, stop)
    warnings.simplefilter("ignore")
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        built = build_all(package)
    Path(target).write_text(json.dumps(built), encoding="utf-8")


# The parent: fixes a copy and compares -----------------------------------------------------------


def devicelint(folder: Path, *arguments: str) -> bytes:
    """Run the command with the CPU as its device expression."""
    options = ["--isolated", "--no-cache", "--config", "device-expression = '\"cpu\"'"]
    command = [sys.executable, "-m", "devicelint", *arguments, *options, "."]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False).stdout


def fixed_classes(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> Counter[str]:
    """Count the fixed findings of each class, by dotted name."""
    counts: Counter[str] = Counter()
    for findings, sign in ((before, 1), (after, -1)):
        for one in findings:
            module = one["path"].removesuffix(".py").replace("/", ".")
            owner = one["symbol"].rpartition(".")[0]
            counts[f"{module}.{owner}"] += sign
    return +counts


def findings(folder: Path) -> list[dict[str, Any]]:
    """Run `check`."""
    report = json.loads(devicelint(folder, "check", "--output-format", "json"))
    found: list[dict[str, Any]] = report["findings"]
    return found


def built(python: str, folder: Path, package: str, target: Path) -> dict[str, Any]:
    """Build a package from a folder, in the interpreter that has PyTorch."""
    command = [python, str(Path(__file__).resolve()), "--child", package, str(target)]
    subprocess.run(command, cwd=folder, env={"PYTHONPATH": str(folder)}, check=True)
    result: dict[str, Any] = json.loads(target.read_text(encoding="utf-8"))
    return result


def compare(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    """Say what differs."""
    for name in sorted(before.keys() ^ after.keys()):
        yield f"{name}: built only {'before' if name in before else 'after'}"
    for name in sorted(before.keys() & after.keys()):
        old, new = before[name]["tensors"], after[name]["tensors"]
        for key in sorted(old.keys() | new.keys()):
            if old.get(key) != new.get(key):
                yield f"{name}: {key}: {old.get(key)} became {new.get(key)}"


def run(source: Path, python: str, work: Path) -> dict[str, Any]:
    """Fix a copy of one package and build both."""
    (package,) = [one.name for one in source.iterdir() if (one / "__init__.py").is_file()]
    old, new = work / "before", work / "after"
    shutil.copytree(source, old)
    shutil.copytree(source, new)
    found = findings(new)
    devicelint(new, "fix", "--write")
    fixes = fixed_classes(found, findings(new))
    first = built(python, old, package, work / "before.json")
    second = built(python, new, package, work / "after.json")
    # Near the limit it is chance on which side a class is too slow.
    slow = {name for side in (first, second) for name, one in side.items() if one is None}
    first, second = (
        {name: one for name, one in side.items() if name not in slow} for side in (first, second)
    )
    with_fix = [name for name, one in second.items() if any(fixes[base] for base in one["holds"])]
    reached = {base for one in second.values() for base in one["holds"] if fixes[base]}
    return {
        "package": source.name,
        "fixed": fixes.total(),
        "classes built": len(second),
        "left out as too slow": len(slow),
        "with a fixed call": len(with_fix),
        "tensors compared": sum(len(one["tensors"]) for one in second.values()),
        "fixed calls in classes built": sum(fixes[base] for base in reached),
        "differences": list(compare(first, second)),
    }


def main(arguments: Sequence[str]) -> int:
    if arguments[:1] == ["--child"]:
        child(arguments[1], arguments[2])
        return 0
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--python", default=sys.executable, help="the interpreter with PyTorch")
    parser.add_argument("--json", type=Path, help="where to put the result as JSON")
    options = parser.parse_args(arguments)
    results = []
    for folder in options.folders:
        with tempfile.TemporaryDirectory() as name:
            results.append(run(folder.resolve(), options.python, Path(name)))
        shown = {key: value for key, value in results[-1].items() if key != "differences"}
        print(*(f"{key}: {value}" for key, value in shown.items()), sep=", ", flush=True)
        print(f"differences: {len(results[-1]['differences'])}")
        print(*results[-1]["differences"][:20], sep="\n")
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=1), encoding="utf-8")
    return 1 if any(one["differences"] for one in results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
