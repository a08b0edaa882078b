"""Join what was read of many files, and choose what is worth a rule's look.

In: the facts of the files given, and a way to read those that they import.  Out: `FileTargets`, and
the statements that were looked at.  Never here: processes, the cache's folder, findings.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from devicelint.values import bare_name

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

    def trails(self, find: Find) -> Iterator[Mapping[str, frozenset[str]]]:
        """Give the given files to read next, and the names asked for in each, until all that was
        read so far leads to is there.

        Where a trail is lost (a name that only a class's ancestry explains), the file is read when
        it is asked for.
        """
        followed: set[str] = set()
        trails: set[tuple[str, str]] = set()
        while True:
            for path, facts in self._facts.items():
                if path not in followed and facts is not None:
                    followed.add(path)
                    trails.update((path, name) for name in _names_in(facts))
            trails, wanted = self._follow(trails, find)
            if not wanted:
                return
            yield {path: frozenset(names) for path, names in wanted.items()}

    def _follow(
        self, trails: Iterable[tuple[str, str]], find: Find
    ) -> tuple[set[tuple[str, str]], Mapping[str, set[str]]]:
        """Follow names through imports; give those that end at a file unread, and what they ask
        for in it."""
        pending, seen = list(trails), set(trails)
        waiting: set[tuple[str, str]] = set()
        wanted: dict[str, set[str]] = {}
        while pending:
            trail = pending.pop()
            path, name = trail
            found = find(path, name)
            if found is None:
                continue
            file, used = found
            rest = name.lstrip(".").split(".")[used:]
            if file not in self._facts:
                if file in self._contents and file not in self.problems:
                    waiting.add(trail)
                    wanted.setdefault(file, set()).update(rest[:1])
                continue
            facts = self._facts[file]
            if not rest or facts is None:
                continue
            for target in dict(facts.imports).get(rest[0], ()):
                further = (file, ".".join([target, *rest[1:]]))
                if further not in seen:
                    seen.add(further)
                    pending.append(further)
        return waiting, wanted

    def loaded(self) -> list[str]:
        """List the files read so far."""
        return [path for path, facts in self._facts.items() if facts is not None]

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
        outcome = read_facts(path, data, ())
        if not isinstance(outcome, ModuleFacts):
            return None
        self._keep(path, outcome)
        return outcome

    def _keep(self, path: str, facts: ModuleFacts) -> None:
        if self._cache is not None and path in self._digests:
            self._cache.keep_facts(self._digests[path], facts)


def _names_in(facts: ModuleFacts) -> set[str]:
    """Give the names of other files that classes derive from and that functions call."""
    values = [base for item in facts.classes for base in item.bases]
    values += [call.callees for summary in facts.summaries for call in summary.calls]
    return {
        str(atom[1])
        for value in values
        for atom in value
        if atom[0] == "ref" and not str(atom[1]).startswith(("~.", "torch.", "builtins."))
    }


@dataclass(frozen=True, slots=True)
class Prospects:
    """What the text of the given files promises, before any is parsed."""

    #: the classes of each file that may be modules, by name
    classes: Mapping[str, frozenset[str]]
    #: the files that may set up a process group
    grouping: Sequence[str]


def join(
    store: FactStore,
    sources: Mapping[str, bytes],
    settings: Settings,
    find: Find,
    own: Extras,
    prospects: Prospects,
) -> tuple[Mapping[str, FileTargets], Mapping[str, Looked]]:
    """Join the facts and choose the candidates of the files that were given, by absolute path."""
    index = ProjectIndex(
        store.load,
        find,
        frozenset(settings.extra_bases),
        UnknownBases(settings.unknown_bases),
    )
    construction = _explore(index, store, sources, own, prospects.classes)
    flow = Flow(index, construction, own)
    targets = select_targets(index, construction, flow, own, prospects.grouping)
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
    index: ProjectIndex,
    store: FactStore,
    given: Container[str],
    own: Extras,
    prospects: Mapping[str, frozenset[str]],
) -> Construction:
    """Walk the construction code; read the functions it names until none is missing."""
    walk = Walk(index, own)
    started: set[str] = set()
    while True:
        # the walk comes to files whose bodies run at import
        fresh = [path for path in store.loaded() if path not in started and path in given]
        if fresh:
            started.update(fresh)
            walk.start(*_starts(index, store, fresh, prospects))
        elif walk.result.missing:
            _go_on(walk, index, store)
        else:
            return walk.result


def _starts(
    index: ProjectIndex,
    store: FactStore,
    paths: Iterable[str],
    prospects: Mapping[str, frozenset[str]],
) -> tuple[list[Key], list[Key]]:
    """Give the module classes of files, and the bodies that matter: theirs and the files'."""
    modules: list[Key] = []
    bodies: list[Key] = []
    for path in paths:
        facts = store.facts(path)
        names = prospects.get(path, frozenset())
        for item in facts.classes if facts else ():
            key = (path, item.qualname)
            name = bare_name(item.qualname)
            # Python normalises names that are not ASCII, text does not
            if (name in names or not name.isascii()) and index.is_module(key):
                modules.append(key)
                bodies.append((path, f"{item.qualname}.<body>"))
        bodies.append((path, "<module>"))
    known = [key for key in bodies if (summary := index.summary(key)) and summary.calls]
    return modules, known


def _go_on(walk: Walk, index: ProjectIndex, store: FactStore) -> None:
    """Read the functions that the walk waits for, and let it go on."""
    missing = walk.take_missing()
    wanted: dict[str, list[str]] = defaultdict(list)
    for path, qualname in missing:
        wanted[path].append(qualname)
    fresh = [key for path, names in wanted.items() for key in _read_more(index, store, path, names)]
    read = [key for key in missing if index.summary(key) is not None]
    # classes inside functions come to light when these are read
    walk.start([key for key in fresh if index.is_module(key)], [])
    walk.resume(read)


def _read_more(index: ProjectIndex, store: FactStore, path: str, names: Iterable[str]) -> list[Key]:
    """Read functions of a file; give the classes that came to light in them."""
    before = store.facts(path)
    after = store.more(path, names)
    if before is None or after is None:
        return []
    index.put(path, after)
    known = {item.qualname for item in before.classes}
    return [(path, item.qualname) for item in after.classes if item.qualname not in known]
