"""Adopting the tool from the command line: `--baseline`, `--write-baseline`, `--add-ignores`.

In: a small file, the command.  Out: tests.  Never here: which findings match which entries.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

BODY = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.x = torch.zeros(3)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "m.py").write_text(BODY)
    return tmp_path


@pytest.fixture
def devicelint(run_command, folder: Path):
    def run(*arguments: str, code: int) -> tuple[str, str]:
        done = run_command(*arguments, cwd=folder)
        out, err = done.stdout.decode(), done.stderr.decode()
        assert done.returncode == code, out + err
        return out, err

    return run


def test_a_baseline_from_start_to_end(devicelint, folder: Path) -> None:
    devicelint("check", code=1)
    out, err = devicelint("check", "--write-baseline", "known.jsonl", code=0)
    assert "wrote 1 finding to known.jsonl (1 new, 0 dropped)" in err
    assert "No new findings in 1 file." in out
    out, _ = devicelint("check", "--baseline", "known.jsonl", code=0)
    assert "1 finding known by the baseline." in out
    (folder / "devicelint.toml").write_text('baseline = "known.jsonl"\n')
    devicelint("check", code=0)
    devicelint("check", "--baseline", "", code=1)
    # One is fixed and another one added: that is never silent.
    (folder / "m.py").write_text(BODY.replace("self.x = torch.zeros(3)", "self.y = torch.ones(1)"))
    out, _ = devicelint("check", "-v", code=1)
    assert "1 entry of the baseline no longer found" in out
    assert "m.py: DVL001 Model.__init__" in out
    report = json.loads(devicelint("check", "--output-format", "json", code=1)[0])
    assert [one["callable"] for one in report["findings"]] == ["torch.ones"]
    assert (report["summary"]["baselined"], report["summary"]["stale"]) == (0, 1)
    _, err = devicelint("check", "--write-baseline", "known.jsonl", code=0)
    assert "wrote 1 finding to known.jsonl (1 new, 1 dropped)" in err
    devicelint("check", code=0)


def test_stale_entries_alone_are_no_error(devicelint, folder: Path) -> None:
    devicelint("check", "--write-baseline", "known.jsonl", code=0)
    (folder / "m.py").write_text("x = 1\n")
    out, _ = devicelint("check", "--baseline", "known.jsonl", code=0)
    assert "1 entry of the baseline no longer found" in out


def test_baselines_that_cannot_be_used(devicelint, folder: Path) -> None:
    for command in ("check", "fix"):
        _, err = devicelint(command, "--baseline", "nowhere", code=2)
        assert "no such baseline" in err
        assert err.count("\n") == 1
    (folder / "bad").write_text("{}\n")
    _, err = devicelint("check", "--write-baseline", "bad", code=2)
    assert "not a baseline" in err
    _, err = devicelint("check", "--write-baseline", "no/such/folder", code=2)
    assert "cannot be written" in err


def test_comments_are_written_once(devicelint, folder: Path) -> None:
    _, err = devicelint("check", "--add-ignores", code=0)
    assert "silenced 1 finding in 1 file" in err
    after = (folder / "m.py").read_text()
    assert after == BODY.replace(
        "zeros(3)\n", "zeros(3)  # devicelint: ignore[DVL001] reason: TODO\n"
    )
    _, err = devicelint("check", "--add-ignores", code=0)
    assert "silenced 0 findings in 0 files" in err
    assert (folder / "m.py").read_text() == after
    devicelint("check", code=0)


def test_comments_are_written_for_what_is_selected(devicelint, folder: Path) -> None:
    devicelint("check", "--add-ignores", "--select", "DVL002", code=0)
    assert (folder / "m.py").read_text() == BODY
    devicelint("check", "--add-ignores", "--reason", "host only", code=0)
    assert "ignore[DVL001] host only\n" in (folder / "m.py").read_text()


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--add-ignores", "--write-baseline", "x"], "exclude each other"),
        (["--add-ignores", "--watch"], "exclude each other"),
        (["--add-ignores", "-"], "exclude each other"),
        (["--add-ignores", "--reason", "a # b"], "one line without '#'"),
        (["--add-ignores", "--reason", "a\nb"], "one line without '#'"),
    ],
)
def test_what_does_not_go_together(devicelint, arguments: list[str], word: str) -> None:
    _, err = devicelint("check", *arguments, code=2)
    assert word in err


def test_a_file_that_cannot_be_checked_is_a_problem(devicelint, folder: Path) -> None:
    (folder / "m.py").write_text("x = (\n" + BODY)
    _, err = devicelint("check", "--add-ignores", code=2)
    assert "silenced 0 findings" in err


def test_schema(devicelint) -> None:
    out, _ = devicelint("config", "--schema", code=0)
    assert json.loads(out)["properties"]["baseline"]
