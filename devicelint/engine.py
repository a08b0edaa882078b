"""Look for findings in the sources of a project, if there can be any.

In: sources and the settings.  Out: findings and diagnostics for each source.  Never here:
discovery, selection, output; or an import of what analysing takes before a source is to be
analysed: `may_find` says beforehand whether that is worth it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from devicelint.collector import collector_off
from devicelint.files import SourceError, SourceFile
from devicelint.gate import LARGE_RUN, may_hold_candidate, sets_up_process_group
from devicelint.model import Analysis, Finding, Looked
from devicelint.parsing import deepen, fault_of
from devicelint.settings import Settings
from devicelint.stopwatch import Stopwatch, Tell
from devicelint.suppression import may_hold_directive

if TYPE_CHECKING:
    from devicelint.cache import Cache


def check_text(source: str, settings: Settings | None = None) -> tuple[Finding, ...]:
    """Check one source in memory; raises SourceError if it does not parse."""
    name = os.path.join(os.getcwd(), "<text>.py")
    result = analyse(
        [SourceFile(name, source.encode())], settings or Settings(), jobs=1, cwd=Path.cwd()
    )[name]
    for problem in result.diagnostics:
        raise SourceError(problem.message, problem.line, problem.column)
    return result.findings


def may_find(sources: Sequence[SourceFile], settings: Settings) -> bool:
    """Say False only of sources in which there is nothing to find.

    Of a large run nothing is said: to look into all files is what several processes are for.
    """
    if sum(source.size for source in sources) > LARGE_RUN:
        return True
    own = [name.rpartition(".")[2].encode() for name in settings.extra_constructors]
    return any(
        may_hold_candidate(source.data)
        or sets_up_process_group(source.data)
        or any(name in source.data for name in own)
        for source in sources
    )


def analyse(
    sources: Sequence[SourceFile],
    settings: Settings,
    *,
    jobs: int,
    cwd: Path,
    stopwatch: Stopwatch | None = None,
    tell: Tell | None = None,
    cache: Cache | None = None,
) -> Mapping[str, Analysis]:
    """Check sources together.  The result has an entry for every source, by its `path`."""
    from devicelint.stages import Run

    with collector_off():
        deepen()
        stopwatch = stopwatch or Stopwatch()
        run = Run(sources, settings, jobs, cwd, stopwatch, tell or _tell_nobody, cache)
        return run.remembered() if cache is not None else run.analyse()


def _tell_nobody(stage: str, done: int, total: int) -> None:
    """Take no notice."""


def nothing(sources: Sequence[SourceFile]) -> Mapping[str, Analysis]:
    """What `analyse` yields where there is nothing to find: the faults of what little is read."""
    deepen()
    found: dict[str, Analysis] = {}
    for source in sources:
        fault = fault_of(source.path, source.data)
        looked = Looked() if may_hold_directive(source.data) else None
        found[source.path] = Analysis((), (fault,) if fault is not None else (), looked)
    return found
