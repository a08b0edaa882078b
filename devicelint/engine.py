"""Run the stages over the sources of a project: gate, facts, joining, targets, findings.

In: sources as bytes and the settings.  Out: findings and diagnostics for each source.  Never here:
discovery, selection, suppression, output.  Files that the given ones import are read where they
are found, and never changed or executed.
"""

from __future__ import annotations

import ast
import gc
import os
import sys
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, TypeAlias

from devicelint.construction import Construction, Walk, is_body
from devicelint.extras import Extras, extras
from devicelint.facts import extend_facts, extract_facts, process_group_facts
from devicelint.files import SourceError, SourceFile, decode, may_hold_candidate
from devicelint.flow import Flow
from devicelint.gate import may_lack_device, may_matter, sets_up_process_group
from devicelint.ir import ModuleFacts
from devicelint.locate import Locator
from devicelint.model import Diagnostic, FileTargets, Finding, Policy
from devicelint.outline import normalised, outline
from devicelint.project import Key, ProjectIndex, UnknownBases
from devicelint.rules import RULES
from devicelint.settings import Settings
from devicelint.suppression import may_hold_directive
from devicelint.targets import select_targets

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

#: Less source than this is read faster by one process than by several (starting them takes 60 ms).
POOL_THRESHOLD = 400_000

#: What is told how far a run is: the stage, how many files of it are done, of how many (0 of 0: a
#: stage without parts).
Tell: TypeAlias = Callable[[str, int, int], None]

#: The parser and the readers recurse once or twice a level of nesting.
RECURSION_LIMIT = 9_000


@dataclass(frozen=True, slots=True)
class Looked:
    """The statements of a file that were looked at, by first and last line.

    `own` are those that run because of a module class of the file itself: whatever else is checked,
    they are looked at.
    """

    own: frozenset[tuple[int, int]] = frozenset()
    all: frozenset[tuple[int, int]] = frozenset()


