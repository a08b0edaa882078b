"""DVL100: which comments are reported, what their fix takes away, and what it leaves.

In: small files.  Out: tests.  Never here: the grammar of a directive (see `test_suppression`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from devicelint import runner
from devicelint.fixer import apply_edits
from devicelint.model import Applicability, Finding, Severity
from devicelint.settings import Settings

HEAD = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, device):
        super().__init__()
"""


def found(text: str, folder: Path, *, path: str = ".", **changes: object) -> list[Finding]:
    (folder / "m.py").write_bytes(text.encode())
    settings = replace(Settings(), root=folder, **changes)
    run = runner.check(runner.Request(folder, (path,)), settings)
    return [finding for _, finding in run.findings if finding.code == "DVL100"]


def fixed(text: str, folder: Path) -> str:
    """Apply the safe fixes of DVL100 through the whole of `fix`."""
    (folder / "m.py").write_bytes(text.encode())
    settings = replace(Settings(), root=folder, select=("DVL100",))
    report = runner.fix(runner.Request(folder), settings, unsafe=False)
    assert not report.left.diagnostics
    return report.fixes[0].after.decode() if report.fixes else text


# What the fix leaves -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("# devicelint: ignore[DVL001]", ""),
        ("# devicelint: ignore", ""),
        ("# noqa: DVL001", ""),
        ("# devicelint: ignore[DVL001] reason: TODO", ""),
        ("# devicelint: ignore[DVL001] moved by hand", "  # moved by hand"),
        ("# devicelint: ignore[DVL001]  # type: ignore", "  # type: ignore"),
        ("# type: ignore  # devicelint: ignore[DVL001]", "  # type: ignore"),
        ("# type: ignore  # devicelint: ignore[DVL001] why", "  # type: ignore  # why"),
        ("# devicelint: ignore[DVL001] see #12  # noqa: E501", "  # see #12  # noqa: E501"),
        ("# noqa: E501, DVL001", "  # noqa: E501"),
        ("# noqa: DVL001, E501", "  # noqa: E501"),
        ("# noqa: E501,DVL001,F401", "  # noqa: E501,F401"),
        ("# noqa: DVL001 DVL002 F401 words", "  # noqa: F401 words"),
        ("# noqa: E501, DVL001, DVL003 and words", "  # noqa: E501 and words"),
        ("# noqa: DVL001 because", "  # because"),
        ("# noqa: DVL001  # pylint: disable=x", "  # pylint: disable=x"),
        ("# noqa:dvl001", ""),
        ("# devicelint: ignore DVL001, DVL002 why", "  # why"),
        ("#devicelint:ignore[DVL001]", ""),
        # Nobody's business here.
        ("# noqa", "  # noqa"),
        ("# noqa: E501", "  # noqa: E501"),
        ("# devicelint: ignore[]", "  # devicelint: ignore[]"),
        ("# devicelint: ignore[DVL001", "  # devicelint: ignore[DVL001"),
        # Meant.
        ("# devicelint: ignore[DVL001, DVL100]", "  # devicelint: ignore[DVL001, DVL100]"),
        (
            "# devicelint: ignore[DVL001, unused-suppression]",
            "  # devicelint: ignore[DVL001, unused-suppression]",
        ),
        # A misspelt code is left to a person.
        ("# devicelint: ignore[DVL0O1]", "  # devicelint: ignore[DVL0O1]"),
        ("# devicelint: ignore[DVL002, DVL0O1]", "  # devicelint: ignore[DVL0O1]"),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_fix(before: str, after: str, newline: str, tmp_path: Path) -> None:
    statement = "        self.x = torch.zeros(3, device=device)"
    text = f"{HEAD}{statement}  {before}\n        self.é = 1\n".replace("\n", newline)
    expected = f"{HEAD}{statement}{after}\n        self.é = 1\n".replace("\n", newline)
    assert fixed(text, tmp_path) == expected
    assert fixed(expected, tmp_path) == expected


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("ignore[DVL001, DVL003]", "ignore[DVL001]"),
        ("ignore[DVL003, DVL001]", "ignore[DVL001]"),
        ("ignore[DVL002,DVL001,DVL003] why", "ignore[DVL001] why"),
        ("ignore [ dvl003 , dvl001 ] why", "ignore [ dvl001 ] why"),
        ("ignore DVL001, DVL003 why", "ignore DVL001 why"),
        ("ignore: DVL003 DVL001", "ignore: DVL001"),
        ("ignore[DVL00, DVL010]", "ignore[DVL00]"),
        (
            "ignore[attribute-without-device, stream-without-device]",
            "ignore[attribute-without-device]",
        ),
        ("ignore[DVL001]", "ignore[DVL001]"),
        ("ignore", "ignore"),
    ],
)
def test_fix_of_a_comment_in_use(before: str, after: str, tmp_path: Path) -> None:
    statement = "        self.x = torch.zeros(3)  # devicelint: "
    assert fixed(f"{HEAD}{statement}{before}\n", tmp_path) == f"{HEAD}{statement}{after}\n"


