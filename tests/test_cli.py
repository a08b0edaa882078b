"""The command line: exit codes, streams, options, and what is loaded for them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from devicelint import cli, runner, selection
from devicelint.config import load_settings
from devicelint.files import ChangedOnDisk
from devicelint.fixer import FixResult
from devicelint.options import OPTIONS
from devicelint.reporters import FORMATS
from devicelint.rules import RULES

FOUND = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, n, device):
        super().__init__()
        self.é = "数", torch.zeros(n)
        self.register_buffer("b", torch.arange(n))
"""
FIXED = FOUND.replace("(n)\n", "(n, device=device)\n").replace("(n))", "(n, device=device))")
CLEAN = "x = 1\n"
BROKEN = "import torch\nfrom torch import nn\ndef f(:\n    torch.zeros(3)\n"


@dataclass(frozen=True)
class Result:
    """What a command line led to."""

    code: int
    out: str
    err: str


def run(*args: str, stdin: str | bytes = b"", env: dict[str, str] | None = None) -> Result:
    """Run a command line in this process."""
    clean = {"NO_COLOR": None, "FORCE_COLOR": None, **(env or {})}
    with CliRunner().isolation(input=stdin, env=clean) as streams:
        code = cli.main([*args])
        out, err = (stream.getvalue().decode() for stream in streams[:2])
    return Result(code, out, err)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def put(name: str, text: str | bytes) -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


# Exit codes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "args", "code"),
    [
        ({}, [], 0),
        ({"a.py": CLEAN}, [], 0),
        ({"a.py": FOUND}, [], 1),
        ({"a.py": FOUND}, ["--exit-zero"], 0),
        ({"a.py": FOUND}, ["--ignore", "DVL001,DVL003"], 0),
        ({"a.py": FOUND}, ["--select", "DVL001"], 1),
        ({"a.py": FOUND}, ["--select", "attribute-without-device", "--ignore", "DVL001"], 0),
        ({"a.py": FOUND}, ["--select", "DVL005"], 0),
        ({"a.py": FOUND}, ["--select", "DVL005", "--extend-select", "DVL003"], 1),
        ({"a.py": FOUND}, ["--select", "DVL003", "--min-severity", "warning"], 0),
        ({"a.py": FOUND}, ["--exclude", "a.py"], 0),
        ({"a.py": FOUND}, ["--extend-exclude", "*.py"], 0),
        ({"a.py": FOUND}, ["--exclude", "a.py", "a.py"], 1),
        ({"a.py": FOUND}, ["--exclude", "a.py", "--force-exclude", "a.py"], 0),
        ({"a.py": FOUND, "b.py": BROKEN}, [], 2),
        ({"a.py": FOUND, "b.py": BROKEN}, ["--exit-zero"], 0),
        ({"a.py": FOUND}, ["--exit-zero", "a.py", "gone.py"], 0),
        ({"a.py": FOUND}, ["--exit-zero", "--select", "DVL999"], 2),
        ({"a.py": FOUND, "devicelint.toml": "no = 1"}, ["--exit-zero"], 2),
        ({"b.py": BROKEN}, [], 2),
        ({"b.py": BROKEN}, ["a.py"], 2),
        ({"script": FOUND}, [], 0),
        ({"script": FOUND}, ["script"], 1),
        ({"a.ipynb": '{"cells": []}'}, ["a.ipynb"], 0),
        ({"a.py": FOUND}, ["--no-cache", "--cache-dir", "c", "--jobs", "1"], 1),
    ],
)
def test_exit_code_of_check(files: dict[str, str], args: list[str], code: int) -> None:
    for name, text in files.items():
        put(name, text)
    result = run("check", *args)
    assert result.code == code, result


