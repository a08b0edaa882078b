"""Every file of `fixtures/` is a case: its findings, its fix, and what must hold for any file.

In: `fixtures/`, whose README describes the markers.  Out: one test per case and property.
Never here: Python sources spelled out in a test; they belong into a fixture.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from devicelint.model import Finding

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
#: `hard/` holds shapes of public code that are awkward for a linter; its README numbers them
FILES = sorted([*FIXTURES.glob("*.py"), *(FIXTURES / "hard").glob("*.py")])
CASES = [path for path in FILES if not path.name.endswith(".fixed.py")]
#: what is right and not reached yet; such a case must fail, so that an entry cannot outlive it
LIMITS = {"06_class_made_by_type": "classes made by `type(...)` are not seen"}
JUDGED = [
    pytest.param(path, marks=pytest.mark.xfail(reason=LIMITS[path.stem]))
    if path.stem in LIMITS
    else path
    for path in CASES
]
PROJECTS = sorted(path for path in (FIXTURES / "projects").iterdir() if path.is_dir())
MARKER = re.compile(
    r"#\s*expect:\s*(?P<codes>DVL\d{3}(?:\s*,\s*DVL\d{3})*)"
    r"(?:\s+sink=(?P<sink>\w+))?"
)
#: no configuration, no cache: the files and the defaults alone
PLAIN = ("--isolated", "--no-cache")


@dataclass(frozen=True, slots=True, order=True)
class Expected:
    """A finding as a marker tells it; `sink` is "" where the marker is silent about it."""

    line: int
    code: str
    sink: str


def markers(text: str) -> list[Expected]:
    """Read the expectations of a fixture."""
    return sorted(
        Expected(number, code, match["sink"] or "")
        for number, line in enumerate(text.split("\n"), start=1)
        if (match := MARKER.search(line))
        for code in re.findall(r"DVL\d{3}", match["codes"])
    )


def reduced(found: Iterable[Expected], expected: Iterable[Expected]) -> list[Expected]:
    """Drop the sinks that no marker asks about."""
    asked = {(item.line, item.code) for item in expected if item.sink}
    return sorted(
        item if (item.line, item.code) in asked else Expected(item.line, item.code, "")
        for item in found
    )


def of_findings(findings: Iterable[Finding]) -> list[Expected]:
    """Bring findings into the markers' form."""
    return sorted(Expected(item.start.line, item.code, str(item.sink)) for item in findings)


def of_report(entries: Iterable[dict[str, Any]]) -> list[Expected]:
    """Bring findings of a JSON report into the markers' form."""
    return sorted(Expected(item["line"], item["code"], item["sink"]) for item in entries)


