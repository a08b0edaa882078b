"""The baseline: what is known, new and stale after an edit, and the file that it is kept in.

In: a small project that is edited at random, with a model of what each edit does to its findings.
Out: tests.  Never here: how findings come about.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from devicelint import baseline, runner
from devicelint.baseline import BaselineError
from devicelint.known import load, save
from devicelint.model import BaselineEntry, RunReport
from devicelint.settings import Settings

FILE = "known.jsonl"


# A project with a model --------------------------------------------------------------------------


@dataclass(slots=True)
class Method:
    """A method that builds tensors; a statement is told apart by its number of elements."""

    name: str
    sizes: list[int]


@dataclass(slots=True)
class Project:
    """Classes by file, and blank lines and comments strewn over them."""

    files: dict[str, dict[str, list[Method]]]
    noise: dict[str, int] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        for old in folder.rglob("*.py"):
            old.unlink()
        for path, classes in self.files.items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(self._text(path, classes), encoding="utf-8")

    def _text(self, path: str, classes: dict[str, list[Method]]) -> str:
        lines = ["# noise"] * self.noise.get(path, 0)
        lines += ["import torch", "from torch import nn"]
        for name, methods in classes.items():
            lines += ["", "", f"class {name}(nn.Module):", "    def __init__(self):"]
            lines += ["        super().__init__()", "        self.kept = []"]
            lines += [f"        self.{method.name}()" for method in methods]
            for method in methods:
                lines += ["", f"    def {method.name}(self):", "        pass"]
                for size in method.sizes:
                    lines += ["        # noise"] * self.noise.get(f"{path}:{name}", 0)
                    lines.append(f"        self.kept.append(torch.zeros({size}))")
        return "\n".join(lines) + "\n"

    def identities(self) -> dict[tuple[str, str, int], int]:
        """Count findings by file, symbol and statement."""
        found: dict[tuple[str, str, int], int] = {}
        for path, classes in self.files.items():
            for name, methods in classes.items():
                for method in methods:
                    for size in method.sizes:
                        key = (path, f"{name}.{method.name}", size)
                        found[key] = found.get(key, 0) + 1
        return found


def grown() -> Project:
    return Project(
        {
            "pkg/a.py": {
                "Alpha": [Method("build", [1, 2, 2]), Method("widen", [3])],
                "Beta": [Method("build", [1, 2])],
            },
            "pkg/b.py": {"Gamma": [Method("build", [4, 5, 6])]},
            "pkg/c.py": {"Delta": [Method("build", [7, 7])], "Eps": [Method("build", [8])]},
        }
    )


def some_method(project: Project, dice: random.Random) -> Method:
    classes = [one for classes in project.files.values() for one in classes.values()]
    return dice.choice([method for methods in classes for method in methods])


def insert_lines(project: Project, dice: random.Random) -> None:
    path = dice.choice(sorted(project.files))
    name = dice.choice(sorted(project.files[path]))
    for place in (path, f"{path}:{name}"):
        project.noise[place] = project.noise.get(place, 0) + dice.randint(0, 4)


def rename_method(project: Project, dice: random.Random) -> None:
    some_method(project, dice).name = f"m{dice.randint(0, 99_999)}"


def add_finding(project: Project, dice: random.Random) -> None:
    sizes = some_method(project, dice).sizes
    sizes.insert(dice.randint(0, len(sizes)), dice.choice([*sizes, dice.randint(10, 99)]))


def fix_one(project: Project, dice: random.Random) -> None:
    method = some_method(project, dice)
    if method.sizes:
        method.sizes.pop(dice.randrange(len(method.sizes)))


def fix_one_and_add_another(project: Project, dice: random.Random) -> None:
    method = some_method(project, dice)
    if method.sizes:
        method.sizes[dice.randrange(len(method.sizes))] = dice.randint(100, 999)


def move_class(project: Project, dice: random.Random) -> None:
    path = dice.choice(sorted(project.files))
    classes = project.files[path]
    name = dice.choice(sorted(classes))
    others = [
        other for other in project.files if other != path and name not in project.files[other]
    ]
    if len(classes) > 1 and others:
        project.files[dice.choice(sorted(others))][name] = classes.pop(name)


def swap_order(project: Project, dice: random.Random) -> None:
    path = dice.choice(sorted(project.files))
    items = list(project.files[path].items())
    dice.shuffle(items)
    project.files[path] = dict(items)


EDITS: tuple[Callable[[Project, random.Random], None], ...] = (
    insert_lines,
    rename_method,
    add_finding,
    fix_one,
    fix_one_and_add_another,
    move_class,
    swap_order,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pkg").mkdir()
    return tmp_path


def record(folder: Path, **changes: object) -> runner.Recorded:
    return runner.record(request(folder), settings(folder, **changes), str(folder / FILE))


def check(folder: Path, *paths: str, **changes: object) -> RunReport:
    return runner.check(request(folder, *paths), settings(folder, **changes))


def request(folder: Path, *paths: str) -> runner.Request:
    return runner.Request(folder, paths or (".",))


def settings(folder: Path, **changes: object) -> Settings:
    return replace(Settings(), root=folder, baseline=str(folder / FILE), **changes)


def told(run: RunReport) -> tuple[dict[tuple[str, str, int], int], ...]:
    """Count new and known findings and stale entries, as the model names them."""
    new: dict[tuple[str, str, int], int] = {}
    known: dict[tuple[str, str, int], int] = {}
    for report in run.files:
        for found, findings in ((new, report.findings), (known, report.baselined)):
            for finding in findings:
                size = int(finding.excerpt[0].partition("zeros(")[2].partition(")")[0])
                key = (report.path, finding.symbol, size)
                found[key] = found.get(key, 0) + 1
    return new, known


@pytest.mark.parametrize("seed", range(24))
def test_random_edits_tell_exactly_what_changed(folder: Path, seed: int) -> None:
    dice = random.Random(seed)
    project = grown()
    project.write(folder)
    recorded = record(folder)
    before = project.identities()
    assert recorded.total == recorded.new == sum(before.values())
    # Every kind of edit alone, then several at once.
    edits = [EDITS[seed % len(EDITS)]]
    edits += [dice.choice(EDITS) for _ in range(seed // len(EDITS) * 2)]
    for edit in edits:
        edit(project, dice)
    project.write(folder)
    after = project.identities()
    keys = before.keys() | after.keys()
    new = {key: after.get(key, 0) - before.get(key, 0) for key in keys}
    known = {key: min(after.get(key, 0), before.get(key, 0)) for key in keys}
    run = check(folder)
    assert told(run) == (
        {key: count for key, count in new.items() if count > 0},
        {key: count for key, count in known.items() if count > 0},
    )
    stale: dict[tuple[str, str], int] = {}
    for key, count in new.items():
        if count < 0:
            stale[key[:2]] = stale.get(key[:2], 0) - count
    counted: dict[tuple[str, str], int] = {}
    for entry in run.stale:
        counted[entry.path, entry.symbol] = counted.get((entry.path, entry.symbol), 0) + 1
    assert counted == stale
    again = record(folder)
    assert (again.total, again.dropped) == (sum(after.values()), sum(stale.values()))
    final = check(folder)
    assert (final.findings, final.stale) == ((), ())


# Renamed files -----------------------------------------------------------------------------------


def test_a_renamed_file_is_followed(folder: Path) -> None:
    project = grown()
    project.write(folder)
    record(folder)
    (folder / "pkg/b.py").rename(folder / "pkg/new.py")
    (folder / "pkg/deep").mkdir()
    (folder / "pkg/c.py").rename(folder / "pkg/deep/c.py")
    run = check(folder)
    assert (run.findings, run.stale) == ((), ())
    recorded = record(folder)
    assert (recorded.new, recorded.dropped) == (0, 0)
    paths = {entry.path for entry in load(str(folder / FILE), folder)}
    assert paths == {"pkg/a.py", "pkg/new.py", "pkg/deep/c.py"}


def test_a_renamed_file_with_another_finding_is_new(folder: Path) -> None:
    project = grown()
    project.write(folder)
    record(folder)
    project.files["pkg/new.py"] = project.files.pop("pkg/b.py")
    project.files["pkg/new.py"]["Gamma"][0].sizes.append(50)
    project.write(folder)
    run = check(folder)
    assert {path for path, _ in run.findings} == {"pkg/new.py"}
    assert len(run.findings) == 4
    assert {entry.path for entry in run.stale} == {"pkg/b.py"}


def test_a_copied_file_is_new(folder: Path) -> None:
    grown().write(folder)
    record(folder)
    shutil.copyfile(folder / "pkg/b.py", folder / "pkg/copy.py")
    assert {path for path, _ in check(folder).findings} == {"pkg/copy.py"}


def test_twins_that_move_keep_their_names(folder: Path) -> None:
    text = "import torch\nfrom torch import nn\nclass A(nn.Module):\n    def __init__(self):\n"
    for name in ("x", "y"):
        (folder / f"pkg/{name}.py").write_text(f"{text}        self.a = torch.zeros(1)\n")
    record(folder)
    (folder / "other").mkdir()
    for name in ("x", "y"):
        (folder / f"pkg/{name}.py").rename(folder / f"other/{name}.py")
    run = check(folder)
    assert (run.findings, run.stale) == ((), ())


# Layout ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "self.x = torch.zeros(3, 4)  # three",
        "self.x = torch.zeros( 3,4 )",
        "self.x = torch.zeros(\n            3,\n            4,  # four\n        )",
        "self.x = \\\n            torch.zeros(3, 4)",
        "# above\n        self.x = torch.zeros(3, 4)  # noqa: E501",
    ],
)
def test_layout_and_comments_do_not_count(folder: Path, statement: str) -> None:
    head = "import torch\nfrom torch import nn\nclass A(nn.Module):\n    def __init__(self):\n"
    file = folder / "a.py"
    file.write_text(f"{head}        self.x = torch.zeros(3, 4)\n")
    record(folder)
    file.write_text(f"{head}        {statement}\n")
    run = check(folder)
    assert (run.findings, run.stale) == ((), ())
    file.write_text(f"{head}        {statement.replace('4', '5')}\n")
    run = check(folder)
    assert (len(run.findings), len(run.stale)) == (1, 1)


# What a run does not see -------------------------------------------------------------------------


def test_files_that_are_not_checked_keep_their_entries(folder: Path) -> None:
    project = grown()
    project.write(folder)
    total = record(folder).total
    run = check(folder, "pkg/a.py")
    assert (run.findings, run.stale) == ((), ())
    recorded = runner.record(request(folder, "pkg/a.py"), settings(folder), str(folder / FILE))
    assert (recorded.total, recorded.new, recorded.dropped) == (total, 0, 0)


def test_rules_that_are_not_selected_keep_their_entries(folder: Path) -> None:
    grown().write(folder)
    total = record(folder).total
    for changes in ({"select": ("DVL002",)}, {"ignore": ("DVL001",)}):
        assert check(folder, **changes).stale == ()
        assert record(folder, **changes).total == total


def test_a_file_that_cannot_be_checked_keeps_its_entries(folder: Path) -> None:
    grown().write(folder)
    total = record(folder).total
    with (folder / "pkg/b.py").open("a") as file:
        file.write("x = (\n")
    run = check(folder)
    assert run.diagnostics
    assert (run.findings, run.stale) == ((), ())
    assert record(folder).total == total


def test_a_silenced_finding_is_stale(folder: Path) -> None:
    grown().write(folder)
    record(folder)
    file = folder / "pkg/c.py"
    file.write_text(f"# devicelint: skip-file\n{file.read_text()}")
    assert {entry.path for entry in check(folder).stale} == {"pkg/c.py"}


def test_fix_leaves_known_findings_alone(folder: Path) -> None:
    project = grown()
    project.write(folder)
    record(folder)
    project.files["pkg/b.py"]["Gamma"][0].sizes.append(60)
    project.write(folder)
    fixed = runner.fix(request(folder), settings(folder), unsafe=False)
    assert [len(one.applied) for one in fixed.fixes] == [1]
    assert fixed.left.findings == ()


# The file ----------------------------------------------------------------------------------------


def test_the_file_is_sorted_and_one_line_an_entry(folder: Path) -> None:
    grown().write(folder)
    record(folder)
    lines = (folder / FILE).read_text().splitlines()
    assert json.loads(lines[0]) == {"devicelint-baseline": baseline.VERSION}
    entries = [json.loads(line) for line in lines[1:]]
    assert all(list(entry) == list(entries[0]) for entry in entries)
    keys = [tuple(entry.values()) for entry in entries]
    assert keys == sorted(keys)
    assert not any("line" in key for key in entries[0])
    before = (folder / FILE).read_bytes()
    record(folder)
    assert (folder / FILE).read_bytes() == before


def test_paths_are_those_from_the_file(folder: Path) -> None:
    grown().write(folder)
    (folder / "ci").mkdir()
    file = folder / "ci" / FILE
    runner.record(request(folder), settings(folder), str(file))
    assert '"path": "../pkg/a.py"' in file.read_text()
    elsewhere = folder / "pkg"
    run = runner.check(
        runner.Request(elsewhere, (".",)), replace(settings(folder), baseline=str(file))
    )
    assert (run.findings, run.stale) == ((), ())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a baseline: the first line must be its header"),
        ("{}\n", "not a baseline: the first line must be its header"),
        ("[]\n", "line 1: not an object"),
        ('{"devicelint-baseline": 99}\n', "a baseline of version 99, not 1: write it again"),
        ('{"devicelint-baseline": 1}\n{"path": "a"}\n', "line 2: an entry needs path, code"),
        ('{"devicelint-baseline": 1}\nx\n', "line 2: not JSON"),
        ('{"devicelint-baseline": 1}\n<<<<<<< ours\n', "line 2: a merge conflict"),
    ],
)
def test_a_wrong_file_is_named(folder: Path, text: str, message: str) -> None:
    (folder / FILE).write_text(text)
    with pytest.raises(BaselineError) as raised:
        load(str(folder / FILE), folder)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_missing_file_is_an_error(folder: Path) -> None:
    with pytest.raises(BaselineError, match="no such baseline, `--write-baseline` makes one"):
        load(str(folder / FILE), folder)
    (folder / FILE).write_bytes(b"\xff")
    with pytest.raises(BaselineError, match="not utf-8"):
        load(str(folder / FILE), folder)


def test_a_failed_write_leaves_the_old_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = BaselineEntry("a.py", "DVL001", "A", "torch.zeros", "0" * 32)
    save(str(folder / FILE), folder, [entry])
    before = (folder / FILE).read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for name in (FILE, "new.jsonl"):
        with pytest.raises(BaselineError, match="cannot be written: No space left"):
            save(str(folder / name), folder, [])
    assert (folder / FILE).read_bytes() == before
    assert sorted(path.name for path in folder.iterdir()) == [FILE, "pkg"]


def test_lines_of_both_branches_are_taken(folder: Path) -> None:
    entries = [BaselineEntry(f"{name}.py", "DVL001", "A", "f", name * 8) for name in "abc"]
    both = baseline.render(entries[:2]) + baseline.render(entries[2:]).split(b"\n", 1)[1]
    assert baseline.parse(both) == tuple(entries)
