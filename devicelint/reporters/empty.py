"""The report for people on a run in which no file has anything to tell: one line.

In: a `RunReport`.  Out: text, coloured if the layout says so.  Never here: rich, which takes longer
to import than such a run does.
"""

from __future__ import annotations

from devicelint.model import RunReport
from devicelint.reporters.layout import Layout
from devicelint.reporters.summary import headline


def render(run: RunReport, layout: Layout) -> str:
    """Say that there is nothing, or that there were no files."""
    if not layout.summary:
        return ""
    if run.checked:
        return _coloured(headline(run), "32", layout)
    return _coloured("No Python files to check.", "33", layout)


def _coloured(sentence: str, color: str, layout: Layout) -> str:
    return f"\x1b[{color}m{sentence}\x1b[0m\n" if layout.color else f"{sentence}\n"
