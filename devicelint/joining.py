"""Join what was read of many files, and choose what is worth a rule's look.

In: the facts of the files given, and a way to read those that they import.  Out: `FileTargets`, and
the statements that were looked at.  Never here: processes, the cache's folder, findings.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from devicelint.cache import Cache
from devicelint.construction import Construction, is_body
from devicelint.extras import Extras
from devicelint.facts import joined
from devicelint.files import SourceError, SourceFile, on_disk
from devicelint.flow import Flow
from devicelint.headers import exports_of
from devicelint.ir import Consulted, ModuleFacts
from devicelint.locate import listing
from devicelint.model import Diagnostic, FileTargets, Looked
from devicelint.project import Key, ProjectIndex, UnknownBases
from devicelint.reading import read_each, read_facts
from devicelint.settings import Settings
from devicelint.targets import select_targets
from devicelint.values import bare_name
from devicelint.walk import Walk

#: Finds the file of an imported name, see `Locator.find`.
Find: TypeAlias = Callable[[str, str], tuple[str, int] | None]

#: Reads functions of given files, by path, facts and names; see `Workers.extend`.
Extend: TypeAlias = Callable[
    [Iterable[tuple[str, ModuleFacts, tuple[str, ...]]]],
    Iterable[tuple[str, ModuleFacts | Diagnostic]],
]


class FactStore:
    """What was read of each file, by absolute path; further files are read when asked for."""

    def __init__(
        self, sources: Mapping[str, SourceFile], digests: Mapping[str, str], cache: Cache | None
    ) -> None:
        self.problems: dict[str, Diagnostic] = {}
        #: what a star import takes from files, see `exports_of`
        self.exported: dict[str, frozenset[str] | None] = {}
        #: digests of the files outside the run that were read ("": not there)
        self.rests_on: dict[str, str] = {}
        self._sources = sources
        #: files outside the run
        self._found: dict[str, SourceFile] = {}
        self._cache = cache
        self._facts: dict[str, ModuleFacts | None] = {}
        self._fresh: list[str] = []
        self._asked: set[str] = set()
        self._digests = dict(digests)

    def put(self, path: str, outcome: ModuleFacts | Diagnostic) -> None:
        """Note what a given file yielded."""
        if isinstance(outcome, ModuleFacts):
            self._facts[path] = outcome
            self._fresh.append(path)
            self._keep(path, outcome)
        else:
            self.problems[path] = outcome

    def hold(self, path: str, facts: ModuleFacts) -> None:
        """Take facts as those of a given file, without having them remembered."""
        self._facts[path] = facts

    def claim(self, path: str) -> bool:
        """Tell whether a given file is still to be read, which is then up to who asks."""
        if path in self._asked or path in self._facts:
            return False
        self._asked.add(path)
        return not self.recall(path)

    def recall(self, path: str) -> bool:
        """Take the facts of a given file from the cache; False if they are not there."""
        digest = self._digests.get(path)
        known = self._cache.facts(digest) if self._cache is not None and digest else None
        if known is not None:
            self._facts[path] = known
            self._fresh.append(path)
        return known is not None

    def recall_all(self, paths: Iterable[str]) -> None:
        """Take the facts of files from the cache that lead to none but each other."""
        for path in paths:
            self.recall(path)
        self._fresh.clear()

    def take_fresh(self) -> list[tuple[str, ModuleFacts]]:
        """Give what was read since the last time."""
        fresh = [(path, facts) for path in self._fresh if (facts := self._facts[path]) is not None]
        self._fresh.clear()
        return fresh

    def is_readable(self, path: str) -> bool:
        """Tell a given file that is not known to be at fault."""
        return path in self._sources and path not in self.problems

    def settle(self) -> None:
        """Have what was read remembered, and let go of where unread functions are."""
        if self._cache is not None:
            self._cache.save_facts()
        for path, facts in self._facts.items():
            if facts is not None:
                self._facts[path] = facts._replace(unread=())

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

    def exports(self, path: str) -> frozenset[str] | None:
        """Give the names that `import *` takes from a file, None if that cannot be told."""
        if path not in self.exported:
            try:
                self.exported[path] = exports_of(self._source(path).data)
            except SourceError:  # told when the file is read
                self.exported[path] = None
        return self.exported[path]

    def below(self, path: str) -> frozenset[str]:
        """Give the names of the modules in a package, by its `__init__.py`, else none."""
        folder, name = os.path.split(path)
        if name != "__init__.py":
            return frozenset()
        return frozenset(item.removesuffix(".py") for item in listing(folder))

    def one_more(self, key: Key) -> ModuleFacts | None:
        """Read one further function, here and now; give the facts of its file, None if that was
        not possible."""
        path, qualname = key
        facts = self._to_extend(path)
        if facts is None:
            return None
        added = [self._add(path, item) for item in self._more_here(path, facts, [qualname])]
        return self._facts[path] if any(added) else None

    def more(self, wanted: Mapping[str, Sequence[str]], extend: Extend) -> list[str]:
        """Read further functions of files; give the files for which that was possible.

        Those of the given files are read by `extend`, those of others here.
        """
        given: list[tuple[str, ModuleFacts, tuple[str, ...]]] = []
        outcomes: list[tuple[str, ModuleFacts | Diagnostic]] = []
        for path, names in wanted.items():
            facts = self._to_extend(path)
            if facts is None:
                continue
            if path in self._found:
                outcomes += [(path, item) for item in self._more_here(path, facts, names)]
            else:
                given.append((path, facts, tuple(names)))
        added = [path for path, item in (*outcomes, *extend(given)) if self._add(path, item)]
        return list(dict.fromkeys(added))

    def _to_extend(self, path: str) -> ModuleFacts | None:
        """Give what reading further functions takes: nothing of what was read already."""
        facts = self._facts.get(path)
        return facts and facts._replace(summaries=(), bindings=(), process_groups=())

    def _add(self, path: str, outcome: ModuleFacts | Diagnostic) -> bool:
        """Add further functions to what is known of a file; False if they could not be read."""
        before = self._facts[path]
        if isinstance(outcome, ModuleFacts) and before is not None:
            after = self._facts[path] = joined(before, outcome)
            self._keep(path, after)
            return True
        if isinstance(outcome, Diagnostic) and path not in self._found:
            self.problems[path] = outcome
        return False

    def _more_here(
        self, path: str, facts: ModuleFacts, names: Sequence[str]
    ) -> list[ModuleFacts | Diagnostic]:
        try:
            source = self._found.get(path) or self._sources[path]
            return read_each(path, source.data, facts, names)
        except SourceError as error:
            return [error.told_of(path)]

    def _read(self, path: str) -> ModuleFacts | None:
        outcome: ModuleFacts | Diagnostic
        try:
            source = self._source(path)
            if self.recall(path):
                return self._facts[path]
            outcome = read_facts(path, source.data, ())
        except SourceError as error:
            outcome = error.told_of(path)
        if not isinstance(outcome, ModuleFacts):
            if path in self._sources:
                self.problems[path] = outcome
            return None
        self._keep(path, outcome)
        return outcome

    def _source(self, path: str) -> SourceFile:
        """Find a file, given or not; raises SourceError."""
        given = self._sources.get(path)
        if given is not None:
            return given
        self.rests_on[path] = ""
        source = self._found[path] = SourceFile(path, on_disk(path))
        if self._cache is not None:
            self._digests[path] = self.rests_on[path] = self._cache.digest_of(source)
        return source

    def _keep(self, path: str, facts: ModuleFacts) -> None:
        if self._cache is not None and path in self._digests:
            self._cache.keep_facts(self._digests[path], facts)


@dataclass(frozen=True, slots=True)
class Promise:
    """What the text of the given files promises, before any is parsed."""

    #: the classes of each file that may be modules, by name
    classes: Mapping[str, frozenset[str]]
    #: the files that may set up a process group
    grouping: Sequence[str]
    #: the files that may hold a suppression of this tool's own
    directives: Sequence[str]
    #: what was looked up in files to tell
    consulted: Consulted

    def first(self) -> Mapping[str, frozenset[str]]:
        """Give the files to read first, and what of each."""
        none: frozenset[str] = frozenset()
        return {path: self.classes.get(path, none) for path in (*self.classes, *self.grouping)}


@dataclass(frozen=True, slots=True)
class Joined:
    """What the facts of many files say together; all by absolute path."""

    #: the candidates of the files that were given
    targets: Mapping[str, FileTargets]
    looked: Mapping[str, Looked]
    index: ProjectIndex
    construction: Construction
    flow: Flow
    chains: Mapping[Key, tuple[Key, ...]]


def index_of(store: FactStore, find: Find, settings: Settings) -> ProjectIndex:
    """Give an index over what was read of each file."""
    return ProjectIndex(
        store,
        find,
        frozenset(settings.extra_bases),
        UnknownBases(settings.unknown_bases),
    )


def join(
    store: FactStore,
    sources: Container[str],
    settings: Settings,
    find: Find,
    own: Extras,
    promise: Promise,
    extend: Extend,
) -> Joined:
    """Join the facts and choose the candidates of the files that were given."""
    index = index_of(store, find, settings)
    construction = _explore(index, store, sources, own, promise, extend)
    store.settle()
    index.forget()
    flow = Flow(index, construction, own)
    chains = construction.chains()
    targets = select_targets(index, construction, flow, own, chains, promise.grouping)
    return Joined(
        {path: item for path, item in targets.items() if path in sources},
        _looked_at(index, construction, promise.directives),
        index,
        construction,
        flow,
        chains,
    )


def _looked_at(
    index: ProjectIndex, construction: Construction, paths: Iterable[str]
) -> Mapping[str, Looked]:
    """Collect the statements with a call in the functions reached of some files."""
    own: dict[str, set[tuple[int, int]]] = {path: set() for path in paths}
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
    promise: Promise,
    extend: Extend,
) -> Construction:
    """Walk the construction code; read the functions it names until none is missing.

    Which files have been read does not count, but which were promised or asked for: else what an
    earlier run has left in the cache would count, too.
    """
    walk = Walk(index, own)
    started: set[str] = set()
    promised = promise.first().keys() & set(store.loaded())
    while True:
        # the walk comes to files whose bodies run at import
        fresh = sorted(path for path in {*promised, *index.files()} - started if path in given)
        if fresh:
            started.update(fresh)
            walk.start(*_starts(index, store, fresh, promise.classes))
        elif walk.misses:
            _go_on(walk, index, store, extend)
        else:
            return walk.finish()


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


def _go_on(walk: Walk, index: ProjectIndex, store: FactStore, extend: Extend) -> None:
    """Read the functions that the walk waits for, and let it go on."""
    missing = walk.take_missing()
    wanted: dict[str, list[str]] = defaultdict(list)
    for key in missing:
        # some have been read meanwhile, to tell what a class is
        if index.summary(key) is None:
            wanted[key[0]].append(key[1])
    for path in store.more(wanted, extend):
        after = store.facts(path)
        if after is not None:
            index.put(path, after)
    walk.resume([key for key in missing if index.summary(key) is not None])
