"""Run the stages over sources in which there may be something to find: from glance to findings.

In: sources, settings, the cache.  Out: findings and diagnostics for each source.  Never
here: discovery, selection, suppression, output.  Files that the given ones import are read where
they are found, and never changed or executed.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from devicelint.cache import Cache, listing_digest, run_digest, unchanged
from devicelint.extras import extras
from devicelint.files import OnDisk, SourceError, SourceFile, on_disk
from devicelint.footprint import footprint_of
from devicelint.gate import LARGE_RUN
from devicelint.ir import Basis, Footprint, Glance
from devicelint.joining import FactStore, Promise, index_of, join
from devicelint.locate import Locator
from devicelint.model import Analysis, Diagnostic, FileTargets, Finding, Looked, Results
from devicelint.parsing import fault_of
from devicelint.prospects import prospects, sure_modules
from devicelint.recall import Project, recall
from devicelint.settings import Settings
from devicelint.stopwatch import Stopwatch, Tell
from devicelint.trails import Trails
from devicelint.workers import Workers


class Run:
    """One run over sources: from the gate to the findings."""

    def __init__(
        self,
        sources: Sequence[SourceFile],
        settings: Settings,
        jobs: int,
        cwd: Path,
        stopwatch: Stopwatch,
        tell: Tell,
        cache: Cache | None,
    ) -> None:
        self._by_path = {os.path.join(cwd, source.path): source for source in sources}
        self._settings = settings
        self._jobs = jobs
        self._is_large = sum(source.size for source in sources) > LARGE_RUN
        self._cwd = cwd
        self._stopwatch = stopwatch
        self._tell = tell
        self._cache = cache
        self._digests: dict[str, str] = {}
        #: what the last run over these files was, and this one
        self._last: Basis | None = None
        self._basis: Basis | None = None
        self._footprint: Footprint | None = None
        self._locator = Locator(settings.search_paths, str(cwd))
        self._find = self._locator.find
        self._own = extras(
            settings.extra_constructors, settings.extra_sinks, settings.managed_calls
        )

    def remembered(self) -> Mapping[str, Analysis]:
        """Give what an earlier run over the same sources found, or analyse and remember it."""
        cache = self._cache
        assert cache is not None
        try:
            self._digests = {
                path: cache.digest_of(source) for path, source in self._by_path.items()
            }
        except SourceError:  # whatever is found now holds for this moment
            self._cache = None
            return self.analyse()
        contents = {source.path: self._digests[path] for path, source in self._by_path.items()}
        settings = _settings_key(self._settings, self._cwd)
        key = run_digest(settings, contents.items())
        #: names the runs over these files, whatever they hold
        series = run_digest(f"{settings} files", [(path, "") for path in contents])
        known = cache.results(key)
        if known is None or not unchanged(cache, known.rests_on):
            known = self._recalled(cache, series, contents)
            if known is not None:
                cache.keep_results(key, known)
        self._stopwatch.lap("cache")
        if known is not None:
            cache.hits += len(self._by_path)
            blank = Analysis()
            return {path: known.analyses.get(path, blank) for path in contents}
        try:
            store = self._store()
            found = self._analyse(store)
        except Exception:  # noqa: BLE001 - what the cache held may be at fault: do without it
            self._cache = None
            return self.analyse()
        if not all(map(_is_as_it_was, self._by_path.values())):
            return found
        cache.keep_results(key, Results(found, {**store.rests_on, **self._folders()}))
        if self._basis is not None:
            cache.keep_basis(series, replace(self._basis, run=key))
            if self._footprint is not None:
                cache.keep_footprint(key, self._footprint)
        return found

    def _folders(self) -> Mapping[str, str]:
        """Name what is in the folders that were looked into: a module may appear there, also one
        that is not among the given files."""
        return {
            folder + os.sep: listing_digest(names)
            for folder, names in self._locator.listings().items()
        }

    def _recalled(self, cache: Cache, series: str, contents: Mapping[str, str]) -> Results | None:
        """Bring the results of the last run over these files up to date, if that is possible."""
        basis = cache.basis(series)
        if basis is None or basis.files.keys() != contents.keys():
            return None
        self._last = basis
        store = self._store()
        project = Project(
            sources={source.path: source for source in self._by_path.values()},
            places={source.path: path for path, source in self._by_path.items()},
            digests=contents,
            store=store,
            index=index_of(store, self._find, self._settings),
            find=self._find,
            extras=self._own,
            policy=self._settings.policy(),
        )
        try:
            recalled = recall(cache, basis, project)
        except (KeyError, ValueError):  # what the cache holds does not fit together
            return None
        if recalled is None or not unchanged(cache, recalled.rests_on):
            return None
        cache.use(series, basis.run)
        return recalled

    def analyse(self) -> Mapping[str, Analysis]:
        """Analyse the sources, whatever is remembered."""
        return self._analyse(self._store())

    def _store(self) -> FactStore:
        return FactStore(self._by_path, self._digests, self._cache)

    def _analyse(self, store: FactStore) -> Mapping[str, Analysis]:
        with Workers(self._jobs if self._is_large else 1, self._by_path) as workers:
            glances = self._glances(workers, store)
            self._stopwatch.lap("gate")
            promise = self._read(store, workers, glances)
            if self._cache is None:
                glances = {}  # of what they told nothing is needed any more
            if not self._is_large:
                self._note_faults(store)
            self._tell("joining", 0, 0)
            targets, looked = self._join(store, promise, workers)
            self._stopwatch.lap("project")
            judged = self._judge(workers, targets)
        self._stopwatch.lap("findings")
        if self._cache is not None and self._is_large:
            self._basis = self._what_it_was(store, glances, targets, promise)
        return {
            source.path: _analysis(
                source, judged.get(path, ()), store.problems.get(path), looked.get(path)
            )
            for path, source in self._by_path.items()
        }

    def _join(
        self, store: FactStore, promise: Promise, workers: Workers
    ) -> tuple[Mapping[str, FileTargets], Mapping[str, Looked]]:
        """Join what was read; note for the next run what was asked for.

        What was joined takes half the memory, and goes when this is left.
        """
        joined = join(
            store,
            self._by_path.keys(),
            self._settings,
            self._find,
            self._own,
            promise,
            workers.extend,
        )
        if self._cache is not None and self._is_large:
            self._footprint = footprint_of(
                joined.index, joined.construction, joined.flow, joined.chains
            )
        return joined.targets, joined.looked

    def _glances(self, workers: Workers, store: FactStore) -> Mapping[str, Glance]:
        """Take a first look at all files, but at those that are as they were in the last run."""
        glances: dict[str, Glance] = {}
        if self._last is not None:
            for path, source in self._by_path.items():
                digest, glance = self._last.files[source.path]
                if digest == self._digests[path]:
                    glances[path] = glance
        for path, found in workers.glance(self._by_path.keys() - glances.keys()):
            if isinstance(found, Glance):
                glances[path] = found
            else:
                store.problems[path] = found
        return {path: glances[path] for path in self._by_path if path in glances}

    def _promise(self, store: FactStore, glances: Mapping[str, Glance]) -> Promise:
        """Say what the first look at all files promises."""

        def read(path: str) -> bytes | None:
            try:
                return self._by_path[path].data
            except SourceError as error:
                store.problems[path] = error.told_of(path)
                return None

        classes, consulted = prospects(
            read,
            {path: glance.headers for path, glance in glances.items()},
            self._find,
            self._settings.extra_bases,
            trusts_unknown=self._settings.unknown_bases == "always",
        )
        return Promise(
            classes,
            tuple(path for path, glance in glances.items() if glance.sets_up_group),
            tuple(path for path, glance in glances.items() if glance.holds_directive),
            consulted,
        )

    def _what_it_was(
        self,
        store: FactStore,
        glances: Mapping[str, Glance],
        targets: Mapping[str, FileTargets],
        promise: Promise,
    ) -> Basis:
        """Note what the next run over these files has to compare itself with."""
        shown = {path: source.path for path, source in self._by_path.items()}
        return Basis(
            run="",
            files={shown[path]: (self._digests[path], glance) for path, glance in glances.items()},
            targets={shown[path]: item for path, item in targets.items()},
            read=frozenset(shown[path] for path in store.loaded() if path in shown),
            consulted={shown[path]: names for path, names in promise.consulted.items()},
            exports={shown[path]: one for path, one in store.exported.items() if path in shown},
        )

    def _read(self, store: FactStore, workers: Workers, glances: Mapping[str, Glance]) -> Promise:
        """Read what the first look promises of each file, then what this leads to in others."""
        if self._last is not None:
            # what these lead to was read in the last run as well
            store.recall_all(
                path for path, source in self._by_path.items() if source.path in self._last.read
            )
        promise = functools.cache(functools.partial(self._promise, store, glances))
        wanted = _first_wanted(glances, promise)
        trails = Trails(self._find, store.is_readable)
        total = 0

        def further() -> Mapping[str, frozenset[str]]:
            nonlocal total
            while names := next(filter(None, wanted), None) or trails.ahead(store.take_fresh()):
                todo = {path: one for path, one in names.items() if store.claim(path)}
                if todo:
                    total += len(todo)
                    return todo
            return {}

        todo = further()
        self._stopwatch.lap("cache")
        for done, (path, outcome) in enumerate(workers.read(todo, further), start=1):
            store.put(path, outcome)
            self._tell("reading", done, total)
        store.more(trails.unread(), workers.extend)
        self._stopwatch.lap("facts")
        return promise()

    def _note_faults(self, store: FactStore) -> None:
        """In a small run, parse whole what was read in part: a syntax error anywhere is told."""
        for path, source in self._by_path.items():
            if path not in store.problems:
                fault = fault_of(path, source.data)
                if fault is not None:
                    store.problems[path] = fault

    def _judge(
        self, workers: Workers, targets: Mapping[str, FileTargets]
    ) -> Mapping[str, tuple[Finding, ...] | Diagnostic]:
        """Turn targets into findings; the same targets in the same text give the same ones."""
        policy = self._settings.policy()
        judged: dict[str, tuple[Finding, ...] | Diagnostic] = {}
        todo: dict[str, FileTargets] = {}
        keys: dict[str, str] = {}
        for path in targets:
            if self._cache is not None:
                keys[path] = run_digest(repr((policy, targets[path])), [("", self._digests[path])])
                known = self._cache.findings(keys[path])
                if known is not None:
                    judged[path] = known
                    continue
            todo[path] = targets[path]
        for path, outcome in workers.judge(todo, policy):
            judged[path] = outcome
            if self._cache is not None and not isinstance(outcome, Diagnostic):
                self._cache.keep_findings(keys[path], outcome)
            self._tell("judging", len(judged), len(targets))
        return judged


def _first_wanted(
    glances: Mapping[str, Glance], promise: Callable[[], Promise]
) -> Iterator[Mapping[str, frozenset[str]]]:
    """Give what to read first: sure modules, then whatever else the first look promises.

    Others are at work on the former while it is worked out what the latter are.
    """
    sure = {path: sure_modules(glance.headers) for path, glance in glances.items()}
    yield {path: names for path, names in sure.items() if names}
    yield promise().first()


def _is_as_it_was(source: SourceFile) -> bool:
    """Tell a file that nobody has changed since it was looked at first."""
    if not isinstance(source.content, OnDisk):
        return True
    try:
        return on_disk(source.content.place) == source.content
    except SourceError:
        return False


def _analysis(
    source: SourceFile,
    judged: tuple[Finding, ...] | Diagnostic,
    problem: Diagnostic | None,
    looked: Looked | None,
) -> Analysis:
    """Put together what one source yielded; its diagnostics bear its path as the user knows it."""
    problems = [problem] if problem is not None else []
    if isinstance(judged, Diagnostic):
        # a fault of the file comes up wherever all of it is read
        problems += [judged] if judged != problem else []
        judged = ()
    named = tuple(replace(item, path=source.path) for item in problems)
    return Analysis(judged, named, looked)


def _settings_key(settings: Settings, cwd: Path) -> str:
    """Write down the settings that findings depend on before selection."""
    return repr(
        (
            settings.policy(),
            settings.extra_bases,
            settings.extra_constructors,
            settings.extra_sinks,
            settings.managed_calls,
            settings.search_paths,
            settings.unknown_bases,
            str(cwd),
        )
    )
