"""What of a file's findings the user wants to know: selection, suppression, DVL100.

In: a source, its analysis, the settings.  Out: a `FileReport`, and the findings that are there but
not wanted.  Never here: another file, the baseline, output.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from devicelint.directives import RULE as UNUSED
from devicelint.directives import Scope, judge_directives
from devicelint.files import SourceFile, decode
from devicelint.model import (
    Analysis,
    Applicability,
    FileReport,
    Finding,
    Fix,
    Looked,
    Severity,
)
from devicelint.settings import Settings
from devicelint.suppression import Suppressions, may_speak, parse_suppressions, split

_RANKS = {severity: rank for rank, severity in enumerate(Severity)}


class Coverage:
    """Which files a run sees together with everything that may call into them.

    That is so for a file whose outermost package is in a folder that is being checked.
    """

    def __init__(self, cwd: Path, paths: Sequence[str]) -> None:
        self.cwd = cwd
        folders = (os.path.abspath(cwd / path) for path in paths)
        self._folders = [folder for folder in folders if os.path.isdir(folder)]
        self._known: dict[str, bool] = {}

    def is_whole(self, path: str) -> bool:
        """Say whether all that may call into a file is being checked with it."""
        folder = path.rpartition("/")[0]
        if folder not in self._known:
            absolute = os.path.abspath(self.cwd / folder)
            package = Path(_outermost_package(absolute))
            self._known[folder] = any(package.is_relative_to(given) for given in self._folders)
        return self._known[folder]


def _outermost_package(folder: str) -> str:
    """Give the outermost package that a folder is part of, or the folder where it is of none."""
    package = above = folder
    while os.path.exists(os.path.join(above, "__init__.py")):
        package, above = above, os.path.dirname(above)
    return package


@dataclass(frozen=True, slots=True)
class Selected:
    """The report of a file, and what is found in it but neither selected nor silenced."""

    report: FileReport
    hidden: tuple[Finding, ...] = ()
    #: everything that may call into it was checked with it
    whole: bool = True


def select(
    source: SourceFile, analysis: Analysis, settings: Settings, coverage: Coverage
) -> Selected:
    """Keep what the user wants to know of a file."""
    report = FileReport(source.path, diagnostics=analysis.diagnostics)
    whole = coverage.is_whole(source.path)
    if not analysis.findings and analysis.looked is None:
        return Selected(report, whole=whole)
    path = coverage.cwd / source.path
    text = decode(source.data).text
    statements = [finding.statement for finding in analysis.findings]
    if analysis.looked is not None or may_speak(text, statements):
        suppressions = parse_suppressions(text)
    else:
        suppressions = Suppressions()
    found = [*analysis.findings]
    if analysis.looked is not None and not analysis.diagnostics:
        scope = _scope(analysis.looked, whole=whole, blanket=settings.is_asked_for(UNUSED.code))
        found += judge_directives(text, suppressions, analysis.findings, scope)
    found.sort(key=lambda finding: (finding.start, finding.end, finding.code))
    lowest = _RANKS[settings.min_severity]
    on = {code for code in {one.code for one in found} if settings.is_selected_in(code, path)}
    wanted = [one for one in found if one.code in on and _RANKS[one.severity] <= lowest]
    kept, silenced = _split(wanted, suppressions)
    kept = _held_back(kept)
    hidden, _ = _split([one for one in found if one not in wanted], suppressions)
    return Selected(replace(report, findings=kept, suppressed=silenced), hidden, whole)


def _held_back(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Withhold the fixes of constructions that meet one that is silenced or not selected.

    They get a device together or not at all: a half-done fix is a new bug.
    """
    present = Counter(finding.group for finding in findings)
    return tuple(
        replace(finding, fix=_HELD_BACK)
        if finding.fix is not None and finding.fix.edits and present[finding.group] < size
        else finding
        for finding in findings
        for size in (finding.group_size if finding.group else 0,)
    )


_HELD_BACK = Fix(
    "Choose the device by hand: its value meets that of a finding that is silenced or not "
    "selected, and all of them get a device or none does",
    Applicability.DISPLAY,
)


def _scope(looked: Looked, *, whole: bool, blanket: bool) -> Scope:
    return Scope(looked.all if whole else looked.own, whole, blanket)


def _split(
    findings: Sequence[Finding], suppressions: Suppressions
) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """Part findings by the directives; one about a directive is not silenced by that directive."""
    kept, silenced = split([one for one in findings if one.code != UNUSED.code], suppressions)
    about = [one for one in findings if one.code == UNUSED.code]
    if not about:
        return kept, silenced
    ordered = sorted((*kept, *about), key=lambda one: (one.start, one.end, one.code))
    return tuple(ordered), silenced
