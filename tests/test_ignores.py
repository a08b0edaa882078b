"""`--add-ignores`: where comments go, and that they change nothing else.

In: small files and every fixture.  Out: tests.  Never here: what a comment silences.
"""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest

from devicelint import runner
from devicelint.settings import Settings
from devicelint.silencing import silence
from devicelint.suppression import PLACEHOLDER

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
HEAD = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
"""
ONE = f"# devicelint: ignore[DVL001] {PLACEHOLDER}"


def silenced(folder: Path, data: bytes, reason: str = PLACEHOLDER) -> bytes:
    file = folder / "m.py"
    file.write_bytes(data)
    report = silence(runner.Request(folder), Settings(), reason)
    runner.write(report, folder)
    assert {one.code for _, one in report.left.findings} <= {"DVL100"}
    after = file.read_bytes()
    again = silence(runner.Request(folder), Settings(), reason)
    assert again.fixes == ()
    return after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("self.x = torch.zeros(3)", f"self.x = torch.zeros(3)  {ONE}"),
        ("self.x = torch.zeros(3)   ", f"self.x = torch.zeros(3)  {ONE}"),
        (
            "self.x = torch.zeros(3)  # three",
            f"self.x = torch.zeros(3)  # three  {ONE}",
        ),
        (
            "self.a_rather_long_name_here = torch.zeros(3, 4)",
            f"{ONE}\n        self.a_rather_long_name_here = torch.zeros(3, 4)",
        ),
        (
            "self.x = torch.zeros(\n            3,\n        )",
            f"{ONE}\n        self.x = torch.zeros(\n            3,\n        )",
        ),
        (
            "self.x = \\\n            torch.zeros(3)",
            f"{ONE}\n        self.x = \\\n            torch.zeros(3)",
        ),
        (
            'self.s = """\n""" ; self.x = torch.zeros(\n            3)',
            f'self.s = """\n""" ; self.x = torch.zeros(\n            3)  {ONE}',
        ),
        (
            'self.x = torch.zeros(3); self.s = """\n"""',
            f'{ONE}\n        self.x = torch.zeros(3); self.s = """\n"""',
        ),
        (
            "if self.training: self.x = torch.zeros(3)",
            f"{ONE}\n        if self.training: self.x = torch.zeros(3)",
        ),
        (
            "self.x = nn.Parameter(torch.zeros(3)); self.y = torch.ones(2)",
            "# devicelint: ignore[DVL001, DVL002] reason: TODO\n"
            "        self.x = nn.Parameter(torch.zeros(3)); self.y = torch.ones(2)",
        ),
        # What is there is added to.
        (
            "self.x = torch.zeros(3)  # devicelint: ignore[DVL003] why",
            "self.x = torch.zeros(3)  # devicelint: ignore[DVL003, DVL001] why",
        ),
        (
            "self.x = torch.zeros(3)  # devicelint: ignore[DVL002,DVL003]",
            "self.x = torch.zeros(3)  # devicelint: ignore[DVL002,DVL003,DVL001]",
        ),
        (
            "self.x = torch.zeros(3)  # devicelint: ignore DVL003 why",
            "self.x = torch.zeros(3)  # devicelint: ignore DVL003, DVL001 why",
        ),
        (
            "self.x = torch.zeros(3)  # noqa: E501, DVL003 why",
            "self.x = torch.zeros(3)  # noqa: E501, DVL003, DVL001 why",
        ),
        (
            "# devicelint: ignore[DVL003] why\n        self.x = torch.zeros(\n  3)",
            "# devicelint: ignore[DVL003, DVL001] why\n        self.x = torch.zeros(\n  3)",
        ),
        # Others' comments are left alone.
        ("self.x = torch.zeros(3)  # noqa: E501", f"self.x = torch.zeros(3)  # noqa: E501  {ONE}"),
        ("self.x = torch.zeros(3)  # noqa", "self.x = torch.zeros(3)  # noqa"),
        (
            "self.x = torch.zeros(3)  # devicelint: ignore",
            "self.x = torch.zeros(3)  # devicelint: ignore",
        ),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_places(before: str, after: str, newline: str, tmp_path: Path) -> None:
    texts = [f"{HEAD}        {body}\n        self.é = 0\n" for body in (before, after)]
    data, expected = (text.replace("\n", newline).encode() for text in texts)
    assert silenced(tmp_path, data) == expected


def test_encodings_and_the_last_line_are_kept(tmp_path: Path) -> None:
    body = f"{HEAD}        self.x = torch.zeros(3)"
    assert silenced(tmp_path, b"\xef\xbb\xbf" + body.encode()) == (
        b"\xef\xbb\xbf" + f"{body}  {ONE}".encode()
    )
    latin = f"# -*- coding: latin-1 -*-\n{body}  # é\n"
    assert silenced(tmp_path, latin.encode("latin-1")) == (
        latin.replace("# é", f"# é  {ONE}").encode("latin-1")
    )


def test_the_reason_is_the_users(tmp_path: Path) -> None:
    body = f"{HEAD}        self.x = torch.zeros(3)"
    after = silenced(tmp_path, body.encode(), "host table")
    assert after.decode() == f"{body}  # devicelint: ignore[DVL001] host table"


def test_statements_that_begin_on_one_line_share_a_comment(tmp_path: Path) -> None:
    body = "self.x = torch.zeros(3); self.y = nn.Parameter(torch.zeros(\n            3))"
    after = silenced(tmp_path, f"{HEAD}        {body}\n".encode()).decode()
    assert (
        after
        == f"{HEAD}        # devicelint: ignore[DVL001, DVL002] {PLACEHOLDER}\n        {body}\n"
    )


def test_every_fixture_is_silenced_and_stays_the_same_code(tmp_path: Path) -> None:
    for path in [*FIXTURES.glob("*.py"), *(FIXTURES / "broken").glob("*.py")]:
        shutil.copyfile(path, tmp_path / path.name)
    shutil.copytree(FIXTURES / "projects", tmp_path / "projects")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.py")}
    request = runner.Request(tmp_path)
    report = silence(request, Settings(), PLACEHOLDER)
    runner.write(report, tmp_path)
    assert len(report.fixes) > 40
    left = [one for _, one in runner.check(request, Settings()).findings if one.code != "DVL100"]
    assert left == []
    assert silence(request, Settings(), PLACEHOLDER).fixes == ()
    for change in report.fixes:
        path = tmp_path / change.path
        assert ast.dump(ast.parse(path.read_bytes())) == ast.dump(ast.parse(before[path]))
        for line in before[path].splitlines():
            # Lines were added and lengthened, none was taken away.
            assert line.partition(b"  #")[0].rstrip() in path.read_bytes()
