"""The JSON report: everything a program may want to know about a run.

In: a `RunReport`.  Out: one JSON object in ASCII.  Never here: a file's text.  Lines and columns
count from 1, columns in code points, ends are exclusive; `version` grows when a key changes its
meaning or goes away, not when one is added.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from devicelint.model import Diagnostic, Edit, Finding, Fix, Location, RunReport
from devicelint.reporters.layout import Layout
from devicelint.reporters.summary import Tally, summarise

Json: TypeAlias = "str | int | list[Json] | dict[str, Json] | None"

VERSION = 1


def render(run: RunReport, layout: Layout) -> str:
    """Render the whole run as one indented JSON object (the layout has no say in it)."""
    return "".join(
        (
            f'{{\n  "version": {VERSION},\n  "findings": ',
            *_array(as_json(path, finding) for path, finding in run.findings),
            ',\n  "errors": ',
            *_array(error_as_json(diagnostic) for diagnostic in run.diagnostics),
            ',\n  "summary": ',
            _text(_summary(run), "  "),
            "\n}\n",
        )
    )


def _array(items: Iterable[dict[str, Json]]) -> Iterator[str]:
    """Write objects one by one: all at once they take four times the memory of the report."""
    opening = "[\n"
    for item in items:
        yield f"{opening}    {_text(item, '    ')}"
        opening = ",\n"
    yield "[]" if opening == "[\n" else "\n  ]"


def _text(value: Json, indent: str) -> str:
    """Write a value behind an indent."""
    # ASCII: the report survives any encoding of stdout, and a path that is not valid UTF-8.
    return json.dumps(value, indent=2).replace("\n", f"\n{indent}")


def as_json(path: str, finding: Finding) -> dict[str, Json]:
    """Give a finding as the JSON object that every JSON format shares."""
    return {
        "code": finding.code,
        "name": finding.name,
        "message": finding.message,
        "severity": finding.severity.value,
        "path": path,
        "line": finding.start.line,
        "column": finding.start.column,
        "end_line": finding.end.line,
        "end_column": finding.end.column,
        "symbol": finding.symbol,
        "callable": finding.callable,
        "sink": finding.sink.value,
        "reached_via": list(finding.reached_via),
        "reason": finding.reason,
        "advice": finding.advice,
        "fingerprint": finding.fingerprint,
        "fix": None if finding.fix is None else _fix(finding.fix),
    }


def _fix(fix: Fix) -> dict[str, Json]:
    return {
        "title": fix.title,
        "applicability": fix.applicability.value,
        "edits": [_edit(edit) for edit in fix.edits],
    }


def _edit(edit: Edit) -> dict[str, Json]:
    return {"start": _place(edit.start), "end": _place(edit.end), "content": edit.content}


def _place(location: Location) -> dict[str, Json]:
    return {"line": location.line, "column": location.column}


def error_as_json(diagnostic: Diagnostic) -> dict[str, Json]:
    """Give a diagnostic; line and column are null where the file as a whole is meant."""
    return {
        "path": diagnostic.path,
        "line": diagnostic.line or None,
        "column": diagnostic.column if diagnostic.line else None,
        "message": diagnostic.message,
        "detail": diagnostic.detail,
    }


def _summary(run: RunReport) -> dict[str, Json]:
    summary = summarise(run)
    return {
        "files": summary.checked,
        "files_with_findings": summary.files,
        "findings": summary.total.total,
        "by_severity": _totals({str(key): tally for key, tally in summary.by_severity}),
        "by_code": _totals(dict(summary.by_code)),
        "fixable": {"safe": summary.total.safe, "unsafe": summary.total.unsafe},
        "suppressed": summary.suppressed,
        "baselined": summary.baselined,
        "stale": summary.stale,
        "errors": summary.diagnostics,
    }


def _totals(tallies: Mapping[str, Tally]) -> dict[str, Json]:
    return {key: tally.total for key, tally in tallies.items()}
