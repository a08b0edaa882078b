"""Edits, the net that checks them, the loop that applies them, and the diff.

In: small texts, and fixes made by a toy analysis on `ast`.  Out: tests.  Never here: a rule.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devicelint.fixer import (
    FixResult,
    apply_edits,
    fix_text,
    select_edits,
    unified_diff,
    verify,
)
from devicelint.model import Applicability, Edit, Finding, Fix, Location, Severity, Sink


def place(text: str, offset: int) -> Location:
    """Locate a byte offset."""
    before = re.sub("\r\n?", "\n", text.encode()[:offset].decode())
    return Location(offset, before.count("\n") + 1, len(before.rpartition("\n")[2]) + 1)


def edit(start: int, end: int, content: str) -> Edit:
    return Edit(Location(start, 1, start + 1), Location(end, 1, end + 1), content)


def finding(
    text: str, start: int, end: int, *edits: Edit, how: Applicability = Applicability.SAFE
) -> Finding:
    first = place(text, start)
    return Finding(
        code="DVL001",
        name="attribute-without-device",
        message="",
        severity=Severity.ERROR,
        start=first,
        end=place(text, end),
        symbol="M.__init__",
        callable="torch.zeros",
        sink=Sink.ATTRIBUTE,
        reached_via=("M.__init__",),
        reason="",
        advice="",
        fingerprint="",
        fix=Fix("Insert it", how, edits),
        excerpt=(),
        statement=(first.line, first.line),
    )


def found(text: str, call: str, *changes: tuple[str, str, str]) -> Finding:
    """Place a finding at a call; a change names the text that it replaces, and what precedes it."""
    start = text.encode().index(call.encode())
    edits = []
    for before, old, new in changes:
        at = text.encode().index((before + old).encode()) + len(before.encode())
        edits.append(Edit(place(text, at), place(text, at + len(old.encode())), new))
    return finding(text, start, start + len(call.encode()), *edits)


def net(text: str, *findings: Finding) -> str | None:
    edits = [one for item in findings if item.fix for one in item.fix.edits]
    return verify(text.encode(), apply_edits(text.encode(), edits), findings)


# Edits -------------------------------------------------------------------------------------------


def test_edits_are_applied_in_order_of_place() -> None:
    edits = [edit(5, 5, "!"), edit(0, 1, "É"), edit(2, 4, "")]
    assert apply_edits(b"abcde", edits) == "Ébe!".encode()
    assert apply_edits(b"abc", []) == b"abc"


def test_identical_edits_count_once_others_at_one_place_follow() -> None:
    line, other = edit(0, 0, "import a\n"), edit(0, 0, "import b\n")
    assert apply_edits(b"x", [line, other, line]) == b"import a\nimport b\nx"
    assert apply_edits(b"xy", [edit(0, 1, "z"), edit(0, 0, "-"), edit(1, 1, "+")]) == b"-z+y"


@pytest.mark.parametrize(
    "edits",
    [
        [edit(0, 2, "a"), edit(1, 3, "b")],
        [edit(0, 3, "a"), edit(1, 1, "b")],
        [edit(0, 2, "a"), edit(0, 2, "b")],
        [edit(9, 9, "a")],
        [edit(2, 9, "a")],
        [edit(3, 2, "a")],
    ],
)
def test_edits_that_overlap_are_an_error(edits: list[Edit]) -> None:
    with pytest.raises(ValueError, match="overlaps"):
        apply_edits(b"abcd", edits)


@given(
    st.text(max_size=30), st.lists(st.tuples(st.integers(0, 30), st.text(max_size=3)), max_size=5)
)
def test_insertions_are_all_there(text: str, insertions: list[tuple[int, str]]) -> None:
    data = text.encode()
    places = {min(at, len(data)): content for at, content in insertions}
    after = apply_edits(data, [edit(at, at, content) for at, content in places.items()])
    assert len(after) == len(data) + sum(len(content.encode()) for content in places.values())
    for at, content in sorted(places.items(), reverse=True):
        shift = sum(len(other.encode()) for where, other in places.items() if where < at)
        assert after[at + shift :].startswith(content.encode())


def test_selection_by_applicability() -> None:
    safe = finding("", 0, 0, edit(0, 0, "a"))
    unsafe = finding("", 1, 1, edit(1, 1, "b"), how=Applicability.UNSAFE)
    shown = finding("", 2, 2, edit(2, 2, "c"), how=Applicability.DISPLAY)
    none = replace(safe, fix=None)
    empty = finding("", 3, 3)
    every = (empty, none, shown, unsafe, safe)
    assert select_edits(every, unsafe=False) == (safe,)
    assert select_edits(every, unsafe=True) == (safe, unsafe)


def test_selection_leaves_out_what_collides() -> None:
    line = edit(0, 0, "import torch\n")
    first = finding("", 1, 9, line, edit(2, 4, "x"))
    same_import = finding("", 10, 19, line, edit(12, 12, "x"))
    inside = finding("", 3, 3, edit(3, 3, "y"))
    rival = finding("", 11, 19, edit(12, 12, "z"))
    touching = finding("", 4, 4, edit(4, 4, "y"))
    twin = replace(same_import, code="DVL010")
    chosen = select_edits([rival, twin, inside, touching, same_import, first], unsafe=False)
    assert set(chosen) == {first, touching, same_import, twin}


# The net -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "call", "changes"),
    [
        ("x = torch.zeros(3)\n", "torch.zeros(3)", [("3", "", ", device=device")]),
        ("x = Stream()\n", "Stream()", [("Stream(", "", "device=d()")]),
        ("x = f(1,)\n", "f(1,)", [("f(1", "", ", device='cpu'")]),
        ("x = f(a=1, **kw)\n", "f(a=1, **kw)", [("**kw", "", ", device=d")]),
        ("x = f(*a)\n", "f(*a)", [("*a", "", ", device=d")]),
        (
            "x = f(\r\n    1,  # é\r\n)\r\n",
            "f(\r\n    1,  # é\r\n)",
            [("# é\r\n", "", "    device=d,\r\n")],
        ),
        ("é = 'é'; x = f(1)\n", "f(1)", [("f(1", "", ", device=d")]),
        ("x = f(1)[0].y(2)(3)", "f(1)", [("f(1", "", ", device=d")]),
        ("x = f(1).g(2)\n", "f(1).g(2)", [("g(2", "", ", device=d")]),
        ("x = f(g(1), 2)\n", "g(1)", [("g(1", "", ", device=d")]),
        ("# coding: latin-1\nx = f('é')\n", "f('é')", [("'é'", "", ", device=d")]),
        (
            "x = torch.FloatTensor(3)\n",
            "torch.FloatTensor(3)",
            [
                ("= ", "torch.FloatTensor", "torch.empty"),
                ("(3", "", ", dtype=torch.float, device=d"),
            ],
        ),
        (
            "x = Tensor([1])\n",
            "Tensor([1])",
            [("= ", "Tensor", "torch.tensor"), ("[1]", "", ", device=d")],
        ),
        ("x = f(1)\n", "f(1)", [("", "", "import torch\n"), ("f(1", "", ", device=torch.d()")]),
        (
            '"""Doc."""\nfrom __future__ import annotations\nx = f(1)\n',
            "f(1)",
            [("annotations\n", "", "import torch\nfrom a import b\n"), ("f(1", "", ", device=d")],
        ),
        ("init_process_group('nccl')", "init_process_group('nccl')", [("l'", "", ", device_id=d")]),
        ("\fif x:\n\ty = f(1)\n", "f(1)", [("f(1", "", ", device=d")]),
        ("x = (f)(1)\n", "(f)(1)", [("(1", "", ", device=d")]),
        (
            "x = f(i for i in y)\n",
            "f(i for i in y)",
            [("f(", "", "("), ("in y", "", "), device=d")],
        ),
    ],
)
def test_the_net_lets_fixes_pass(text: str, call: str, changes: list[tuple[str, str, str]]) -> None:
    assert net(text, found(text, call, *changes)) is None


@pytest.mark.parametrize(
    ("text", "call", "changes", "reason"),
    [
        ("x = f(1)\n", "f(1)", [("f(1", "", " device=d")], "no longer parse: line 1"),
        ("x = f(1)\n", "f(1)", [("f(1)", "", "  # device=d")], "would not reach the call"),
        ("x = f(1 # a\n)", "f(1 # a\n)", [("# a", "", ", device=d")], "would not reach"),
        ("x = f(1)\n", "f(1)", [("f(1", "", ", 2")], "more than the call"),
        ("x = f(1)\n", "f(1)", [("f(1", "", ", size=2")], "more than the call"),
        ("x = f(1)\n", "f(1)", [("f(", "1", "2"), ("f(1", "", ", device=d")], "more than the call"),
        ("x = f(1)\n", "f(1)", [("f(1)", "", ".to(d)")], "more than the call"),
        ("x = f(1)\ny = 1\n", "f(1)", [("y = ", "1", "2")], "line 2: more than the call"),
        ("x = f(g(1))\n", "f(g(1))", [("g(1", "", ", device=d")], "more than the call"),
        ("x = f(1).g(2)\n", "f(1)", [("g(2", "", ", device=d")], "more than the call"),
        ("x = f(1, device=None)\n", "f(1, device=None)", [("None", "", ", device=d")], "twice"),
        ("x = f(1)\n", "f(1)", [("f(1", "", ", device=d, device=e")], "no longer|twice"),
        ("x = f(1)\n", "f(1)", [("= ", "f", "g()"), ("f(1", "", ", device=d")], "more than"),
        ("x = a[0](1)\n", "a[0](1)", [("= ", "a[0]", "g"), ("(1", "", ", device=d")], "more than"),
        ("x = f(1)\n", "f(1)", [("", "", "a = 1\n"), ("f(1", "", ", device=d")], "more than"),
        (
            "if x:\n    y = f(1)\n",
            "f(1)",
            [("if x:\n", "", "    import a\n"), ("f(1", "", ", device=d")],
            "more than",
        ),
        (
            "from __future__ import annotations\nx = f(1)\n",
            "f(1)",
            [("", "", "import torch\n"), ("f(1", "", ", device=d")],
            "before a __future__ import",
        ),
        (
            '"""Doc."""\nx = f(1)\n',
            "f(1)",
            [("", "", "import torch\n"), ("f(1", "", ", device=d")],
            "before the module's docstring",
        ),
        ("x = '''\nf(1)\n'''\n", "f(1)", [("f(1", "", ", device=d")], "more than the call"),
        ("x = (\n", "x", [("x", "", "y")], "does not parse before"),
        ("x = 1\n", "x", [("x", "", "\0")], "no longer parse"),
        ("x = 1\n", "1", [("= ", "1", "True")], "more than the call"),
        ("x = 1\n", "1", [("= ", "1", "1.0")], "more than the call"),
        ("x = a\n", "a", [("= ", "a", "b")], "more than the call"),
        ("x = -1\n", "-1", [("= ", "-", "~")], "more than the call"),
    ],
)
def test_the_net_refuses(
    text: str, call: str, changes: list[tuple[str, str, str]], reason: str
) -> None:
    answer = net(text, found(text, call, *changes))
    assert answer is not None
    assert re.search(reason, answer), answer
    assert "\n" not in answer


def test_the_net_compares_the_bytes_outside() -> None:
    text = "x = f(1)\n"
    fixed = found(text, "f(1)", ("f(1", "", ", device=d"))
    for after in (b"x = f(1, device=d)", b"x = f(1,  device=d)\n", b"X = f(1, device=d)\n", b""):
        assert verify(text.encode(), after, [fixed]) == "text outside the fixes would change"


def test_a_removed_comment_needs_no_call() -> None:
    text = "x = 1  # noqa: DVL001\n"
    assert net(text, found(text, "# noqa: DVL001", ("x = 1", "  # noqa: DVL001", ""))) is None


def test_several_fixes_in_one_expression() -> None:
    text = "x = f(f(1), f(2, f(3)))\n"
    inner = [found(text, f"f({one}", (f"f({one}", "", ", device=d")) for one in ("1", "3")]
    ends = [replace(one, end=place(text, one.end.offset + 1)) for one in inner]
    outer = found(text, "f(f(1), f(2, f(3)))", ("f(3))", "", ", device=d"))
    assert net(text, *ends, outer) is None


def test_deep_trees_are_checked_or_refused_but_never_crash() -> None:
    chain = "x = f(1)" + " + 1" * 3000 + "\n"
    long = "x = " + "f(1)" + ".a" * 500 + "\n"
    for text in (chain, long):
        answer = net(text, found(text, "f(1)", ("f(1", "", ", device=d")))
        assert answer is None or "parse" in answer
    nested = "x = f(1)\ny = " + "(" * 5000 + ")" * 5000 + "\n"
    answer = net(nested, found(nested, "f(1)", ("f(1", "", ", device=d")))
    assert answer is not None
    assert "does not parse before" in answer


def test_the_net_is_quick_enough() -> None:
    text = "x = f(1)\n" + "y = g(a, b[1], c.d, 'text', k=2)\n" * 5_000
    start = time.perf_counter()
    assert net(text, found(text, "f(1)", ("f(1", "", ", device=d"))) is None
    assert time.perf_counter() - start < 10


# The loop ----------------------------------------------------------------------------------------


def analyse(utf8: bytes) -> tuple[Finding, ...]:
    """Report each `zeros(...)` without `device=`, and `rand(...)` with an unsafe fix."""
    text = utf8.decode()
    starts = [0, *(end.end() for end in re.finditer(rb"\r\n|\r|\n", utf8))]
    findings = []
    for node in ast.walk(ast.parse(text)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
            continue
        if node.func.id not in ("zeros", "rand") or any(one.arg for one in node.keywords):
            continue
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        comma = ", " if node.args else ""
        insertion = Edit(place(text, end - 1), place(text, end - 1), f"{comma}device=d")
        how = Applicability.SAFE if node.func.id == "zeros" else Applicability.UNSAFE
        head = [] if "import d" in text else [Edit(place(text, 0), place(text, 0), "import d\n")]
        findings.append(finding(text, start, end, *head, insertion, how=how))
    return tuple(findings)


def test_fixes_are_applied_until_stable() -> None:
    result = fix_text(b"x = zeros(zeros())\ny = rand(2)\n", analyse, unsafe=False)
    assert result.after == b"import d\nx = zeros(zeros(device=d), device=d)\ny = rand(2)\n"
    assert [len(result.applied), len(result.left), result.problem] == [2, 1, ""]
    both = fix_text(b"x = zeros(zeros())\ny = rand(2)\n", analyse, unsafe=True)
    assert both.after.endswith(b"y = rand(2, device=d)\n")
    assert both.left == ()


@pytest.mark.parametrize("text", [b"", b"x = 1", b"x = zeros(1, a=2)\r\n", b"x = rand(1)\n"])
def test_nothing_to_fix(text: bytes) -> None:
    assert fix_text(text, analyse, unsafe=False) == FixResult(text, (), analyse(text))


@given(st.lists(st.sampled_from(["zeros(1)", "zeros()", "rand(é)", "f(zeros(2), rand())"])))
def test_a_second_run_changes_nothing(calls: list[str]) -> None:
    text = "".join(f"x = {call}\r\n" for call in calls).encode()
    once = fix_text(text, analyse, unsafe=True)
    assert once.problem == ""
    assert once.left == ()
    assert fix_text(once.after, analyse, unsafe=True) == FixResult(once.after)


def with_edits(change: Callable[[Edit], Edit]) -> Callable[[bytes], tuple[Finding, ...]]:
    def changed(utf8: bytes) -> tuple[Finding, ...]:
        return tuple(
            replace(one, fix=replace(one.fix, edits=tuple(change(edit) for edit in one.fix.edits)))
            for one in analyse(utf8)
            if one.fix
        )

    return changed


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda edit: replace(edit, content="%"), "no longer parse"),
        (lambda edit: replace(edit, end=replace(edit.end, offset=999)), "end of the file"),
        (lambda edit: replace(edit, content=edit.content.replace("device", "other")), "more than"),
    ],
)
def test_a_fix_that_is_refused_leaves_the_file_alone(
    change: Callable[[Edit], Edit], problem: str
) -> None:
    text = b"x = zeros(1)\n"
    broken = with_edits(change)
    result = fix_text(text, broken, unsafe=False)
    assert (result.after, result.applied, result.left) == (text, (), broken(text))
    assert problem in result.problem


def test_a_refusal_in_a_later_pass_undoes_the_earlier_ones() -> None:
    def later(utf8: bytes) -> tuple[Finding, ...]:
        broken = with_edits(lambda edit: replace(edit, content="%"))
        return analyse(utf8) if b"import d" not in utf8 else broken(utf8 + b"\nzeros(1)")[-1:]

    result = fix_text(b"x = zeros(1)\n", later, unsafe=False)
    assert result.after == b"x = zeros(1)\n"
    assert result.applied == ()
    assert result.problem


def test_fixes_that_never_settle_are_refused() -> None:
    def endless(utf8: bytes) -> tuple[Finding, ...]:
        text = utf8.decode()
        return (finding(text, 1, 2, Edit(place(text, 0), place(text, 0), "import d\n")),)

    result = fix_text(b"x = 1\n", endless, unsafe=False)
    assert result.after == b"x = 1\n"
    assert "do not settle within 10 passes" in result.problem


# The diff ----------------------------------------------------------------------------------------

CASES = {
    "plain": (b"a\nb\nc\n", b"a\nB\nc\n"),
    "crlf": (b"a\r\nb\r\nc\r\n", b"import x\r\na\r\nb, c\r\nc\r\n"),
    "mixed newlines": (b"a\r\nb\nc\rd\n", b"a\r\nB\nc\rD\n"),
    "no final newline": (b"a\nb", b"a\nB"),
    "final newline gained": (b"a\nb", b"a\nb\n"),
    "final newline lost": (b"a\nb\n", b"a\nb"),
    "no final newline, change above": (b"a\nb\nc", b"A\nb\nc"),
    "crlf, no final newline": (b"a\r\nb", b"a\r\nb\r\nc"),
    "latin-1": (b"\xe9\nb\n", b"\xe9\nB\xe8\n"),
    "form feed": (b"\x0ca\n\x0b\nb\x1c\n\xc2\x85\n", b"\x0ca\n\x0b\nB\x1c\n\xc2\x85\n"),
    "far apart": (
        b"".join(b"%d\n" % n for n in range(60)),
        b"".join(b"%d\n" % n for n in range(60) if n not in (5, 50)) + b"end\n",
    ),
    "from nothing": (b"", b"a\n"),
    "to nothing": (b"a\n", b""),
    "looks like a header": (b"-- a/x\n++ b\n@@ -1 +1 @@\nz\n", b"-- a/x\n++ c\n@@ -1 +1 @@\nz\n"),
}
NAMES = ["a.py", "pkg/a b.py", "ünï.py", "tab\tname.py", 'quo"te.py', "back\\slash.py"]


def apply_patch(folder: Path, name: str, before: bytes, patch: bytes, *command: str) -> bytes:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(before)
    done = subprocess.run(command, cwd=folder, input=patch, capture_output=True, check=False)
    assert done.returncode == 0, (done.stderr + done.stdout).decode()
    return file.read_bytes() if file.exists() else b""


TOOLS = [
    pytest.param(("git", "-c", "core.autocrlf=false", "apply", "-"), id="git"),
    pytest.param(
        ("patch", "-p1", "--no-backup-if-mismatch"),
        id="patch",
        marks=pytest.mark.skipif(shutil.which("patch") is None, reason="no patch"),
    ),
]


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("case", CASES)
def test_patch_tools_take_the_diff(tmp_path: Path, tool: tuple[str, ...], case: str) -> None:
    before, after = CASES[case]
    assert (
        apply_patch(tmp_path, "a.py", before, unified_diff("a.py", before, after), *tool) == after
    )


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("name", NAMES)
def test_patch_tools_take_the_name(tmp_path: Path, tool: tuple[str, ...], name: str) -> None:
    before, after = CASES["plain"]
    assert apply_patch(tmp_path, name, before, unified_diff(name, before, after), *tool) == after


def test_diff_text() -> None:
    assert unified_diff("a.py", b"x\n", b"x\n") == b""
    assert unified_diff("/tmp/a.py", b"x\ny", b"x\nz") == (
        b"--- a/tmp/a.py\n+++ b/tmp/a.py\n@@ -1,2 +1,2 @@\n x\n"
        b"-y\n\\ No newline at end of file\n+z\n\\ No newline at end of file\n"
    )


def test_diff_of_a_large_file_is_quick() -> None:
    lines = [b"    x = call(%d)\n" % n if n % 3 else b"\n" for n in range(60_000)]
    changed = [b"import y\n", *lines]
    for at in range(500, 60_000, 3_000):
        changed[at] = b"    x = other\n"
    start = time.perf_counter()
    patch = unified_diff("a.py", b"".join(lines), b"".join(changed))
    assert time.perf_counter() - start < 10
    assert patch.count(b"\n+") == 21 + 1
