"""What `fix` says: a coloured diff, and what was (or would be) mended.

In: patches, findings by path, what is left.  Out: text.  Never here: making a diff, writing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console
from rich.text import Text

from devicelint.model import Finding, RunReport
from devicelint.reporters.drawing import drawn, grid, line, problem, wrapped
from devicelint.reporters.layout import Layout, plural, printable
from devicelint.reporters.summary import summarise

_MARKS = {"+": "green", "-": "red", "@": "cyan"}


def render_diff(patch: bytes, layout: Layout) -> str:
    """Render a patch for a terminal (a pipe gets the patch's own bytes, not this)."""

    def draw(console: Console) -> None:
        for row in patch.decode(errors="replace").split("\n")[:-1]:
            style = "bold" if row.startswith(("--- ", "+++ ")) else _MARKS.get(row[:1], "")
            line(console, Text(printable(row.rstrip("\r").expandtabs(4)), style))

    return drawn(layout, draw)


def render_done(applied: Mapping[str, Sequence[Finding]], left: RunReport, layout: Layout) -> str:
    """Say what was fixed, by file and by rule, and what is left."""

    def draw(console: Console) -> None:
        _problems(console, left, layout)
        if not layout.summary:
            return
        if applied:
            line(console, f"Fixed {_extent(applied)}.")
            line(console)
            for path, findings in applied.items():
                line(console, f"  {printable(path)}: {len(findings)}")
            line(console)
            _by_rule(console, applied.values())
        _left(console, left, "" if applied else "Nothing was fixed: ", ("is left", "are left"))

    return drawn(layout, draw)


def render_preview(
    applied: Mapping[str, Sequence[Finding]], left: RunReport, layout: Layout
) -> str:
    """Say what would be fixed, by rule, and what would be left."""

    def draw(console: Console) -> None:
        _problems(console, left, layout)
        if not layout.summary:
            return
        if applied:
            text = f"Would fix {_extent(applied)}: `devicelint fix --write` does it."
            wrapped(console, Text(text))
            line(console)
            _by_rule(console, applied.values())
        verbs = ("would be left", "would be left") if applied else ("is left", "are left")
        _left(console, left, "" if applied else "Nothing to fix: ", verbs)

    return drawn(layout, draw)


def _extent(applied: Mapping[str, Sequence[Finding]]) -> str:
    count = sum(len(findings) for findings in applied.values())
    return f"{plural(count, 'finding')} in {plural(len(applied), 'file')}"


def _by_rule(console: Console, applied: Iterable[Sequence[Finding]]) -> None:
    counts = Counter((finding.code, finding.name) for findings in applied for finding in findings)
    table = grid("", "fixed")
    for (code, name), count in sorted(counts.items()):
        table.add_row(f"{code} {name}", f"{count:,}")
    console.print(table)
    line(console)


def _problems(console: Console, left: RunReport, layout: Layout) -> None:
    for diagnostic in left.diagnostics:
        problem(console, diagnostic, layout)
    if left.diagnostics and layout.summary:
        line(console)


_UNCHECKED = "not everything could be checked"


def _left(console: Console, left: RunReport, opening: str, verbs: tuple[str, str]) -> None:
    """Say how many findings are left, and for how many of them there is a way."""
    total = summarise(left).total
    is_partial = not all(diagnostic.is_checked for diagnostic in left.diagnostics)
    singular, several = verbs
    if not total.total:
        sentence = f"{opening}no finding {singular}"
        sentence += f", but {_UNCHECKED}." if is_partial else "."
    else:
        sentence = f"{opening}{plural(total.total, 'finding')} "
        sentence += singular if total.total == 1 else several
        if total.unsafe:
            sentence += f", {total.unsafe:,} of them with a fix that needs `--unsafe-fixes`"
        sentence += "; `devicelint check` shows " + ("it." if total.total == 1 else "them.")
        sentence += f" {_UNCHECKED.capitalize()}." if is_partial else ""
    wrapped(console, Text(sentence[0].upper() + sentence[1:]))
