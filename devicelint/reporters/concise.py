"""One line a finding: `path:line:column: DVL001 [*] message`, `[*]` where `fix` mends it.

In: a `RunReport`.  Out: text for `grep`, editors and people in a hurry.  Never here: colours,
summaries, rich.
"""

from __future__ import annotations

from devicelint.model import Applicability, Finding, RunReport
from devicelint.reporters.layout import Layout, complaint, place, printable
from devicelint.reporters.summary import Tally, remedy, summarise


def render(run: RunReport, layout: Layout) -> str:
    """Render findings, then problems, a line each; with statistics, a line for each rule."""
    if layout.statistics:
        lines = [_count(code, tally) for code, tally in summarise(run).by_code]
    else:
        lines = [_line(path, finding) for path, finding in run.findings]
    lines += [complaint(diagnostic) for diagnostic in run.diagnostics]
    return "".join(f"{line}\n" for line in lines)


def _line(path: str, finding: Finding) -> str:
    where = place(path, finding.start.line, finding.start.column)
    mark = " [*]" if remedy(finding) is Applicability.SAFE else ""
    return f"{where}: {finding.code}{mark} {printable(finding.message)}"


def _count(code: str, tally: Tally) -> str:
    return f"{tally.total}\t{code}" + (" [*]" if tally.safe else "")
