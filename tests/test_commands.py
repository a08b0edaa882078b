"""What commands do beside checking: several reports, watching, progress, completion, links."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from devicelint import cli
from devicelint.commands.progress import progress_on
from devicelint.model import RunReport
from devicelint.reporters.terminal import follows_links

ROOT = Path(__file__).resolve().parent.parent
FOUND = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.a = torch.zeros(n)
"""


def run(*args: str, **env: str) -> tuple[int, str, str]:
    """Run a command line in this process: its exit code, stdout and stderr."""
    names = ("NO_COLOR", "FORCE_COLOR", "FORCE_HYPERLINK", "GITHUB_STEP_SUMMARY")
    with CliRunner().isolation(env={**dict.fromkeys(names), **env}) as streams:
        code = cli.main([*args])
        out, err = (stream.getvalue().decode() for stream in streams[:2])
    return code, out, err


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with one finding."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").write_text(FOUND, encoding="utf-8")
    return tmp_path


# Several reports ---------------------------------------------------------------------------------


def test_several_reports_of_one_run() -> None:
    formats = [
        word
        for output in ("sarif=out.sarif", "concise", "junit=x=y.xml")
        for word in ("--output-format", output)
    ]
    code, out, err = run("check", *formats)
    assert (code, err) == (1, "")
    assert out == run("check", "--output-format", "concise")[1]
    assert json.loads(Path("out.sarif").read_text())["runs"][0]["results"]
    assert Path("x=y.xml").read_text() == run("check", "--output-format", "junit")[1]


def test_files_alone_leave_stdout_empty() -> None:
    code, out, err = run("check", "--output-format", "json=out.json", "--color", "always")
    assert (code, out, err) == (1, "", "")
    assert Path("out.json").read_text() == run("check", "--output-format", "json")[1]


def test_dash_is_stdout() -> None:
    assert run("check", "--output-format", "concise=-") == run(
        "check", "--output-format", "concise"
    )


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (["--output-format", "text", "--output-format", "json"], "two reports cannot go to stdout"),
        (["--output-format", "text=a", "--output-format", "json=./a"], "cannot go to ./a"),
        (["--output-format", "sarif="], "names no file"),
        (["--output-format", "xml"], "is not one of text, concise"),
        (["--output-format", "xml=a"], "is not one of text, concise"),
        (["--output-format", "text=a", "--output-file", "b"], "--output-file takes one format"),
        (
            ["--output-format", "text", "--output-format", "json=a", "-o", "b"],
            "--output-file takes one format",
        ),
    ],
)
def test_reports_that_cannot_be(args: list[str], word: str) -> None:
    code, out, err = run("check", *args)
    assert (code, out) == (2, "")
    assert word in err and err.count("\n") == 1


def test_job_summary_is_added_to_the_file_that_github_names() -> None:
    Path("summary.md").write_text("before\n")
    run("check", "--output-format", "concise", GITHUB_STEP_SUMMARY="summary.md")
    assert Path("summary.md").read_text() == "before\n"
    run("check", "--output-format", "github", GITHUB_STEP_SUMMARY="summary.md")
    text = Path("summary.md").read_text()
    assert text.startswith("before\n## devicelint\n") and "`a.py:8`" in text
    assert run("check", "--output-format", "github", GITHUB_STEP_SUMMARY="no/such/file")[0] == 2


def test_paths_are_from_the_root_of_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    Path(".git").mkdir()
    sub = Path("sub/deep")
    sub.mkdir(parents=True)
    (sub / "b.py").write_text(FOUND)
    monkeypatch.chdir(sub)
    assert ",file=sub/deep/b.py," in run("check", "--output-format", "github")[1]
    issues = json.loads(run("check", "--output-format", "gitlab", "../..")[1])
    assert [issue["location"]["path"] for issue in issues] == ["a.py", "sub/deep/b.py"]
    assert json.loads(run("check", "--output-format", "json")[1])["findings"][0]["path"] == "b.py"


# Links -------------------------------------------------------------------------------------------


