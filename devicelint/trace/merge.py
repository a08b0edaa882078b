"""Say of each static finding what a traced run has shown.

In: findings in their files, logs.  Out: a verdict and its words for each; reports with them.
Never here: a finding dropped: a line that was not executed may be executed tomorrow.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

from devicelint.model import FileReport, Finding, RunReport
from devicelint.reporters.layout import Layout
from devicelint.trace.events import Construction, Named, Place, ProcessLog

#: What is made while files are imported, or is no tensor: no trace tells of it.
_UNTRACED = {
    "DVL011": "built while the file is imported, which a trace does not see",
    "DVL012": "a process group, which a trace does not see",
    "DVL100": "about a comment",
}


class Verdict(StrEnum):
    """What the run says of a finding; confirmed ones come first."""

    CONFIRMED = "confirmed"
    NEVER = "never executed"
    HARMLESS = "harmless in this run"
    UNTRACED = "not traced"


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict, and why."""

    verdict: Verdict
    words: str

    def __str__(self) -> str:
        return f"{self.verdict.value}: {self.words}" if self.words else self.verdict.value


class Evidence:
    """The constructions of all logs, by place."""

    def __init__(self, logs: Sequence[ProcessLog]) -> None:
        self._at: dict[tuple[str, int, int], list[tuple[ProcessLog, Construction]]] = defaultdict(
            list
        )
        self._strays = {stray.place for log in logs for stray in log.strays if stray.place}
        for log in logs:
            for item in log.constructions:
                # A finding about a module that was not given its device stands where it is built.
                for place in {item.place, *(one.place for one in item.building)}:
                    self._at[_key(place.path, place.line, place.column)].append((log, item))

    def judge(self, path: str, finding: Finding) -> Judgement:
        """Judge a finding in a file, given by its absolute path."""
        if finding.code in _UNTRACED:
            return Judgement(Verdict.UNTRACED, _UNTRACED[finding.code])
        found = self._at.get(_key(path, finding.start.line, finding.start.column), [])
        if finding.code != "DVL010":
            found = [one for one in found if _is_at(one[1].place, finding)]
        if not found:
            return Judgement(Verdict.NEVER, "")
        return _judge(found, self._strays)


def _key(path: str, line: int, column: int) -> tuple[str, int, int]:
    return os.path.realpath(path), line, column


def _is_at(place: Place, finding: Finding) -> bool:
    return (place.line, place.column) == (finding.start.line, finding.start.column)


def _judge(found: Sequence[tuple[ProcessLog, Construction]], strays: Iterable[Place]) -> Judgement:
    open_ = [(log, item) for log, item in found if _is_open(item)]
    if not open_:
        devices = _devices(item for _, item in found)
        return Judgement(Verdict.HARMLESS, f"a device was given in each run of it ({devices})")
    unplaced = [(log, item) for log, item in open_ if not _is_placed(log, item)]
    if not unplaced:
        devices = _devices(item for _, item in open_)
        return Judgement(Verdict.HARMLESS, f"a device context has placed it on {devices}")
    stuck = [(log, item) for log, item in unplaced if not _has_arrived(log, item)]
    if not stuck:
        devices = _devices(item for _, item in unplaced)
        return Judgement(Verdict.HARMLESS, f"landed on {devices}, and was moved from there")
    count = sum(item.count for _, item in stuck)
    times = "once" if count == 1 else f"{count:,} times"
    words = f"built {times} without a device, landed on {_devices(item for _, item in stuck)}"
    if any(item.place in strays for _, item in stuck):
        words += ", and left behind there when its module was moved"
    return Judgement(Verdict.CONFIRMED, words)


def _is_open(item: Construction) -> bool:
    return item.named in (Named.NO, Named.NONE) and not item.moved


def _is_placed(log: ProcessLog, item: Construction) -> bool:
    """Tell whether the program's own default device has decided, not one that the trace set."""
    return bool(item.context) and item.device == item.context != log.header.forced