@dataclass(frozen=True, slots=True)
class Analysis:
    """What one source yielded, before selection and suppression.

    `looked` is filled in only for a file that may hold a suppression of this tool's own.
    """

    findings: tuple[Finding, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    looked: Looked | None = None


@dataclass(slots=True)
class _Run:
    """The state of one run: what was read of each file, by absolute path."""

    facts: dict[str, ModuleFacts] = field(default_factory=dict)
    problems: dict[str, Diagnostic] = field(default_factory=dict)


def check_text(source: str, settings: Settings | None = None) -> tuple[Finding, ...]:
    """Check one source in memory; raises SourceError if it does not parse."""
    name = os.path.join(os.getcwd(), "<text>.py")
    result = analyse(
        [SourceFile(name, source.encode())], settings or Settings(), jobs=1, cwd=Path.cwd()
    )[name]
    for problem in result.diagnostics:
        raise SourceError(problem.message, problem.line, problem.column)
    return result.findings


def analyse(
    sources: Sequence[SourceFile],
    settings: Settings,
    *,
    jobs: int,
    cwd: Path,
    timings: dict[str, float] | None = None,
    tell: Tell | None = None,
) -> Mapping[str, Analysis]:
    """Check sources together.  The result has an entry for every source, by its `path`."""
    stopwatch = Stopwatch(timings if timings is not None else {})
    sys.setrecursionlimit(max(sys.getrecursionlimit(), RECURSION_LIMIT))
    collecting = gc.isenabled()
    gc.disable()  # trees are large and acyclic: the cyclic collector triples the time of parsing
    try:
        return _analyse(sources, settings, jobs, cwd, stopwatch, tell or _tell_nobody)
    finally:
        if collecting:
            gc.enable()


def _tell_nobody(stage: str, done: int, total: int) -> None:
    """Take no notice."""


class Stopwatch:
    """Adds up seconds per stage."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self.seconds = seconds
        self._since = perf_counter()

    def lap(self, stage: str) -> None:
        """Count the time since the last lap towards a stage."""
        now = perf_counter()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - self._since
        self._since = now


def _analyse(
    sources: Sequence[SourceFile],
    settings: Settings,
    jobs: int,
    cwd: Path,
    stopwatch: Stopwatch,
    tell: Tell,
) -> Mapping[str, Analysis]:
    by_path = {os.path.join(cwd, source.path): source for source in sources}
    own = extras(settings.extra_constructors, settings.extra_sinks, settings.managed_calls)
    gated = {
        path: source.data
        for path, source in by_path.items()
        if may_matter(source.data) or own.may_name(source.data)
    }
    stopwatch.lap("gate")
    if not any(
        may_hold_candidate(data) or own.may_name(data) or sets_up_process_group(data)
        for data in gated.values()
    ):
        return {source.path: Analysis(looked=_unlooked(source.data)) for source in sources}
    run = _Run()
    with _Workers(jobs if _weight(gated.values()) > POOL_THRESHOLD else 1) as workers:
        for done, (path, outcome) in enumerate(workers.read(gated), 1):
            _note(run, path, outcome, True)
            tell("reading", done, len(gated))
        stopwatch.lap("facts")
        tell("joining", 0, 0)
        targets, looked = _targets(run, by_path, settings, cwd, own)
        stopwatch.lap("project")
        wanted = {
            path: (gated[path], file_targets)
            for path, file_targets in targets.items()
            if path in gated
        }
        findings = {}
        for done, (path, judged) in enumerate(workers.judge(wanted, settings.policy()), 1):
            findings[path] = judged
            tell("judging", done, len(wanted))
    stopwatch.lap("findings")
    result: dict[str, Analysis] = {}
    for path, source in by_path.items():
        judged = findings.get(path, ())
        problems = [run.problems[path]] if path in run.problems else []
        if isinstance(judged, Diagnostic):
            problems.append(judged)
            judged = ()
        named = tuple(replace(problem, path=source.path) for problem in problems)
        result[source.path] = Analysis(judged, named, looked.get(path))
    return result


def _unlooked(data: bytes) -> Looked | None:
    return Looked() if may_hold_directive(data) else None


def _weight(contents: Iterable[bytes]) -> int:
    return sum(len(data) for data in contents)


def _note(run: _Run, path: str, outcome: ModuleFacts | Diagnostic, reported: bool) -> None:
    if isinstance(outcome, ModuleFacts):
        run.facts[path] = outcome
    elif reported:
        run.problems[path] = outcome


# -- one file, in whatever process


def read_facts(path: str, data: bytes) -> ModuleFacts | Diagnostic:
    """Parse a file and extract its facts; whatever goes wrong is a diagnostic."""
    try:
        if sets_up_process_group(data):
            tree = parse(data)
            return process_group_facts(tree, extract_facts(tree))
        if may_lack_device(data):
            return extract_facts(parse(data))
        return _skeleton_facts(data)
    except SourceError as error:
        return Diagnostic(path, error.line, error.column, error.message)
    except Exception as error:  # noqa: BLE001 - one file's fault must not cost the run
        return _our_fault(path, error)


def _skeleton_facts(data: bytes) -> ModuleFacts:
    """Extract the facts of a file with no device-less call: what is defined, and constructors."""
    left_out = outline(normalised(decode(data).text))
    try:
        return extract_facts(ast.parse(left_out.skeleton), left_out)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return extract_facts(parse(data))


def read_more(data: bytes, facts: ModuleFacts, wanted: Iterable[str]) -> ModuleFacts:
    """Read further functions of a file."""
    names = list(wanted)
    left_out = outline(normalised(decode(data).text))
    try:
        return extend_facts(ast.parse(left_out.skeleton), facts, names, left_out)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return extend_facts(parse(data), facts, names)


def parse(data: bytes) -> ast.Module:
    """Parse a file's bytes; raises SourceError with the place of the fault."""
    text = decode(data).text
    try:
        return ast.parse(text, type_comments=False)
    except SyntaxError as error:
        raise SourceError(
            f"syntax error: {error.msg}", error.lineno or 0, error.offset or 0
        ) from None
    except (RecursionError, MemoryError):
        raise SourceError("too deeply nested to be parsed; exclude the file or split it") from None
    except ValueError as error:
        raise SourceError(str(error)) from None


def judge_file(
    path: str, data: bytes, targets: FileTargets, policy: Policy
) -> tuple[Finding, ...] | Diagnostic:
    """Turn a file's targets into findings."""
    # imported here: it takes 0.19 s, which a run without candidates need not pay
    from devicelint.analysis import judge

    try:
        return judge(decode(data).utf8, targets, policy, RULES)
    except SourceError as error:
        return Diagnostic(path, error.line, error.column, error.message)
    except Exception as error:  # noqa: BLE001 - one file's fault must not cost the run
        return _our_fault(path, error)


def _our_fault(path: str, error: Exception) -> Diagnostic:
    if isinstance(error, RecursionError):
        message = "too deeply nested to be analysed; exclude the file or split it"
        return Diagnostic(path, 0, 0, message, traceback.format_exc())
    message = (
        f"devicelint failed on this file ({type(error).__name__}: {error}); it was not checked. "
        "This is a bug of devicelint: please report it with `--verbose`"
    )
    return Diagnostic(path, 0, 0, message, traceback.format_exc())


class _Workers:
    """Reads and judges files, in this process or in several."""

    def __init__(self, jobs: int) -> None:
        self._pool = _start_pool(jobs) if jobs > 1 else None
        self._jobs = jobs

    def __enter__(self) -> _Workers:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def read(self, contents: Mapping[str, bytes]) -> Iterator[tuple[str, ModuleFacts | Diagnostic]]:
        """Extract the facts of files."""
        if self._pool is None:
            yield from _read_chunk(list(contents.items()))
            return
        for chunk in self._pool.map(_read_chunk, _chunks(contents.items(), self._jobs)):
            yield from chunk

    def judge(
        self, wanted: Mapping[str, tuple[bytes, FileTargets]], policy: Policy
    ) -> Iterator[tuple[str, tuple[Finding, ...] | Diagnostic]]:
        """Turn targets into findings."""
        items = [(path, data, targets, policy) for path, (data, targets) in wanted.items()]
        if self._pool is None or len(items) < 20:
            yield from _judge_chunk(items)
            return
        size = max(1, len(items) // (self._jobs * 4))
        chunks = [items[start : start + size] for start in range(0, len(items), size)]
        for chunk in self._pool.map(_judge_chunk, chunks):
            yield from chunk


def _start_pool(jobs: int) -> ProcessPoolExecutor:
    # imported here: a run on a few files needs no pool, and the import takes 20 ms
    from concurrent.futures import ProcessPoolExecutor

    return ProcessPoolExecutor(jobs, initializer=_start_worker)


def _start_worker() -> None:
    gc.disable()
    sys.setrecursionlimit(max(sys.getrecursionlimit(), RECURSION_LIMIT))


def _read_chunk(items: list[tuple[str, bytes]]) -> list[tuple[str, ModuleFacts | Diagnostic]]:
    return [(path, read_facts(path, data)) for path, data in items]


def _judge_chunk(
    items: list[tuple[str, bytes, FileTargets, Policy]],
) -> list[tuple[str, tuple[Finding, ...] | Diagnostic]]:
    return [
        (path, judge_file(path, data, targets, policy)) for path, data, targets, policy in items
    ]


def _chunks(items: Iterable[tuple[str, bytes]], jobs: int) -> list[list[tuple[str, bytes]]]:
    """Cut files into chunks of like size, big files first, so that no worker waits for another."""
    ordered = sorted(items, key=lambda item: -len(item[1]))
    limit = max(100_000, sum(len(data) for _, data in ordered) // (jobs * 8))
    chunks: list[list[tuple[str, bytes]]] = []
    size = limit
    for item in ordered:
        if size >= limit:
            chunks.append([])
            size = 0
        chunks[-1].append(item)
        size += len(item[1])
    return chunks


# -- joining


def _targets(
    run: _Run, by_path: Mapping[str, SourceFile], settings: Settings, cwd: Path, own: Extras
) -> tuple[Mapping[str, FileTargets], Mapping[str, Looked]]:
    """Join the facts and choose the candidates of the files that were given."""
    contents = {path: source.data for path, source in by_path.items()}

    def load(path: str) -> ModuleFacts | None:
        if path in run.facts:
            return run.facts[path]
        data = contents.get(path)
        if data is None:
            try:
                data = Path(path).read_bytes()
            except OSError:
                return None
            contents[path] = data
        outcome = read_facts(path, data)
        _note(run, path, outcome, False)
        return run.facts.get(path)

    index = ProjectIndex(
        load,
        Locator(settings.search_paths, str(cwd)).find,
        frozenset(settings.extra_bases),
        UnknownBases(settings.unknown_bases),
    )
    construction = _explore(index, run, by_path, contents, own)
    flow = Flow(index, construction, own)
    targets = select_targets(index, construction, flow, own, by_path)
    return (
        {path: item for path, item in targets.items() if path in by_path},
        _looked_at(index, construction, by_path),
    )


def _looked_at(
    index: ProjectIndex, construction: Construction, by_path: Mapping[str, SourceFile]
) -> Mapping[str, Looked]:
    """Collect the statements with a call in the functions reached, where a directive may be."""
    own: dict[str, set[tuple[int, int]]] = {
        path: set() for path, source in by_path.items() if may_hold_directive(source.data)
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
    run: _Run,
    given: Iterable[str],
    contents: Mapping[str, bytes],
    own: Extras,
) -> Construction:
    """Walk the construction code; read the functions it names until none is missing."""
    given = [path for path in given if path in run.facts]
    walk = Walk(index, own)
    walk.start(
        [
            (path, facts.qualname)
            for path in given
            for facts in run.facts[path].classes
            if index.is_module((path, facts.qualname))
        ],
        [
            (path, summary.qualname)
            for path in given
            for summary in run.facts[path].summaries
            if is_body((path, summary.qualname)) and summary.calls
        ],
    )
    while walk.result.missing:
        wanted: dict[str, list[str]] = defaultdict(list)
        for path, qualname in walk.result.missing:
            wanted[path].append(qualname)
        fresh: list[Key] = []
        for path, names in wanted.items():
            if path in contents and path in run.facts:
                known = {item.qualname for item in run.facts[path].classes}
                run.facts[path] = read_more(contents[path], run.facts[path], names)
                index.put(path, run.facts[path])
                fresh += [
                    (path, item.qualname)
                    for item in run.facts[path].classes
                    if item.qualname not in known
                ]
        read = [key for key in walk.result.missing if index.summary(key) is not None]
        # classes inside functions come to light when these are read
        walk.start([key for key in fresh if index.is_module(key)], [])
        walk.resume(read)
    return walk.result
