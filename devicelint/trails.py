"""Follow the names in files to the files they lead to, before anything is walked.

In: facts as they are read, and what finds the file of a name.  Out: the files to be read next, and
further functions of files that were.  Never here: reading, what a name means for certain: where a
trail is lost, the walk asks for what it needs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from devicelint.ir import ClassFacts, ModuleFacts

#: A file, and a dotted name as seen from there.
_Trail = tuple[str, str]


class _Known:
    """What trails ask of a file that was read."""

    __slots__ = ("classes", "imports", "unread")

    def __init__(self, facts: ModuleFacts) -> None:
        self.imports = dict(facts.imports)
        self.classes = {item.qualname: item for item in facts.classes}
        self.unread = frozenset(item.qualname for item in facts.unread)


class Trails:
    """The names that were followed so far, and those that wait for a file to be read."""

    def __init__(
        self,
        find: Callable[[str, str], tuple[str, int] | None],
        is_readable: Callable[[str], bool],
    ) -> None:
        """`is_readable` tells the files that are to be read if something leads to them."""
        self._find = find
        self._is_readable = is_readable
        self._known: dict[str, _Known] = {}
        self._followed: set[_Trail] = set()
        self._waiting: dict[str, list[tuple[str, ...]]] = defaultdict(list)
        self._unread: dict[str, dict[str, None]] = defaultdict(dict)

    def ahead(self, fresh: Iterable[tuple[str, ModuleFacts]]) -> Mapping[str, frozenset[str]]:
        """Give the files that facts read since the last time lead to, and the names that are asked
        for in each."""
        pending: list[_Trail] = []
        for path, facts in fresh:
            self._known[path] = _Known(facts)
            pending += [(path, name) for name in _names_in(facts)]
            for rest in self._waiting.pop(path, ()):
                pending += self._onward(path, rest)
        wanted: dict[str, set[str]] = defaultdict(set)
        while pending:
            trail = pending.pop()
            if trail not in self._followed:
                self._followed.add(trail)
                pending += self._follow(trail, wanted)
        return {path: frozenset(names) for path, names in wanted.items()}

    def unread(self) -> Mapping[str, Sequence[str]]:
        """Give the functions that names lead to in files of which they were not read: these had
        been asked for something else before."""
        return {path: [*names] for path, names in self._unread.items()}

    def _follow(self, trail: _Trail, wanted: dict[str, set[str]]) -> Iterator[_Trail]:
        """Follow a name to its file, which is wanted, or leads on to others."""
        path, name = trail
        if name.startswith("~."):
            yield from self._onward(path, tuple(name[2:].split(".")))
            return
        found = self._find(path, name)
        rest = tuple(name.lstrip(".").split(".")[found[1] :]) if found is not None else ()
        if found is None or not rest or not self._is_readable(found[0]):
            return
        file = found[0]
        if file in self._known:
            yield from self._onward(file, rest)
        else:
            self._waiting[file].append(rest)
            wanted[file].add(rest[0])

    def _onward(self, path: str, rest: tuple[str, ...]) -> Iterator[_Trail]:
        """Give where the imports of a file lead a name that is looked up in it, or the bases of a
        class a method."""
        known = self._known[path]
        qualname = ".".join(rest)
        if qualname in known.unread:
            self._unread[path][qualname] = None
        for target in known.imports.get(rest[0], ()):
            yield path, ".".join([target, *rest[1:]])
        holder = known.classes.get(rest[0]) if len(rest) == 2 else None
        if holder is not None and all(name != rest[1] for name, _ in holder.methods):
            yield from ((path, f"{base}.{rest[1]}") for base in _bases_of(holder))


def _names_in(facts: ModuleFacts) -> set[str]:
    """Give the names of other files that classes derive from and functions call, and the methods
    that functions call on `self` and a base class may hold."""
    found = {name for item in facts.classes for name in _bases_of(item)}
    called: dict[str, set[str]] = defaultdict(set)
    for summary in facts.summaries:
        for call in summary.calls:
            for atom in call.callees:
                if atom[0] == "ref":
                    found.add(str(atom[1]))
                elif atom[0] in ("attr", "super") and len(atom) == 2:
                    called[summary.owner].add(str(atom[1]))
    found = {name for name in found if not name.startswith("~.")}
    for item in facts.classes:
        own = {name for name, _ in item.methods}
        names = called[item.qualname] - own
        found.update(f"{base}.{name}" for base in _bases_of(item) for name in names)
    return {name for name in found if not name.startswith(("torch.", "builtins."))}


def _bases_of(facts: ClassFacts) -> Iterator[str]:
    return (str(atom[1]) for base in facts.bases for atom in base if atom[0] == "ref")
