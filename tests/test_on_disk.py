"""Files of a large run are read when they are worked on: the same is found, and a change is told.

In: a project of more bytes than a small run has.  Out: tests.  Never here: how many processes.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from devicelint import stages
from devicelint.cache import Cache
from devicelint.engine import analyse
from devicelint.files import OnDisk, SourceError, SourceFile, on_disk
from devicelint.gate import LARGE_RUN
from devicelint.model import Analysis
from devicelint.runner import Request, check, fix, read_sources, write
from devicelint.settings import Settings
from devicelint.silencing import silence

LAYER = """\
import torch
from torch import nn

from base import Base


class Layer{0}(Base):
    def build(self, n):
        super().build(n)
        self.table{0} = torch.full((n, 3), {0}.0)
"""
BASE = """\
import torch
from torch import nn


class Base(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.build(n)

    def build(self, n):
        self.register_buffer("steps", torch.arange(n))
"""
COUNT = 8


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A large project, whose files are old enough for the cache to know them by their times."""
    folder = tmp_path / "project"
    folder.mkdir()
    padding = "# what else a file may hold\n" * (LARGE_RUN // COUNT // 20)
    (folder / "base.py").write_text(BASE, encoding="utf-8")
    for number in range(COUNT):
        text = LAYER.format(number) + padding
        (folder / f"layer{number}.py").write_text(text, encoding="utf-8")
    return folder


def request(project: Path, cache: Path | None = None) -> Request:
    return Request(project, jobs=1, cache=cache)


def sources(project: Path) -> tuple[SourceFile, ...]:
    found, problems = read_sources(request(project), Settings())
    assert not problems
    return found


def codes(analysis: Analysis) -> list[str]:
    return [finding.code for finding in analysis.findings]


def told(analysis: Analysis) -> list[str]:
    return [problem.message for problem in analysis.diagnostics]


def test_files_of_a_large_run_are_not_held(project: Path) -> None:
    found = sources(project)
    assert len(found) == COUNT + 1
    assert all(isinstance(source.content, OnDisk) for source in found)
    assert [source.size for source in found] == [len(source.data) for source in found]
    for number in range(1, COUNT):
        (project / f"layer{number}.py").unlink()
    assert all(isinstance(source.content, bytes) for source in sources(project))


def test_the_same_is_found(project: Path) -> None:
    found = sources(project)
    held = [SourceFile(source.path, source.data) for source in found]
    expected = analyse(held, Settings(), jobs=1, cwd=project)
    assert analyse(found, Settings(), jobs=1, cwd=project) == expected
    assert sum(len(one.findings) for one in expected.values()) == COUNT + 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda path: path.write_text(path.read_text() + "\n"), "was changed while"),
        (lambda path: path.unlink(), "cannot be read: No such file"),
    ],
    ids=["changed", "gone"],
)
@pytest.mark.parametrize("name", ["base.py", "layer3.py"])
def test_a_change_meanwhile_is_told(project: Path, name: str, change, message: str) -> None:
    found = sources(project)
    change(project / name)
    with pytest.raises(SourceError, match=message):
        next(source for source in found if source.path == name).content.read()  # type: ignore[union-attr]
    result = analyse(found, Settings(), jobs=1, cwd=project)
    assert [path for path, one in result.items() if one.diagnostics] == [name]
    assert told(result[name])[0].startswith(message)
    assert not result[name].findings
    if name != "base.py":
        assert codes(result["base.py"]) == ["DVL003"]
        assert codes(result["layer0.py"]) == ["DVL001"]


def test_what_a_run_found_of_a_changing_file_is_not_kept(project: Path, tmp_path: Path) -> None:
    def run(given: tuple[SourceFile, ...]) -> dict[str, Analysis]:
        cache = Cache(tmp_path / "cache")
        result = dict(analyse(given, Settings(), jobs=1, cwd=project, cache=cache))
        cache.save()
        cache.close()
        return result

    expected = run(sources(project))
    (tmp_path / "cache").rename(tmp_path / "first cache")
    found = sources(project)
    text = (project / "layer3.py").read_text(encoding="utf-8")
    (project / "layer3.py").write_text(f"# above\n{text}", encoding="utf-8")
    assert any(one.diagnostics for one in run(found).values())
    (project / "layer3.py").write_text(text, encoding="utf-8")
    assert run(sources(project)) == expected


