"""Time devicelint against ruff, semgrep and the start of Python, and see that its reports agree.

In: pinned packages, which are fetched if they are not there (see `corpora.py`).  Out: tables of
medians and ratios on standard output, and JSON to compare with an earlier run; the exit code is 1
if reports differ that must not.  Never here: a verdict on a number.

    python benchmarks/speed.py [--only cold,one-file] [--runs 5] [--corpora DIR]
        [--json FILE] [--against FILE] [--write-docs docs/performance.md]

The names for `--only` are the keys of `RUNS` in `runs.py`; `one-file` stands for all that begin
with `one-file-`.  Run it on a quiet machine, under Linux.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from corpora import CORPORA
from figures import (
    Agreement,
    Count,
    Figure,
    Pair,
    as_json,
    comparison,
    ratios_of,
    tables,
    with_tables,
)
from processes import version_of
from runs import RUNS, Bench, tell


def chosen(only: str) -> list[str]:
    """List the runs that a comma-separated list names, or the beginning of whose name it does."""
    found: list[str] = []
    for word in only.split(","):
        names = [name for name in RUNS if name == word or name.startswith(f"{word}-")]
        if not names:
            raise argparse.ArgumentTypeError(f"no run {word!r}: {', '.join(RUNS)}")
        found += names
    return list(dict.fromkeys(found))


def positive(number: str) -> int:
    """Read a number of runs: there is no median of none."""
    if int(number) < 1:
        raise argparse.ArgumentTypeError("at least one run")
    return int(number)


def machine(figures: Sequence[Figure]) -> dict[str, str]:
    """Say what the figures are of: the machine, and the releases of what was run."""
    others = {one.against for one in figures if isinstance(one, Pair)}
    if any(isinstance(one, Count) for one in figures):
        others.add("valgrind")
    named = [name for name in ("ruff", "semgrep", "valgrind") if name in others]
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cores": str(os.cpu_count()),
        "Python": platform.python_version(),
    } | {name: version_of(name) or "unknown" for name in named}


def measure(names: Sequence[str], corpora: Path, runs: int) -> list[Figure]:
    """Do the runs one after the other."""
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(corpora.resolve(), Path(scratch).resolve(), runs)
        for name in names:
            tell(f"{name} ...")
            figures += RUNS[name](bench)
    return figures


def main() -> int:
    """Do the runs that were asked for, print their tables and write what is to be written."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", type=chosen, default=list(RUNS), help=", ".join(RUNS))
    parser.add_argument("--runs", type=positive, default=5, help="measured runs of each")
    parser.add_argument("--corpora", type=Path, default=CORPORA, help="where the packages are")
    parser.add_argument("--json", type=Path, help="where to put the figures as JSON")
    parser.add_argument("--against", type=Path, help="the JSON of an earlier run")
    parser.add_argument("--write-docs", type=Path, help="a page with a place for the tables")
    options = parser.parse_args()
    # read first: a wrong name is noticed before the runs, not after them
    old = json.loads(options.against.read_text(encoding="utf-8")) if options.against else None
    page = options.write_docs.read_text(encoding="utf-8") if options.write_docs else None
    if page is not None:
        with_tables(page, "")
    figures = measure(options.only, options.corpora, options.runs)
    about = machine(figures)
    print(tables(figures, about))
    if old is not None:
        print(f"\n{comparison(old['ratios'], ratios_of(figures))}")
    if options.json is not None:
        text = json.dumps(as_json(figures, about), indent=1)
        options.json.write_text(text + "\n", encoding="utf-8")
    if page is not None:
        options.write_docs.write_text(with_tables(page, tables(figures, about)), encoding="utf-8")
    return 1 if any(isinstance(one, Agreement) and one.differing for one in figures) else 0


if __name__ == "__main__":
    sys.exit(main())
