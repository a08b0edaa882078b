"""SARIF 2.1.0: the format of code scanning services and viewers.

In: a `RunReport`.  Out: one JSON object in ASCII.  Never here: `primaryLocationLineHash`, which
GitHub computes itself and checks.  Columns count code points and ends are exclusive; paths are
URIs relative to the root of the repository.

Silenced findings are results with `suppressions`.  GitHub's code scanning does not heed those and
would open an alert for each, so there is a rendering without them for it.  That one has no
`automationDetails` either: the action that uploads it names the category, one for each job.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from devicelint import __version__
from devicelint.model import (
    Diagnostic,
    Edit,
    FileReport,
    Finding,
    Location,
    Rule,
    RunReport,
    Severity,
)
from devicelint.reporters.json_report import Json
from devicelint.reporters.layout import Layout
from devicelint.reporters.pages import HOME, rule_page
from devicelint.reporters.paths import as_uri, in_repository, is_absolute
from devicelint.reporters.remedies import whole_edits
from devicelint.reporters.source import text_of
from devicelint.rules import RULES

_SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_ROOT = "%SRCROOT%"
_PROBLEMS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "recommendation"}
_INDEXES: Mapping[str, int] = {rule.code: index for index, rule in enumerate(RULES)}
_IN_SOURCE: dict[str, Json] = {"kind": "inSource", "status": "accepted"}
_IN_BASELINE: dict[str, Json] = {
    "kind": "external",
    "status": "accepted",
    "justification": "known to the baseline",
}


def render(run: RunReport, layout: Layout) -> str:
    """Render findings, silenced findings and problems."""
    results = [*_open(run, layout), *_silenced(run, layout)]
    return _log({**_run(run, results, layout), "automationDetails": {"id": "devicelint/"}})


def render_open(run: RunReport, layout: Layout) -> str:
    """Render for GitHub's code scanning."""
    return _log(_run(run, [*_open(run, layout)], layout))


def _open(run: RunReport, layout: Layout) -> Iterator[Json]:
    for report in run.files:
        for finding in report.findings:
            yield _result(report, finding, layout)


def _silenced(run: RunReport, layout: Layout) -> Iterator[Json]:
    """Give what was found and silenced, each with what silenced it."""
    for report in run.files:
        for finding in report.suppressed:
            yield {**_result(report, finding, layout), "suppressions": [_IN_SOURCE]}
        for finding in report.baselined:
            yield {**_result(report, finding, layout), "suppressions": [_IN_BASELINE]}


def _log(run: dict[str, Json]) -> str:
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _run(run: RunReport, results: list[Json], layout: Layout) -> dict[str, Json]:
    notifications: list[Json] = [_notification(problem, layout) for problem in run.diagnostics]
    return {
        "tool": {
            "driver": {
                "name": "devicelint",
                "semanticVersion": __version__,
                "informationUri": HOME,
                "rules": [_rule(rule) for rule in RULES],
            }
        },
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {_ROOT: {"description": {"text": "The root of the repository."}}},
        "invocations": [
            {
                "executionSuccessful": not notifications,
                "toolExecutionNotifications": notifications,
            }
        ],
        "results": results,
    }


def _rule(rule: Rule) -> dict[str, Json]:
    summary, _, documentation = rule.documentation.strip().partition("\n")
    return {
        "id": rule.code,
        "name": "".join(word.capitalize() for word in rule.name.split("-")),
        "shortDescription": {"text": _sentence(rule.summary)},
        "fullDescription": {"text": summary},
        "help": {"text": documentation.strip() or summary, "markdown": rule.documentation.strip()},
        "helpUri": rule_page(rule.code),
        "defaultConfiguration": {"level": rule.severity.value},
        "properties": {
            "precision": "high",
            "problem.severity": _PROBLEMS[rule.severity],
            "tags": ["correctness", "pytorch"],
        },
    }


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _result(report: FileReport, finding: Finding, layout: Layout) -> dict[str, Json]:
    file = _file(report.path, layout)
    result: dict[str, Json] = {
        "ruleId": finding.code,
        "level": finding.severity.value,
        "message": {"text": " ".join(filter(None, (finding.message, finding.advice)))},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": file,
                    "region": {
                        **_region(finding.start, finding.end),
                        "snippet": {"text": text_of(finding)},
                    },
                },
                "logicalLocations": [{"fullyQualifiedName": finding.symbol, "kind": "member"}],
            }
        ],
        "partialFingerprints": {"deviceLintFingerprint/v1": finding.fingerprint},
        "properties": {
            "callable": finding.callable,
            "sink": finding.sink.value,
            "reason": finding.reason,
            "reachedVia": list(finding.reached_via),
        },
    }
    if finding.code in _INDEXES:
        result["ruleIndex"] = _INDEXES[finding.code]
    edits = whole_edits(report, finding)
    if edits and finding.fix is not None:
        result["fixes"] = [
            {
                "description": {"text": finding.fix.title},
                "artifactChanges": [
                    {"artifactLocation": file, "replacements": [*map(_replacement, edits)]}
                ],
                "properties": {"applicability": finding.fix.applicability.value},
            }
        ]
    return result


def _replacement(edit: Edit) -> dict[str, Json]:
    return {
        "deletedRegion": _region(edit.start, edit.end),
        "insertedContent": {"text": edit.content},
    }


def _region(start: Location, end: Location) -> dict[str, Json]:
    return {
        "startLine": start.line,
        "startColumn": start.column,
        "endLine": end.line,
        "endColumn": end.column,
    }


def _file(path: str, layout: Layout) -> dict[str, Json]:
    path = in_repository(path, layout)
    if is_absolute(path):
        return {"uri": as_uri(path)}
    return {"uri": as_uri(path), "uriBaseId": _ROOT}


def _notification(problem: Diagnostic, layout: Layout) -> dict[str, Json]:
    place: dict[str, Json] = {"artifactLocation": _file(problem.path, layout)}
    if problem.line:
        place["region"] = {"startLine": problem.line, "startColumn": max(problem.column, 1)}
    return {
        "level": "error",
        "message": {"text": problem.message},
        "locations": [{"physicalLocation": place}],
    }