def test_a_comment_on_a_line_of_its_own_goes_with_its_line(tmp_path: Path) -> None:
    text = (
        f"{HEAD}        # devicelint: ignore[DVL001]\n        # that is so\n"
        "        self.x = torch.zeros(3, device=device)\n"
    )
    assert fixed(text, tmp_path) == text.replace("        # devicelint: ignore[DVL001]\n", "")
    inside = f"{HEAD}        self.x = torch.zeros(\n            3,  # devicelint: ignore\n"
    inside += "            device=device,\n        )\n"
    assert fixed(inside, tmp_path) == inside.replace("  # devicelint: ignore", "")
    last = f"{HEAD}        self.x = 1\n# devicelint: ignore[DVL001]"
    assert fixed(last, tmp_path) == f"{HEAD}        self.x = 1\n"


def test_fix_and_other_fixes_go_together(tmp_path: Path) -> None:
    text = f"{HEAD}        self.x = torch.zeros(3)  # devicelint: ignore[DVL003] moved\n"
    (tmp_path / "m.py").write_text(text)
    report = runner.fix(runner.Request(tmp_path), Settings(), unsafe=False)
    assert report.fixes[0].after.decode() == (
        f"{HEAD}        self.x = torch.zeros(3, device=device)  # moved\n"
    )


# What is reported --------------------------------------------------------------------------------


def test_where_and_how(tmp_path: Path) -> None:
    text = f"{HEAD}        self.é = torch.zeros(3, device=device)  # devicelint: ignore[DVL001] x\n"
    (finding,) = found(text, tmp_path)
    assert finding.severity is Severity.WARNING
    written = text.encode()[finding.start.offset : finding.end.offset].decode()
    assert written == "# devicelint: ignore[DVL001]"
    assert finding.excerpt == (text.splitlines()[7],)
    assert finding.fix is not None
    assert finding.fix.applicability is Applicability.SAFE
    assert apply_edits(text.encode(), finding.fix.edits).decode().endswith("device)  # x\n")


@pytest.mark.parametrize(
    ("comment", "words"),
    [
        ("ignore[DVL0O1]", ["`DVL0O1`", 'did you mean "DVL0']),
        ("ignore[atribute-without-device]", ["ATRIBUTE", '"ATTRIBUTE-WITHOUT-DEVICE"?']),
        ("ignore[E501]", ["`E501`, which no rule is called: it silences nothing."]),
        ("ignore[]", ["names no rule between its brackets"]),
        ("ignore[DVL001", ["names no rule between its brackets"]),
        ("ignore", ["no finding of any rule here"]),
        ("ignore[DVL001, DVL002]", ["no finding of `DVL001` and `DVL002` here"]),
    ],
)
@pytest.mark.parametrize("path", [".", "m.py"])
def test_messages(comment: str, words: Sequence[str], path: str, tmp_path: Path) -> None:
    statement = "        self.x = torch.zeros(3, device=device)  # devicelint: "
    (finding,) = found(f"{HEAD}{statement}{comment}\n", tmp_path, path=path)
    assert all(word in finding.message for word in words), finding.message


