"""Build the predictor fixture on a CUDA machine, before and after `devicelint fix`, and say where.

In: `fixtures/predictor.py` and its fixed twin, which the tests hold equal to the fixer's output.
Out: a table of devices, as Markdown, on standard output; exit 1 if the fixed module has anything
off the GPU, or the unfixed one nothing.  Needs a GPU: `python benchmarks/fixed_on_cuda.py`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import torch
from devices import default_device
from torch import nn

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"


CONTEXTS: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "none": contextlib.nullcontext,
    '`with torch.device("cuda")`': lambda: torch.device("cuda"),
    '`set_default_device("cuda")`': lambda: default_device("cuda"),
    '`with torch.device("meta")`': lambda: torch.device("meta"),
}


def build(name: str) -> nn.Module:
    """Import a fixture from its file and build its module."""
    spec = importlib.util.spec_from_file_location(name.replace(".", "_"), FIXTURES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    predictor = module.TokenPredictor(2, 8, 4, 16, 4)
    assert isinstance(predictor, nn.Module)
    return predictor


def devices(predictor: nn.Module) -> dict[str, str]:
    """Say where each kind of thing is; what the fix is not about (`nn.LayerNorm`) is left out."""
    layer = predictor.get_submodule("layers.0")
    places = {
        "buffer `top_indices`": {str(predictor.top_indices.device)},
        "streams": {str(stream.device) for stream in predictor.side_streams},
        "parameters": {str(getattr(layer, name).device) for name in ("mix", "base", "scale")},
    }
    return {kind: ", ".join(sorted(found)) for kind, found in places.items()}


def main() -> int:
    """Print the table."""
    torch.cuda.set_device(0)
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name(0)}\n")
    print("| context | module | buffer `top_indices` | streams | parameters |")
    print("|---|---|---|---|---|")
    right = True
    for context, enter in CONTEXTS.items():
        for name, title in (("predictor", "as written"), ("predictor.fixed", "fixed")):
            with enter():
                found = devices(build(name))
            print(f"| {context} | {title} | {' | '.join(found.values())} |")
            everywhere = set(found.values()) == {"cuda:0"}
            if title == "fixed":
                right = right and everywhere
            elif context == "none":
                right = right and not everywhere
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
