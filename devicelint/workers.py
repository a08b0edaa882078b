"""Read and judge many files, in this process or in several.

In: files.  Out: facts and findings by path, in no particular order.  Never here: what a
file's facts mean, or anything that depends on how many processes there are.

A process that dies (a stack overflow in native code kills it) costs the file it died of, and a
diagnostic, not the run.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from devicelint.files import SourceError, SourceFile
from devicelint.glance import glance_at
from devicelint.ir import Glance, ModuleFacts
from devicelint.model import Diagnostic, FileTargets, Finding, Policy
from devicelint.parsing import deepen
from devicelint.reading import judge_file, read_each, read_facts

if TYPE_CHECKING:
    from concurrent.futures import Future, ProcessPoolExecutor

_Item = TypeVar("_Item", bound=tuple[object, ...])
_Outcome = TypeVar("_Outcome")

#: What is to be done with a file, by its path.
_Read = tuple[str, frozenset[str]]
_Extend = tuple[str, ModuleFacts, tuple[str, ...]]
_Judge = tuple[str, FileTargets, Policy]
_Work = Callable[[Mapping[str, SourceFile], Sequence[_Item]], list[tuple[str, _Outcome]]]


class Workers:
    """Processes to read and judge with; one job is this process itself.

    They are told all files at the start, and read those that they work on: nobody holds them all.
    """

    def __init__(self, jobs: int, sources: Mapping[str, SourceFile]) -> None:
        self._jobs = jobs
        self._sources = sources
        self._pool: ProcessPoolExecutor | None = None
        self._is_prepared = False

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def glance(self, paths: Iterable[str]) -> Iterator[tuple[str, Glance | Diagnostic]]:
        """Take a first look at files."""
        yield from self._spread(_glance, [(path,) for path in paths])

    def read(
        self,
        wanted: Mapping[str, frozenset[str]],
        further: Callable[[], Mapping[str, frozenset[str]]],
    ) -> Iterator[tuple[str, ModuleFacts | Diagnostic]]:
        """Extract the facts of files, with what is named for each (see `read_facts`).

        Whenever some are done, `further` gives more, so that nobody waits for the last ones.
        """
        yield from self._spread(_read, [*wanted.items()], lambda: [*further().items()])

    def extend(self, wanted: Iterable[_Extend]) -> Iterator[tuple[str, ModuleFacts | Diagnostic]]:
        """Read further functions of files, given their facts and what is named for each.

        A file comes up several times if one of its functions is at fault.
        """
        yield from self._spread(_extend, list(wanted))
        if self._pool is not None and not self._is_prepared:
            from concurrent.futures.process import BrokenProcessPool

            # idle from here until there is something to judge
            self._is_prepared = True
            with contextlib.suppress(BrokenProcessPool):
                for _ in range(self._jobs):
                    self._pool.submit(_import_analysis)

    def judge(
        self, wanted: Mapping[str, FileTargets], policy: Policy
    ) -> Iterator[tuple[str, tuple[Finding, ...] | Diagnostic]]:
        """Turn targets into findings."""
        yield from self._spread(
            _judge, [(path, targets, policy) for path, targets in wanted.items()]
        )

    def _spread(
        self,
        work: _Work[_Item, _Outcome],
        items: Sequence[_Item],
        further: Callable[[], Sequence[_Item]] = list,
    ) -> Iterator[tuple[str, _Outcome | Diagnostic]]:
        """Have files worked on; what kills a process is found file by file."""
        chunks: Sequence[Sequence[_Item]] = self._by_size(items)
        if self._jobs == 1 or (self._pool is None and len(chunks) < _FEWEST):
            while chunks:
                for chunk in chunks:
                    yield from work(self._sources, chunk)
                chunks = self._by_size(further())
            return
        failed = yield from self._attempt(work, chunks, further)
        if failed:
            # what killed one process has taken along what the others were at: once more
            self._restart()
            failed = yield from self._attempt(work, failed, further)
        for chunk in failed:
            yield from self._one_by_one(work, chunk)

    def _attempt(
        self,
        work: _Work[_Item, _Outcome],
        chunks: Sequence[Sequence[_Item]],
        further: Callable[[], Sequence[_Item]],
    ) -> Generator[tuple[str, _Outcome], None, list[Sequence[_Item]]]:
        """Have chunks worked on, and what comes up meanwhile; give those that were not done."""
        from concurrent.futures import FIRST_COMPLETED, wait
        from concurrent.futures.process import BrokenProcessPool

        running: dict[Future[list[tuple[str, _Outcome]]], Sequence[_Item]] = {}
        failed: list[Sequence[_Item]] = []
        pending = deque(chunks)
        while pending or running:
            try:
                while pending:
                    running[self._submit(work, pending[0])] = pending[0]
                    pending.popleft()
            except BrokenProcessPool:
                failed += pending
                pending.clear()
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                chunk = running.pop(future)
                try:
                    yield from future.result()
                except BrokenProcessPool:
                    failed.append(chunk)
            # what comes up while all are busy is sent together: a chunk sends anew what others did
            if not failed and len(running) < _QUEUED * self._jobs:
                pending += self._by_size(further())
        return failed

    def _one_by_one(
        self, work: _Work[_Item, _Outcome], chunk: Sequence[_Item]
    ) -> Iterator[tuple[str, _Outcome | Diagnostic]]:
        """Find the file that kills its process: first the chunk by itself, then its files."""
        from concurrent.futures.process import BrokenProcessPool

        self._restart()
        try:
            yield from self._submit(work, chunk).result()
        except BrokenProcessPool:
            for item in chunk:
                self._restart()
                try:
                    yield from self._submit(work, [item]).result()
                except BrokenProcessPool:
                    path = str(item[0])
                    yield path, Diagnostic(path, 0, 0, _KILLED)
        self._restart()

    def _submit(
        self, work: _Work[_Item, _Outcome], chunk: Sequence[_Item]
    ) -> Future[list[tuple[str, _Outcome]]]:
        if self._pool is None:
            # imported here: a run on a few files needs no pool, and the import takes 20 ms
            from concurrent.futures import ProcessPoolExecutor

            self._pool = ProcessPoolExecutor(
                self._jobs, initializer=_start, initargs=(self._sources,)
            )
        return self._pool.submit(_on_sources, work, chunk)

    def _restart(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None

    def _by_size(self, items: Sequence[_Item]) -> list[list[_Item]]:
        """Cut work into chunks of like size, big files first, so that nobody waits for long."""
        sizes = [(self._sources[str(item[0])].size, item) for item in items]
        sizes.sort(key=lambda pair: -pair[0])
        limit = max(_SMALLEST, sum(size for size, _ in sizes) // (self._jobs * 8))
        chunks: list[list[_Item]] = []
        total = limit
        for size, item in sizes:
            if total >= limit:
                chunks.append([])
                total = 0
            chunks[-1].append(item)
            total += size
        return chunks


#: Fewer chunks are not worth sending, and smaller ones (in bytes of source) not worth cutting.
_FEWEST = 4
_SMALLEST = 50_000

#: More than so many chunks for each process need not be waiting.
_QUEUED = 2

_KILLED = (
    "reading this file killed the process that did it (native stack overflow?); it was not "
    "checked: exclude the file or split it"
)


#: The files that a worker was given.
_sources: Mapping[str, SourceFile] = {}


def _start(sources: Mapping[str, SourceFile]) -> None:
    """Begin as a worker, and end when the program that started it has gone."""
    global _sources  # noqa: PLW0603 - a process pool hands its workers nothing else to hold on to
    _sources = sources
    gc.disable()  # see `collector`
    deepen()
    parent = os.getppid()

    def watch() -> None:
        # a parent that is killed tells nobody, and its workers would wait for work for ever
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _on_sources(work: _Work[_Item, _Outcome], chunk: Sequence[_Item]) -> list[tuple[str, _Outcome]]:
    return work(_sources, chunk)


def _done_with(
    path: str, source: SourceFile, work: Callable[[bytes], _Outcome | Diagnostic]
) -> _Outcome | Diagnostic:
    """Work on a file's bytes, if they can be had."""
    try:
        data = source.data
    except SourceError as error:
        return error.told_of(path)
    return work(data)


