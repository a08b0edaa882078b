"""In which order findings are told where there is no room for all of them: the worst first.

In: a `RunReport`.  Out: its findings with their paths, sorted.  Never here: leaving any out.
"""

from __future__ import annotations

from devicelint.model import Finding, RunReport, Severity

#: The place of a severity among all, 0 for the worst.
RANKS = {severity: rank for rank, severity in enumerate(Severity)}


def worst_first(run: RunReport) -> list[tuple[str, Finding]]:
    """Sort the findings of a run by severity, then by place."""
    return sorted(
        run.findings, key=lambda item: (RANKS[item[1].severity], item[0], item[1].start.offset)
    )
