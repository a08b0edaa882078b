"""Trace the predictor fixture on a CUDA machine: what each context makes of its constructions.

In: `fixtures/predictor.py`.  Out: a table as Markdown on standard output, one row a context, the
devices as `devicelint.trace` saw them.  Never here: a look of our own at the tensors.  Needs a GPU:
`python benchmarks/trace_on_cuda.py`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402
from devices import default_device  # noqa: E402

import devicelint.trace  # noqa: E402

CONTEXTS: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "none": contextlib.nullcontext,
    "`with torch.cuda.device(0)`": lambda: torch.cuda.device(0),
    '`with torch.device("cuda:0")`': lambda: torch.device("cuda:0"),
    '`set_default_device("cuda")`': lambda: default_device("cuda"),
    '`with torch.device("meta")`': lambda: torch.device("meta"),
}


def fixture(name: str) -> ModuleType:
    """Import a fixture from its file."""
    spec = importlib.util.spec_from_file_location(
        name.replace(".", "_"), ROOT / "fixtures" / f"{name}.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> int:
    """Print the table."""
    torch.cuda.set_device(0)
    torch.zeros(1, device="cuda")
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name(0)}\n")
    print("| context | attribute | parameters | streams |")
    print("|---|---|---|---|")
    module = fixture("predictor")
    for context, enter in CONTEXTS.items():
        found: dict[str, set[str]] = {}
        with devicelint.trace.record() as log, enter():
            module.TokenPredictor(2, 8, 4, 16, 4)
        for item in log.unnamed:
            if item.place.path.endswith("predictor.py"):
                found.setdefault(str(item.sink), set()).add(str(item.device))
        row = (", ".join(sorted(found.get(k, {"-"}))) for k in ("attribute", "parameter", "stream"))
        print(f"| {context} | {' | '.join(row)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
