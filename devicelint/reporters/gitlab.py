"""GitLab code quality: a list of issues for the widget of a merge request.

In: a `RunReport`.  Out: a JSON array.  Never here: a summary.  GitLab shows the description and not
the name of the check, tells issues apart by their fingerprint alone, and takes paths from the root
of the repository.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter

from devicelint.model import Diagnostic, Finding, RunReport, Severity
from devicelint.reporters.json_report import Json
from devicelint.reporters.layout import Layout, trouble
from devicelint.reporters.paths import in_repository

_SEVERITIES = {Severity.ERROR: "major", Severity.WARNING: "minor", Severity.NOTE: "info"}


def render(run: RunReport, layout: Layout) -> str:
    """Render findings, then problems, as code quality issues."""
    seen: Counter[tuple[str, str]] = Counter()
    issues = [
        _finding(in_repository(path, layout), finding, seen) for path, finding in run.findings
    ]
    issues += [
        _problem(in_repository(problem.path, layout), problem, seen) for problem in run.diagnostics
    ]
    return json.dumps(issues, indent=2) + "\n"


def _finding(path: str, finding: Finding, seen: Counter[tuple[str, str]]) -> dict[str, Json]:
    return {
        "description": f"{finding.code}: {finding.message}",
        "check_name": finding.code,
        "fingerprint": _fingerprint(path, finding.fingerprint, seen),
        "severity": _SEVERITIES[finding.severity],
        "location": _lines(path, finding.start.line, finding.end.line),
    }


def _problem(path: str, problem: Diagnostic, seen: Counter[tuple[str, str]]) -> dict[str, Json]:
    return {
        "description": trouble(problem),
        "check_name": "cannot-check",
        "fingerprint": _fingerprint(path, problem.message, seen),
        "severity": "critical",
        "location": _lines(path, problem.line, problem.line),
    }


def _lines(path: str, begin: int, end: int) -> dict[str, Json]:
    return {"path": path, "lines": {"begin": max(begin, 1), "end": max(end, 1)}}


def _fingerprint(path: str, content: str, seen: Counter[tuple[str, str]]) -> str:
    """Name an issue: by what it is and where, and by its number if there are several such."""
    seen[path, content] += 1
    words = f"{path}\0{content}\0{seen[path, content]}"
    return hashlib.sha256(words.encode("utf-8", "surrogatepass")).hexdigest()[:32]
