"""Run commands and measure them: wall time, memory, stages, instructions.

In: commands.  Out: samples, in the order of the runs.  Never here: what a command is about, or a
number of a command that failed: that ends the benchmark.

Every time is that of a whole process, start-up included.  Steps are run in turn, round by round, so
that a machine that changes its speed changes all of them.

The peak memory is that of the largest single process: Linux counts for a process that is waited for
also the children that it has waited for, and so on down (a worker of a pool that fills 300 MB shows
as 297 MB of the program).  It can show no less than this program itself takes, from which the
others are forked, so this one holds no sources and no reports.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

_STAGE = r"([a-z][\w -]*) (\d+\.\d+) s"
_STAGES = re.compile(rf"devicelint: {_STAGE}(?:, {_STAGE})*")
_COLLECTED = re.compile(r"Collected : (\d+)")


def _nothing() -> None:
    """Prepare nothing."""


@dataclass(frozen=True, slots=True)
class Step:
    """A command, the folder it runs in, its exit codes in order, and what to do before it."""

    label: str
    words: tuple[str, ...]
    cwd: Path
    accepted: tuple[int, ...]
    before: Callable[[], None] = _nothing


@dataclass(frozen=True, slots=True)
class Sample:
    """One run: seconds, peak memory in MB, and seconds by stage if it told them."""

    seconds: float
    peak_mb: float
    stages: Mapping[str, float]


def alternate(steps: Sequence[Step], runs: int) -> tuple[tuple[Sample, ...], ...]:
    """Run steps in turn; give the samples of each step, without those of a first, unmeasured round.

    The first round compiles the bytecode, fills the caches and brings the files into memory.
    """
    rounds = [[sample(step) for step in steps] for _ in range(runs + 1)]
    return tuple(zip(*rounds[1:], strict=True))


def sample(step: Step) -> Sample:
    """Run one command and measure it."""
    step.before()
    with tempfile.TemporaryFile() as errors:
        start = time.perf_counter()
        process = subprocess.Popen(
            step.words,
            cwd=step.cwd,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        told = errors.read().decode(errors="replace")
    require(step, process.returncode, told)
    return Sample(seconds, usage.ru_maxrss / 1024, stages_of(told))


def environment() -> dict[str, str]:
    """Give the environment of every command: this checkout's code, and bytecode that is kept."""
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    # semgrep asks the network for a newer version, which took 97 s where there was none
    return kept | {"PYTHONPATH": str(ROOT), "SEMGREP_ENABLE_VERSION_CHECK": "0"}


def require(step: Step, code: int, told: str) -> None:
    """End the benchmark if a command failed: its time would be that of a failure."""
    if code not in step.accepted or "Traceback" in told:
        raise SystemExit(f"{shlex.join(step.words)}: exit code {code}\n{told[-2000:]}")


def stages_of(told: str) -> dict[str, float]:
    """Read the seconds by stage off what `devicelint check --verbose` says on stderr."""
    lines = [line for line in told.splitlines() if _STAGES.fullmatch(line)]
    if not lines:
        return {}
    pairs = re.findall(_STAGE, lines[-1].removeprefix("devicelint: "))
    return {stage: float(seconds) for stage, seconds in pairs}


def instructions(step: Step, valgrind: str) -> int:
    """Count the instructions of one command, which do not depend on how busy the machine is."""
    step.before()
    tool = (valgrind, "--tool=callgrind", "--callgrind-out-file=/dev/null")
    done = subprocess.run(
        [*tool, *step.words],
        cwd=step.cwd,
        env=environment() | {"PYTHONHASHSEED": "0"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        check=False,
    )
    require(step, done.returncode, done.stderr)
    return collected(done.stderr)


def collected(told: str) -> int:
    """Read the number of instructions off what callgrind says on stderr."""
    found = _COLLECTED.findall(told)
    if not found:
        raise SystemExit(f"callgrind counted nothing:\n{told[-2000:]}")
    return int(found[-1])


def program(name: str) -> str | None:
    """Find a program beside this interpreter, else on the path.

    Not `python -m`: for ruff and semgrep the start of an interpreter would be counted as theirs.
    """
    beside = shutil.which(name, path=os.path.dirname(sys.executable))
    return beside or shutil.which(name)


def version_of(name: str) -> str | None:
    """Ask a program for its version; None where it is not installed."""
    found = program(name)
    if found is None:
        return None
    command = [found, "--version"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    match = re.search(r"\d+(?:\.\d+)+", done.stdout)
    return match[0] if match else "unknown"
