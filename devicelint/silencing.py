"""`--add-ignores`: the comments that silence what a run finds.

In: a request, settings, a reason.  Out: the changed files, as for fixes, and what is left.  Never
here: where a comment goes in a file (see `ignores`), a file written.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from devicelint.directives import RULE as UNUSED
from devicelint.files import SourceError, SourceFile, decode, encode
from devicelint.fixer import MAX_PASSES
from devicelint.ignores import add_ignores
from devicelint.known import load
from devicelint.model import Diagnostic, FileReport, Finding
from devicelint.runner import FileFix, FixReport, Request, look_at, read_sources, run_report
from devicelint.settings import Settings
from devicelint.stopwatch import Stopwatch


def silence(request: Request, settings: Settings, reason: str) -> FixReport:
    """Work out comments that silence what is found.  Nothing is written: that is for `write`."""
    watch = Stopwatch()
    entries = load(settings.baseline, request.cwd) if settings.baseline else ()
    sources, problems = read_sources(request, settings)
    found = reports = look_at(sources, request, settings, watch, entries).reports
    before: dict[str, bytes] = {}
    now: dict[str, bytes] = {}
    failed: dict[str, Diagnostic] = {}
    for _ in range(MAX_PASSES):
        step: dict[str, bytes] = {}
        for source in sources:
            path = source.path
            findings = _silenceable(reports[path])
            if not findings or path in failed:
                continue
            try:
                data = SourceFile(path, now.get(path, source.content)).data
                after = _silenced(data, findings, reason)
            except SourceError as error:
                told = error.told_of(path)
                failed[path] = replace(told, message=f"not silenced: {told.message}")
                continue
            if after != data:
                before.setdefault(path, data)
                step[path] = after
        if not step:
            break
        now |= step
        changed = [SourceFile(one.path, now.get(one.path, one.content)) for one in sources]
        reports = look_at(changed, request, settings, watch, entries).reports
    fixes = tuple(
        FileFix(path, before[path], after, _gone(found[path], reports[path]), found[path])
        for path, after in now.items()
    )
    problems = (*problems, *failed.values())
    return FixReport(fixes, run_report(reports.values(), problems, len(sources), watch))


def _silenceable(report: FileReport) -> list[Finding]:
    """Leave out idle comments: a comment about one helps nobody, it is to be removed."""
    return [finding for finding in report.findings if finding.code != UNUSED.code]


def _silenced(data: bytes, findings: list[Finding], reason: str) -> bytes:
    """Write comments for what is found in a file; raises `SourceError`."""
    decoded = decode(data)
    return encode(decoded, add_ignores(decoded.utf8, findings, reason))


def _gone(before: FileReport, after: FileReport) -> tuple[Finding, ...]:
    """Give the findings of `before` that are silent in `after`, where all have moved."""
    left = Counter(_likeness(finding) for finding in after.findings)
    gone: list[Finding] = []
    for finding in _silenceable(before):
        if left[_likeness(finding)]:
            left[_likeness(finding)] -= 1
        else:
            gone.append(finding)
    return tuple(gone)


def _likeness(finding: Finding) -> tuple[str, str, str, str]:
    return finding.code, finding.symbol, finding.callable, finding.message