def by_path(report: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Group a report's findings by file."""
    grouped: dict[str, list[dict[str, Any]]] = {}
    for entry in report["findings"]:
        grouped.setdefault(entry["path"], []).append(entry)
    return grouped


def parsed(result: subprocess.CompletedProcess[bytes]) -> dict[str, Any]:
    """Read a JSON report; one that is none shows what the command said instead."""
    assert result.stdout.startswith(b"{"), result.stderr.decode(errors="replace")
    report: dict[str, Any] = json.loads(result.stdout)
    return report


def check_json(run_command, folder: Path, *arguments: str) -> dict[str, Any]:
    """Run `check` on a folder and return the report."""
    return parsed(
        run_command("check", *PLAIN, "--output-format", "json", *(arguments or (".",)), cwd=folder)
    )


def name_of(path: Path) -> str:
    """Name a parametrised test by its case."""
    prefix = "hard_" if path.parent.name == "hard" else ""
    return prefix + (path.stem if path.is_file() else path.name)


# --- what each case says of itself ------------------------------------------------------------


@pytest.mark.parametrize("path", JUDGED, ids=name_of)
def test_findings_are_those_marked(path: Path, findings_of) -> None:
    text = path.read_text(encoding="utf-8")
    expected = markers(text)
    assert reduced(of_findings(findings_of(text)), expected) == expected


@pytest.fixture(scope="module")
def fixed_once(run_command, tmp_path_factory) -> Path:
    """Return a folder with every case after one `fix --write`."""
    folder = tmp_path_factory.mktemp("fixed")
    for path in CASES:
        shutil.copyfile(path, folder / path.name)
    result = run_command("fix", "--write", *PLAIN, ".", cwd=folder)
    assert result.returncode in (0, 1), result.stderr.decode(errors="replace")
    return folder


@pytest.mark.parametrize("path", JUDGED, ids=name_of)
def test_fix_makes_the_twin(path: Path, fixed_once: Path) -> None:
    twin = path.with_suffix(".fixed.py")
    expected = twin if twin.exists() else path
    assert (fixed_once / path.name).read_text(encoding="utf-8") == expected.read_text(
        encoding="utf-8"
    )


def test_every_twin_has_its_case() -> None:
    twins = {path for path in FILES if path.name.endswith(".fixed.py")}
    assert twins <= {path.with_suffix(".fixed.py") for path in CASES}


# --- what holds for every case ----------------------------------------------------------------


def test_fixing_twice_changes_nothing(run_command, fixed_once: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(fixed_once, tmp_path / "again")
    run_command("fix", "--write", *PLAIN, ".", cwd=folder)
    changed = [
        path.name
        for path in CASES
        if (folder / path.name).read_bytes() != (fixed_once / path.name).read_bytes()
    ]
    assert changed == []


def test_fixes_remove_findings_and_add_none(findings_of, fixed_once: Path) -> None:
    for path in CASES:
        before = Counter(finding.code for finding in findings_of(path.read_text(encoding="utf-8")))
        fixed = (fixed_once / path.name).read_text(encoding="utf-8")
        after = Counter(finding.code for finding in findings_of(fixed))
        assert after <= before, path.name


@pytest.fixture(scope="module")
def reports(run_command, tmp_path_factory) -> dict[str, list[dict[str, Any]]]:
    """The findings of every case, by file name, as the command reports them."""
    folder = tmp_path_factory.mktemp("plain")
    for path in CASES:
        shutil.copyfile(path, folder / path.name)
    return by_path(check_json(run_command, folder))


def test_command_and_engine_agree(findings_of, reports) -> None:
    for path in CASES:
        findings = findings_of(path.read_text(encoding="utf-8"))
        assert of_report(reports.get(path.name, [])) == of_findings(findings), path.name


def test_crlf_files_give_the_same_lines(run_command, reports, tmp_path: Path) -> None:
    for path in CASES:
        (tmp_path / path.name).write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    crlf = by_path(check_json(run_command, tmp_path))
    for path in CASES:
        assert of_report(crlf.get(path.name, [])) == of_report(reports.get(path.name, [])), (
            path.name
        )


def test_crlf_files_keep_their_line_endings_when_fixed(
    run_command, fixed_once: Path, tmp_path: Path
) -> None:
    for path in CASES:
        (tmp_path / path.name).write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    run_command("fix", "--write", *PLAIN, ".", cwd=tmp_path)
    for path in CASES:
        expected = (fixed_once / path.name).read_bytes().replace(b"\n", b"\r\n")
        assert (tmp_path / path.name).read_bytes() == expected, path.name


def with_comment_above(text: str, finding: Finding) -> str:
    """Silence a finding by a comment of its own above its statement."""
    lines = text.split("\n")
    first = finding.statement[0] - 1
    indent = lines[first][: len(lines[first]) - len(lines[first].lstrip())]
    return "\n".join(
        [*lines[:first], f"{indent}# devicelint: ignore[{finding.code}] a test", *lines[first:]]
    )


def test_an_ignore_comment_silences_its_statement_alone(
    run_command, findings_of, tmp_path: Path
) -> None:
    expected: dict[str, list[Expected]] = {}
    for path in CASES:
        text = path.read_text(encoding="utf-8")
        findings = findings_of(text)
        for number, silenced in enumerate(findings):
            name = f"{path.stem}_{number}.py"
            (tmp_path / name).write_text(with_comment_above(text, silenced), encoding="utf-8")
            rest = (
                finding
                for finding in findings
                if (finding.statement, finding.code) != (silenced.statement, silenced.code)
            )
            expected[name] = sorted(
                Expected(item.line + (item.line >= silenced.statement[0]), item.code, item.sink)
                for item in of_findings(rest)
            )
    assert expected
    found = by_path(check_json(run_command, tmp_path))
    for name, remaining in expected.items():
        assert of_report(found.get(name, [])) == remaining, name


# --- projects ---------------------------------------------------------------------------------


@pytest.mark.parametrize("project", PROJECTS, ids=name_of)
def test_project_findings_are_those_marked(project: Path, run_command) -> None:
    found = by_path(check_json(run_command, project))
    for path in sorted(project.rglob("*.py")):
        name = path.relative_to(project).as_posix()
        expected = markers(path.read_text(encoding="utf-8"))
        assert reduced(of_report(found.get(name, [])), expected) == expected, name


@pytest.mark.parametrize(
    "module",
    [
        "relative_base/net/model.py",
        "reexport/kit/models.py",
        "star_import/zoo/model.py",
        "lookalike/own/stage.py",
    ],
)
def test_one_file_of_a_project_is_judged_alike(module: str, run_command) -> None:
    project, _, name = module.partition("/")
    folder = FIXTURES / "projects" / project
    expected = markers((folder / name).read_text(encoding="utf-8"))
    found = by_path(check_json(run_command, folder, name))
    assert set(found) <= {name}
    assert reduced(of_report(found.get(name, [])), expected) == expected


# --- files that are awkward to read -----------------------------------------------------------

BROKEN = FIXTURES / "broken"
#: file -> the line of its one DVL001 finding, or None where it holds nothing to find
READABLE = {
    "bom.py": 8,
    "crlf.py": 8,
    "empty.py": None,
    "form_feed.py": 8,
    "latin1_cookie.py": 10,
    "no_final_newline.py": 8,
    "tabs.py": 8,
}
#: file -> the line that the diagnostic names, 0 for the file as a whole, None for either
UNREADABLE = {
    "latin1_without_cookie.py": None,
    "nul.py": None,
    "syntax_error.py": 8,
    "unknown_cookie.py": None,
}
#: files on which a parser's limits may be met: found or told, but never lost
DEEP = ("deep_chain.py", "deep_parentheses.py", "deep_sum.py")


@pytest.fixture(scope="module")
def broken_run(run_command, tmp_path_factory) -> subprocess.CompletedProcess[bytes]:
    """One run over all of `broken/` and a file of 5 MB."""
    folder = tmp_path_factory.mktemp("broken")
    shutil.copytree(BROKEN, folder, dirs_exist_ok=True)
    model = (BROKEN / "no_final_newline.py").read_text(encoding="utf-8")
    padding = '\n"""' + ("a line of a long text, torch.zeros among them\n" * 110_000) + '"""\n'
    assert len(padding) > 5_000_000
    (folder / "large.py").write_text(model + padding, encoding="utf-8")
    return run_command("check", *PLAIN, "--output-format", "json", ".", cwd=folder)


def test_every_broken_file_is_placed() -> None:
    names = {path.name for path in BROKEN.glob("*.py")}
    assert names == {*READABLE, *UNREADABLE, *DEEP}


def test_broken_files_end_the_run_with_2(broken_run) -> None:
    assert broken_run.returncode == 2
    assert b"Traceback" not in broken_run.stderr


@pytest.mark.parametrize(("name", "line"), [*READABLE.items(), ("large.py", 8)])
def test_readable_file(name: str, line: int | None, broken_run) -> None:
    report = parsed(broken_run)
    expected = [] if line is None else [Expected(line, "DVL001", "attribute")]
    assert of_report(by_path(report).get(name, [])) == expected
    assert name not in {error["path"] for error in report["errors"]}


@pytest.mark.parametrize(("name", "line"), UNREADABLE.items())
def test_unreadable_file_is_told(name: str, line: int | None, broken_run) -> None:
    report = parsed(broken_run)
    errors = [error for error in report["errors"] if error["path"] == name]
    assert len(errors) == 1
    assert errors[0]["message"]
    assert line is None or errors[0]["line"] == line
    assert name not in by_path(report)


@pytest.mark.parametrize("name", DEEP)
def test_deep_file_is_not_lost(name: str, broken_run) -> None:
    report = parsed(broken_run)
    found = by_path(report).get(name, [])
    told = [error for error in report["errors"] if error["path"] == name]
    assert of_report(found) == [Expected(8, "DVL001", "attribute")] or told


def test_readable_files_keep_their_bytes_when_fixed(run_command, tmp_path: Path) -> None:
    for name in READABLE:
        shutil.copyfile(BROKEN / name, tmp_path / name)
    result = run_command("fix", "--write", *PLAIN, ".", cwd=tmp_path)
    assert result.returncode in (0, 1), result.stderr.decode(errors="replace")
    for name, line in READABLE.items():
        before = (BROKEN / name).read_bytes()
        inserted = b"torch.zeros(size, device=torch.cuda.current_device())"
        expected = before.replace(b"torch.zeros(size)", inserted)
        assert (expected != before) == (line is not None)
        assert (tmp_path / name).read_bytes() == expected, name
