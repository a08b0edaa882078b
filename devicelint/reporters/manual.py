"""The rules as people read them: a table of all, or one rule's documentation.

In: rules.  Out: text.  Never here: looking a rule up, findings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.markdown import Markdown
from rich.text import Text
from rich.theme import Theme

from devicelint.model import Rule
from devicelint.reporters.drawing import drawn, line, words, wrapped
from devicelint.reporters.layout import Layout


def render_rules(rules: Sequence[Rule], layout: Layout) -> str:
    """Render the table of rules."""

    if layout.width is None:
        return "".join(f"{row}\n" for row in _aligned(rules))

    def draw(console: Console) -> None:
        for rule in rules:
            heading = Text.assemble((rule.code, "bold"), f" {rule.name} ({rule.severity.value})")
            line(console, heading)
            wrapped(console, words(f"{rule.summary}; fix: {rule.fixable}"), " " * 7)

    return drawn(layout, draw)


def _aligned(rules: Sequence[Rule]) -> Iterator[str]:
    """Give a line for each rule, in columns: it may go to `grep`."""
    rows = [
        (rule.code, rule.name, rule.severity.value, rule.fixable, rule.summary) for rule in rules
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def render_rule(rule: Rule, layout: Layout) -> str:
    """Render a rule's documentation: as Markdown, or as what Markdown means on a terminal."""
    text = (
        f"# {rule.name} ({rule.code})\n\n"
        f"Severity: {rule.severity.value}. Fix: {rule.fixable}.\n\n"
        f"{rule.documentation.strip()}\n"
    )
    if not layout.color:
        return text

    def draw(console: Console) -> None:
        # Rich's own styles paint black boxes, also on a white terminal.
        console.push_theme(Theme({"markdown.code": "bold"}))
        console.print(Markdown(text, code_theme="ansi_dark"))
        line(console)

    return drawn(layout, draw)
