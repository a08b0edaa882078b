"""Measure what a trace costs: the construction of a thousand modules, and calls of one.

In: PyTorch.  Out: a line for each layer width.  Never here: a threshold; the numbers of a shared
machine are in `docs/trace.md`.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from devicelint.trace import record

RUNS = 9


class Block(nn.Module):
    """Layers of PyTorch's own, and a parameter, a buffer and an attribute."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, width)
        self.down = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(0.1)
        self.act = nn.GELU()
        self.gain = nn.Parameter(torch.ones(width))
        self.register_buffer("steps", torch.arange(width).float() / width)
        self.table = torch.zeros(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the layers."""
        return self.dropout(self.down(self.act(self.up(self.norm(x))))) * self.gain


class Net(nn.Module):
    """1,004 modules."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block(width) for _ in range(167))
        self.head = nn.Identity()


def build(width: int) -> float:
    """Build once and give the milliseconds of this process."""
    start = time.process_time()
    Net(width)
    return (time.process_time() - start) * 1e3


def call(block: Block, count: int = 3_000) -> float:
    """Call a module and give the microseconds of one call."""
    x = torch.ones(2, 8)
    start = time.process_time()
    for _ in range(count):
        block(x)
    return (time.process_time() - start) / count * 1e6


def main() -> None:
    """Alternate between runs with and without, and compare the medians."""
    torch.set_num_threads(1)
    for width in (8, 64, 256, 1024):
        alone, traced = [], []
        for _ in range(3):
            build(width)
        for _ in range(RUNS):
            gc.collect()
            alone.append(build(width))
            with record():
                traced.append(build(width))
        before, after = statistics.median(alone), statistics.median(traced)
        print(f"width {width}: {before:.0f} ms, traced {after:.0f} ms, ratio {after / before:.2f}")
    block = Block(8)
    alone, traced = [], []
    for _ in range(RUNS):
        alone.append(call(block))
        with record():
            traced.append(call(block))
    before, after = statistics.median(alone), statistics.median(traced)
    print(f"call: {before:.1f} us, while recording {after:.1f} us, ratio {after / before:.3f}")


if __name__ == "__main__":
    main()
