"""The formats for programs: each read back by its consumer's own schema, parser or grammar.

In: runs over files with names, texts and layouts that are hard to get right.  Out: tests.  Never
here: the formats for people.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote

import jsonschema
import junitparser
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from sarif_kit.validate import validation_errors

from devicelint import runner
from devicelint.model import Diagnostic, FileReport, Finding, RunReport, Severity
from devicelint.reporters import FORMATS, github, job_summary
from devicelint.reporters.layout import Layout
from devicelint.rules import RULES
from devicelint.settings import Settings

ROOT = Path(__file__).resolve().parent.parent

MODEL = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, n, device):
        super().__init__()
        self.é = "数𝔸", torch.zeros(n)
        self.wide = torch.arange(
\t\t"数", n,\t# a tab
        )
        self.met = torch.outer(torch.arange(n), torch.ones(3))
        self.meant = torch.zeros(n)  # devicelint: ignore[DVL001] read on the CPU
        self.register_buffer("b", torch.arange(n))
        self.old = torch.Tensor(3)
"""
BROKEN = "import torch\nfrom torch import nn\ndef f(:\n    torch.zeros(3)\n"
NAMES = (
    "plain.py",
    "a b/c,d.py",
    "a:b/100%41.py",
    "é/数.py",
    "odd=name::error::.py",
    "new\nline.py",
    '<&">|`.py',
)

LAYOUT = Layout(cwd="/repo/sub", root="/repo")


