"""Each guard of the fixer stops something that no other one does.

In: for every guard a fix that is wrong in its own way, and the guard taken out.  Out: tests.  Never
here: what a right fix looks like.

With all guards in place the wrong fix is refused and the file stays as it was.  With one taken out
it gets through, and one of the invariants that `test_fix_properties` holds is broken: a guard that
could be taken out without harm would be no guard.
"""

from __future__ import annotations

import ast
import os
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from devicelint import analysis, files, fixer, runner, selection, targets
from devicelint.engine import check_text
from devicelint.fixer import fix_text
from devicelint.model import Applicability, Edit, Finding, Fix, Location, Severity, Sink
from devicelint.rules import expression
from devicelint.settings import Settings

Analyse = Callable[[bytes], tuple[Finding, ...]]

# Wrong fixes -------------------------------------------------------------------------------------


def finding(text: str, call: str, *edits: tuple[str, str, str]) -> Finding:
    """Place a finding; an edit names what is before it, what it replaces, and what it writes."""

    def place(offset: int) -> Location:
        return Location(offset, text.count("\n", 0, offset) + 1, 1)

    start = text.index(call)
    written = []
    for before, old, new in edits:
        at = text.index(before + old) + len(before)
        written.append(Edit(place(at), place(at + len(old)), new))
    return Finding(
        code="DVL001",
        name="attribute-without-device",
        message="",
        severity=Severity.ERROR,
        start=place(start),
        end=place(start + len(call)),
        symbol="M.__init__",
        callable="torch.zeros",
        sink=Sink.ATTRIBUTE,
        reached_via=("M.__init__",),
        reason="",
        advice="",
        fingerprint="",
        fix=Fix("Insert it", Applicability.SAFE, tuple(written)),
        excerpt=(),
        statement=(1, 1),
    )


def once(*findings: Finding) -> Analyse:
    """Find something in the text as it is, and nothing in what becomes of it."""
    asked: list[bytes] = []

    def analyse(utf8: bytes) -> tuple[Finding, ...]:
        asked.append(utf8)
        return findings if utf8 == asked[0] else ()

    return analyse


def nothing(*_: object, **__: object) -> None:
    """Stand in for a guard."""


# Invariants --------------------------------------------------------------------------------------