def test_links_lead_to_the_rules_page() -> None:
    _, out, _ = run("check", "--color", "always", FORCE_HYPERLINK="1")
    assert re.search(r"\x1b\]8;id=\d+;https://\S+DVL001\S*\x1b\\", out)
    assert "\x1b]8" not in run("check", "--color", "always", FORCE_HYPERLINK="0")[1]
    assert "\x1b]8" not in run("check", FORCE_HYPERLINK="1")[1]


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({}, False),
        ({"TERM": "xterm-256color"}, False),
        ({"TERM": "xterm-kitty"}, True),
        ({"TERM": "xterm-256color", "VTE_VERSION": "6800"}, True),
        ({"TERM": "xterm-256color", "VTE_VERSION": "4602"}, False),
        ({"TERM_PROGRAM": "vscode"}, True),
        ({"TERM_PROGRAM": "vscode", "TERM": "screen-256color"}, False),
        ({"WT_SESSION": "x"}, True),
        ({"WT_SESSION": "x", "FORCE_HYPERLINK": "0"}, False),
    ],
)
def test_terminals_that_follow_links(
    env: dict[str, str], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", env)
    assert follows_links(Terminal()) is expected
    assert follows_links(io.StringIO()) is False


# Progress ----------------------------------------------------------------------------------------


def test_progress_shows_after_a_while_on_a_terminal() -> None:
    stream = Terminal()
    with progress_on(stream, patience=0.0) as tell:
        assert tell is not None
        tell("reading", 3, 4000)
        tell("reading", 4000, 4000)
        tell("joining", 0, 0)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())
    assert re.findall(r"[a-z]+(?: [\d,/]+)?(?=\r|\n)", text) == [
        "reading 3/4,000",
        "reading 4,000/4,000",
        "joining",
        "joining",
    ]
    # It is gone at the end: the cursor is back where it was.
    assert stream.getvalue().rstrip().endswith("\x1b[2K")


def test_no_progress_in_the_first_second_or_elsewhere() -> None:
    stream = Terminal()
    with progress_on(stream) as tell:
        assert tell is not None
        tell("reading", 3, 40)
    assert stream.getvalue() == ""
    with progress_on(io.StringIO(), patience=0.0) as tell:
        assert tell is None


# Watching ----------------------------------------------------------------------------------------


@pytest.mark.skipif(os.name == "nt", reason="sends an interrupt")
def test_watch(folder: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "devicelint", "check", "--watch", "--output-format", "concise"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None

    def until_idle() -> str:
        assert process.stdout is not None
        text = ""
        for line in process.stdout:
            if "watching" in line:
                return text
            text += line
        raise AssertionError(text)

    def put(name: str, text: str) -> None:
        """Write a file at once: a watcher could look at one that is still empty."""
        (folder / f"{name}.new").write_text(text)
        os.replace(folder / f"{name}.new", folder / name)

    try:
        assert "a.py:8:18: DVL001" in until_idle()
        time.sleep(0.05)
        put("a.py", "x = 1\n")
        assert until_idle() == ""
        put("b.py", FOUND)
        assert "b.py:8:18: DVL001" in until_idle()
        put("devicelint.toml", "selct = []\n")
        assert "selct" in until_idle()
        put("devicelint.toml", "ignore = ['DVL001']\n")
        assert until_idle() == ""
        process.send_signal(signal.SIGINT)
        assert process.stdout.read().strip() == ""
        assert process.wait(20) == 130
    finally:
        process.kill()


def test_watch_needs_files() -> None:
    code, _, err = run("check", "-", "--watch")
    assert code == 2 and "stdin is read once" in err


# Completion --------------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script(shell: str) -> None:
    code, out, _ = run("completion", shell)
    assert code == 0
    assert f"_DEVICELINT_COMPLETE={shell}_complete" in out


def completions(*words: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", "import sys; from devicelint.cli import main; sys.exit(main([]))"],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "_DEVICELINT_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(words),
            "COMP_CWORD": str(len(words) - 1),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    return set(done.stdout.split())


def test_completion_knows_the_words() -> None:
    assert completions("devicelint", "c") == {
        f"plain,{name}" for name in ("check", "clean", "completion", "config")
    }
    assert completions("devicelint", "check", "--output-format", "rd") == {
        "plain,rdjson",
        "plain,rdjsonl",
    }
    assert completions("devicelint", "check", "a") == {"file,a"}
    assert completions("devicelint", "explain", "DVL00") >= {"plain,DVL001", "plain,DVL009"}


def test_nothing_found_is_told_alike() -> None:
    from devicelint.reporters.summary import headline

    assert headline(RunReport((), 2)) == "No findings in 2 files."