@pytest.mark.parametrize(
    "args",
    [
        ["check", "--no-such-option"],
        ["check", "--select", "DVL999"],
        ["check", "--select", "bufer-without-device"],
        ["check", "--select", ""],
        ["fix", "--select", ", "],
        ["check", "--min-severity", "fatal"],
        ["check", "--output-format", "xml"],
        ["check", "--color", "blue"],
        ["check", "--jobs", "0"],
        ["check", "--config", "no = 'such key'"],
        ["check", "--config", "no-such-file.toml"],
        ["check", "-", "a.py"],
        ["check", "--stdin-filename", "a.py"],
        ["check", "--output-file", "no/such/folder"],
        ["check", "--output-file", "."],
        ["fix", "-", "--write"],
        ["explain", "DVL999"],
        ["explain"],
        ["chek"],
        ["config", "--config", "x"],
    ],
)
def test_wrong_words_are_one_line_and_exit_2(args: list[str]) -> None:
    result = run(*args)
    assert (result.code, result.out) == (2, "")
    assert re.fullmatch(r"devicelint: [^\n]+\n", result.err)


def test_bad_configuration_file() -> None:
    put("devicelint.toml", "selct = ['DVL001']\n")
    result = run("check")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("devicelint: devicelint.toml: ")
    assert '"select"' in result.err
    assert run("check", "--isolated").code == 0


@pytest.mark.parametrize(
    ("text", "args", "select", "ignore"),
    [
        ("", ["--ignore", "ALL"], "default", "command line"),
        ("", ["--select", "DVL001", "--ignore", "DVL001"], "command line", "command line"),
        ("", ["--config", "select = []"], "--config 'select = []'", "default"),
        ("select = []", [], "devicelint.toml", "default"),
        ("ignore = ['DVL']", [], "default", "devicelint.toml"),
        ("select = ['DVL001']", ["--ignore", "DVL001"], "devicelint.toml", "command line"),
    ],
)
def test_no_rule_at_all_is_warned_of(text: str, args: list[str], select: str, ignore: str) -> None:
    put("a.py", FOUND)
    put("devicelint.toml", text)
    said = (
        "devicelint: no rule is on, so nothing can be found: "
        f"change `select` ({select}) or `ignore` ({ignore})\n"
    )
    result = run("check", *args)
    assert (result.code, result.err) == (0, said)
    assert run("fix", *args).err.startswith(said)
    assert run("check", "--quiet", *args).err == ""


def test_search_paths_that_are_no_folders_are_warned_of(folder: Path) -> None:
    put("a.py", FOUND)
    put("file", "x")
    put("there/b.py", CLEAN)
    put("devicelint.toml", "search-paths = ['there', 'gone', 'file']")
    said = (
        f"devicelint: devicelint.toml: search-paths: no folder {folder / 'gone'}, "
        f"{folder / 'file'}; classes that were to be found there are unknown\n"
    )
    result = run("check")
    assert (result.code, result.err) == (1, said)
    assert run("fix").err.startswith(said)
    assert run("check", "--quiet").err == ""
    assert run("check", "--config", "search-paths = ['there']").err == ""


def test_devicelint_toml_wins_in_its_folder_and_the_nearest_folder_wins() -> None:
    put("a.py", FOUND)
    put("sub/b.py", FOUND)
    put("devicelint.toml", "select = ['DVL001']")
    put("pyproject.toml", "[tool.devicelint]\nselect = ['DVL003']")
    put("sub/pyproject.toml", "[tool.devicelint]\nselect = ['DVL005']")
    for path, expected in (("a.py", "DVL001"), ("sub", "DVL005")):
        assert f'select = ["{expected}"]' in run("config", path).out


def test_rules_named_one_by_one_after_none_are_on() -> None:
    put("a.py", FOUND)
    put("devicelint.toml", "select = []\nextend-select = ['DVL001']")
    result = run("check", "--output-format", "concise")
    assert (result.code, result.err, result.out.count("DVL001")) == (1, "", 1)
    assert "DVL003" not in result.out


def test_no_command_shows_help() -> None:
    result = run()
    assert (result.code, result.out) == (2, "")
    assert "Usage: devicelint" in result.err


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("chek", "did you mean `check`?"),
        ("Fix", "did you mean `fix`?"),
        ("explian", "did you mean `explain`?"),
        ("a.py", "see `devicelint --help`"),
    ],
)
def test_the_nearest_command_is_named(word: str, hint: str) -> None:
    result = run(word, "a.py")
    assert (result.code, result.out) == (2, "")
    assert result.err == f"devicelint: no command is called {word!r}, {hint}\n"


