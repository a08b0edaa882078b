"""JUnit XML: a suite for each file, a failed case for each finding.

In: a `RunReport`.  Out: XML in ASCII, whatever the encoding of stdout.  Never here: elements or
attributes that the schema of Jenkins does not know.  A run without findings has one case that
passes, as some services take a report without cases for a run without tests.
"""

from __future__ import annotations

import re
from xml.sax.saxutils import escape, quoteattr

from devicelint.model import Diagnostic, FileReport, Finding, RunReport
from devicelint.reporters.layout import Layout, place, printable

#: What `printable` leaves and XML 1.0 forbids.
_FORBIDDEN = re.compile("[\ud800-\udfff\ufffe\uffff]")
_PASSED = (
    '  <testsuite name="devicelint" tests="1" failures="0" errors="0">\n'
    '    <testcase name="no findings" classname="devicelint"/>\n'
    "  </testsuite>\n"
)


def render(run: RunReport, layout: Layout) -> str:
    """Render the findings as failures and the problems as errors."""
    failures, errors = len(run.findings), len(run.diagnostics)
    suites = [_suite(report) for report in run.files if report.findings or report.diagnostics]
    text = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<testsuites name="devicelint" tests="{failures + errors or 1}" '
        f'failures="{failures}" errors="{errors}">\n'
        f"{''.join(suites) or _PASSED}"
        "</testsuites>\n"
    )
    return text.encode("ascii", "xmlcharrefreplace").decode("ascii")


def _suite(report: FileReport) -> str:
    failures, errors = len(report.findings), len(report.diagnostics)
    cases = [_failure(report.path, finding) for finding in report.findings]
    cases += [_error(diagnostic) for diagnostic in report.diagnostics]
    return (
        f'  <testsuite name={_quoted(report.path)} tests="{failures + errors}" '
        f'failures="{failures}" errors="{errors}">\n'
        f"{''.join(cases)}"
        "  </testsuite>\n"
    )


def _failure(path: str, finding: Finding) -> str:
    line, column = finding.start.line, finding.start.column
    text = f"{place(path, line, column)}: {finding.code} {finding.message}"
    return _case(
        path,
        f"{finding.code}:{line}:{column}",
        f"<failure type={_quoted(finding.severity.value)} message={_quoted(finding.message)}>"
        f"{_text(text)}\n{_text(finding.advice)}</failure>",
    )


def _error(problem: Diagnostic) -> str:
    text = f"{place(problem.path, problem.line, problem.column)}: {problem.message}"
    return _case(
        problem.path,
        f"cannot check:{problem.line}:{problem.column}",
        f'<error type="cannot check" message={_quoted(problem.message)}>{_text(text)}</error>',
    )


def _case(path: str, name: str, outcome: str) -> str:
    return (
        f"    <testcase name={_quoted(name)} classname={_quoted(path)}>\n"
        f"      {outcome}\n"
        "    </testcase>\n"
    )


def _quoted(text: str) -> str:
    return quoteattr(_legal(text))


def _text(text: str) -> str:
    return escape(_legal(text))


def _legal(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", printable(text))
