"""What the reports for people draw with: a console without a terminal, and wrapped lines.

In: a `Layout`, strings.  Out: text.  Never here: what a report says, writing
to stdout.
"""

from __future__ import annotations

import io
from collections.abc import Callable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from devicelint.model import Diagnostic
from devicelint.reporters.layout import Layout, complaint, printable

#: columns for prose where there is no terminal to ask
_READABLE = 100
#: columns for code there: long enough for any usual line length
_CODE = 120


def drawn(layout: Layout, draw: Callable[[Console], None]) -> str:
    """Give what `draw` prints, as text."""
    file = io.StringIO()
    console = Console(
        file=file,
        width=layout.width or _READABLE,
        force_terminal=layout.color,
        # The sixteen colours of the terminal's own theme; the environment was asked before.
        color_system="standard" if layout.color else None,
        no_color=not layout.color,
        legacy_windows=False,
        highlight=False,
        markup=False,
        emoji=False,
        _environ={},
    )
    draw(console)
    # Tables are padded up to their edge.
    return "".join(f"{line.rstrip(' ')}\n" for line in file.getvalue().split("\n")[:-1])


def code_width(layout: Layout) -> int:
    """Give the columns that source code may take."""
    return layout.width or _CODE


def line(console: Console, text: Text | str = "") -> None:
    """Print one line as it is, however long."""
    if console.no_color:
        # without colours there is nothing for rich to do, which takes 0.1 ms a line
        console.file.write(f"{text if isinstance(text, str) else text.plain}\n")
    else:
        console.print(text, soft_wrap=True)


def wrapped(console: Console, text: Text, label: str = "", style: str = "dim") -> None:
    """Print a paragraph with a hanging indent as wide as its label."""
    indent = " " * len(label)
    width = max(console.width - len(label), 20)
    if console.no_color and text.cell_len <= width and "\n" not in text.plain:
        line(console, f"{label}{text.plain.rstrip()}")
        return
    text.highlight_regex(r"`[^`]+`", "bold")
    for index, part in enumerate(text.wrap(console, width)):
        part.rstrip()
        line(console, Text.assemble((indent if index else label, style), part))


def words(text: str) -> Text:
    """Give a sentence as rich text, without what a terminal would act upon."""
    return Text(printable(text))


def grid(first: str, *counts: str) -> Table:
    """Start a table without lines: a column of names, then columns of numbers."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column(first)
    for heading in counts:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def problem(console: Console, diagnostic: Diagnostic, layout: Layout) -> None:
    """Print a diagnostic, with its traceback if details are wanted."""
    text = Text(complaint(diagnostic), "magenta")
    if diagnostic.detail and not layout.details:
        text.append(" (--verbose shows where)")
    line(console, text)
    if layout.details:
        for row in diagnostic.detail.splitlines():
            line(console, Text(f"    {printable(row)}", "dim"))