def test_no_path_is_the_folder() -> None:
    put("sub/a.py", FOUND)
    assert "sub/a.py:8:23" in run("check").out


def test_interrupt_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "check", interrupt)
    result = run("check")
    assert (result.code, result.out, result.err.strip()) == (130, "", "")


def test_internal_error_is_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "check", lambda *_: 1 / 0)
    result = run("check")
    assert result.code == 2
    assert "internal error" in result.err and "ZeroDivisionError" in result.err


def test_failure_on_one_file_keeps_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    put("a.py", FOUND)
    put("b.py", FOUND)
    real = selection.may_speak
    calls: list[str] = []

    def fail_once(text: str, statements: list[tuple[int, int]]) -> object:
        calls.append(text)
        if len(calls) == 1:
            raise ValueError("odd comment")
        return real(text, statements)

    monkeypatch.setattr(selection, "may_speak", fail_once)
    result = run("check", "-v")
    assert result.code == 2
    assert "a.py: cannot check: devicelint failed on this file (ValueError: odd" in result.out
    assert "Traceback" in result.out
    assert "b.py:8:23: error DVL001" in result.out


# Reports -----------------------------------------------------------------------------------------


def test_json_places_are_code_points_from_one() -> None:
    put("sub/a.py", FOUND)
    document = json.loads(run("check", "--output-format", "json", "sub").out)
    lines = FOUND.split("\n")
    for finding in document["findings"]:
        assert finding["path"] == "sub/a.py"
        line = lines[finding["line"] - 1]
        call = line[finding["column"] - 1 : finding["end_column"] - 1]
        assert re.fullmatch(r"torch\.\w+\(n\)", call)
        (edit,) = finding["fix"]["edits"]
        assert edit["start"] == edit["end"]
        at = edit["start"]["column"] - 1
        fixed = line[:at] + edit["content"] + line[at:]
        assert fixed in FIXED.split("\n")
    assert [finding["line"] for finding in document["findings"]] == [8, 9]
    assert document["summary"]["by_code"] == {"DVL001": 1, "DVL003": 1}


def test_findings_are_sorted_and_suppressed_ones_counted() -> None:
    put("b.py", FOUND)
    put("a.py", FOUND.replace("torch.zeros(n)", "torch.zeros(n)  # devicelint: ignore[DVL001]"))
    document = json.loads(run("check", "--output-format", "json", "b.py", "a.py").out)
    places = [(finding["path"], finding["line"]) for finding in document["findings"]]
    assert places == [("a.py", 9), ("b.py", 8), ("b.py", 9)]
    assert document["summary"]["suppressed"] == 1
    assert document["summary"]["files"] == 2


def test_unread_files_are_errors_of_the_report() -> None:
    put("b.py", BROKEN)
    put("c.py", b"import torch  # \xff\ntorch.zeros(2)\n")
    document = json.loads(run("check", "--output-format", "json", ".", "gone.py").out)
    places = [(error["path"], error["line"]) for error in document["errors"]]
    assert places == [("b.py", 3), ("c.py", 1), ("gone.py", None)]


def test_concise() -> None:
    put("a.py", FOUND)
    out = run("check", "--output-format", "concise").out
    assert [line.partition("`")[0] for line in out.splitlines()] == [
        "a.py:8:23: DVL001 [*] ",
        "a.py:9:35: DVL003 [*] ",
    ]


@pytest.mark.parametrize("name", FORMATS)
def test_output_file(name: str) -> None:
    put("a.py", FOUND)
    result = run("check", "--output-format", name, "--output-file", "report")
    assert (result.code, result.out, result.err) == (1, "", "")
    assert Path("report").read_text("utf-8") == run("check", "--output-format", name).out