def _glance(
    sources: Mapping[str, SourceFile], items: Sequence[tuple[str]]
) -> list[tuple[str, Glance | Diagnostic]]:
    return [(path, _done_with(path, sources[path], glance_at)) for (path,) in items]


def _read(
    sources: Mapping[str, SourceFile], items: Sequence[_Read]
) -> list[tuple[str, ModuleFacts | Diagnostic]]:
    return [
        (path, _done_with(path, sources[path], functools.partial(read_facts, path, names=names)))
        for path, names in items
    ]


def _extend(
    sources: Mapping[str, SourceFile], items: Sequence[_Extend]
) -> list[tuple[str, ModuleFacts | Diagnostic]]:
    results: list[tuple[str, ModuleFacts | Diagnostic]] = []
    for path, facts, names in items:
        read = functools.partial(read_each, path, facts=facts, wanted=names)
        outcome = _done_with(path, sources[path], read)
        outcomes = [outcome] if isinstance(outcome, Diagnostic) else outcome
        results += [(path, item) for item in outcomes]
    return results


def _import_analysis() -> None:
    import devicelint.analysis  # noqa: F401


def _judge(
    sources: Mapping[str, SourceFile], items: Sequence[_Judge]
) -> list[tuple[str, tuple[Finding, ...] | Diagnostic]]:
    return [
        (
            path,
            _done_with(
                path,
                sources[path],
                functools.partial(judge_file, path, targets=targets, policy=policy),
            ),
        )
        for path, targets, policy in items
    ]
