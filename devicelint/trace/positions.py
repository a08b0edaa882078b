"""From frames to places in the source.

In: frames and code objects of the running program.  Out: `Place`s, exact to the column, and names
of functions.  Never here: PyTorch, or anything that changes a frame.
"""

from __future__ import annotations

import dis
import functools
import linecache
import os
from types import CodeType, FrameType

from devicelint.trace.events import Place

#: One position as `co_positions` gives it.
_Span = tuple[int | None, int | None, int | None, int | None]

#: where the code of the trace itself is
HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
#: Functions that Python makes up: a chain reads better without them.
_MADE_UP = ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>")


class Positions:
    """Finds the place that a frame is at; remembers what it has worked out, by code object."""

    def __init__(self, internal: tuple[str, ...]) -> None:
        """Take the folders whose code is not the user's (PyTorch's own)."""
        self._internal = (*internal, HERE, "<frozen ")
        # By identity: the hash of a code object goes through all its constants, every time.
        self._is_internal: dict[int, tuple[bool, CodeType]] = {}
        self._spans: dict[int, tuple[list[_Span], CodeType]] = {}

    def is_internal(self, code: CodeType) -> bool:
        """Tell whether this is PyTorch's code or ours."""
        known = self._is_internal.get(id(code))
        if known is None:
            known = code.co_filename.startswith(self._internal), code
            self._is_internal[id(code)] = known
        return known[0]

    def users(self, frame: FrameType) -> tuple[FrameType, FrameType | None]:
        """Find the nearest frame of the user's, and the outermost of PyTorch's before it."""
        inner: FrameType | None = None
        while self.is_internal(frame.f_code) and frame.f_back is not None:
            inner, frame = frame, frame.f_back
        return frame, inner

    def place(self, code: CodeType, instruction: int) -> Place:
        """Give the place of an instruction (`f_lasti`)."""
        known = self._spans.get(id(code))
        if known is None:
            known = self._spans[id(code)] = list(code.co_positions()), code
        spans = known[0]
        line, end_line, start, end = spans[instruction // 2] if instruction >= 0 else (None,) * 4
        first = line or code.co_firstlineno
        last = end_line or first
        path = code.co_filename
        if not path.startswith("<"):
            path = os.path.abspath(path)
        return Place(path, first, _column(path, first, start), last, _column(path, last, end))


@functools.lru_cache(maxsize=4096)
def _loads(code: CodeType, instruction: int) -> bool:
    """Tell an instruction that looks an attribute up."""
    return any(
        one.offset == instruction and one.opname.startswith("LOAD_")
        for one in dis.get_instructions(code)
    )


def is_lookup(frame: FrameType) -> bool:
    """Tell whether a frame is at an attribute look-up, and not at a call."""
    return _loads(frame.f_code, frame.f_lasti)


def chain(frame: FrameType, outermost: FrameType | None) -> tuple[str, ...]:
    """Name the functions from below `outermost` to `frame`, outermost first."""
    names: list[str] = []
    current: FrameType | None = frame
    while current is not None and current is not outermost and len(names) < 50:
        name = current.f_code.co_qualname
        if not name.endswith(_MADE_UP):
            names.append(name.replace(".<locals>", ""))
        current = current.f_back
    return tuple(reversed(names))


def _column(path: str, line: int, byte: int | None) -> int:
    """Turn a column in UTF-8 bytes from 0 into one in code points from 1."""
    if not byte:
        return 1
    text = linecache.getline(path, line)
    if text.isascii():
        return byte + 1
    return len(text.encode()[:byte].decode(errors="replace")) + 1
