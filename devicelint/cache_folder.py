"""The folder of the cache: its marks, and which of the files in it are devicelint's own.

In: a folder.  Out: the folder, marked if it is devicelint's alone; the names of what is in it.
Never here: what a database holds, a removal, or a guess: what is not surely devicelint's own is
somebody else's.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

#: The mark by which backup programs know a cache, and devicelint the folders that are its own.
TAG: Final = "CACHEDIR.TAG"
#: What keeps a cache out of git.
IGNORE: Final = ".gitignore"

#: What devicelint writes beside its databases.
MARKS: Final[Mapping[str, str]] = MappingProxyType(
    {
        TAG: (
            "Signature: 8a477f597d28d172789f06886806bc55\n# This folder is a cache of devicelint.\n"
        ),
        IGNORE: "*\n",
    }
)

#: A database of any version (`5-0.1.0-3.11.db`, see `cache.VERSION`), and what SQLite keeps beside
#: it.  As narrow as that, so that `2024-06-01.12.db` is nobody's cache.
_DATABASE = re.compile(r"(\d{1,3}-\d+\.\d[\w.+!]*-3\.\d+\.db)(-journal|-wal|-shm)?", flags=re.ASCII)

#: What SQLite keeps in the header of a database for programs to know theirs by ("dvl" and a zero).
APPLICATION: Final = 0x64766C00
_HEADER = b"SQLite format 3\0"


def prepare(folder: Path) -> None:
    """Make the folder if it is not there, and mark it if it holds nothing else; raises OSError.

    A `.gitignore` in a folder that has other files, or will have, would hide them from git, and
    from devicelint: `--cache-dir .` would leave no file to check.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if all((folder / name).exists() for name in MARKS):
        return
    if is_lived_in(folder) or contents_of(folder).others:
        return
    for name, text in MARKS.items():
        # `x`: two runs may be at it, and no link that is there is written through.
        with contextlib.suppress(FileExistsError), open(folder / name, "x", encoding="utf-8") as f:
            f.write(text)


def is_lived_in(folder: Path) -> bool:
    """Tell whether a folder is its user's even if it is empty."""
    places = (os.curdir, os.path.expanduser("~"))
    return any(os.path.isdir(place) and os.path.samefile(folder, place) for place in places)


@dataclass(frozen=True, slots=True)
class Contents:
    """What is in a folder, by name: files that devicelint wrote, and all the rest, sorted."""

    #: in the order in which they can be removed: the tag, which tells the others, is the last
    own: tuple[str, ...]
    others: tuple[str, ...]


def contents_of(folder: Path) -> Contents:
    """Tell devicelint's own files in a folder from others; raises OSError.

    A link is never its own, whatever its name.  A `.gitignore` with a single `*` is common, so it
    is its own only beside its tag; so is a database that does not say that it is devicelint's.
    """
    with os.scandir(folder) as entries:
        files = {entry.name: entry.is_file(follow_symlinks=False) for entry in entries}
    marks = [name for name in (IGNORE, TAG) if files.get(name) and _is_mark(folder, name)]
    if TAG not in marks:
        marks = []
    databases = [
        name
        for name in sorted(files)
        if files[name]
        and (match := _DATABASE.fullmatch(name))
        # a torn one bears no mark of its own
        and (marks or _is_marked(folder / match[1]))
    ]
    own = (*databases, *marks)
    return Contents(own, tuple(sorted(files.keys() - set(own))))


def _is_marked(database: Path) -> bool:
    """Tell a database of devicelint by its header (bytes 68 to 71, see sqlite.org/fileformat)."""
    try:
        with open(database, "rb") as file:
            header = file.read(72)
    except OSError:
        return False
    return header.startswith(_HEADER) and header[68:72] == APPLICATION.to_bytes(4, "big")


def _is_mark(folder: Path, name: str) -> bool:
    expected = MARKS[name].encode()
    try:
        with open(folder / name, "rb") as file:
            return file.read(len(expected) + 1) == expected
    except OSError:  # what cannot be read is somebody else's
        return False
