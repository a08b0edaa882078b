"""Write suppression comments for findings (`--add-ignores`).

In: a file's UTF-8 text, its findings.  Out: the edits that silence them: a code put into a comment
that is there, a comment behind a statement of one line, or one on a line of its own above it.
Never here: a comment where it would be part of a string, a change of code, I/O.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from devicelint.fixer import apply_edits
from devicelint.lines import LineIndex
from devicelint.model import Edit, Finding
from devicelint.suppression import (
    Directive,
    DirectiveKind,
    Suppressions,
    directives_about,
    parse_suppressions,
)

#: A comment that would make its line longer than this goes above the statement: black's limit.
LINE_LENGTH = 88


def add_ignores(utf8: bytes, findings: Iterable[Finding], reason: str) -> bytes:
    """Silence findings by comments with a reason; the code stays as it is.

    A finding for which there is no place stays.  Two statements that begin on one line take two
    passes: the second one adds its codes to the comment of the first.
    """
    by_statement: dict[tuple[int, int], list[Finding]] = defaultdict(list)
    for finding in findings:
        by_statement[finding.statement].append(finding)
    text = _Text(utf8, LineIndex(utf8), parse_suppressions(utf8.decode("utf-8")))
    ways = [
        list(_ways(text, statement, group, reason))
        for statement, group in sorted(by_statement.items())
    ]
    code = _code(utf8)
    if code is None:
        return utf8
    after = apply_edits(utf8, _one_a_place(edits[0] for edits in ways))
    if _code(after) == code:
        return after
    # In a string a comment would be text, after a backslash an error: look at them one by one.
    chosen = (
        next((one for one in edits if _code(apply_edits(utf8, [one])) == code), None)
        for edits in ways
    )
    return apply_edits(utf8, _one_a_place(edit for edit in chosen if edit is not None))


def _one_a_place(edits: Iterable[Edit]) -> list[Edit]:
    """Drop edits where another one goes."""
    kept: dict[tuple[int, int], Edit] = {}
    for edit in edits:
        kept.setdefault((edit.start.offset, edit.end.offset), edit)
    return list(kept.values())


@dataclass(frozen=True, slots=True)
class _Text:
    utf8: bytes
    index: LineIndex
    suppressions: Suppressions


def _code(utf8: bytes) -> str | None:
    """Write down what a text means; None if that cannot be told."""
    try:
        return ast.dump(ast.parse(utf8.decode("utf-8")))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _ways(
    text: _Text, statement: tuple[int, int], group: Sequence[Finding], reason: str
) -> Iterator[Edit]:
    """Give the ways to silence the findings of a statement, best first."""
    codes = sorted({finding.code for finding in group})
    merged = _merged(text, group[0], codes)
    if merged is not None:
        yield merged
    comment = f"# devicelint: ignore[{', '.join(codes)}] {reason}".rstrip()
    first, last = statement
    line = text.index.lines(last, last)[0].rstrip()
    ways = [_above(text, first, comment), _behind(text, last, comment)]
    is_short = first == last and len(f"{line}  {comment}") <= LINE_LENGTH
    yield from reversed(ways) if is_short else ways


def _merged(text: _Text, finding: Finding, codes: Sequence[str]) -> Edit | None:
    """Add codes to a comment of ours that is about the statement already."""
    for directive in directives_about(finding, text.suppressions):
        if directive.codes:
            new = [code for code in codes if code not in directive.codes]
            return _extended(text, directive, new)
    return None


def _extended(text: _Text, directive: Directive, codes: Sequence[str]) -> Edit:
    written = text.utf8[directive.start.offset : directive.end.offset]
    is_closed = directive.kind is DirectiveKind.IGNORE and written.endswith(b"]")
    separator = "," if b"," in written and b", " not in written else ", "
    place = text.index.location(directive.end.offset - (1 if is_closed else 0))
    return Edit(place, place, "".join(f"{separator}{code}" for code in codes))


def _above(text: _Text, first: int, comment: str) -> Edit:
    line = text.index.lines(first, first)[0]
    # A form feed before the indentation resets it and stays with the statement.
    indent = line[: len(line) - len(line.lstrip(" \t"))]
    place = text.index.location(text.index.line_offset(first))
    return Edit(place, place, f"{indent}{comment}{text.index.newline}")


def _behind(text: _Text, last: int, comment: str) -> Edit:
    start = text.index.line_offset(last)
    written = text.index.lines(last, last)[0].encode()
    end = text.index.location(start + len(written.rstrip()))
    after = text.index.location(start + len(written))
    return Edit(end, after, f"  {comment}")
