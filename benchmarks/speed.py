"""Time devicelint against ruff (and semgrep, if it is there) on the same sources, in alternation.

In: a folder of Python sources, such as an unpacked wheel of vLLM 0.33.0.  Out: a table of medians
and ratios on standard output, and JSON with `--json FILE` to compare with an earlier run.  Never
here: a verdict.  Run it as `python benchmarks/speed.py SOURCES [--runs 5]`, on a quiet machine.

Every time is that of a whole process, start-up included; the two of a pair run one after the other,
so that a machine that changes its speed changes both.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

DEVICELINT = (sys.executable, "-m", "devicelint", "check", "--isolated", "--output-format", "json")
RUFF = (sys.executable, "-m", "ruff", "check", "--no-cache", "--isolated", "--select", "E,F")
CLICK = (sys.executable, "-c", "import click")

SEMGREP_RULE = """\
rules:
  - id: device
    languages: [python]
    severity: WARNING
    message: no device
    patterns:
      - pattern: torch.$F(...)
      - pattern-not: torch.$F(..., device=$D, ...)
      - metavariable-regex: {metavariable: $F, regex: ^(empty|zeros|ones|full|arange|tensor)$}
      - pattern-inside: |
          class $C(...):
            ...
"""


@dataclass(frozen=True, slots=True)
class Timing:
    """Medians in seconds of a pair of commands, and of their ratio; peak memory in MB."""

    name: str
    seconds: float
    other: str
    other_seconds: float
    ratio: float
    peak_mb: float


def timed(command: Sequence[str], cwd: Path) -> tuple[float, float]:
    """Run a command; give its wall time in seconds and its peak memory in MB."""
    start = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, _, usage = os.wait4(process.pid, 0)
    return time.perf_counter() - start, usage.ru_maxrss / 1024


def pair(
    name: str,
    command: Sequence[str],
    other: Sequence[str],
    cwd: Path,
    runs: int,
    before: Callable[[], None] = lambda: None,
) -> Timing:
    """Time two commands in turn, after one run of each that does not count."""
    mine: list[float] = []
    theirs: list[float] = []
    peak = 0.0
    for number in range(runs + 1):
        before()
        seconds, memory = timed(command, cwd)
        other_seconds, _ = timed(other, cwd)
        if number:
            mine.append(seconds)
            theirs.append(other_seconds)
            peak = max(peak, memory)
    ratio = statistics.median(a / b for a, b in zip(mine, theirs, strict=True))
    label = Path(other[0]).name if other[0] != sys.executable else " ".join(other[1:3])
    return Timing(name, statistics.median(mine), label, statistics.median(theirs), ratio, peak)


def main() -> int:
    """Run the benchmarks that were asked for and print their table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sources", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch) / "sources"
        shutil.copytree(options.sources, work)
        timings = measure(work, Path(scratch), options.runs)
    print(f"{platform.platform()}, Python {platform.python_version()}, {os.cpu_count()} cores\n")
    print("| run | seconds | against | seconds | ratio | peak MB |")
    print("|---|---|---|---|---|---|")
    for one in timings:
        print(
            f"| {one.name} | {one.seconds:.2f} | `{one.other}` | {one.other_seconds:.2f} "
            f"| {one.ratio:.2f} | {one.peak_mb:.0f} |"
        )
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(one) for one in timings], indent=1))
    return 0


def measure(work: Path, scratch: Path, runs: int) -> list[Timing]:
    """Time the runs one after the other."""
    cache = scratch / "cache"
    cold = (*DEVICELINT, "--no-cache", ".")
    warm = (*DEVICELINT, "--cache-dir", str(cache), ".")
    ruff = (*RUFF, ".")
    base = _widely_used(work)
    timings = [pair("cold, no cache", cold, ruff, work, runs)]
    timings.append(pair("warm", warm, ruff, work, runs))
    timings.append(pair("warm, one file touched", warm, ruff, work, runs, base.touch))
    timings.append(pair("warm, a base class edited", warm, ruff, work, runs, lambda: _edit(base)))
    plain = scratch / "plain.py"
    plain.write_text("import torch\n\n\ndef f(x):\n    return x + 1\n")
    timings.append(pair("one file, no candidate", (*cold[:-1], str(plain)), CLICK, work, runs))
    timings.append(pair("one file, findings", (*cold[:-1], str(base)), CLICK, work, runs))
    tiny = scratch / "tiny"
    tiny.mkdir()
    for number in range(41_000):
        (tiny / f"m{number}.py").touch()
    timings.append(pair("41,000 empty files", cold, ruff, tiny, 1))
    semgrep = shutil.which("semgrep")
    if semgrep is not None:
        rule = scratch / "rule.yml"
        rule.write_text(SEMGREP_RULE)
        command = (semgrep, "scan", "--metrics=off", "--quiet", "--config", str(rule), ".")
        timings.append(pair("cold, no cache", cold, command, work, 1))
    return timings


def _widely_used(work: Path) -> Path:
    """Choose the file whose edit is to be noticed: vLLM's linear layers, else the largest."""
    files = [*work.rglob("model_executor/layers/linear.py")] or sorted(
        work.rglob("*.py"), key=lambda path: -path.stat().st_size
    )
    return files[0]


def _edit(path: Path) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write("\n_ = 0\n")


if __name__ == "__main__":
    sys.exit(main())