def test_selection_does_not_make_a_comment_idle(tmp_path: Path) -> None:
    text = f"{HEAD}        self.x = torch.zeros(3)  # devicelint: ignore[DVL001]\n"
    assert found(text, tmp_path, ignore=("DVL001",)) == []
    assert found(text, tmp_path, select=("DVL100",)) == []
    assert found(text, tmp_path, per_file_ignores={"m.py": ("DVL001",)}) == []
    idle = text.replace("DVL001", "DVL002")
    assert len(found(idle, tmp_path)) == 1
    assert found(idle, tmp_path, ignore=("DVL100",)) == []
    assert found(idle, tmp_path, per_file_ignores={"m.py": ("DVL100",)}) == []
    assert found(idle, tmp_path, min_severity=Severity.ERROR) == []


def test_misplaced_comments(tmp_path: Path) -> None:
    text = (
        "import torch  # devicelint: ignore[DVL001]\n"
        f"{HEAD}        self.x = 1  # devicelint: ignore\n\n"
        "    def forward(self, x):\n"
        "        return x + torch.zeros(3)  # devicelint: ignore[DVL004]\n"
    )
    places = [(one.start.line, one.message) for one in found(text, tmp_path)]
    assert [line for line, _ in places] == [1, 9, 12]
    assert all("no rule looks at this statement" in message for _, message in places)
    # Of this file alone it is not known who else calls what is in it.
    assert found(text, tmp_path, path="m.py") == []


def test_helpers_are_left_alone_where_their_callers_are_not_given(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg/__init__.py").write_text("")
    (tmp_path / "pkg/helper.py").write_text(
        "import torch\n\n\ndef table():\n"
        "    return torch.zeros(3)  # devicelint: ignore[DVL001] small\n"
    )
    model = f"from pkg.helper import table\n{HEAD}        self.x = table()\n"
    (tmp_path / "pkg/model.py").write_text(model)
    for paths in ((".",), ("pkg",), ("pkg/helper.py",), ("pkg/helper.py", "pkg/model.py")):
        run = runner.check(runner.Request(tmp_path, paths), Settings())
        assert run.findings == (), paths
    (tmp_path / "pkg/model.py").write_text(model.replace("table()", "1"))
    for paths, count in (((".",), 1), (("pkg",), 1), (("pkg/helper.py",), 0)):
        run = runner.check(runner.Request(tmp_path, paths), Settings())
        assert len(run.findings) == count, paths


def test_skip_file_counts_at_file_level(tmp_path: Path) -> None:
    body = f"{HEAD}        self.x = torch.zeros(3)"
    assert found(f"# devicelint: skip-file\n{body}  # devicelint: ignore[DVL002]\n", tmp_path) == []
    for text in (
        f"{body}  # devicelint: skip-file\n",
        f"{body}\n        # devicelint: skip-file\n",
    ):
        (finding,) = found(text, tmp_path)
        assert "counts only on a line of its own" in finding.message
        assert finding.fix is not None and finding.fix.edits == ()
        run = runner.check(runner.Request(tmp_path), Settings())
        assert "DVL001" in {one.code for _, one in run.findings}


def test_blanket_comments_are_reported_on_demand(tmp_path: Path) -> None:
    text = f"{HEAD}        self.x = torch.zeros(3)  # devicelint: ignore\n"
    assert found(text, tmp_path) == []
    (finding,) = found(text, tmp_path, extend_select=("DVL100",))
    assert finding.severity is Severity.NOTE
    assert "silences every rule" in finding.message


def test_a_file_without_candidates_is_looked_at(tmp_path: Path) -> None:
    assert len(found("x = 1  # devicelint: ignore[DVL001]\n", tmp_path)) == 1
    assert found("x = 1  # noqa\ny = '# devicelint: ignore'\n", tmp_path) == []
    assert found("import torch\nx = torch.ones((  # devicelint: ignore\n", tmp_path) == []
