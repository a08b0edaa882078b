"""The source lines of a finding, cut to the room there is, with the call underlined.

In: a `Finding` and a number of columns.  Out: numbered lines and marks as plain strings.  Never
here: reading a file, colours.  Columns of a `Finding` are code points; what is laid out here are
cells of a terminal, where a tab is up to four and a wide character two.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from devicelint.model import Finding
from devicelint.reporters.layout import printable

_TAB = 4
_CUT = "..."
#: code kept in view to the left of a call that stands too far to the right
_CONTEXT = 8
#: a call of more lines is shown as its first two, an ellipsis and its last
_MOST_LINES = 4


@dataclass(frozen=True, slots=True)
class Row:
    """A line of an excerpt: its number (None: lines left out), its text, the marks below it."""

    number: int | None
    text: str
    marks: str = ""


def rows(finding: Finding, room: int) -> tuple[Row, ...]:
    """Lay out the lines of a finding in `room` cells."""
    spans = tuple(_spans(finding))
    left = _left(spans[0], room) if spans else 0
    laid = tuple(_row(span, left, room) for span in spans)
    if len(laid) <= _MOST_LINES:
        return laid
    return (*laid[:2], Row(None, _CUT), laid[-1])


@dataclass(frozen=True, slots=True)
class _Span:
    """A line with its tabs expanded, and the cells from `start` up to `end` to be marked."""

    number: int
    text: str
    start: int
    end: int


def _spans(finding: Finding) -> Iterator[_Span]:
    last = len(finding.excerpt) - 1
    for index, line in enumerate(finding.excerpt):
        first_column = finding.start.column - 1 if index == 0 else _indentation(line)
        end_column = finding.end.column - 1 if index == last else len(line.rstrip())
        start = _cells(_expand(line[:first_column]))
        end = max(_cells(_expand(line[:end_column])), start + 1)
        # Between the first and the last line of a call marks would only be noise.
        marked = index in (0, last)
        yield _Span(finding.start.line + index, _expand(line), start if marked else end, end)


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


def _expand(line: str) -> str:
    """Expand tabs by cells (`str.expandtabs` counts a wide character as one)."""
    text = ""
    for index, part in enumerate(line.split("\t")):
        if index:
            text += " " * (_TAB - _cells(text) % _TAB)
        text += printable(part)
    return text


def _cells(text: str) -> int:
    # rich.cells takes 25 ms to import: only the text report pays for it.
    from rich.cells import cell_len

    return cell_len(text)


def _left(span: _Span, room: int) -> int:
    """Choose the first cell shown: 0, unless the call would not be seen whole."""
    if span.end <= room - len(_CUT):
        return 0
    return max(0, min(span.start - _CONTEXT, span.end - room + len(_CUT)))


def _row(span: _Span, left: int, room: int) -> Row:
    text = _drop(span.text, left)
    start, end = max(span.start - left, 0), min(max(span.end - left, 0), room)
    if _cells(text) > room:
        text = _take(text, room - len(_CUT)) + _CUT
    return Row(span.number, text.rstrip(), " " * start + "^" * (end - start) if end > start else "")


def _drop(text: str, cells: int) -> str:
    """Leave out the first cells, with an ellipsis in place of the first that are shown."""
    if not cells:
        return text
    index = len(_take(text, cells + len(_CUT)))
    rest = text[index:]
    return "." * (_cells(text) - cells - _cells(rest)) + rest if rest else ""


def _take(text: str, cells: int) -> str:
    """Give the longest beginning that fits into `cells`."""
    taken = 0
    for index, character in enumerate(text):
        taken += _cells(character)
        if taken > cells:
            return text[:index]
    return text
