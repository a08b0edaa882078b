"""The fault itself: what a rank's module builds on another rank's device.

In: `fixtures/predictor.py` and its fixed twin; two processes started by torchrun.  Out: a table as
Markdown, printed by rank 0: for each way of building, where things landed on each rank, and whether
a kernel that uses stream and buffer worked.  Then, for a process group with and without
`device_id=`, what PyTorch said.  Never here: a verdict.

    torchrun --nproc-per-node 2 benchmarks/two_ranks.py                 # NCCL, a GPU for each rank
    torchrun --nproc-per-node 2 benchmarks/two_ranks.py --backend gloo  # two ranks on one GPU
    CUDA_VISIBLE_DEVICES=1,0 torchrun --nproc-per-node 2 benchmarks/two_ranks.py
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import torch
import torch.distributed as dist
from devices import default_device
from torch import nn

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
RANK = int(os.environ.get("LOCAL_RANK", "0"))
DEVICE = torch.device("cuda", RANK % max(1, torch.cuda.device_count()))


CONTEXTS: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "none": contextlib.nullcontext,
    '`torch.device("cuda")`': lambda: torch.device("cuda"),
    '`set_default_device("cuda")`': lambda: default_device("cuda"),
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


def use(predictor: nn.Module) -> str:
    """Run a kernel on the module's stream that reads its buffer and a tensor of this rank."""
    mine = torch.ones(16, 4, dtype=torch.int32, device=DEVICE)
    stream = predictor.side_streams[0]
    try:
        with torch.cuda.stream(stream):
            result = predictor.top_indices + mine
        torch.cuda.synchronize()
    except RuntimeError as error:
        return f"raises: {str(error).splitlines()[0][:80]}"
    if stream.device != DEVICE or result.device != DEVICE:
        return f"works, on {stream.device} for a rank on {DEVICE}"
    return "works"


def row(name: str, context: str) -> str:
    """Build once and describe: buffer, streams, parameters, what a kernel says."""
    with CONTEXTS[context]():
        predictor = build(name)
    layer = predictor.get_submodule("layers.0")
    streams = {str(stream.device) for stream in predictor.side_streams}
    cells = (predictor.top_indices.device, ", ".join(sorted(streams)), layer.mix.device)
    return " | ".join([*map(str, cells), use(predictor)])


def told_by_process_group(backend: str, *, named: bool) -> str:
    """Set up a group, wait at a barrier, and give what was said on stderr and as warnings."""
    options = {"device_id": DEVICE} if named and backend == "nccl" else {}
    with tempfile.TemporaryFile("w+") as file, warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        saved = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            dist.init_process_group(backend, **options)
            dist.barrier()
        finally:
            os.dup2(saved, 2)
        dist.destroy_process_group()
        file.seek(0)
        log = file.read()
    guessed = "Guessing device ID" in log
    warned = any("barrier" in str(one.message) for one in seen)
    return f"guesses: {'yes' if guessed else 'no'}, barrier() warns: {'yes' if warned else 'no'}"


def gather(lines: list[str]) -> list[list[str]]:
    """Bring the lines of all ranks together, over CPU."""
    dist.init_process_group("gloo")
    found: list[list[str]] = [[] for _ in range(dist.get_world_size())]
    dist.all_gather_object(found, lines)
    dist.destroy_process_group()
    return found


def main() -> int:
    """Build in every way, before and after `set_device`, then set up groups; rank 0 prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backend", default="nccl", choices=["nccl", "gloo"])
    options = parser.parse_args()
    ways = [(name, context) for context in CONTEXTS for name in ("predictor", "predictor.fixed")]
    titles: list[str] = []
    lines: list[str] = []
    for moment in ("before", "after"):
        if moment == "after":
            torch.cuda.set_device(DEVICE)
        for name, context in ways:
            kind = "fixed" if name.endswith("fixed") else "as written"
            titles.append(f"{moment} `set_device` | {context} | {kind}")
            lines.append(row(name, context))
    for named in (False, True):
        titles.append(f"process group | `device_id=` {'given' if named else 'missing'} | ")
        lines.append(told_by_process_group(options.backend, named=named) + " | | | ")
    found = gather(lines)
    if RANK == 0:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "all")
        print(f"torch {torch.__version__}, {options.backend}, {torch.cuda.device_count()} GPUs, ")
        print(f"CUDA_VISIBLE_DEVICES={visible}\n")
        print("| built | context | module | rank | buffer | streams | parameters | a kernel |")
        print("|---|---|---|---|---|---|---|---|")
        for number, title in enumerate(titles):
            for rank, theirs in enumerate(found):
                print(f"| {title} | {rank} | {theirs[number]} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
