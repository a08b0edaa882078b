"""The report for people: findings by file, worst first, with the code, the why and the remedy.

In: a `RunReport`.  Out: text, coloured if the layout says so.  Never here: a terminal (rich draws
into a string), reading a file.  A location is never broken over lines when the report goes to a
file or a pipe.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.text import Text

from devicelint.model import (
    Applicability,
    BaselineEntry,
    Diagnostic,
    FileReport,
    Finding,
    RunReport,
    Severity,
)
from devicelint.reporters.drawing import code_width, drawn, grid, line, problem, words, wrapped
from devicelint.reporters.excerpt import Row, rows
from devicelint.reporters.layout import Layout, place, plural, printable
from devicelint.reporters.pages import rule_page
from devicelint.reporters.summary import Summary, Tally, summarise

_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow", Severity.NOTE: "bold cyan"}
_RANKS = {severity: rank for rank, severity in enumerate(Severity)}
_REMEDIES = {
    Applicability.SAFE: "safe",
    Applicability.UNSAFE: "unsafe: only with --unsafe-fixes",
    Applicability.DISPLAY: "advice: never applied",
}
_HEADINGS = ("findings", "safe", "unsafe", "by hand")
_GUTTER = 6


def render(run: RunReport, layout: Layout) -> str:
    """Render the findings (or counts per rule), the problems and the summary."""

    def draw(console: Console) -> None:
        summary = summarise(run)
        if layout.statistics:
            _statistics(console, run, summary)
        else:
            _findings(console, run.files, layout)
        _diagnostics(console, run.diagnostics, layout)
        if layout.summary:
            _summary(console, summary, layout)
            _stale(console, run.stale, layout)

    return drawn(layout, draw)


def _findings(console: Console, files: Iterable[FileReport], layout: Layout) -> None:
    for report in sorted(files, key=_worst_file_first):
        for finding in sorted(report.findings, key=_worst_first):
            _finding(console, report.path, finding, layout)
            line(console)


def _worst_file_first(report: FileReport) -> tuple[list[int], str]:
    severities = [finding.severity for finding in report.findings]
    return [-severities.count(severity) for severity in Severity], report.path


def _worst_first(finding: Finding) -> tuple[int, int]:
    return _RANKS[finding.severity], finding.start.offset


def _finding(console: Console, path: str, finding: Finding, layout: Layout) -> None:
    heading = Text.assemble(
        (place(path, finding.start.line, finding.start.column), "bold"),
        ": ",
        (finding.severity.value, _STYLES[finding.severity]),
        " ",
        (finding.code, f"bold link {rule_page(finding.code)}" if layout.links else "bold"),
        " ",
        words(finding.message),
    )
    if layout.width is None:
        line(console, heading)
    else:
        wrapped(console, heading)
    for row in rows(finding, max(code_width(layout) - _GUTTER - 3, 20)):
        _row(console, row, _STYLES[finding.severity])
    for label, text in _remarks(finding):
        wrapped(console, text, f"  {label:<4} ")


def _row(console: Console, row: Row, style: str) -> None:
    number = "" if row.number is None else str(row.number)
    line(console, Text.assemble((f"{number:>{_GUTTER}} | ", "dim"), row.text))
    if row.marks:
        line(console, Text.assemble((" " * _GUTTER + " | ", "dim"), (row.marks, style)))


def _remarks(finding: Finding) -> Iterable[tuple[str, Text]]:
    """Give what is said below the code, each with its label."""
    if len(finding.reached_via) > 1:
        yield "via:", words(" > ".join(finding.reached_via))
    if finding.reason:
        yield "why:", words(finding.reason)
    if finding.advice:
        yield "do:", words(finding.advice)
    if finding.fix:
        yield "fix:", words(f"{finding.fix.title} ({_REMEDIES[finding.fix.applicability]})")


def _diagnostics(console: Console, diagnostics: Sequence[Diagnostic], layout: Layout) -> None:
    for diagnostic in diagnostics:
        problem(console, diagnostic, layout)
    if diagnostics and layout.summary:
        line(console)


def _statistics(console: Console, run: RunReport, summary: Summary) -> None:
    """Print a line for each rule, most findings first."""
    names = {finding.code: finding.name for _, finding in run.findings}
    table = grid("", *_HEADINGS)
    for code, tally in sorted(summary.by_code, key=lambda item: (-item[1].total, item[0])):
        table.add_row(Text(f"{code} {names[code]}"), *_cells(tally))
    if summary.by_code:
        console.print(table)
        line(console)


def _summary(console: Console, summary: Summary, layout: Layout) -> None:
    total, files = summary.total, plural(summary.checked, "file")
    if not total.total:
        line(console, _nothing(summary))
    else:
        line(console, f"Found {plural(total.total, 'finding')} in {summary.files:,} of {files}.")
        line(console)
        table = grid("", *_HEADINGS)
        for severity, tally in summary.by_severity:
            table.add_row(Text(severity.value, _STYLES[severity]), *_cells(tally))
        console.print(table)
        line(console)
        for sentence in (*_commands(total), *_order(summary)):
            wrapped(console, Text(sentence))
    if summary.suppressed and layout.details:
        line(console, f"{plural(summary.suppressed, 'finding')} suppressed by comments.")
    if summary.baselined:
        line(console, f"{plural(summary.baselined, 'finding')} known by the baseline.")


def _stale(console: Console, entries: Sequence[BaselineEntry], layout: Layout) -> None:
    """Say that the baseline knows of findings that are gone."""
    if not entries:
        return
    many = "entry" if len(entries) == 1 else "entries"
    wrapped(
        console,
        Text(
            f"{len(entries):,} {many} of the baseline no longer found: "
            "`--write-baseline` drops what is fixed."
        ),
    )
    for entry in entries if layout.details else ():
        line(console, f"  {printable(entry.path)}: {entry.code} {printable(entry.symbol)}")


def _nothing(summary: Summary) -> Text:
    files = plural(summary.checked, "file")
    if summary.diagnostics:
        return Text(f"No findings, but not everything could be checked ({files} read).", "yellow")
    return Text(f"No {'new ' if summary.baselined else ''}findings in {files}.", "green")


#: Fewer notes than this can be read.
_MANY = 20


def _commands(total: Tally) -> Iterable[str]:
    """Say which command mends how much."""
    if total.safe:
        yield f"`devicelint fix --write` mends {total.safe:,} of them."
    if total.unsafe:
        yield (
            f"`devicelint fix --write --unsafe-fixes` mends {total.safe + total.unsafe:,}: "
            "read what it changes."
        )


def _order(summary: Summary) -> Iterable[str]:
    """Say what to do first where notes, which matter least, are most of what was found."""
    notes = dict(summary.by_severity)[Severity.NOTE].total
    if notes > _MANY and notes * 2 > summary.total.total:
        yield (
            f"{notes:,} are notes, put right by `module.to()`: say with `construction` how modules "
            "are built here, or begin with `--min-severity warning`."
        )


def _cells(tally: Tally) -> tuple[str, ...]:
    return tuple(f"{n:,}" for n in (tally.total, tally.safe, tally.unsafe, tally.by_hand))