def _has_arrived(log: ProcessLog, item: Construction) -> bool:
    """Tell whether everything has come to the process's accelerator by the end."""
    finals = {one.final_device for one in item.destinations if one.module}
    return ":" in log.own_device and finals == {log.own_device}


def _devices(items: Iterable[Construction]) -> str:
    return ", ".join(sorted({item.device for item in items})) or "no device"


# Reports -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Judged:
    """A run with the judgement of each finding, by path and finding."""

    run: RunReport
    judgements: Mapping[tuple[str, int, int, str], Judgement]

    def of(self, path: str, finding: Finding) -> Judgement:
        """Look a judgement up."""
        return self.judgements[_of(path, finding)]


def _of(path: str, finding: Finding) -> tuple[str, int, int, str]:
    return path, finding.start.offset, finding.end.offset, finding.code


def judge(run: RunReport, logs: Sequence[ProcessLog], cwd: str) -> Judged:
    """Judge every finding of a run; its paths are relative to `cwd`."""
    evidence = Evidence(logs)
    return Judged(
        run,
        {
            _of(path, finding): evidence.judge(os.path.join(cwd, path), finding)
            for path, finding in run.findings
        },
    )


def render(
    reporter: Callable[[RunReport, Layout], str], name: str, judged: Judged, layout: Layout
) -> str:
    """Render a report in a format with the judgements in it, confirmed findings first."""
    if name == "json":
        return _json(reporter, judged, layout)
    if name in ("text", "concise") and not layout.statistics:
        return _sections(reporter, judged, layout)
    return reporter(_with_words(judged, judged.run), layout)


def _json(reporter: Callable[[RunReport, Layout], str], judged: Judged, layout: Layout) -> str:
    document = json.loads(reporter(judged.run, layout))
    order = list(Verdict)
    entries: list[tuple[int, int, object]] = []
    for entry, (path, finding) in zip(document["findings"], judged.run.findings, strict=True):
        judgement = judged.of(path, finding)
        entry["runtime"] = {"verdict": judgement.verdict.value, "detail": judgement.words}
        entries.append((order.index(judgement.verdict), len(entries), entry))
    document["findings"] = [entry for _, _, entry in sorted(entries, key=lambda one: one[:2])]
    return json.dumps(document, indent=2) + "\n"


def _sections(reporter: Callable[[RunReport, Layout], str], judged: Judged, layout: Layout) -> str:
    """Render one verdict after the other, and what concerns the whole run at the end."""
    parts = []
    short = replace(layout, summary=False)
    counts = []
    for verdict in Verdict:
        part = _only(judged, verdict)
        if part.findings:
            counts.append(f"{len(part.findings):,} {verdict.value}")
            parts.append(f"== {verdict.value} ({len(part.findings):,}) ==\n")
            parts.append(reporter(_with_words(judged, part), short))
    if not counts:
        return reporter(judged.run, layout)
    bare = tuple(replace(one, findings=()) for one in judged.run.files)
    parts.append(reporter(replace(judged.run, files=bare), short))
    if layout.summary:
        parts.append(f"In this run: {', '.join(counts)}.\n")
    return "".join(parts)


def _only(judged: Judged, verdict: Verdict) -> RunReport:
    files = tuple(
        FileReport(
            one.path,
            tuple(item for item in one.findings if judged.of(one.path, item).verdict is verdict),
        )
        for one in judged.run.files
    )
    return replace(judged.run, files=tuple(one for one in files if one.findings))


def _with_words(judged: Judged, run: RunReport) -> RunReport:
    def worded(path: str, finding: Finding) -> Finding:
        return replace(finding, message=f"{finding.message} [{judged.of(path, finding)}]")

    files = tuple(
        replace(one, findings=tuple(map(partial(worded, one.path), one.findings)))
        for one in run.files
    )
    return replace(run, files=files)
