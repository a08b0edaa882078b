"""The runs of `speed.py`: which commands are measured on which files, and in which turn.

In: a `Bench`.  Out: figures.  Never here: layout, or a change to a package: all runs are on copies
in a scratch folder (git ignores the packages themselves, so devicelint would find nothing there).
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path

from corpora import PINNED, copy_sources, fetch, size_of
from edits import BASE_FILE, with_comment, with_layer, with_statement, with_tensor
from figures import Agreement, Count, Figure, Growth, Pair, agreed, grown, paired
from processes import ROOT, Step, alternate, environment, instructions, program, require

PACKAGES = ("vllm", "sglang", "transformers")
EMPTY_FILES = 41_000

CHECK = (sys.executable, "-m", "devicelint", "check", "--isolated")
TREE = (*CHECK, "--verbose", "--output-format", "json")
#: Names PyTorch and makes nothing.
PLAIN = "import torch\n\n\ndef f(x):\n    return x + 1\n"
EXAMPLE = ROOT / "examples/predictor.py"

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
class Bench:
    """Where the packages are, where copies and caches may be put, and how often to run."""

    corpora: Path
    scratch: Path
    runs: int

    def tree(self, *names: str) -> Path:
        """Give a folder with copies of packages side by side, as they are when installed."""
        target = self.scratch / "+".join(names)
        if not target.is_dir():
            for folder in fetch(names, self.corpora):
                copy_sources(folder, target)
        return target

    def place(self, name: str) -> Path:
        """Give an empty folder of this name."""
        folder = self.scratch / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return folder


def tell(text: str) -> None:
    """Say how far the run is."""
    print(text, file=sys.stderr, flush=True)


# The steps ---------------------------------------------------------------------------------------


def cold_step(folder: Path, *paths: str) -> Step:
    """Check a tree, or some paths in it, without a cache."""
    return Step("devicelint", (*TREE, "--no-cache", *(paths or (".",))), folder, (0, 1, 2))


def warm_step(folder: Path, cache: Path, before: Callable[[], None] = lambda: None) -> Step:
    """Check a tree with a cache, after something was done to it."""
    words = (*TREE, "--cache-dir", str(cache), ".")
    return Step("devicelint", words, folder, (0, 1, 2), before)


def ruff_step(folder: Path) -> Step:
    """Check a tree with ruff, without a cache."""
    ruff = program("ruff")
    if ruff is None:
        raise SystemExit("ruff is not installed")
    words = (ruff, "check", "--no-cache", "--isolated", "--select", "E,F", ".")
    return Step("ruff", words, folder, (0, 1))


def click_step(folder: Path) -> Step:
    """Start Python and load the library that the command line is made with."""
    return Step("import click", (sys.executable, "-c", "import click"), folder, (0,))


def file_step(file: Path, folder: Path, code: int) -> Step:
    """Check one file without a cache; `code` tells whether anything is found in it."""
    return Step("devicelint", (*CHECK, "--no-cache", str(file)), folder, (code,))


def cold_file_step(file: Path, folder: Path, cache: Path) -> Step:
    """Check one file with findings, with a cache that is not there yet."""
    forget = partial(shutil.rmtree, cache, ignore_errors=True)
    return Step("devicelint", (*CHECK, "--cache-dir", str(cache), str(file)), folder, (1,), forget)


def plain_file(folder: Path) -> Path:
    """Write a file that names PyTorch and makes nothing."""
    file = folder / "plain.py"
    file.write_text(PLAIN, encoding="utf-8")
    return file


# The runs ----------------------------------------------------------------------------------------


def pair(name: str, mine: Step, theirs: Step, runs: int) -> Pair:
    """Time two commands in turn."""
    samples, others = alternate((mine, theirs), runs)
    return paired(name, samples, theirs.label, others)


def cold(bench: Bench) -> Iterator[Pair]:
    """Time a tree without a cache."""
    tree = bench.tree("vllm")
    yield pair("cold", cold_step(tree), ruff_step(tree), bench.runs)


def semgrep(bench: Bench) -> Iterator[Pair]:
    """Time a tree without a cache against semgrep, once: that takes minutes."""
    found = program("semgrep")
    if found is None:
        tell("semgrep is not installed: left out")
        return
    tree = bench.tree("vllm")
    rule = bench.place("rule") / "rule.yml"
    rule.write_text(SEMGREP_RULE, encoding="utf-8")
    words = (found, "scan", "--metrics=off", "--quiet", "--config", str(rule), ".")
    yield pair("cold", cold_step(tree), Step("semgrep", words, tree, (0, 1)), 1)


def warm(bench: Bench) -> Iterator[Pair]:
    """Time a tree that the cache knows."""
    tree = bench.tree("vllm")
    yield pair("warm", warm_step(tree, bench.place("cache")), ruff_step(tree), bench.runs)


def touched(bench: Bench) -> Iterator[Pair]:
    """Time a tree that the cache knows, one file of which has a new time."""
    tree = bench.tree("vllm")
    mine = warm_step(tree, bench.place("cache"), (tree / BASE_FILE).touch)
    yield pair("warm, one file touched", mine, ruff_step(tree), bench.runs)


def edited(bench: Bench) -> Iterator[Pair]:
    """Time a tree that the cache knows but for a base class, edited in one way and the other."""
    tree = bench.place("edited")
    copy_sources(bench.tree("vllm"), tree)
    file = tree / BASE_FILE
    numbers = count(1)  # no content comes twice: the cache would know it

    def edit(how: Callable[[str, int], str]) -> None:
        text = how(file.read_text(encoding="utf-8"), next(numbers))
        file.write_text(text, encoding="utf-8")

    cache = bench.place("cache")
    edits = {
        "warm, a base class moved by a comment": with_comment,
        "warm, a number in a base class": with_statement,
        "warm, a tensor in a base class": with_tensor,
        "warm, a layer in a base class": with_layer,
    }
    steps = [
        step
        for change in edits.values()
        for step in (warm_step(tree, cache, partial(edit, change)), ruff_step(tree))
    ]
    times = alternate(steps, bench.runs)
    for name, mine, ruff in zip(edits, times[::2], times[1::2], strict=True):
        yield paired(name, mine, "ruff", ruff)


def one_file_plain(bench: Bench) -> Iterator[Pair]:
    """Time a file that nothing can be found in."""
    folder = bench.place("plain")
    mine = file_step(plain_file(folder), folder, 0)
    yield pair("one file, no candidate", mine, click_step(folder), bench.runs)


def one_file_findings(bench: Bench) -> Iterator[Pair]:
    """Time a file with findings that imports nothing of its own."""
    folder = bench.place("example")
    mine = cold_file_step(EXAMPLE, folder, folder / "cache")
    yield pair("one file, findings, cold cache", mine, click_step(folder), bench.runs)


def one_file_in_tree(bench: Bench) -> Iterator[Pair]:
    """Time a file with findings that imports others of its package."""
    tree = bench.tree("vllm")
    mine = cold_file_step(tree / BASE_FILE, tree, bench.place("cache"))
    yield pair("one file of vllm, findings, cold cache", mine, click_step(tree), bench.runs)


def empty(bench: Bench) -> Iterator[Pair]:
    """Time the walk over files that hold nothing."""
    tree = bench.place("empty")
    for number in range(EMPTY_FILES):
        (tree / f"m{number}.py").touch()
    yield pair(f"{EMPTY_FILES:,} empty files", cold_step(tree), ruff_step(tree), bench.runs)


def growth(bench: Bench) -> Iterator[Growth]:
    """Time three packages and one alone, in turn: side by side they import each other."""
    small, large = bench.tree("vllm"), bench.tree(*PACKAGES)
    apart = [bench.tree(name).name for name in PACKAGES]
    ways = {
        "in one folder": cold_step(large),
        "in three": cold_step(bench.scratch, *apart),
    }
    samples, *others = alternate((cold_step(small), *ways.values()), bench.runs)
    for way, large_samples in zip(ways, others, strict=True):
        name = f"{' + '.join(PACKAGES)}, {way}"
        yield grown(("vllm", size_of(small), samples), (name, size_of(large), large_samples))


def callgrind(bench: Bench) -> Iterator[Count]:
    """Count the instructions for one file: a figure that a busy machine does not change."""
    valgrind = program("valgrind")
    if valgrind is None:
        tell("valgrind is not installed: left out")
        return
    folder = bench.place("plain")
    start = click_step(folder)
    mine = {
        "one file, no candidate": file_step(plain_file(folder), folder, 0),
        "one file, findings": file_step(EXAMPLE, folder, 1),
    }
    alternate((start, *mine.values()), 0)  # compiles the bytecode, which is not to be counted
    base = instructions(start, valgrind)
    for name, step in mine.items():
        number = instructions(step, valgrind)
        yield Count(name, number, start.label, base, number / base)


def identical(bench: Bench) -> Iterator[Agreement]:
    """Compare the reports on each package, made in ways that must not matter."""
    for package in PACKAGES:
        tree, cache = bench.tree(package), str(bench.place("cache"))
        ways = {
            "1 job": ("--no-cache", "--jobs", "1"),
            "2 jobs": ("--no-cache", "--jobs", "2"),
            "cold cache": ("--cache-dir", cache),
            "warm cache": ("--cache-dir", cache),
        }
        file = bench.scratch / "report.json"
        digests = {way: digest_of(options, tree, file) for way, options in ways.items()}
        yield agreed(f"{package} {PINNED[package]}", digests)


def digest_of(options: Sequence[str], tree: Path, file: Path) -> str:
    """Check a tree and give the digest of the JSON report."""
    step = Step("devicelint", (*TREE, *options, "."), tree, (0, 1, 2))
    with file.open("wb") as output:
        done = subprocess.run(
            step.words,
            cwd=tree,
            env=environment(),
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    require(step, done.returncode, done.stderr)
    if not file.stat().st_size:
        raise SystemExit(f"no report: {done.stderr[-2000:]}")
    with file.open("rb") as report:
        return hashlib.file_digest(report, "sha256").hexdigest()


RUNS: dict[str, Callable[[Bench], Iterator[Figure]]] = {
    "cold": cold,
    "semgrep": semgrep,
    "warm": warm,
    "touched": touched,
    "edited": edited,
    "one-file-plain": one_file_plain,
    "one-file-findings": one_file_findings,
    "one-file-in-tree": one_file_in_tree,
    "empty": empty,
    "growth": growth,
    "callgrind": callgrind,
    "identical": identical,
}