def check(folder: Path, **files: str) -> RunReport:
    """Run over files that are written into a folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return runner.check(runner.Request(folder), Settings(root=folder))


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> FileReport:
    """What is found in `MODEL`."""
    run = check(tmp_path_factory.mktemp("model"), **{"model.py": MODEL})
    (report,) = run.files
    assert len(report.findings) == 6 and len(report.suppressed) == 1
    return report


@pytest.fixture(
    scope="module",
    params=["findings", "names", "nothing", "no files", "problems", "both", "many", "known"],
)
def run(request: pytest.FixtureRequest, findings: FileReport) -> RunReport:
    """Runs of every kind."""
    problems = (
        Diagnostic("b c.py", 3, 7, "syntax error: invalid syntax"),
        Diagnostic("b c.py", 0, 0, "not read: 50% of\nit, & <more>", "Traceback"),
    )
    broken = FileReport("b c.py", diagnostics=problems)
    return {
        "findings": RunReport((findings,), 1),
        "names": RunReport(tuple(replace(findings, path=name) for name in NAMES), len(NAMES)),
        "nothing": RunReport((), 3),
        "no files": RunReport((), 0),
        "problems": RunReport((broken,), 1),
        "both": RunReport((broken, findings), 2),
        "many": RunReport(tuple(replace(findings, path=f"{n}.py") for n in range(40)), 40),
        "known": RunReport(
            (FileReport("known.py", suppressed=findings.suppressed, baselined=findings.findings),),
            1,
        ),
    }[request.param]


def slice_of(text: str, start: tuple[int, int], end: tuple[int, int]) -> str:
    """Give the text between two places, lines and columns from 1, in units of the text."""
    lines = text.split("\n")[start[0] - 1 : end[0]]
    lines[-1] = lines[-1][: end[1] - 1]
    lines[0] = lines[0][start[1] - 1 :]
    return "\n".join(lines)


# SARIF -------------------------------------------------------------------------------------------


def sarif(run: RunReport, name: str = "sarif") -> dict:
    log = json.loads(FORMATS[name](run, LAYOUT))
    assert validation_errors(log) == []
    return log["runs"][0]


@pytest.mark.parametrize("name", ["sarif", "code-scanning"])
def test_sarif_is_valid(run: RunReport, name: str) -> None:
    log = sarif(run, name)
    found = [f for report in run.files for f in report.findings]
    silent = [f for report in run.files for f in (*report.suppressed, *report.baselined)]
    expected = found + silent if name == "sarif" else found
    assert len(log["results"]) == len(expected)
    (invocation,) = log["invocations"]
    notes = invocation["toolExecutionNotifications"]
    assert len(notes) == len(run.diagnostics)
    assert invocation["executionSuccessful"] is not bool(notes)
    assert log["columnKind"] == "unicodeCodePoints"


def test_sarif_rules_are_documented(findings: FileReport) -> None:
    log = sarif(RunReport((findings,), 1))
    rules = log["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == [rule.code for rule in RULES]
    for rule in rules:
        assert rule["helpUri"].startswith("https://") and rule["id"] in rule["helpUri"]
        assert rule["help"]["markdown"].startswith(rule["fullDescription"]["text"])
        assert rule["name"].isidentifier()
    for result in log["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]


def test_sarif_paths_are_from_the_root_and_encoded(findings: FileReport) -> None:
    paths = (*NAMES, "/repo/other/x y.py", "/elsewhere/x y.py", "C:/x y.py")
    log = sarif(RunReport(tuple(replace(findings, path=path) for path in paths), 1))
    files = {
        json.dumps(result["locations"][0]["physicalLocation"]["artifactLocation"]): None
        for result in log["results"]
    }
    decoded = []
    for file in map(json.loads, files):
        assert re.fullmatch(r"[A-Za-z0-9%._~/-]+|file:///([A-Z]:)?[A-Za-z0-9%._~/-]+", file["uri"])
        assert ("uriBaseId" in file) is not file["uri"].startswith("file:")
        decoded.append(unquote(file["uri"]))
    expected = {f"sub/{name}" for name in NAMES}
    assert set(decoded) == expected | {
        "other/x y.py",
        "file:///elsewhere/x y.py",
        "file:///C:/x y.py",
    }


def test_sarif_suppressions(findings: FileReport) -> None:
    both = replace(findings, baselined=findings.findings[:2], findings=findings.findings[2:])
    log = sarif(RunReport((both,), 1))
    kinds = Counter(
        (*(s["kind"] for s in result.get("suppressions", ())),) for result in log["results"]
    )
    assert kinds == {(): 4, ("inSource",): 1, ("external",): 2}


def test_sarif_fingerprints_are_our_own(findings: FileReport) -> None:
    log = sarif(RunReport((findings,), 1))
    prints = [result["partialFingerprints"] for result in log["results"]]
    assert all([*one] == ["deviceLintFingerprint/v1"] for one in prints)
    assert len({one["deviceLintFingerprint/v1"] for one in prints}) == len(prints)


def test_sarif_regions_are_code_points(findings: FileReport) -> None:
    for result in sarif(RunReport((findings,), 1))["results"]:
        region = result["locations"][0]["physicalLocation"]["region"]
        text = slice_of(MODEL, *places(region))
        assert text == region["snippet"]["text"]
        assert re.match(r"torch\.\w+\(", text) and text.endswith(")")


def places(region: dict) -> tuple[tuple[int, int], tuple[int, int]]:
    return (
        (region["startLine"], region["startColumn"]),
        (region["endLine"], region["endColumn"]),
    )


def offset_of(text: str, place: tuple[int, int]) -> int:
    return sum(len(line) + 1 for line in text.split("\n")[: place[0] - 1]) + place[1] - 1


def test_sarif_fixes_do_what_fix_does(findings: FileReport) -> None:
    """Each fix stands for itself: those that must come together are together."""
    by_line = {}
    for result in sarif(RunReport((findings,), 1))["results"]:
        text = MODEL
        (fix,) = result["fixes"]
        (change,) = fix["artifactChanges"]
        for edit in reversed(change["replacements"]):
            start, end = (offset_of(text, place) for place in places(edit["deletedRegion"]))
            text = text[:start] + edit["insertedContent"]["text"] + text[end:]
        line = result["locations"][0]["physicalLocation"]["region"]["startLine"]
        by_line.setdefault(line, set()).add(text)
    assert all(len(texts) == 1 for texts in by_line.values())
    (met,) = by_line[12]
    assert "torch.outer(torch.arange(n, device=device), torch.ones(3, device=device))" in met
    (wide,) = by_line[9]
    assert '"数", n, device=device,\t# a tab\n' in wide


# GitHub ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Command:
    """A workflow command as the runner reads it."""

    name: str
    properties: dict[str, str]
    message: str


def parse_command(line: str) -> Command | None:
    """Read a line of a log as the runner of GitHub Actions does (`ActionCommand.TryParseV2`)."""
    line = line.lstrip()
    end = line.find("::", 2)
    if not line.startswith("::") or end < 0:
        return None
    name, _, words = line[2:end].partition(" ")
    properties = {}
    for word in filter(None, words.strip().split(",")):
        key, equals, value = word.partition("=")
        if equals:
            properties[key] = unescaped(value, "%0D%0A%3A%2C%25")
    return Command(name, properties, unescaped(line[end + 2 :], "%0D%0A%25"))


def unescaped(text: str, codes: str) -> str:
    for code in re.findall("%..", codes):  # the percent sign comes last
        text = text.replace(code, unquote(code))
    return text


TEXT = st.text(st.characters(exclude_categories=["Cs"])) | st.text("%0123456789ADC:,=\r\n ")


@given(TEXT, TEXT, TEXT)
def test_commands_are_read_back(title: str, file: str, message: str) -> None:
    spelt = github.command("warning", message, {"title": title, "file": file, "line": 3})
    assert not {"\r", "\n"} & set(spelt)
    expected = {"title": title, "file": file, "line": "3"}
    # The runner strips the properties as a whole, and takes none without a value.
    read = parse_command(spelt)
    assert read is not None
    assert read.message == message
    assert read.properties == expected


def commands_of(text: str) -> tuple[list[Command], list[str]]:
    """Obey a log as the runner does: its commands, and the lines that are only shown."""
    commands, shown, pause = [], [], None
    for line in text.removesuffix("\n").split("\n"):
        command = parse_command(line)
        if pause is not None:
            if command and command.name == pause:
                pause = None
            else:
                shown.append(line)
        elif command is None:
            # The runner's old syntax is found anywhere in a line.
            assert "##[" not in line
            shown.append(line)
        elif command.name == "stop-commands":
            pause = command.message
        else:
            commands.append(command)
    assert pause is None
    return commands, shown


def annotations_of(run: RunReport) -> list[Command]:
    commands, _ = commands_of(FORMATS["github"](run, LAYOUT))
    return [one for one in commands if one.name not in ("group", "endgroup")]


def test_github_keeps_to_the_limits(run: RunReport) -> None:
    annotations = annotations_of(run)
    levels = Counter(one.name for one in annotations)
    assert set(levels) <= {"error", "warning", "notice"}
    assert max(levels.values(), default=0) <= github.LIMIT
    told = len(run.findings) + len(run.diagnostics)
    left = [one for one in annotations if one.properties == {"title": "devicelint"}]
    if len(left) == 0:
        assert len(annotations) == told
    else:
        assert left == annotations[-1:]
        more = int(left[0].message.split()[0].replace(",", ""))
        assert more == told - len(annotations) + 1


def test_github_log_has_everything(run: RunReport) -> None:
    commands, shown = commands_of(FORMATS["github"](run, LAYOUT))
    told = len(run.findings) + len(run.diagnostics)
    # The last line counts them.
    assert len(shown) == told + 1
    assert [one.name for one in commands[:2]] == (["group", "endgroup"] if told else [])
    assert shown[-1].startswith("Found" if run.findings else "No findings")


def test_github_worst_come_first(findings: FileReport) -> None:
    """Ten notes before them in the file do not push the errors out."""
    note = next(f for f in findings.findings if f.severity is Severity.NOTE)
    error = next(f for f in findings.findings if f.severity is Severity.ERROR)
    files = [FileReport(f"{n:02}.py", (note,)) for n in range(30)]
    files += [FileReport(f"x{n:02}.py", (error,)) for n in range(12)]
    problem = Diagnostic("z.py", 1, 1, "syntax error")
    files.append(FileReport("z.py", diagnostics=(problem,)))
    annotations = annotations_of(RunReport(tuple(files), 42))
    assert [one.name for one in annotations] == ["error"] * 10 + ["notice"] * 10
    assert annotations[0].properties["file"] == "sub/z.py"
    assert annotations[1].properties["file"] == "sub/x00.py"
    assert annotations[-1].message.startswith("24 more")


def test_github_places(findings: FileReport) -> None:
    for name in NAMES:
        for one in annotations_of(RunReport((replace(findings, path=name),), 1)):
            assert one.properties["file"] == f"sub/{name}"
            start, end = int(one.properties["line"]), int(one.properties["endLine"])
            if start != end:
                assert not {"col", "endColumn"} & set(one.properties)
                continue
            columns = int(one.properties["col"]), int(one.properties["endColumn"])
            call = slice_of(MODEL, (start, columns[0]), (end, columns[1]))
            assert re.fullmatch(r"torch\.\w+\(.*\)", call)


@pytest.mark.parametrize(
    "text", ["::error::x", "##[error]x", "::stop-commands::x", "a\n::error::x"]
)
def test_no_source_gives_orders(findings: FileReport, text: str) -> None:
    evil = tuple(replace(f, message=text, advice=text) for f in findings.findings)
    annotations = annotations_of(RunReport((FileReport(text, evil),), 1))
    assert len(annotations) == len(evil)
    assert all(
        one.properties["title"] == f"devicelint ({f.code})"
        for one, f in zip(annotations, sorted_worst(evil), strict=True)
    )


def sorted_worst(findings: tuple[Finding, ...]) -> list[Finding]:
    ranks = [*Severity]
    return sorted(findings, key=lambda f: (ranks.index(f.severity), f.start.offset))


def test_job_summary(run: RunReport) -> None:
    text = job_summary.render(run, replace(LAYOUT, web="https://github.com/o/r/blob/abc/"))
    assert text.startswith("## devicelint\n\n") and text.endswith("\n")
    assert len(text.encode()) < 100_000
    tables = re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE)
    assert len(tables) == 2 * bool(run.findings) + bool(run.diagnostics)
    for table in tables:
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(widths) == 1
    for code in {finding.code for _, finding in run.findings}:
        assert f"| [{code}](https://" in text
    if "a b/c,d.py" in {path for path, _ in run.findings}:
        assert "](https://github.com/o/r/blob/abc/sub/a%20b/c%2Cd.py#L8)" in text


# GitLab ------------------------------------------------------------------------------------------


def schema(name: str) -> dict:
    return json.loads((ROOT / "tests" / "schemas" / f"{name}.json").read_text("utf-8"))


def test_gitlab_is_valid(run: RunReport) -> None:
    issues = json.loads(FORMATS["gitlab"](run, LAYOUT))
    jsonschema.validate(issues, schema("gitlab"))
    assert len(issues) == len(run.findings) + len(run.diagnostics)
    assert len({issue["fingerprint"] for issue in issues}) == len(issues)
    assert all(issue["location"]["path"].startswith("sub/") for issue in issues)
    for issue in issues:
        assert issue["check_name"] == "cannot-check" or issue["check_name"] in issue["description"]


def test_gitlab_fingerprints_stay(findings: FileReport, tmp_path: Path) -> None:
    moved = MODEL.replace("class Model", "x = 1\n\n\nclass Model")
    (report,) = check(tmp_path, **{"model.py": moved}).files
    before, after = (
        [
            issue["fingerprint"]
            for issue in json.loads(FORMATS["gitlab"](RunReport((one,), 1), LAYOUT))
        ]
        for one in (findings, report)
    )
    assert before == after


# JUnit -------------------------------------------------------------------------------------------

#: What the schema of Jenkins allows: attributes and children of each element.
JUNIT = {
    "testsuites": ({"name", "tests", "failures", "errors"}, {"testsuite"}),
    "testsuite": ({"name", "tests", "failures", "errors"}, {"testcase"}),
    "testcase": ({"name", "classname"}, {"failure", "error"}),
    "failure": ({"type", "message"}, set()),
    "error": ({"type", "message"}, set()),
}


def test_junit_is_valid(run: RunReport) -> None:
    text = FORMATS["junit"](run, LAYOUT)
    assert text.isascii()
    document = junitparser.JUnitXml.fromstring(text.encode())
    problems, failures = len(run.diagnostics), len(run.findings)
    assert (document.failures, document.errors) == (failures, problems)
    assert document.tests == max(1, failures + problems)
    cases = [case for suite in document for case in suite]
    assert len(cases) == document.tests
    assert sum(case.is_failure for case in cases) == failures
    assert sum(case.is_error for case in cases) == problems
    assert sum(case.is_passed for case in cases) == (0 if failures + problems else 1)
    from xml.etree import ElementTree

    for element in ElementTree.fromstring(text).iter():
        attributes, children = JUNIT[element.tag]
        assert set(element.attrib) <= attributes
        assert {child.tag for child in element} <= children


@pytest.mark.parametrize(
    "text", ["\x00\x1b[31m", "\ud800", "\ufffe", "]]><x a='b'>&amp;\"", "a\tb\n"]
)
def test_junit_of_odd_text(findings: FileReport, text: str) -> None:
    odd = tuple(replace(finding, message=text) for finding in findings.findings)
    xml = FORMATS["junit"](RunReport((FileReport(text, odd),), 1), LAYOUT)
    (suite,) = junitparser.JUnitXml.fromstring(xml.encode())
    assert len([*suite]) == len(odd)


# reviewdog ---------------------------------------------------------------------------------------


def test_rdjson_is_valid(run: RunReport) -> None:
    document = json.loads(FORMATS["rdjson"](run, LAYOUT))
    jsonschema.validate(document, schema("rdjson"))
    assert len(document["diagnostics"]) == len(run.findings) + len(run.diagnostics)


def test_rdjsonl_is_valid(run: RunReport) -> None:
    lines = FORMATS["rdjsonl"](run, LAYOUT).splitlines()
    whole = schema("rdjson")
    line_schema = {**whole["$defs"]["diagnostic"], "$defs": whole["$defs"]}
    document = json.loads(FORMATS["rdjson"](run, LAYOUT))
    for line, entry in zip(map(json.loads, lines), document["diagnostics"], strict=True):
        jsonschema.validate(line, line_schema)
        assert line == {**entry, "source": document["source"]}


def test_rdjson_columns_are_bytes(findings: FileReport) -> None:
    # In Latin-1 a column counts bytes.
    text = MODEL.encode().decode("latin-1")
    document = json.loads(FORMATS["rdjson"](RunReport((findings,), 1), LAYOUT))
    for entry, finding in zip(document["diagnostics"], findings.findings, strict=True):
        call = slice_of(text, *range_of(entry["location"]["range"]))
        assert re.match(r"torch\.\w+\(", call) and call.endswith(")")
        # One of a pair that must be fixed together is no suggestion.
        assert ("suggestions" in entry) is not bool(finding.group)
        for suggestion in entry.get("suggestions", ()):
            start, end = (offset_of(text, place) for place in range_of(suggestion["range"]))
            new = suggestion["text"].encode().decode("latin-1")
            fixed = (text[:start] + new + text[end:]).encode("latin-1").decode()
            assert fixed != MODEL and "device=device" in fixed
            compile(fixed, "fixed", "exec")


def range_of(value: dict) -> tuple[tuple[int, int], tuple[int, int]]:
    return (
        (value["start"]["line"], value["start"]["column"]),
        (value["end"]["line"], value["end"]["column"]),
    )


def test_two_edits_become_one_suggestion(findings: FileReport) -> None:
    (old,) = (f for f in findings.findings if f.code == "DVL007")
    assert old.fix is not None and len(old.fix.edits) == 2
    document = json.loads(FORMATS["rdjson"](RunReport((FileReport("a.py", (old,)),), 1), LAYOUT))
    (suggestion,) = document["diagnostics"][0]["suggestions"]
    assert suggestion["text"].count("(3") == 1
    assert suggestion["text"].startswith("torch.empty") or "empty" in suggestion["text"]


@pytest.mark.parametrize("format_", ["rdjson", "rdjsonl"])
def test_no_unsafe_fix_is_a_suggestion(format_: str) -> None:
    # Another device draws other numbers.
    source = MODEL.replace("zeros", "rand").encode()
    run = runner.check(runner.Request(ROOT, stdin=source), Settings(select=("DVL001", "DVL003")))
    drawn, *_, kept = (finding for _, finding in run.findings)
    assert (drawn.callable, kept.callable) == ("torch.rand", "torch.arange")
    assert drawn.fix is not None and drawn.fix.edits
    text = FORMATS[format_](run, LAYOUT)
    lines = [json.loads(line) for line in text.splitlines()] if format_ == "rdjsonl" else None
    first, *_, last = lines or json.loads(text)["diagnostics"]
    assert "suggestions" not in first and first["message"] == drawn.message
    assert last["suggestions"]


# JSON lines --------------------------------------------------------------------------------------


def test_json_lines(run: RunReport) -> None:
    text = FORMATS["json-lines"](run, LAYOUT)
    assert text.isascii()
    lines = [json.loads(line) for line in text.splitlines()]
    whole = json.loads(FORMATS["json"](run, LAYOUT))
    assert [line for line in lines if line["code"]] == whole["findings"]
    assert [line for line in lines if not line["code"]] == [
        {"code": None, **error} for error in whole["errors"]
    ]


@pytest.mark.parametrize("name", FORMATS)
def test_formats_are_the_same_twice(run: RunReport, name: str) -> None:
    render: Callable[[RunReport, Layout], str] = FORMATS[name]
    assert render(run, LAYOUT) == render(run, LAYOUT)


def test_readme_names_every_format() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    _, _, rest = readme.partition("| format | for |\n|---|---|\n")
    rows = rest.partition("\n\n")[0].splitlines()
    named = [name for row in rows for name in re.findall(r"`([a-z-]+)`", row.split("|")[1])]
    assert named == [*FORMATS]


# Files for services ------------------------------------------------------------------------------

VALIDATIONS = (
    ("-m", "check_jsonschema", "--builtin-schema", "vendor.github-actions", "action.yml"),
    (
        *("-m", "check_jsonschema", "--builtin-schema", "vendor.gitlab-ci"),
        *("--data-transform", "gitlab-ci", "templates/gitlab-ci.yml"),
    ),
    ("-m", "pre_commit", "validate-manifest", ".pre-commit-hooks.yaml"),
)


@pytest.mark.parametrize("command", VALIDATIONS, ids=lambda command: command[-1])
def test_file_is_what_its_service_expects(command: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}


def test_action_puts_no_input_into_a_script() -> None:
    scripts = [step["run"] for step in STEPS.values() if "run" in step]
    assert len(scripts) == 3
    assert not any("${{" in script for script in scripts)


def step(name: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a step of the action as the runner does."""
    assert set(STEPS[name]["env"]) <= set(variables)
    names = ("PATH", "HOME", "SYSTEMROOT")
    inherited = {name: os.environ[name] for name in names if name in os.environ}
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEPS[name]["run"]],
        cwd=cwd,
        env={**inherited, "PYTHONPATH": str(ROOT), **variables},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


