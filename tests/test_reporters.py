"""The formats: what stands where, at which width, and that nothing unsafe is printed."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from devicelint.model import (
    Applicability,
    Diagnostic,
    Edit,
    FileReport,
    Finding,
    Fix,
    Location,
    RunReport,
    Severity,
    Sink,
)
from devicelint.reporters import FORMATS
from devicelint.reporters.excerpt import rows
from devicelint.reporters.layout import Layout

_LONG = "It is built on the default device, which `.to()` never changes afterwards, " * 3


def _location(source: str, index: int) -> Location:
    before = source[:index]
    column = index - (before.rfind("\n") + 1) + 1
    return Location(len(before.encode()), before.count("\n") + 1, column)


def _finding(
    source: str,
    call: str,
    *,
    severity: Severity = Severity.ERROR,
    code: str = "DVL001",
    message: str = "`torch.zeros` builds an attribute without a device",
    applicability: Applicability | None = Applicability.SAFE,
) -> Finding:
    start = _location(source, source.index(call))
    end = _location(source, source.index(call) + len(call))
    inside = _location(source, source.index(call) + len(call) - 1)
    edits = (Edit(inside, inside, ", device=device"),)
    if applicability is Applicability.DISPLAY:
        edits = ()
    return Finding(
        code=code,
        name="attribute-without-device",
        message=message,
        severity=severity,
        start=start,
        end=end,
        symbol="Model.__init__",
        callable="torch.zeros",
        sink=Sink.ATTRIBUTE,
        reached_via=("Model.__init__", "Model._build"),
        reason=_LONG,
        advice="Pass the device.",
        fingerprint="0" * 32,
        fix=applicability and Fix("Pass device=device", applicability, edits),
        excerpt=tuple(source.split("\n")[start.line - 1 : end.line]),
        statement=(start.line, end.line),
    )


def _run(*findings: Finding, path: str = "src/model.py") -> RunReport:
    return RunReport((FileReport(path, findings),), 3)


def _marked(finding: Finding, room: int = 100) -> list[str]:
    """Give what stands above each mark of an excerpt, by cells."""
    from rich.cells import cell_len

    found = []
    for row in rows(finding, room):
        width = 0
        text = ""
        for character in row.text:
            if row.marks[width : width + 1] == "^":
                text += character
            width += cell_len(character)
        assert cell_len(row.text) <= room
        assert len(row.marks) <= room
        found.append(text)
    return found


@pytest.mark.parametrize(
    "before",
    ["self.x = ", "\tself.x = ", "  \tself.x =\t", "self.表格 = '数据', ", "self.é = ", "\x1b[31m"],
)
def test_marks_stand_below_the_call(before: str) -> None:
    source = f"\n{before}torch.zeros(4)  # 注"
    assert _marked(_finding(source, "torch.zeros(4)")) == ["torch.zeros(4)"]


def test_long_line_is_cut_around_the_call() -> None:
    source = f"{'数' * 90} = [{'a' * 90}, torch.zeros(4), {'b' * 90}]"
    finding = _finding(source, "torch.zeros(4)")
    for room in range(30, 120):
        assert _marked(finding, room) == ["torch.zeros(4)"], room


def test_call_longer_than_the_room_is_marked_to_the_edge() -> None:
    call = f"torch.zeros({'a' * 200})"
    (row,) = rows(_finding(f"self.x = {call}", call), 60)
    assert row.text.endswith("...")
    assert row.marks.endswith("^") and len(row.marks) == 60


def test_long_call_keeps_its_ends() -> None:
    call = "torch.zeros(\n" + "".join(f"        {n},\n" for n in range(9)) + "    )"
    laid = rows(_finding(f"x = 1\n    self.x = {call}", call), 80)
    assert [row.number for row in laid] == [2, 3, None, 12]
    assert laid[0].marks.strip() == "^" * len("torch.zeros(")
    assert laid[-1].marks == "    ^"


@pytest.mark.parametrize("width", [40, 80, 160])
def test_text_keeps_to_the_width(width: int) -> None:
    from rich.cells import cell_len

    source = f"{'数' * 90} = [{'a' * 90}, torch.zeros(4), {'b' * 90}]"
    run = _run(_finding(source, "torch.zeros(4)"), path="a/very/long/path/" * 4 + "m.py")
    text = FORMATS["text"](run, Layout(width=width))
    assert max(map(cell_len, text.splitlines())) <= width


def test_text_has_everything_in_order() -> None:
    run = _run(_finding("self.x = torch.zeros(4)", "torch.zeros(4)"))
    text = FORMATS["text"](run, Layout())
    parts = [
        "src/model.py:1:10: error DVL001 `torch.zeros` builds an attribute without a device\n",
        "     1 | self.x = torch.zeros(4)\n",
        "       |          ^^^^^^^^^^^^^^\n",
        "  via: Model.__init__ > Model._build\n",
        "  why: It is built",
        "  do:  Pass the device.\n",
        "  fix: Pass device=device (safe)\n",
        "Found 1 finding in 1 of 3 files.",
        "error           1     1       0        0\n",
        "`devicelint fix --write` mends 1",
    ]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert "\x1b" not in text
    assert not any(line.endswith(" ") for line in text.splitlines())


def test_text_does_not_break_a_location_off_a_terminal() -> None:
    path = "folder/" * 40 + "m.py"
    run = _run(_finding("torch.zeros(4)", "torch.zeros(4)"), path=path)
    assert f"{path}:1:1: error DVL001 `torch.zeros` builds" in FORMATS["text"](run, Layout())


def test_text_worst_first() -> None:
    source = "torch.zeros(1)\ntorch.zeros(2)\ntorch.zeros(3)"
    note = _finding(source, "torch.zeros(1)", severity=Severity.NOTE)
    error = _finding(source, "torch.zeros(2)")
    files = (FileReport("a.py", (note,)), FileReport("b.py", (note, error)), FileReport("c.py"))
    text = FORMATS["text"](RunReport(files, 3), Layout())
    assert text.index("b.py:2:1") < text.index("b.py:1:1") < text.index("a.py:1:1")


def test_text_shows_no_control_characters() -> None:
    source = "x = '\x1b]0;title\x07\u202e' + torch.zeros(4)"
    finding = _finding(source, "torch.zeros(4)", message="evil \x1b[2J")
    run = _run(finding, path="new\nline\x1b.py")
    for name in ("text", "concise"):
        text = FORMATS[name](run, Layout())
        assert not {"\x1b", "\x07", "\u202e"} & set(text)
        assert "new\u240aline\u241b.py:1:" in text


def test_colour_only_adds_escapes() -> None:
    import re

    run = _run(_finding("self.x = torch.zeros(4)", "torch.zeros(4)"))
    coloured = FORMATS["text"](run, Layout(color=True))
    plain = FORMATS["text"](run, Layout())
    assert "\x1b[" in coloured
    stripped = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert [line.rstrip() for line in stripped.splitlines()] == plain.splitlines()


def test_text_remedies() -> None:
    source = "torch.zeros(1)\ntorch.zeros(2)"
    unsafe = _finding(source, "torch.zeros(1)", applicability=Applicability.UNSAFE)
    advice = _finding(source, "torch.zeros(2)", applicability=Applicability.DISPLAY)
    text = FORMATS["text"](_run(unsafe, advice), Layout())
    assert "Pass device=device (unsafe: only with --unsafe-fixes)" in text
    assert "Pass device=device (advice: never applied)" in text
    assert "error           2     0       1        1\n" in text
    assert "`devicelint fix --write --unsafe-fixes` mends 1" in text
    assert "`devicelint fix --write` mends" not in text


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (RunReport((), 0), "No Python files to check.\n"),
        (RunReport((), 1), "No findings in 1 file.\n"),
        (RunReport((FileReport("a.py"),), 1200), "No findings in 1,200 files.\n"),
    ],
)
def test_text_of_nothing(run: RunReport, expected: str) -> None:
    assert FORMATS["text"](run, Layout()) == expected
    assert FORMATS["text"](run, Layout(summary=False)) == ""
    assert FORMATS["concise"](run, Layout()) == ""


def _broken() -> RunReport:
    problems = (
        Diagnostic("a.py", 3, 7, "invalid syntax"),
        Diagnostic("a.py", 0, 0, "internal error: ValueError", "Traceback\n  here"),
    )
    return RunReport((FileReport("a.py", diagnostics=problems),), 2)


def test_diagnostics() -> None:
    text = FORMATS["text"](_broken(), Layout())
    assert "a.py:3:7: cannot check: invalid syntax\n" in text
    assert "a.py: cannot check: internal error: ValueError (--verbose shows where)\n" in text
    assert "Traceback" not in text
    assert "No findings, but not everything could be checked (2 files read)." in text
    assert "\n    Traceback\n      here\n" in FORMATS["text"](_broken(), Layout(details=True))
    assert FORMATS["concise"](_broken(), Layout()).splitlines() == [
        "a.py:3:7: cannot check: invalid syntax",
        "a.py: cannot check: internal error: ValueError",
    ]
    errors = json.loads(FORMATS["json"](_broken(), Layout()))["errors"]
    assert [(e["path"], e["line"], e["column"]) for e in errors] == [
        ("a.py", 3, 7),
        ("a.py", None, None),
    ]


def test_statistics() -> None:
    source = "torch.zeros(1)\ntorch.zeros(2)\ntorch.zeros(3)"
    run = _run(
        _finding(source, "torch.zeros(1)", code="DVL002", applicability=None),
        _finding(source, "torch.zeros(2)", code="DVL003"),
        _finding(source, "torch.zeros(3)", code="DVL003", applicability=Applicability.UNSAFE),
    )
    text = FORMATS["text"](run, Layout(statistics=True))
    assert text.index("DVL003") < text.index("DVL002")
    assert "src/model.py" not in text
    assert FORMATS["concise"](run, Layout(statistics=True)) == "1\tDVL002\n2\tDVL003 [*]\n"


def test_concise() -> None:
    source = "é = '数', torch.zeros(4)\ntorch.zeros(5)"
    run = _run(
        _finding(source, "torch.zeros(4)"),
        _finding(source, "torch.zeros(5)", applicability=Applicability.UNSAFE),
    )
    assert FORMATS["concise"](run, Layout()).splitlines() == [
        "src/model.py:1:10: DVL001 [*] `torch.zeros` builds an attribute without a device",
        "src/model.py:2:1: DVL001 `torch.zeros` builds an attribute without a device",
    ]


def test_json() -> None:
    source = "é = '数'; self.x = torch.zeros(\n    4\n)"
    run = _run(_finding(source, source[source.index("torch") :]), path="src/n\udcff.py")
    text = FORMATS["json"](run, Layout())
    assert text.isascii()
    document = json.loads(text)
    assert list(document) == ["version", "findings", "errors", "summary"]
    (finding,) = document["findings"]
    assert finding == {
        "code": "DVL001",
        "name": "attribute-without-device",
        "message": "`torch.zeros` builds an attribute without a device",
        "severity": "error",
        "path": "src/n\udcff.py",
        "line": 1,
        "column": 19,
        "end_line": 3,
        "end_column": 2,
        "symbol": "Model.__init__",
        "callable": "torch.zeros",
        "sink": "attribute",
        "reached_via": ["Model.__init__", "Model._build"],
        "reason": _LONG,
        "advice": "Pass the device.",
        "fingerprint": "0" * 32,
        "fix": {
            "title": "Pass device=device",
            "applicability": "safe",
            "edits": [
                {
                    "start": {"line": 3, "column": 1},
                    "end": {"line": 3, "column": 1},
                    "content": ", device=device",
                }
            ],
        },
    }
    assert document["summary"] == {
        "files": 3,
        "files_with_findings": 1,
        "findings": 1,
        "by_severity": {"error": 1, "warning": 0, "note": 0},
        "by_code": {"DVL001": 1},
        "fixable": {"safe": 1, "unsafe": 0},
        "suppressed": 0,
        "baselined": 0,
        "stale": 0,
        "errors": 0,
    }


def test_only_text_loads_rich() -> None:
    program = (
        "import sys\n"
        "from devicelint.model import RunReport\n"
        "from devicelint.reporters import FORMATS\n"
        "from devicelint.reporters.layout import Layout\n"
        "for name in ('concise', 'json'):\n"
        "    FORMATS[name](RunReport((), 0), Layout())\n"
        "sys.exit('rich' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
