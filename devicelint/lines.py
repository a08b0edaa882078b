"""Map positions of a text between lines, columns and byte offsets; tell statements apart.

In: a file's UTF-8 text, or lines of it.  Out: offsets, `Location`s, normalised statements.  Never
here: I/O, a syntax tree.
"""

from __future__ import annotations

import re
import textwrap
import tokenize
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate

from devicelint.model import Location

_NEWLINE = re.compile(rb"\r\n|\r|\n")


class LineIndex:
    """Maps positions of a text between lines, columns and byte offsets."""

    def __init__(self, utf8: bytes) -> None:
        self._utf8 = utf8
        # bytes know no other line ends than these three (str has a dozen)
        lines = utf8.splitlines(keepends=True)
        self._starts = [0, *accumulate(map(len, lines))]
        if lines and not lines[-1].endswith((b"\n", b"\r")):
            del self._starts[-1]
        first = _NEWLINE.search(utf8)
        self.newline = first.group().decode() if first else "\n"

    def offset(self, line: int, column: int) -> int:
        """Give the byte offset of a line (from 1) and UTF-8 byte column (from 0)."""
        return self._starts[line - 1] + column

    def location(self, offset: int) -> Location:
        """Give line and column (code points, from 1) of a byte offset."""
        line = bisect_right(self._starts, offset)
        before = self._utf8[self._starts[line - 1] : offset]
        return Location(offset, line, len(before.decode(errors="replace")) + 1)

    def lines(self, first: int, last: int) -> tuple[str, ...]:
        """Give the lines `first` to `last` (from 1, inclusive) without their line endings."""
        result = []
        for line in range(first, min(last, len(self._starts)) + 1):
            end = self._starts[line] if line < len(self._starts) else len(self._utf8)
            text = self._utf8[self._starts[line - 1] : end].decode(errors="replace")
            result.append(text.rstrip("\r\n"))
        return tuple(result)

    def line_offset(self, line: int) -> int:
        """Give the offset where a line starts; the end of the text for a line behind it."""
        return self._starts[line - 1] if line <= len(self._starts) else len(self._utf8)


_LAYOUT = frozenset(
    {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
)


@lru_cache(1024)
def normalised(lines: tuple[str, ...]) -> str:
    """Write a statement without its layout, so that a formatter or a comment leaves it the same."""
    source = iter(textwrap.dedent("\n".join(lines)).splitlines(keepends=True))
    words: list[str] = []
    try:
        for token in tokenize.generate_tokens(lambda: next(source, "")):
            if token.type not in _LAYOUT:
                words.append(token.string)
    except (tokenize.TokenError, SyntaxError):
        # It begins in the midst of a line or a string.
        return " ".join(" ".join(lines).split())
    return " ".join(_without_last_commas(words))


def _without_last_commas(words: Sequence[str]) -> Iterable[str]:
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word != "," or following not in (")", "]", "}"):
            yield word
