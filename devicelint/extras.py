"""What the settings add to the tables: a project's own constructors and sinks, by dotted name.

In: `extra-constructors`, `extra-sinks`, `managed-calls`; the key of a function or class.  Out: the
table's rows for them.  Never here: how a name is resolved, or what is done with a row.

A name is compared with the end of a definition's path: `mypkg.ops.make_buffer` is the function
`make_buffer` in any `.../mypkg/ops.py`, however the file that calls it has imported it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from devicelint.model import Constructor
from devicelint.project import External, Key
from devicelint.torch_api import CONSTRUCTORS


class Names:
    """Dotted names, found by the key of what they name."""

    __slots__ = ("_by_last",)

    def __init__(self, names: Iterable[str]) -> None:
        self._by_last: dict[str, list[str]] = {}
        for name in names:
            self._by_last.setdefault(name.rpartition(".")[2], []).append(name)

    def of(self, key: Key) -> str | None:
        """Give the name that stands for a definition, None if there is none."""
        if not self._by_last:
            return None
        qualname = key[1].split("@")[0]
        for name in self._by_last.get(qualname.rpartition(".")[2], ()):
            if f".{_dotted(key[0])}.{qualname}".endswith(f".{name}"):
                return name
        return None


def _dotted(path: str) -> str:
    """Write the path of a file as the name of its module, from the file system's root."""
    parts = path.removesuffix(".py").replace(os.sep, "/").split("/")
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts).lstrip(".")


@dataclass(frozen=True, slots=True)
class Extras:
    """The tables of one run: PyTorch's constructors with the project's own, and its sinks."""

    constructors: Mapping[str, Constructor] = field(default_factory=lambda: CONSTRUCTORS)
    own: Names = field(default_factory=lambda: Names(()))
    #: called name -> what becomes of a value handed to it
    sinks: Mapping[str, str] = field(default_factory=dict)
    sink_names: Names = field(default_factory=lambda: Names(()))

    def constructor_of(self, key: Key) -> External | None:
        """Give the project's own constructor that a definition is, as if it were outside."""
        name = self.own.of(key)
        return External(name) if name is not None else None

    def sink_of(self, text: str, names: Iterable[str], keys: Iterable[Key]) -> str | None:
        """Say what a call does with its arguments: by what it runs, by its name as written."""
        if not self.sinks:
            return None
        called = [*names, *(name for key in keys if (name := self.sink_names.of(key)))]
        for name in (*called, text, text.rpartition(".")[2]):
            if name in self.sinks:
                return self.sinks[name]
        return None


def extras(
    constructors: Mapping[str, Constructor], sinks: Mapping[str, str], managed: Iterable[str]
) -> Extras:
    """Lay the settings over the tables."""
    joined = {**dict.fromkeys(managed, "managed"), **sinks}
    table = {**CONSTRUCTORS, **constructors} if constructors else CONSTRUCTORS
    return Extras(table, Names(constructors), joined, Names(joined))