def test_a_file_that_cannot_be_read_costs_itself_alone(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(self: OnDisk) -> bytes:
        if self.place.endswith("layer3.py"):
            raise SourceError("cannot be read: Permission denied")
        return Path(self.place).read_bytes()

    monkeypatch.setattr(OnDisk, "read", read)
    for cache in (None, tmp_path / "cache", tmp_path / "cache"):
        report = check(request(project, cache), Settings())
        assert [(one.path, one.message) for one in report.diagnostics] == [
            ("layer3.py", "cannot be read: Permission denied")
        ]
        assert len(report.findings) == COUNT


def test_a_large_project_is_fixed(project: Path) -> None:
    report = write(fix(request(project), Settings(), unsafe=True), project)
    assert len(report.fixes) == COUNT + 1
    assert not check(request(project), Settings()).findings
    for number in range(COUNT):
        text = (project / f"layer{number}.py").read_text(encoding="utf-8")
        assert f"torch.full((n, 3), {number}.0, device=" in text


def test_a_file_that_changes_is_not_fixed(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = project / "layer3.py"
    text = path.read_text(encoding="utf-8")
    report = fix(request(project), Settings(), unsafe=True)
    path.write_text(f"{text}# mine\n", encoding="utf-8")
    written = write(report, project)
    assert path.read_text(encoding="utf-8") == f"{text}# mine\n"
    assert len(written.fixes) == COUNT
    assert [one.path for one in written.left.diagnostics] == ["layer3.py"]


def test_a_large_project_is_silenced(project: Path) -> None:
    report = write(silence(request(project), Settings(), "later"), project)
    assert len(report.fixes) == COUNT + 1
    left = check(request(project), Settings())
    assert not left.findings
    assert sum(len(one.suppressed) for one in left.files) == COUNT + 1


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
@pytest.mark.parametrize("is_large", [False, True])
def test_a_pipe_is_read_once_and_held(project: Path, is_large: bool) -> None:
    """As of `devicelint check <(git show HEAD:model.py)`."""
    pipe = project / "pipe.py"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(BASE,), daemon=True)
    writer.start()
    paths = (".", "pipe.py") if is_large else ("pipe.py",)
    report = check(Request(project, paths, jobs=1), Settings())
    writer.join(10)
    assert not report.diagnostics
    assert [finding.code for path, finding in report.findings if path == "pipe.py"] == ["DVL003"]


@pytest.mark.skipif(not Path("/proc/version").exists(), reason="needs /proc")
def test_a_file_that_is_told_to_be_empty(project: Path) -> None:
    report = check(Request(project, ("/proc/version",), jobs=1), Settings())
    assert [one.message for one in report.diagnostics] == ["syntax error: invalid syntax"]


BROKEN = """\
from torch import nn, zeros


class Broken(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = zeros(3)


def elsewhere(n):
    return n n
"""


@pytest.mark.parametrize("limit", [0, LARGE_RUN])
def test_a_syntax_error_elsewhere_is_told_once(
    limit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `zeros` is where it is called, only the names of the whole file tell."""
    monkeypatch.setattr(stages, "LARGE_RUN", limit)
    given = [SourceFile("broken.py", BROKEN.encode())]
    result = analyse(given, Settings(), jobs=1, cwd=tmp_path)["broken.py"]
    assert [(one.line, one.message) for one in result.diagnostics] == [
        (11, "syntax error: invalid syntax")
    ]


def test_what_a_file_is_like(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"x = 1\n")
    found = on_disk(str(path))
    assert (found.size, found.read()) == (6, b"x = 1\n")
    path.write_bytes(b"x = 22\n")
    with pytest.raises(SourceError, match="was changed"):
        found.read()
    with pytest.raises(SourceError, match="cannot be read"):
        on_disk(str(tmp_path / "b.py"))
