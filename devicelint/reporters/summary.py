"""What a run's findings add up to.

In: a `RunReport`.  Out: a `Summary` of counts, the same for every format, and one line that tells
them.  Never here: colours, or a decision about the exit code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from devicelint.model import Applicability, Finding, RunReport, Severity
from devicelint.reporters.layout import plural


@dataclass(frozen=True, slots=True)
class Tally:
    """Findings of one kind, and how many of them a fix can mend."""

    total: int = 0
    safe: int = 0
    unsafe: int = 0

    @property
    def by_hand(self) -> int:
        """How many are left to a person."""
        return self.total - self.safe - self.unsafe


@dataclass(frozen=True, slots=True)
class Summary:
    """Counts of a run.  Severities are all there, worst first; codes only where found."""

    checked: int
    files: int
    suppressed: int
    #: known by the baseline, and entries of it whose findings are gone
    baselined: int
    stale: int
    diagnostics: int
    total: Tally
    by_severity: tuple[tuple[Severity, Tally], ...]
    by_code: tuple[tuple[str, Tally], ...]


def remedy(finding: Finding) -> Applicability:
    """Give the class of fix that mends the finding: `DISPLAY` where nothing would be edited."""
    if finding.fix is None or not finding.fix.edits:
        return Applicability.DISPLAY
    return finding.fix.applicability


def tally(findings: Iterable[Finding]) -> Tally:
    """Count findings by what can be done about them."""
    counts = Counter(remedy(finding) for finding in findings)
    return Tally(
        total=counts.total(),
        safe=counts[Applicability.SAFE],
        unsafe=counts[Applicability.UNSAFE],
    )


def summarise(run: RunReport) -> Summary:
    """Count what the run found."""
    findings = [finding for report in run.files for finding in report.findings]
    codes = sorted({finding.code for finding in findings})
    return Summary(
        checked=run.checked,
        files=sum(1 for report in run.files if report.findings),
        suppressed=sum(len(report.suppressed) for report in run.files),
        baselined=sum(len(report.baselined) for report in run.files),
        stale=len(run.stale),
        diagnostics=len(run.diagnostics),
        total=tally(findings),
        by_severity=tuple(
            (severity, tally(f for f in findings if f.severity is severity))
            for severity in Severity
        ),
        by_code=tuple((code, tally(f for f in findings if f.code == code)) for code in codes),
    )


def headline(run: RunReport) -> str:
    """Tell the counts in one line."""
    summary = summarise(run)
    problems = f", {plural(summary.diagnostics, 'problem')}" if summary.diagnostics else ""
    if not summary.total.total:
        return f"No findings in {plural(summary.checked, 'file')}{problems}."
    levels = ", ".join(
        plural(tally.total, severity.value)
        for severity, tally in summary.by_severity
        if tally.total
    )
    return (
        f"Found {plural(summary.total.total, 'finding')} in {summary.files:,} of "
        f"{plural(summary.checked, 'file')}: {levels}{problems}."
    )
