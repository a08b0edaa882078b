"""Read and judge many files, in this process or in several.

In: files' bytes.  Out: facts and findings by path, in no particular order.  Never here: what a
file's facts mean, or anything that depends on how many processes there are.

A process that dies (a stack overflow in native code kills it) costs the file it died of, and a
diagnostic, not the run.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from devicelint.ir import ModuleFacts
from devicelint.model import Diagnostic, FileTargets, Finding, Policy
from devicelint.reading import judge_file, read_facts

if TYPE_CHECKING:
    from concurrent.futures import Future, ProcessPoolExecutor

#: The parser and the readers recurse once or twice a level of nesting.
RECURSION_LIMIT = 9_000

#: Trees hold each other: with the collector off they are let go of after so many bytes of source.
_COLLECT_EVERY = 3_000_000

_Item = TypeVar("_Item")
_Outcome = TypeVar("_Outcome")

_Read = tuple[str, bytes, frozenset[str]]
_Judge = tuple[str, bytes, FileTargets, Policy]


class Workers:
    """Processes to read and judge with; one job is this process itself."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def read(
        self, wanted: Mapping[str, tuple[bytes, frozenset[str]]]
    ) -> Iterator[tuple[str, ModuleFacts | Diagnostic]]:
        """Extract the facts of files, with what is named for each (see `read_facts`)."""
        items = [(path, data, names) for path, (data, names) in wanted.items()]
        if self._jobs == 1:
            yield from _read(items)
        else:
            yield from self._spread(_read, _by_size(items, self._jobs))

    def prepare_to_judge(self) -> None:
        """Have idle processes import what judging takes, if there are any."""
        if self._pool is not None:
            for _ in range(self._jobs):
                self._pool.submit(_import_analysis)

    def judge(
        self, wanted: Mapping[str, tuple[bytes, FileTargets]], policy: Policy
    ) -> Iterator[tuple[str, tuple[Finding, ...] | Diagnostic]]:
        """Turn targets into findings."""
        items = [(path, data, targets, policy) for path, (data, targets) in wanted.items()]
        if self._jobs == 1 or len(items) < 20:
            yield from _judge(items)
        else:
            size = max(1, len(items) // (self._jobs * 8))
            chunks = [items[start : start + size] for start in range(0, len(items), size)]
            yield from self._spread(_judge, chunks)

    def _spread(
        self,
        work: Callable[[Sequence[_Item]], list[tuple[str, _Outcome]]],
        chunks: Sequence[Sequence[_Item]],
    ) -> Iterator[tuple[str, _Outcome | Diagnostic]]:
        """Have chunks worked on by the processes; what kills one is found file by file."""
        from concurrent.futures.process import BrokenProcessPool

        failed: list[Sequence[_Item]] = []
        futures = [(self._submit(work, chunk), chunk) for chunk in chunks]
        for future, chunk in futures:
            try:
                yield from future.result()
            except BrokenProcessPool:
                failed.append(chunk)
        for chunk in failed:
            for item in chunk:
                self._restart()
                try:
                    yield from self._submit(work, [item]).result()
                except BrokenProcessPool:
                    path = str(item[0])  # type: ignore[index]
                    yield path, Diagnostic(path, 0, 0, _KILLED)
            self._restart()

    def _submit(
        self, work: Callable[[Sequence[_Item]], list[_Outcome]], chunk: Sequence[_Item]
    ) -> Future[list[_Outcome]]:
        if self._pool is None:
            # imported here: a run on a few files needs no pool, and the import takes 20 ms
            from concurrent.futures import ProcessPoolExecutor

            self._pool = ProcessPoolExecutor(self._jobs, initializer=_start)
        return self._pool.submit(work, chunk)

    def _restart(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None


_KILLED = (
    "reading this file killed the process that did it (native stack overflow?); it was not "
    "checked: exclude the file or split it"
)


def prepare() -> None:
    """Make a process fit for large trees: deep recursion, and no cyclic collector.

    Trees are large and mostly acyclic: the collector triples the time of parsing.
    """
    gc.disable()
    sys.setrecursionlimit(max(sys.getrecursionlimit(), RECURSION_LIMIT))


def _start() -> None:
    """Begin as a worker, and end when the program that started it has gone."""
    prepare()
    parent = os.getppid()

    def watch() -> None:
        # a parent that is killed tells nobody, and its workers would wait for work for ever
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _read(items: Sequence[_Read]) -> list[tuple[str, ModuleFacts | Diagnostic]]:
    results: list[tuple[str, ModuleFacts | Diagnostic]] = []
    since = 0
    for path, data, names in items:
        results.append((path, read_facts(path, data, names)))
        since += len(data)
        if since > _COLLECT_EVERY:
            gc.collect()
            since = 0
    return results


def _import_analysis() -> None:
    import devicelint.analysis  # noqa: F401


def _judge(items: Sequence[_Judge]) -> list[tuple[str, tuple[Finding, ...] | Diagnostic]]:
    return [
        (path, judge_file(path, data, targets, policy)) for path, data, targets, policy in items
    ]


def _by_size(items: Iterable[_Read], jobs: int) -> list[list[_Read]]:
    """Cut files into chunks of like size, big files first, so that no worker waits for another."""
    ordered = sorted(items, key=lambda item: -len(item[1]))
    limit = max(100_000, sum(len(item[1]) for item in ordered) // (jobs * 8))
    chunks: list[list[_Read]] = []
    size = limit
    for item in ordered:
        if size >= limit:
            chunks.append([])
            size = 0
        chunks[-1].append(item)
        size += len(item[1])
    return chunks