def test_statistics() -> None:
    put("a.py", FOUND)
    out = run("check", "--statistics", "--quiet").out
    assert re.search(r"^DVL001 attribute-without-device +1 ", out, re.MULTILINE)
    assert "a.py" not in out


def test_quiet_and_verbose() -> None:
    put("a.py", FOUND)
    assert "Found 2 findings" not in run("check", "-q", "--no-cache").out
    known: list[list[str]] = []
    for command in (["check", "--no-cache"], ["check"], ["check"]):
        result = run(*command, "-v", "--output-format", "json")
        json.loads(result.out)
        stages, *cache = result.err.splitlines()
        assert re.fullmatch(r"devicelint: (\w+ [\d.]+ s(, )?)+", stages)
        known.append(cache)
    assert known == [
        [],
        ["devicelint: cache: asked about 1 file, knew 0"],
        ["devicelint: cache: asked about 1 file, knew 1"],
    ]


@pytest.mark.parametrize(
    ("args", "env", "expected"),
    [
        ([], {}, False),
        ([], {"FORCE_COLOR": "1"}, True),
        ([], {"FORCE_COLOR": "0"}, False),
        ([], {"FORCE_COLOR": ""}, False),
        ([], {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        (["--color", "always"], {"NO_COLOR": "1"}, True),
        (["--color", "never"], {"FORCE_COLOR": "1"}, False),
    ],
)
def test_colour(args: list[str], env: dict[str, str], expected: bool) -> None:
    put("a.py", FOUND)
    for command in (["check"], ["fix"], ["explain", "DVL001"]):
        assert ("\x1b[" in run(*command, *args, env=env).out) is expected, command
    run("check", "--output-file", "report", *args, env=env)
    assert ("\x1b[" in Path("report").read_text("utf-8")) is ("always" in args)


# Standard input ----------------------------------------------------------------------------------


def test_stdin() -> None:
    result = run("check", "-", "--output-format", "json", stdin=FOUND)
    assert result.code == 1
    assert {finding["path"] for finding in json.loads(result.out)["findings"]} == {"<stdin>"}


def test_stdin_filename() -> None:
    result = run(
        "check", "-", "--stdin-filename", "sub/new.py", "--output-format", "concise", stdin=FOUND
    )
    assert result.out.startswith("sub/new.py:8:23: DVL001")


def test_stdin_of_an_excluded_name() -> None:
    args = ["check", "-", "--stdin-filename", "sub/new.py", "--exclude", "new.py"]
    assert run(*args, stdin=FOUND).code == 1
    assert run(*args, "--force-exclude", stdin=FOUND).code == 0
    put("sub/new.py", FOUND)
    assert run(*args, "--force-exclude", stdin=FOUND).code == 0
    fixed = run("fix", *args[1:], "--force-exclude", stdin=FOUND)
    assert (fixed.code, fixed.out) == (0, FOUND)


def test_stdin_takes_the_configuration_of_its_folder() -> None:
    put("sub/devicelint.toml", "ignore = ['DVL']\n")
    assert run("check", "-", "--stdin-filename", "sub/new.py", stdin=FOUND).code == 0
    assert run("check", "-", stdin=FOUND).code == 1


def test_paths_take_the_configuration_of_what_they_share() -> None:
    put("sub/devicelint.toml", "ignore = ['DVL']\n")
    put("sub/a.py", FOUND)
    put("sub/deep/b.py", FOUND)
    assert run("check", "sub").code == 0
    assert run("check", "sub/a.py").code == 0
    assert run("check", "sub/a.py", "sub/deep").code == 0
    assert run("check", ".", "sub").code == 1


# Fixing ------------------------------------------------------------------------------------------


def test_fix_shows_a_diff_and_writes_nothing() -> None:
    path = put("sub/a.py", FOUND)
    result = run("fix")
    assert result.code == 1
    assert result.out.startswith("--- a/sub/a.py\n+++ b/sub/a.py\n@@ ")
    assert "Would fix 2 findings in 1 file" in result.err
    assert path.read_bytes() == FOUND.encode()


def test_diff_can_be_applied() -> None:
    put("sub/a.py", FOUND.replace("\n", "\r\n"))
    put("b.py", FOUND.rstrip())
    patch = run("fix").out.encode()
    subprocess.run(["git", "apply", "-"], input=patch, check=True)
    assert Path("sub/a.py").read_bytes() == FIXED.replace("\n", "\r\n").encode()
    assert Path("b.py").read_bytes() == FIXED.rstrip().encode()


def test_fix_write() -> None:
    path = put("a.py", FOUND)
    result = run("fix", "--write")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("Fixed 2 findings in 1 file.\n\n  a.py: 2\n")
    assert re.search(r"^DVL003 buffer-without-device +1$", result.out, re.MULTILINE)
    assert path.read_text("utf-8") == FIXED
    again = run("fix", "--write")
    assert (again.code, again.out) == (0, "Nothing was fixed: no finding is left.\n")


def test_fix_write_diff() -> None:
    put("a.py", FOUND)
    result = run("fix", "--write", "--diff")
    assert result.out.startswith("--- a/a.py\n")
    assert result.err.startswith("Fixed 2 findings")


def test_fix_leaves_what_is_not_asked_for() -> None:
    path = put("a.py", FOUND.replace("torch.zeros(n)", "torch.zeros(n)  # noqa: DVL001"))
    assert run("fix", "--write", "--select", "DVL005").code == 0
    assert "device=device" not in path.read_text("utf-8")
    assert run("fix", "--write").code == 0
    assert path.read_text("utf-8").count("device=device") == 1


def test_unsafe_fixes() -> None:
    path = put("a.py", FOUND.replace("torch.zeros(n)", "torch.rand(n)").replace("arange", "rand"))
    result = run("fix", "--write")
    assert result.code == 1
    assert "--unsafe-fixes" in result.out
    assert "device=device" not in path.read_text("utf-8")
    assert run("fix", "--write", "--unsafe-fixes").code == 0
    assert path.read_text("utf-8").count("device=device") == 2


def test_fix_sees_the_other_files() -> None:
    helper = put("helper.py", "import torch\n\n\ndef table(n):\n    return torch.zeros(n)\n")
    put(
        "model.py",
        "from torch import nn\n\nfrom helper import table\n\n\nclass Model(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n        self.t = table(3)\n",
    )
    assert run("fix", "--write").code == 0
    assert "device=torch.cuda.current_device()" in helper.read_text("utf-8")
    assert run("check").code == 0


def test_fix_keeps_encoding_and_line_ends() -> None:
    text = "# coding: latin-1\n" + FOUND.replace("数", "ß").replace("\n", "\r\n")
    path = put("a.py", text.encode("latin-1"))
    assert run("fix", "--write").code == 0
    expected = "# coding: latin-1\n" + FIXED.replace("数", "ß").replace("\n", "\r\n")
    assert path.read_bytes() == expected.encode("latin-1")


@pytest.mark.parametrize("args", [["--diff"], []])
def test_fix_stdin(args: list[str]) -> None:
    result = run("fix", "-", *args, stdin=FOUND)
    if args:
        assert result.code == 1
        assert result.out.startswith("--- a/<stdin>\n")
        assert "No finding would be left." in result.err
    else:
        assert (result.code, result.out) == (0, FIXED)


@pytest.mark.parametrize("source", [BROKEN, CLEAN, "", "x = 1\r\n"])
def test_fix_stdin_gives_back_what_it_cannot_fix(source: str) -> None:
    result = run("fix", "-", "--quiet", stdin=source)
    assert result.out == source
    assert result.code == (2 if source == BROKEN else 0)
    assert ("cannot check" in result.err) is (source == BROKEN)


def test_fix_of_a_file_that_changes_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    put("a.py", FOUND)
    path = put("b.py", FOUND)
    real = runner.write_atomic

    def write(target: Path, data: bytes, *, expected: bytes) -> None:
        if target.name == "a.py":
            raise ChangedOnDisk("the file was changed meanwhile")
        real(target, data, expected=expected)

    monkeypatch.setattr(runner, "write_atomic", write)
    result = run("fix", "--write")
    assert result.code == 2
    assert "a.py: not fixed: the file was changed meanwhile\n" in result.out
    assert "Fixed 2 findings in 1 file." in result.out
    assert "2 findings are left" in result.out.replace("\n", " ")
    assert path.read_text("utf-8") == FIXED


@pytest.mark.parametrize("args", [[], ["--write"]])
def test_fix_tells_that_not_everything_could_be_checked(args: list[str]) -> None:
    put("bad.py", BROKEN)
    opening = "Nothing was fixed" if args else "Nothing to fix"
    result = run("fix", *args)
    told = " ".join((result.out + result.err).split())
    assert result.code == 2
    assert told.endswith(f"{opening}: no finding is left, but not everything could be checked.")
    put("a.py", FOUND)
    result = run("fix", *args, "--select", "DVL001,DVL003", "--ignore", "DVL001")
    told = " ".join((result.out + result.err).split())
    assert told.endswith("left, but not everything could be checked.")


def test_fix_of_a_file_that_is_read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    put("a.py", FOUND)
    monkeypatch.setattr(os, "access", lambda *_: False)
    result = run("fix", "--write")
    assert result.code == 2
    assert result.out.startswith("a.py: not fixed: file is read-only\n\nNothing was fixed: 2 find")
    assert "checked" not in result.out
    quiet = run("fix", "--write", "--quiet")
    assert (quiet.code, quiet.out) == (2, "a.py: not fixed: file is read-only\n")
    assert run("check", "--quiet", "gone.py").out == (
        "gone.py: cannot check: no such file or folder\n"
    )


def test_findings_left_beside_what_could_not_be_checked() -> None:
    put("a.py", FOUND.replace("zeros", "rand").replace("arange", "rand"))
    put("bad.py", BROKEN)
    told = " ".join(run("fix").err.split())
    assert told.endswith("`devicelint check` shows them. Not everything could be checked.")


def test_refused_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    path = put("a.py", FOUND)

    def refuse(utf8: bytes, *_: object, **__: object) -> FixResult:
        return FixResult(utf8, problem="text outside the fixes would change")

    monkeypatch.setattr(runner, "fix_text", refuse)
    result = run("fix", "--write")
    assert result.code == 2
    assert "not fixed: text outside the fixes would change" in result.out
    assert path.read_text("utf-8") == FOUND


def test_failing_fix_keeps_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    broken, path = put("a.py", FOUND + "# a\n"), put("b.py", FOUND)
    real = runner.fix_text

    def fail(utf8: bytes, *arguments: object, **options: object) -> object:
        if utf8.endswith(b"# a\n"):
            raise ZeroDivisionError
        return real(utf8, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(runner, "fix_text", fail)
    result = run("fix", "--write", "--verbose")
    assert result.code == 2
    assert "ZeroDivisionError" in result.out
    assert path.read_text("utf-8") == FIXED
    assert broken.read_text("utf-8") == FOUND + "# a\n"


# The other commands ------------------------------------------------------------------------------


def test_rules() -> None:
    lines = run("rules").out.splitlines()
    assert [tuple(line.split()[:2]) for line in lines] == [(rule.code, rule.name) for rule in RULES]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_explain(rule) -> None:
    text = run("explain", rule.code).out
    assert text.startswith(f"# {rule.name} ({rule.code})\n")
    assert rule.documentation.strip() in text
    assert run("explain", rule.code.lower()).out == text
    assert run("explain", rule.name).out == text
    assert "\x1b[" in run("explain", rule.code, "--color", "always").out


def test_explain_names_the_nearest() -> None:
    assert "did you mean DVL003 (buffer-without-device)?" in run("explain", "buffers").err


def test_config_is_a_configuration() -> None:
    import tomllib

    put("devicelint.toml", "ignore = ['DVL003']\n[per-file-ignores]\n'té\"st' = ['DVL001']\n")
    put("sub/a.py", FOUND)
    text = run("config", "sub").out
    assert list(tomllib.loads(text)) == list(OPTIONS)
    assert re.search(r'^ignore = \["DVL003"\]  # .*devicelint\.toml$', text, re.MULTILINE)
    assert re.search(r'^select = \["\w+"\]  # default$', text, re.MULTILINE)
    put("copy/devicelint.toml", text)
    copied, original = load_settings(Path("copy")), load_settings(Path("sub"))
    assert all(option.value(copied) == option.value(original) for option in OPTIONS.values())


def test_show_settings() -> None:
    for command in ("check", "fix"):
        text = run(command, "--show-settings", "--select", "DVL001", "--config", "ignore = []").out
        assert 'select = ["DVL001"]  # command line\n' in text
        assert run(command, "--show-settings", "--isolated").code == 0


def test_every_command_has_help() -> None:
    for name in cli.program.list_commands(click.Context(cli.program)):
        result = run(name, "--help")
        assert result.code == 0
        assert f"Usage: devicelint {name}" in result.out


# As a process ------------------------------------------------------------------------------------


@pytest.fixture
def environment(repository: Path) -> dict[str, str]:
    """The environment in which a subprocess finds this checkout."""
    names = {"NO_COLOR", "FORCE_COLOR", "PYTHONUNBUFFERED"}
    inherited = {name: value for name, value in os.environ.items() if name not in names}
    return {**inherited, "PYTHONPATH": str(repository)}


def test_version_and_clean_files_load_little(environment: dict[str, str]) -> None:
    put("a.py", CLEAN)
    for args in (
        ["--version"],
        ["check", "--help"],
        ["check", "a.py"],
        ["check", "a.py", "--output-format", "json"],
    ):
        program = (
            "import sys\nfrom devicelint.cli import main\n"
            f"assert main({args!r}) == 0\n"
            "heavy = {'libcst', 'rich', 'multiprocessing', 'sqlite3', 'devicelint.stages'}\n"
            "sys.exit(bool(heavy & sys.modules.keys()))"
        )
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, check=False
        )
        assert done.returncode == 0, (args, done.stderr)


def test_module_and_version(run_command, tmp_path: Path) -> None:
    done = run_command("--version", cwd=tmp_path)
    assert (done.returncode, done.stdout.decode().strip()) == (0, "devicelint 0.1.0")
    put("a.py", FOUND)
    assert run_command("check", cwd=tmp_path).returncode == 1
    assert run_command("check", "gone.py", cwd=tmp_path).returncode == 2


def test_reader_that_leaves(environment: dict[str, str]) -> None:
    many = "".join(f"        self.t{number} = torch.zeros(n)\n" for number in range(500))
    put("a.py", FOUND + many)
    process = subprocess.Popen(
        [sys.executable, "-m", "devicelint", "check", "--output-format", "json"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.read(10)
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert (process.wait(60), errors) == (141, b"")


def test_narrow_encoding(environment: dict[str, str]) -> None:
    put("a.py", FOUND)
    done = subprocess.run(
        [sys.executable, "-m", "devicelint", "check"],
        env={**environment, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, b"")
    assert b'self.\\xe9 = "\\u6570", torch.zeros(n)' in done.stdout


@pytest.mark.skipif(os.name == "nt", reason="needs a pseudo terminal")
def test_on_a_terminal(environment: dict[str, str]) -> None:
    import pty

    put("a.py", FOUND)
    environment |= {"COLUMNS": "60", "TERM": "xterm"}
    parent, child = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "devicelint", "check"], env=environment, stdout=child
    )
    os.close(child)
    text = b""
    try:
        while piece := os.read(parent, 65536):
            text += piece
    except OSError:  # what Linux says at the end of a pseudo terminal
        pass
    os.close(parent)
    assert process.wait(60) == 1
    assert b"\x1b[" in text
    plain = re.sub(rb"\x1b\[[0-9;]*m", b"", text).decode()
    assert max(map(len, plain.splitlines())) <= 60
