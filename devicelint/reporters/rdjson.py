"""The formats of reviewdog: one JSON object, or one object a line.

In: a `RunReport`.  Out: JSON in ASCII.  Never here: paths from the root (reviewdog finds it).
Columns count bytes of UTF-8 from 1 and ends are exclusive.  reviewdog offers each suggestion by
itself, so there is one only where a single edit is the whole fix, and only for safe fixes: one
click applies it, and nothing in the format could say what else it may change.
"""

from __future__ import annotations

import json

from devicelint.model import Applicability, Diagnostic, Finding, Location, RunReport, Severity
from devicelint.reporters.json_report import Json
from devicelint.reporters.layout import Layout, trouble
from devicelint.reporters.pages import HOME, rule_page
from devicelint.reporters.remedies import single_edit
from devicelint.reporters.source import byte_column
from devicelint.reporters.summary import remedy

_SEVERITIES = {Severity.ERROR: "ERROR", Severity.WARNING: "WARNING", Severity.NOTE: "INFO"}
_SOURCE: dict[str, Json] = {"name": "devicelint", "url": HOME}


def render(run: RunReport, layout: Layout) -> str:
    """Render the whole run as one indented object (the layout has no say in it)."""
    document: dict[str, Json] = {"source": _SOURCE, "diagnostics": [*_entries(run)]}
    return json.dumps(document, indent=2) + "\n"


def render_lines(run: RunReport, layout: Layout) -> str:
    """Render a line for each finding and each problem, each with the source in it."""
    return "".join(f"{json.dumps({**entry, 'source': _SOURCE})}\n" for entry in _entries(run))


def _entries(run: RunReport) -> list[dict[str, Json]]:
    findings = [_finding(path, finding) for path, finding in run.findings]
    return [*findings, *map(_problem, run.diagnostics)]


def _finding(path: str, finding: Finding) -> dict[str, Json]:
    entry: dict[str, Json] = {
        "message": finding.message,
        "location": {"path": path, "range": _range(finding, finding.start, finding.end)},
        "severity": _SEVERITIES[finding.severity],
        "code": {"value": finding.code, "url": rule_page(finding.code)},
    }
    edit = single_edit(finding)
    if edit is not None and remedy(finding) is Applicability.SAFE:
        place = _range(finding, edit.start, edit.end)
        entry["suggestions"] = [{"range": place, "text": edit.content}]
    return entry


def _range(finding: Finding, start: Location, end: Location) -> dict[str, Json]:
    return {
        "start": {"line": start.line, "column": byte_column(finding, start)},
        "end": {"line": end.line, "column": byte_column(finding, end)},
    }


def _problem(problem: Diagnostic) -> dict[str, Json]:
    location: dict[str, Json] = {"path": problem.path}
    if problem.line:
        # Its column counts code points, and the line's text is not known here.
        location["range"] = {"start": {"line": problem.line}}
    return {
        "message": trouble(problem),
        "location": location,
        "severity": "ERROR",
    }
