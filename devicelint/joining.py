"""Join what was read of many files, and choose what is worth a rule's look.

In: the facts of the files given, and a way to read those that they import.  Out: `FileTargets`, and
the statements that were looked at.  Never here: processes, the cache's folder, findings.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from devicelint.cache import Cache
from devicelint.construction import Construction, Walk, is_body
from devicelint.extras import Extras
from devicelint.files import SourceError
from devicelint.flow import Flow
from devicelint.ir import ModuleFacts
from devicelint.model import Diagnostic, FileTargets, Looked
from devicelint.project import Key, ProjectIndex, UnknownBases
from devicelint.reading import read_facts, read_more
from devicelint.settings import Settings
from devicelint.suppression import may_hold_directive
from devicelint.targets import select_targets

#: Finds the file of an imported name, see `Locator.find`.
Find: TypeAlias = Callable[[str, str], tuple[str, int] | None]


class FactStore:
    """What was read of each file, by absolute path; further files are read when asked for."""

    def __init__(
        self, contents: Mapping[str, bytes], digests: Mapping[str, str], cache: Cache | None
    ) -> None:
        self.problems: dict[str, Diagnostic] = {}
        #: digests of the files outside the run that were read ("": not there)
        self.rests_on: dict[str, str] = {}
        self._contents = dict(contents)
        self._cache = cache
        self._facts: dict[str, ModuleFacts | None] = {}
        self._digests = dict(digests)

    def put(self, path: str, outcome: ModuleFacts | Diagnostic) -> None:
        """Note what a given file yielded."""
        if isinstance(outcome, ModuleFacts):
            self._facts[path] = outcome
            self._keep(path, outcome)
        else:
            self.problems[path] = outcome

    def recall(self, path: str) -> bool:
        """Take the facts of a given file from the cache; False if they are not there."""
        digest = self._digests.get(path)
        known = self._cache.facts(digest) if self._cache is not None and digest else None
        if known is not None:
            self._facts[path] = known
        return known is not None

    def imported(self, find: Find) -> list[str]:
        """List the given files that those read so far import, and that are still to be read."""
        found: dict[str, None] = {}
        for path, facts in list(self._facts.items()):
            if facts is None:
                continue
            for name in (*(item for _, names in facts.imports for item in names), *facts.stars):
                place = find(path, name)
                if place is not None and place[0] not in self._facts and place[0] in self._contents:
                    found[place[0]] = None
        return list(found)

    def facts(self, path: str) -> ModuleFacts | None:
        """Give what was read of a file, without reading it."""
        return self._facts.get(path)

    def load(self, path: str) -> ModuleFacts | None:
        """Give the facts of a file, read now if need be; None if it cannot be read."""
        if path not in self._facts:
            self._facts[path] = self._read(path)
        return self._facts[path]

    def more(self, path: str, names: Iterable[str]) -> ModuleFacts | None:
        """Read further functions of a file; None if that is not possible."""
        data, before = self._contents.get(path), self._facts.get(path)
        if data is None or before is None:
            return None
        try:
            after = read_more(data, before, names)
        except SourceError:
            return None
        self._facts[path] = after
        self._keep(path, after)
        return after

    def _read(self, path: str) -> ModuleFacts | None:
        data = self._contents.get(path)
        if data is None:
            try:
                data = Path(path).read_bytes()
            except OSError:
                self.rests_on[path] = ""
                return None
            self._contents[path] = data
            if self._cache is not None:
                self._digests[path] = self._cache.digest_of(path, data)
                self.rests_on[path] = self._digests[path]
        if self.recall(path):
            return self._facts[path]
        outcome = read_facts(path, data)
        if not isinstance(outcome, ModuleFacts):
            return None
        self._keep(path, outcome)
        return outcome

    def _keep(self, path: str, facts: ModuleFacts) -> None:
        if self._cache is not None and path in self._digests:
            self._cache.keep_facts(self._digests[path], facts)


def join(
    store: FactStore, sources: Mapping[str, bytes], settings: Settings, find: Find, own: Extras
) -> tuple[Mapping[str, FileTargets], Mapping[str, Looked]]:
    """Join the facts and choose the candidates of the files that were given, by absolute path."""
    index = ProjectIndex(
        store.load,
        find,
        frozenset(settings.extra_bases),
        UnknownBases(settings.unknown_bases),
    )
    construction = _explore(index, store, sources, own)
    flow = Flow(index, construction, own)
    targets = select_targets(index, construction, flow, own, sources)
    return (
        {path: item for path, item in targets.items() if path in sources},
        _looked_at(index, construction, sources),
    )


def _looked_at(
    index: ProjectIndex, construction: Construction, sources: Mapping[str, bytes]
) -> Mapping[str, Looked]:
    """Collect the statements with a call in the functions reached, where a directive may be."""
    own: dict[str, set[tuple[int, int]]] = {
        path: set() for path, data in sources.items() if may_hold_directive(data)
    }
    every: dict[str, set[tuple[int, int]]] = {path: set() for path in own}
    for function in construction.reached:
        path = function[0]
        summary = index.summary(function) if path in own else None
        if summary is None:
            continue
        spans = {call.statement for call in summary.calls}
        every[path] |= spans
        if is_body(function) or (summary.owner and index.is_module((path, summary.owner))):
            own[path] |= spans
    return {path: Looked(frozenset(own[path]), frozenset(every[path])) for path in own}


def _explore(
    index: ProjectIndex, store: FactStore, given: Iterable[str], own: Extras
) -> Construction:
    """Walk the construction code; read the functions it names until none is missing."""
    known = {path: facts for path in given if (facts := store.facts(path)) is not None}
    walk = Walk(index, own)
    walk.start(
        [
            (path, item.qualname)
            for path, facts in known.items()
            for item in facts.classes
            if index.is_module((path, item.qualname))
        ],
        [
            (path, summary.qualname)
            for path, facts in known.items()
            for summary in facts.summaries
            if is_body((path, summary.qualname)) and summary.calls
        ],
    )
    while walk.result.missing:
        wanted: dict[str, list[str]] = defaultdict(list)
        for path, qualname in walk.result.missing:
            wanted[path].append(qualname)
        fresh = [
            key for path, names in wanted.items() for key in _read_more(index, store, path, names)
        ]
        read = [key for key in walk.result.missing if index.summary(key) is not None]
        # classes inside functions come to light when these are read
        walk.start([key for key in fresh if index.is_module(key)], [])
        walk.resume(read)
    return walk.result


def _read_more(index: ProjectIndex, store: FactStore, path: str, names: Iterable[str]) -> list[Key]:
    """Read functions of a file; give the classes that came to light in them."""
    before = store.facts(path)
    after = store.more(path, names)
    if before is None or after is None:
        return []
    index.put(path, after)
    known = {item.qualname for item in before.classes}
    return [(path, item.qualname) for item in after.classes if item.qualname not in known]
