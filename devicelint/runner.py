"""A run: discover, read, analyse, select, silence; and, for `fix`, edit and write.

In: paths or the bytes of stdin, settings.  Out: a `RunReport` or a `FixReport`; whatever goes wrong
with one file is a diagnostic in it.  Never here: output, an exit code, or judgement of code.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from devicelint import engine
from devicelint.collector import collector_off
from devicelint.discovery import Discovery, discover, shown_path
from devicelint.files import (
    ChangedOnDisk,
    Decoded,
    SourceError,
    SourceFile,
    content_of,
    decode,
    encode,
    write_atomic,
)
from devicelint.fixer import FixResult, fix_text, select_edits, verify
from devicelint.gate import LARGE_RUN
from devicelint.known import Parted, load, part, save
from devicelint.model import Analysis, BaselineEntry, Diagnostic, FileReport, Finding, RunReport
from devicelint.selection import Coverage, Selected, select
from devicelint.settings import Settings
from devicelint.stopwatch import Stopwatch, Tell

#: The name of standard input where the user gives none.
STDIN_NAME = "<stdin>"

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Request:
    """What to check, and from where: paths, or the bytes of stdin under a name."""

    cwd: Path
    paths: tuple[str, ...] = (".",)
    jobs: int = 1
    stdin: bytes | None = None
    stdin_name: str = STDIN_NAME
    #: the folder of the cache, None to do without
    cache: Path | None = None


@dataclass(frozen=True, slots=True)
class FileFix:
    """A file that fixes change: its bytes before and after, and the findings mended."""

    path: str
    before: bytes
    after: bytes
    applied: tuple[Finding, ...]
    #: what holds for the file as long as the fixes are not written
    unfixed: FileReport


@dataclass(frozen=True, slots=True)
class FixReport:
    """What fixing changes, sorted by path, and what is left after it."""

    fixes: tuple[FileFix, ...]
    left: RunReport


@dataclass(frozen=True, slots=True)
class Recorded:
    """What was written to a baseline: how many entries, how many of them new, how many dropped."""

    run: RunReport
    total: int
    new: int
    dropped: int


# Checking ----------------------------------------------------------------------------------------


def check(request: Request, settings: Settings, tell: Tell | None = None) -> RunReport:
    """Check what was asked for, and tell how far it is."""
    entries = load(settings.baseline, request.cwd) if settings.baseline else ()
    run, _ = _check(request, settings, entries, tell)
    return run


def record(request: Request, settings: Settings, file: str, tell: Tell | None = None) -> Recorded:
    """Check what was asked for, and make all that is found the baseline."""
    before = load(file, request.cwd) if os.path.exists(file) else ()
    run, parted = _check(request, settings, before, tell)
    entries = parted.entries()
    save(file, request.cwd, entries)
    new = sum(len(report.findings) for report in run.files)
    files = tuple(
        replace(one, findings=(), baselined=(*one.baselined, *one.findings)) for one in run.files
    )
    run = replace(run, files=files, stale=())
    return Recorded(run, len(entries), new, len(parted.stale))


def _check(
    request: Request,
    settings: Settings,
    entries: tuple[BaselineEntry, ...],
    tell: Tell | None,
) -> tuple[RunReport, Parted]:
    watch = Stopwatch()
    sources, problems = read_sources(request, settings)
    watch.lap("read")
    parted = look_at(sources, request, settings, watch, entries, tell)
    run = run_report(parted.reports.values(), problems, len(sources), watch)
    return replace(run, stale=parted.stale), parted


def discover_files(request: Request, settings: Settings) -> Discovery:
    """Find the files that a request is about."""
    return discover(
        request.paths,
        exclude=(*settings.exclude, *settings.extend_exclude),
        force_exclude=settings.force_exclude,
        cwd=request.cwd,
        root=settings.root,
    )


def read_sources(
    request: Request, settings: Settings
) -> tuple[tuple[SourceFile, ...], tuple[Diagnostic, ...]]:
    """Read what was asked for, and say what could not be read."""
    if request.stdin is not None:
        if _is_excluded(request, settings):
            return (), ()
        name = request.stdin_name
        path = name if name == STDIN_NAME else shown_path(name, request.cwd)
        return (SourceFile(path, request.stdin),), ()
    discovery = discover_files(request, settings)
    sources: list[SourceFile] = []
    problems = [*discovery.diagnostics]
    for path in discovery.files:
        try:
            sources.append(SourceFile(path, content_of(os.path.join(request.cwd, path))))
        except SourceError as error:
            problems.append(error.told_of(path))
    if sum(source.size for source in sources) <= LARGE_RUN:
        sources, unread = _held(sources)
        problems += unread
    return tuple(sources), tuple(problems)


def _held(sources: Iterable[SourceFile]) -> tuple[list[SourceFile], list[Diagnostic]]:
    """Read what is little enough to be kept."""
    held: list[SourceFile] = []
    problems: list[Diagnostic] = []
    for source in sources:
        try:
            held.append(SourceFile(source.path, source.data))
        except SourceError as error:
            problems.append(error.told_of(source.path))
    return held, problems


def _is_excluded(request: Request, settings: Settings) -> bool:
    """Tell whether stdin bears the name of an excluded file, which an editor may well send."""
    if not settings.force_exclude or request.stdin_name == STDIN_NAME:
        return False
    discovery = discover(
        (request.stdin_name,),
        exclude=(*settings.exclude, *settings.extend_exclude),
        force_exclude=True,
        cwd=request.cwd,
        root=settings.root,
    )
    # A file that is not on disk yet is a diagnostic; only an excluded one is nothing at all.
    return not discovery.files and not discovery.diagnostics


def look_at(
    sources: Sequence[SourceFile],
    request: Request,
    settings: Settings,
    watch: Stopwatch,
    entries: tuple[BaselineEntry, ...],
    tell: Tell | None = None,
) -> Parted:
    """Analyse the sources together and keep what the user wants to know."""
    analyses = (
        _analyses(sources, request, settings, watch, tell)
        if engine.may_find(sources, settings)
        else engine.nothing(sources)
    )
    coverage = Coverage(request.cwd, () if request.stdin is not None else request.paths)
    chosen: dict[str, Selected] = {}
    for source in sources:
        one = _guarded(
            source.path,
            partial(select, source, analyses[source.path], settings, coverage),
        )
        if isinstance(one, Diagnostic):
            one = Selected(FileReport(source.path, diagnostics=(one,)))
        chosen[source.path] = one
    watch.lap("select")
    return part(chosen, entries, settings, request.cwd)


def _analyses(
    sources: Sequence[SourceFile],
    request: Request,
    settings: Settings,
    watch: Stopwatch,
    tell: Tell | None,
) -> Mapping[str, Analysis]:
    """Analyse sources, by way of the cache if there is to be one."""
    from devicelint.cache import Cache

    watch.lap("gate")
    cache = Cache(request.cache) if request.cache is not None else None
    analyses = engine.analyse(
        sources,
        settings,
        jobs=request.jobs,
        cwd=request.cwd,
        stopwatch=watch,
        tell=tell,
        cache=cache,
    )
    if cache is not None:
        cache.save()
        cache.close()
        watch.remembered, watch.new = cache.hits, cache.misses
        watch.unremembered = cache.problem
        watch.lap("cache")
    return analyses


def _guarded(path: str, work: Callable[[], _Result]) -> _Result | Diagnostic:
    """Do one file's work; its failure must not cost the run."""
    try:
        return work()
    except SourceError as error:
        return error.told_of(path)
    except Exception as error:  # noqa: BLE001 - kept with its traceback, for --verbose
        message = (
            f"devicelint failed on this file ({type(error).__name__}: {error}). "
            "This is a bug of devicelint: please report it with `--verbose`"
        )
        return Diagnostic(path, 0, 0, message, traceback.format_exc())