def parses(text: bytes) -> bool:
    try:
        compile(text, "<fixed>", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True


def tree_of(text: bytes) -> str:
    """Dump a tree without inserted devices and imports of torch."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            node.keywords = [one for one in node.keywords if one.arg != "device"]
    tree.body = [one for one in tree.body if ast.unparse(one) != "import torch"]
    return ast.dump(tree)


def is_harmless(before: bytes, after: bytes) -> bool:
    """Tell whether only devices came in: the tree is the same, and so is every other byte."""
    rest = iter(after)
    return (
        parses(after)
        and tree_of(before) == tree_of(after)
        and ast.get_docstring(ast.parse(before)) == ast.get_docstring(ast.parse(after))
        and all(byte in rest for byte in before)
        and after.count(b"device=") > before.count(b"device=")
    )


# The net over one text ---------------------------------------------------------------------------

PLAIN = "x = f(1)\ny = 2\n"


@dataclass(frozen=True)
class Guard:
    """A guard, what stands in for it once taken out, and the wrong fix that it alone stops."""

    name: str
    stand_in: Callable[..., object]
    text: str
    wrong: Finding


def _no_parse_check(utf8: bytes, complaint: str) -> object:
    try:
        return _parsed(utf8, complaint)
    except fixer._Refusal:
        return _parsed(b"", complaint)


_parsed = fixer._parsed
_written = fixer._written


def _not_compared(change: fixer._Change) -> set[tuple[int, int]]:
    return set(change.calls)


def _any_body(old: ast.Module, new: ast.Module, change: fixer._Change) -> list[ast.stmt]:
    added = [one for one in new.body if isinstance(one, ast.Import) and change.is_written(one)]
    return [one for one in new.body if one not in added]


def _any_keyword(old: ast.Call, new: ast.Call, change: fixer._Change) -> list[object]:
    kept = [one for one in new.keywords if not change.is_written(one)]
    return [(old.func, new.func, 1), (old.args, new.args, 1), (old.keywords, kept, 1)]


DOCUMENTED = '"""Doc."""\nx = f(1)\n'
FUTURE = "from __future__ import annotations\nx = f(1)\n"

NET = (
    Guard(
        "_compare",
        _not_compared,
        PLAIN,
        finding(PLAIN, "f(1)", ("f(1", "", ", device=d"), ("y = ", "2", "3")),
    ),
    Guard(
        "_body_as_before",
        _any_body,
        DOCUMENTED,
        finding(DOCUMENTED, "f(1)", ("", "", "import torch\n"), ("f(1", "", ", device=d")),
    ),
    Guard(
        "_body_as_before",
        _any_body,
        FUTURE,
        finding(FUTURE, "f(1)", ("", "", "import torch\n"), ("f(1", "", ", device=d")),
    ),
    Guard(
        "_call_pairs",
        _any_keyword,
        "x = f(1, device=None)\n",
        finding("x = f(1, device=None)\n", "f(1, device=None)", ("None", "", ", device=d")),
    ),
    Guard(
        "_call_pairs",
        _any_keyword,
        PLAIN,
        finding(PLAIN, "f(1)", ("f(1", "", ", size=3")),
    ),
)


@pytest.mark.parametrize("guard", NET, ids=lambda guard: f"{guard.name}: {guard.text[:12]!r}")
def test_a_guard_of_the_net(guard: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    before = guard.text.encode()
    refused = fix_text(before, once(guard.wrong), unsafe=False)
    assert (refused.after, refused.applied) == (before, ())
    assert refused.problem
    monkeypatch.setattr(fixer, guard.name, guard.stand_in)
    after = fix_text(before, once(guard.wrong), unsafe=False).after
    assert after != before
    assert not is_harmless(before, after)


def test_a_fix_must_reach_its_call(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "x = f(1  # one\n)\n"
    wrong = finding(text, "f(1  # one\n)", ("# one", "", ", device=d"))
    assert "would not reach" in fix_text(text.encode(), once(wrong), unsafe=False).problem
    monkeypatch.setattr(fixer, "_require_effect", nothing)
    after = fix_text(text.encode(), once(wrong), unsafe=False).after
    assert after != text.encode()
    assert ast.dump(ast.parse(after)) == ast.dump(ast.parse(text))  # so it has no device still


def test_what_no_longer_parses_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = finding(PLAIN, "f(1)", ("f(1", "", " device=d"))
    assert "no longer parse" in fix_text(PLAIN.encode(), once(wrong), unsafe=False).problem
    monkeypatch.setattr(fixer, "_parsed", _no_parse_check)
    monkeypatch.setattr(fixer, "_compare", _not_compared)
    assert not parses(fix_text(PLAIN.encode(), once(wrong), unsafe=False).after)


def test_bytes_outside_the_edits_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault in `apply_edits` that no tree shows: a comment is lost."""
    text = b"x = f(1)  # keep\n"
    right = finding(text.decode(), "f(1)", ("f(1", "", ", device=d"))
    apply = fixer.apply_edits
    monkeypatch.setattr(fixer, "apply_edits", lambda *args: apply(*args).replace(b"keep", b"lost"))
    refused = fix_text(text, once(right), unsafe=False)
    assert refused.problem == "text outside the fixes would change"

    def unchecked(before: bytes, after: bytes, edits: list[Edit]) -> object:
        return _written(before, after.replace(b"lost", b"keep"), edits)

    monkeypatch.setattr(fixer, "_written", unchecked)
    after = fix_text(text, once(right), unsafe=False).after
    assert not is_harmless(text, after)


def test_edits_that_overlap_are_not_applied_together(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "x = f(1)\n"
    one = finding(text, "f(1)", ("f(1", "", ", device=d"))
    other = replace(finding(text, "f(1)", ("f(1", "", ", device=e")), code="DVL010")
    right = fix_text(text.encode(), once(one, other), unsafe=False)
    assert right.after == b"x = f(1, device=d)\n"
    monkeypatch.setattr(fixer, "_collide", lambda *_: False)
    assert fix_text(text.encode(), once(one, other), unsafe=False).problem


def test_a_fix_that_never_settles_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(utf8: bytes) -> tuple[Finding, ...]:
        text = utf8.decode()
        return (finding(text, "f(1", ("", "", "import torch\n")),)

    text = b"x = f(1, device=d)\n"
    refused = fix_text(text, endless, unsafe=False)
    assert (refused.after, bool(refused.problem)) == (text, True)
    # Without the last look, what is not stable would be handed out.
    chosen = fixer.select_edits
    looks = iter(range(fixer.MAX_PASSES))
    monkeypatch.setattr(
        fixer,
        "select_edits",
        lambda *args, **options: chosen(*args, **options) if next(looks, None) is not None else (),
    )
    once_more = fix_text(text, endless, unsafe=False)
    assert not once_more.problem
    assert endless(once_more.after)  # a second run would change it again


# All or none -------------------------------------------------------------------------------------

HALF = """\
import torch
from torch import nn


class M(nn.Module):
    def __init__(self, n, values, device):
        super().__init__()
        self.a = torch.outer(torch.arange(n), {})
"""
DRAWN = HALF.format("torch.rand(n)")
SILENCED = HALF.format("y)  # devicelint: ignore\n        x = (n").replace(
    "        self.a", "        y = torch.ones(n)\n        self.a"
)


def fixed(text: str, settings: Settings | None = None, *, unsafe: bool = False) -> str:
    request = runner.Request(cwd=Path.cwd(), stdin=text.encode())
    report = runner.fix(request, settings or Settings(), unsafe=unsafe)
    return report.fixes[0].after.decode() if report.fixes else text


def devices(text: str) -> int:
    return text.count("device=")


def test_what_meets_a_call_without_a_fix_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    text = HALF.format("torch.from_numpy(values)")
    assert devices(fixed(text)) == 0
    monkeypatch.setattr(targets, "_odd_one_out", lambda *_: "")
    assert devices(fixed(text)) == 0, "the second guard: a finding without edits in the group"
    monkeypatch.setattr(analysis, "_common_fix", lambda finding, members: finding.fix)
    assert devices(fixed(text)) == 1, "half of them has a device"


def test_what_meets_a_fix_withheld_late_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    # Only the text of the call shows that it takes no argument.
    text = HALF.format("torch.tensor(i for i in range(n))")
    assert devices(fixed(text)) == 0
    monkeypatch.setattr(analysis, "_common_fix", lambda finding, members: finding.fix)
    assert devices(fixed(text)) == 1


def test_what_meets_a_random_draw_is_as_risky(monkeypatch: pytest.MonkeyPatch) -> None:
    assert devices(fixed(DRAWN)) == 0
    assert devices(fixed(DRAWN, unsafe=True)) == 2
    monkeypatch.setattr(analysis, "_drawn_together", lambda fix: fix)
    monkeypatch.setattr(analysis, "_common_fix", lambda finding, members: finding.fix)
    assert devices(fixed(DRAWN)) == 1


def test_what_meets_a_silenced_call_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert devices(fixed(SILENCED)) == 0
    monkeypatch.setattr(selection, "_held_back", tuple)
    assert devices(fixed(SILENCED)) == 0, "the second guard: a group that is not all there"
    monkeypatch.setattr(fixer, "Counter", lambda _: defaultdict(lambda: 2))
    assert devices(fixed(SILENCED)) == 1


def test_one_that_has_another_device_is_not_met(monkeypatch: pytest.MonkeyPatch) -> None:
    text = HALF.format('torch.ones(n, device="cuda:1")')
    assert devices(fixed(text)) == 1
    monkeypatch.setattr(targets, "_has_other_device", lambda *_: False)
    assert devices(fixed(text)) == 2


# Obstacles ---------------------------------------------------------------------------------------

MODULE = """\
import torch
from torch import nn


class M(nn.Module):
    def __init__(self, n, g):
        super().__init__()
        self.a = {}
"""


@pytest.mark.parametrize(
    ("call", "module", "guard", "stand_in"),
    [
        # `RuntimeError: Expected a 'cuda' device type for generator but found 'cpu'`
        ("torch.rand(n, generator=g)", targets, "FIX_OBSTACLE_KEYWORDS", {}),
        # `RuntimeError: Only dense CPU tensors can be pinned`
        ("torch.zeros(n, layout=torch._mkldnn)", targets, "FIX_OBSTACLE_KEYWORDS", {}),
        # a SyntaxError: the same keyword twice
        ("torch.zeros(n, device=None)", expression, "_obstacle", lambda site: ""),
        # a TypeError: only `normal(float, float, size)` takes a device
        ("torch.normal(g, n)", expression, "_obstacle", lambda site: ""),
    ],
)
def test_an_obstacle(
    call: str,
    module: object,
    guard: str,
    stand_in: object,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = MODULE.format(call)
    assert fixed(text, unsafe=True) == text
    monkeypatch.setattr(module, guard, stand_in)
    if "mkldnn" in call:
        assert fixed(text, unsafe=True) == text, "the second guard: the layout's own name"
        monkeypatch.setattr(expression, "_pinned", lambda site: "")
    if "device=None" in call:
        settings = Settings()
        (broken,) = check_text(text, settings)
        assert broken.fix is not None
        assert broken.fix.edits
        after = fixer.apply_edits(text.encode(), broken.fix.edits)
        assert not parses(after)
        assert fixed(text) == text, "the net stops it in any case"
    else:
        assert fixed(text, unsafe=True) != text


def test_a_name_that_is_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    text = MODULE.format("zeros(n)").replace("from torch import nn", "from torch import nn, zeros")
    text = text.replace("n, g", "n, torch")
    assert fixed(text) == text
    monkeypatch.setattr(analysis, "torch_name", lambda *_: "torch")
    after = fixed(text)
    assert "device=torch.cuda" in after, "a call on a parameter of that name"


def test_quotation_marks_of_an_f_string(monkeypatch: pytest.MonkeyPatch) -> None:
    text = MODULE.format('f"{torch.zeros(n).item()}"')
    assert "device='cpu'" in fixed(text)
    monkeypatch.setattr(analysis, "_requoted", lambda edit, used: edit)
    assert fixed(text) == text
    monkeypatch.setattr(analysis, "_laid_out", lambda fix, look: fix)
    (broken,) = check_text(text)
    assert broken.fix is not None
    after = fixer.apply_edits(text.encode(), broken.fix.edits)
    # From 3.12 on Python itself would take it.
    assert parses(after) == (sys.version_info >= (3, 12))


# The disk ----------------------------------------------------------------------------------------


def test_a_file_that_changed_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def attempt() -> bytes:
        file = tmp_path / "a.py"
        file.write_text(MODULE.format("torch.zeros(n)"))
        request = runner.Request(cwd=tmp_path, paths=("a.py",))
        report = runner.fix(request, Settings(root=tmp_path), unsafe=False)
        file.write_bytes(b"theirs\n")
        left = runner.write(report, tmp_path)
        assert bool(left.left.diagnostics) == (file.read_bytes() == b"theirs\n")
        return file.read_bytes()

    assert attempt() == b"theirs\n"
    monkeypatch.setattr(files, "_require_content", nothing)
    assert attempt() != b"theirs\n"


def test_a_write_that_fails_halfway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def attempt() -> bytes:
        file = tmp_path / "a.py"
        file.write_bytes(b"old" * 100)
        with pytest.raises(OSError, match="full"):
            files.write_atomic(file, b"new" * 100, expected=b"old" * 100)
        return file.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "disk full")

    monkeypatch.setattr(os, "fsync", full)
    assert attempt() == b"old" * 100
    write_like = files._write_like

    def in_place(path: str, data: bytes, model: os.stat_result) -> None:
        (tmp_path / "a.py").write_bytes(data[:10])
        write_like(path, data, model)

    monkeypatch.setattr(files, "_write_like", in_place)
    assert attempt() != b"old" * 100
