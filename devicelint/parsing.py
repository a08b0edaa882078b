"""Parse a file's bytes with `ast`.

In: bytes.  Out: a tree, or where the fault is.  Never here: what a tree means.
"""

from __future__ import annotations

import ast
import sys

from devicelint.files import SourceError, decode
from devicelint.model import Diagnostic

#: The parser and the readers recurse once or twice a level of nesting.
RECURSION_LIMIT = 9_000


def deepen() -> None:
    """Let this process recurse as deep as a tree may be."""
    sys.setrecursionlimit(max(sys.getrecursionlimit(), RECURSION_LIMIT))


def parse(data: bytes) -> ast.Module:
    """Parse a file's bytes; raises SourceError with the place of the fault."""
    text = decode(data).text
    try:
        return ast.parse(text, type_comments=False)
    except SyntaxError as error:
        place = (error.lineno or 0, error.offset or 0)
        raise SourceError(f"syntax error: {error.msg}", *place) from None
    except (RecursionError, MemoryError):
        raise SourceError("too deeply nested to be parsed; exclude the file or split it") from None
    except ValueError as error:
        raise SourceError(str(error)) from None


def fault_of(path: str, data: bytes) -> Diagnostic | None:
    """Say what keeps a file from being parsed, None if nothing does."""
    try:
        parse(data)
    except SourceError as error:
        return error.told_of(path)
    return None