def run_report(
    reports: Iterable[FileReport],
    problems: Iterable[Diagnostic],
    checked: int,
    watch: Stopwatch,
) -> RunReport:
    """Put the reports in order, without those that say nothing."""
    telling = [
        report
        for report in (
            *reports,
            *(FileReport(problem.path, diagnostics=(problem,)) for problem in problems),
        )
        if report.findings or report.suppressed or report.baselined or report.diagnostics
    ]
    return RunReport(
        tuple(sorted(telling, key=lambda report: report.path)),
        checked,
        tuple(watch.seconds.items()),
        remembered=(watch.remembered, watch.new),
        unremembered=watch.unremembered,
    )


# Fixing ------------------------------------------------------------------------------------------


def fix(request: Request, settings: Settings, *, unsafe: bool) -> FixReport:
    """Work out the fixes of what was asked for.  Nothing is written: that is for `write`."""
    watch = Stopwatch()
    entries = load(settings.baseline, request.cwd) if settings.baseline else ()
    sources, problems = read_sources(request, settings)
    found = look_at(sources, request, settings, watch, entries).reports

    def look(changed: Mapping[str, bytes]) -> Mapping[str, FileReport]:
        # All of them again: a helper is construction code because of classes in other files.
        now = [SourceFile(one.path, changed.get(one.path, one.content)) for one in sources]
        return look_at(now, request, settings, watch, entries).reports

    fixes: list[FileFix] = []
    reports = dict(found)
    for outcome in _settle(sources, found, look, unsafe):
        reports[outcome.report.path] = outcome.report
        if outcome.fix is not None:
            fixes.append(outcome.fix)
    return FixReport(tuple(fixes), run_report(reports.values(), problems, len(sources), watch))


