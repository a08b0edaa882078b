"""The summary of a GitHub job: what was found, as Markdown.

In: a `RunReport`.  Out: Markdown for the file that `GITHUB_STEP_SUMMARY` names.  Never here:
writing it.  A step may write 1 MiB, so only the worst findings are in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import quote

from devicelint.model import Finding, RunReport
from devicelint.reporters.layout import Layout, place, plural, printable
from devicelint.reporters.order import worst_first
from devicelint.reporters.pages import rule_page
from devicelint.reporters.paths import in_repository, is_absolute
from devicelint.reporters.summary import headline, summarise

_MOST_ROWS = 50
_SPECIAL = str.maketrans({sign: f"\\{sign}" for sign in r"\|<>[]*_~#&"})


def render(run: RunReport, layout: Layout) -> str:
    """Render the counts for each rule, the worst findings and the problems."""
    parts = ["## devicelint", headline(run)]
    if run.findings:
        parts += [_by_rule(run), _worst(run, layout)]
    if run.diagnostics:
        rows = [
            (_code(place(problem.path, problem.line, problem.column)), _plain(problem.message))
            for problem in run.diagnostics[:_MOST_ROWS]
        ]
        parts.append(_table(("not checked", "why"), rows))
        parts += _left_out(len(run.diagnostics))
    return "\n\n".join(parts) + "\n"


def _by_rule(run: RunReport) -> str:
    names = {finding.code: finding.name for _, finding in run.findings}
    rows = [
        (f"[{code}]({rule_page(code)})", names[code], *map(str, (t.total, t.safe, t.unsafe)))
        for code, t in summarise(run).by_code
    ]
    return _table(("rule", "name", "findings", "safe fix", "unsafe fix"), rows)


def _worst(run: RunReport, layout: Layout) -> str:
    findings = worst_first(run)
    rows = [
        (
            _where(path, finding, layout),
            finding.severity.value,
            finding.code,
            _plain(finding.message),
        )
        for path, finding in findings[:_MOST_ROWS]
    ]
    parts = [_table(("where", "severity", "rule", "finding"), rows), *_left_out(len(findings))]
    return "\n\n".join(parts)


def _left_out(count: int) -> list[str]:
    if count <= _MOST_ROWS:
        return []
    return [f"{plural(count - _MOST_ROWS, 'more row')} in the log of the step."]


def _where(path: str, finding: Finding, layout: Layout) -> str:
    path = in_repository(path, layout)
    shown = _code(f"{printable(path)}:{finding.start.line}")
    if not layout.web or is_absolute(path):
        return shown
    address = quote(path, safe="/", errors="surrogateescape")
    return f"[{shown}]({layout.web}{address}#L{finding.start.line})"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _code(text: str) -> str:
    """Give text as code: a bar would end the cell all the same, a backtick the code."""
    return f"`{text.replace('|', chr(92) + '|').replace('`', chr(39))}`"


def _plain(text: str) -> str:
    """Escape prose, but for what its backticks say is code."""
    pieces = printable(text).split("`")
    if len(pieces) % 2 == 0:
        return printable(text).replace("`", "'").translate(_SPECIAL)
    return "".join(
        _code(piece) if index % 2 else piece.translate(_SPECIAL)
        for index, piece in enumerate(pieces)
    )
