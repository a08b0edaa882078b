"""Paths as the services behind a repository expect them: from its root, or as a URI.

In: a path as reports have it (from the working directory, or absolute).  Out: strings.  Never here:
the file system, the process's working directory.
"""

from __future__ import annotations

import posixpath
import re
from urllib.parse import quote

from devicelint.reporters.layout import Layout

#: no file, so in no folder
_STDIN = "<stdin>"
_ABSOLUTE = re.compile(r"/|[A-Za-z]:/")


def in_repository(path: str, layout: Layout) -> str:
    """Give a path relative to the root of the repository, if it is in there.

    A step may run in a sub-folder, yet annotations and alerts are placed from the root.
    """
    if not layout.root or path == _STDIN:
        return path
    whole = posixpath.normpath(path if is_absolute(path) else f"{layout.cwd}/{path}")
    root = layout.root.rstrip("/")
    return whole.removeprefix(f"{root}/") if whole.startswith(f"{root}/") else path


def is_absolute(path: str) -> bool:
    """Tell a path from the root of a file system, or of a drive."""
    return _ABSOLUTE.match(path) is not None


def as_uri(path: str) -> str:
    """Spell a path as a URI: relative as it is, absolute with `file:`."""
    # Bytes that are no UTF-8 became lone surrogates when the path was read.
    quoted = quote(path, safe="/", errors="surrogateescape")
    if not is_absolute(path):
        return quoted
    return f"file://{'' if path.startswith('/') else '/'}{quoted.replace('%3A', ':', 1)}"