@pytest.mark.skipif(os.name == "nt", reason="needs bash")
@pytest.mark.parametrize(
    ("args", "paths", "code"),
    [
        ("", ".", "1"),
        ("--select=DVL005\n\n--isolated", ".\n", "0"),
        ("--select\nDVL001", "a b\nplain.py\n", "1"),
        ("", "; touch evil", "2"),
        ("--no-such-option", ".", "2"),
    ],
)
def test_steps_of_the_action(tmp_path: Path, args: str, paths: str, code: str) -> None:
    repository, temporary = tmp_path / "repository", tmp_path / "temporary"
    temporary.mkdir()
    for name in ("a b/model.py", "plain.py"):
        path = repository / "sub" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(MODEL, encoding="utf-8")
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m devicelint "$@"\n')
    program.chmod(0o755)
    variables = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "GITHUB_SERVER_URL": "https://github.com",
        "GITHUB_REPOSITORY": "owner/name",
        "GITHUB_SHA": "abc",
        "RUNNER_TEMP": str(temporary),
    }
    done = step(
        "Check", repository / "sub", PROGRAM=str(program), ARGS=args, PATHS=paths, **variables
    )
    assert done.returncode == 0, done.stderr
    outputs = dict(
        line.split("=", 1) for line in (tmp_path / "output").read_text("utf-8").splitlines()
    )
    assert outputs["exit-code"] == code
    assert not (repository / "sub" / "evil").exists()
    for fail in ("true", "false"):
        result = step("Result", repository, CODE=code, FAIL=fail).returncode
        assert result == (0 if code == "1" and fail == "false" else int(code))
    if args == "--no-such-option":
        assert "sarif-file" not in outputs
        return
    commands, _ = commands_of(done.stdout)
    files = {one.properties.get("file") for one in commands} - {None}
    log = json.loads(Path(outputs["sarif-file"]).read_text("utf-8"))
    assert validation_errors(log) == []
    results = log["runs"][0]["results"]
    assert not any("suppressions" in result for result in results)
    if code == "1":
        assert files == {"sub/a b/model.py", "sub/plain.py"}
        uris = {
            result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
            for result in results
        }
        assert uris == {"sub/a%20b/model.py", "sub/plain.py"}
        summary = (tmp_path / "summary.md").read_text("utf-8")
        assert "https://github.com/owner/name/blob/abc/sub/a%20b/model.py#L8" in summary
