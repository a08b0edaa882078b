"""GitHub annotations: workflow commands on stdout, and the whole report in the log.

In: a `RunReport`.  Out: lines for the log of a step.  Never here: more annotations than GitHub
shows (ten of a level in a step, the rest is dropped in silence), the job summary.  Nothing that
stands in a source or in a path can be taken for a command.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

from devicelint.model import Diagnostic, Finding, RunReport, Severity
from devicelint.reporters.layout import Layout, complaint, place, printable
from devicelint.reporters.order import worst_first
from devicelint.reporters.paths import in_repository
from devicelint.reporters.summary import headline

#: Annotations of one level that GitHub shows of a step.
LIMIT = 10

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}
_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = str.maketrans(_DATA | {":": "%3A", ",": "%2C"})
_MESSAGE = str.maketrans(_DATA)


def render(run: RunReport, layout: Layout) -> str:
    """Render the findings as a folded list, then the worst as annotations, then the counts."""
    findings = worst_first(run)
    log = [complaint(problem) for problem in run.diagnostics]
    log += [_line(path, finding) for path, finding in findings]
    lines = [*_folded(headline(run), log), *_annotations(run.diagnostics, findings, layout)]
    if layout.summary:
        lines.append(headline(run))
    return "".join(f"{line}\n" for line in lines)


def command(name: str, message: str, properties: Mapping[str, str | int]) -> str:
    """Spell a workflow command."""
    spelt = ",".join(
        f"{key}={str(value).translate(_PROPERTY)}" for key, value in properties.items()
    )
    return f"::{name}{' ' if spelt else ''}{spelt}::{message.translate(_MESSAGE)}"


def _folded(title: str, lines: Sequence[str]) -> Iterable[str]:
    """Fold lines away under a title, with nothing in them obeyed."""
    if not lines:
        return
    # No text can hold its own digest, so none can end the pause early.
    token = hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()
    yield command("group", f"devicelint: {title}", {})
    yield command("stop-commands", token, {})
    yield from lines
    yield f"::{token}::"
    yield command("endgroup", "", {})


def _line(path: str, finding: Finding) -> str:
    where = place(path, finding.start.line, finding.start.column)
    return f"{where}: {finding.severity.value} {finding.code} {printable(finding.message)}"


def _annotations(
    problems: Sequence[Diagnostic], findings: Iterable[tuple[str, Finding]], layout: Layout
) -> Iterable[str]:
    """Give the annotations there is room for, and a last one that counts the others."""
    waiting: dict[str, list[str]] = {level: [] for level in _LEVELS.values()}
    waiting["error"] += [_problem(problem, layout) for problem in problems]
    for path, finding in findings:
        level = _LEVELS[finding.severity]
        waiting[level].append(_annotation(level, path, finding, layout))
    # The last one is a notice itself, and needs one of the ten.
    is_crowded = any(len(commands) > LIMIT for commands in waiting.values())
    room = {level: LIMIT - (is_crowded and level == "notice") for level in waiting}
    for level, commands in waiting.items():
        yield from commands[: room[level]]
    if is_crowded:
        left = sum(max(0, len(commands) - room[level]) for level, commands in waiting.items())
        message = (
            f"{left:,} more: GitHub shows {LIMIT} of a level. All are in the log of this step."
        )
        yield command("notice", message, {"title": "devicelint"})


def _annotation(level: str, path: str, finding: Finding, layout: Layout) -> str:
    start, end = finding.start, finding.end
    properties: dict[str, str | int] = {
        "title": f"devicelint ({finding.code})",
        "file": in_repository(path, layout),
        "line": start.line,
    }
    # Columns are for annotations of one line only.
    if start.line == end.line:
        properties |= {"col": start.column, "endLine": end.line, "endColumn": end.column}
    else:
        properties |= {"endLine": end.line}
    message = " ".join(filter(None, (finding.message, finding.advice)))
    return command(level, printable(message), properties)


def _problem(problem: Diagnostic, layout: Layout) -> str:
    properties: dict[str, str | int] = {
        "title": "devicelint (cannot check)",
        "file": in_repository(problem.path, layout),
    }
    if problem.line:
        properties |= {"line": problem.line, "col": max(problem.column, 1)}
    return command("error", printable(problem.message), properties)