def write(report: FixReport, cwd: Path) -> FixReport:
    """Write the fixed files; one that cannot be written is left as it was, with a diagnostic."""
    unwritten: dict[str, FileReport] = {}
    for change in report.fixes:
        try:
            write_atomic(cwd / change.path, change.after, expected=change.before)
        except (ChangedOnDisk, OSError) as error:
            reason = (isinstance(error, OSError) and error.strerror) or str(error)
            unwritten[change.path] = _not_fixed(change.unfixed, reason)
    written = tuple(change for change in report.fixes if change.path not in unwritten)
    reports = {one.path: one for one in report.left.files} | unwritten
    files = tuple(sorted(reports.values(), key=lambda one: one.path))
    return FixReport(written, replace(report.left, files=files))


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What became of one file: the report that holds now, and its fix if there is one."""

    report: FileReport
    fix: FileFix | None = None


@dataclass(frozen=True, slots=True)
class _Work:
    """A file to be fixed: as read, decoded, and what was found in each text it has had."""

    path: str
    before: bytes
    decoded: Decoded
    reports: dict[bytes, FileReport]
    #: what the net said of each step from one text to the next
    verdicts: dict[tuple[bytes, bytes], str | None] = field(default_factory=dict)

    @property
    def found(self) -> FileReport:
        """What was found in the file as it is on disk."""
        return self.reports[self.decoded.utf8]


class _UnknownTextError(Exception):
    """A text that is still to be analysed."""


def _settle(
    sources: Sequence[SourceFile],
    found: Mapping[str, FileReport],
    look: Callable[[Mapping[str, bytes]], Mapping[str, FileReport]],
    unsafe: bool,
) -> list[_Outcome]:
    """Fix all files in step, so that a round takes one analysis of the project and not one a file.

    The fix of a file stops at the first text that was not analysed yet, and starts over once it
    was: applying edits is cheap, analysing is not.
    """
    todo: list[_Work] = []
    outcomes: list[_Outcome] = []
    for source in sources:
        report = found[source.path]
        if select_edits(report.findings, unsafe=unsafe):
            begun = _guarded(source.path, partial(_work, source, report))
            if isinstance(begun, Diagnostic):
                outcomes.append(_Outcome(_not_fixed(report, begun.message, begun.detail)))
            else:
                todo.append(begun)
    changed: dict[str, bytes] = {}
    while todo:
        asked: list[tuple[_Work, bytes]] = []
        with collector_off():
            steps = [_guarded(work.path, partial(_attempt, work, unsafe)) for work in todo]
        for work, step in zip(todo, steps, strict=True):
            if isinstance(step, bytes):
                asked.append((work, step))
            else:
                outcomes.append(_outcome(work, step))
        _analyse_changed(asked, changed, look)
        todo = [work for work, _ in asked]
    return sorted(outcomes, key=lambda outcome: outcome.report.path)


def _work(source: SourceFile, found: FileReport) -> _Work:
    before = source.data
    decoded = decode(before)
    return _Work(source.path, before, decoded, {decoded.utf8: found})


def _attempt(work: _Work, unsafe: bool) -> FixResult | bytes:
    """Fix a file as far as its texts are known: the result, or the text that is not."""
    unknown: list[bytes] = []

    def recall(utf8: bytes) -> tuple[Finding, ...]:
        if utf8 not in work.reports:
            unknown.append(utf8)
            raise _UnknownTextError
        return work.reports[utf8].findings

    def check(before: bytes, after: bytes, fixed: Sequence[Finding]) -> str | None:
        if (before, after) not in work.verdicts:
            work.verdicts[before, after] = verify(before, after, fixed)
        return work.verdicts[before, after]

    try:
        return fix_text(work.decoded.utf8, recall, unsafe=unsafe, check=check)
    except _UnknownTextError:
        return unknown[0]


def _analyse_changed(
    asked: Sequence[tuple[_Work, bytes]],
    changed: dict[str, bytes],
    look: Callable[[Mapping[str, bytes]], Mapping[str, FileReport]],
) -> None:
    """Analyse the texts asked for and note what is found in each."""
    analysed: list[tuple[_Work, bytes]] = []
    for work, utf8 in asked:
        path = work.path
        try:
            changed[path] = encode(work.decoded, utf8)
            analysed.append((work, utf8))
        except SourceError as error:
            problem = error.told_of(path)
            work.reports[utf8] = FileReport(path, diagnostics=(problem,))
    reports = look(changed) if analysed else {}
    for work, utf8 in analysed:
        work.reports[utf8] = reports[work.path]


def _outcome(work: _Work, step: FixResult | Diagnostic) -> _Outcome:
    if isinstance(step, Diagnostic):
        return _Outcome(_not_fixed(work.found, step.message, step.detail))
    after = work.reports[step.after]
    fresh = [one for one in after.diagnostics if one not in work.found.diagnostics]
    problem = step.problem or next((one.message for one in fresh), "")
    if problem:
        return _Outcome(_not_fixed(work.found, problem))
    if step.after == work.decoded.utf8:
        return _Outcome(work.found)
    changed = encode(work.decoded, step.after)
    change = FileFix(work.path, work.before, changed, step.applied, work.found)
    return _Outcome(after, change)


def _not_fixed(report: FileReport, reason: str, detail: str = "") -> FileReport:
    problem = Diagnostic(report.path, 0, 0, f"not fixed: {reason}", detail, is_checked=True)
    return replace(report, diagnostics=(*report.diagnostics, problem))
