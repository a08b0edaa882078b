"""The cache: right under every change, harmless under every fault.

In: small packages in a temporary folder.  Out: tests.  Never here: timing.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from devicelint import runner
from devicelint.cache import Cache
from devicelint.engine import analyse
from devicelint.files import SourceFile
from devicelint.frozen import facts_from, frozen, results_from, results_to
from devicelint.model import Analysis, Results
from devicelint.settings import Settings

BASE = """\
import torch
from torch import nn


class Base(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.build(n)

    def build(self, n):
        self.table = torch.zeros(n)
"""
MODEL = """\
from pkg.base import Base


class Model(Base):
    def build(self, n):
        self.table = None
"""
HELPER = """\
import torch
from torch import nn


def make(n):
    return torch.arange(n)


class User(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.register_buffer("steps", make(n))
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "pkg"
    folder.mkdir()
    for name, text in (
        ("__init__", ""),
        ("base", BASE),
        ("model", MODEL),
        ("helper", HELPER),
    ):
        put(folder / f"{name}.py", text)
    return tmp_path


def put(path: Path, text: str) -> None:
    """Write a file that was not touched just now, so that its stamp is believed."""
    path.write_text(text, encoding="utf-8")
    before = path.stat().st_mtime - 100
    os.utime(path, (before, before))


def run(
    root: Path,
    cache: Path | None,
    names: tuple[str, ...] = ("__init__", "base", "model", "helper"),
    settings: Settings | None = None,
) -> tuple[dict[str, Analysis], Cache | None]:
    sources = [
        SourceFile(f"pkg/{name}.py", (root / "pkg" / f"{name}.py").read_bytes()) for name in names
    ]
    opened = Cache(cache) if cache is not None else None
    found = analyse(sources, settings or Settings(), jobs=1, cwd=root, cache=opened)
    if opened is not None:
        opened.save()
        opened.close()
    return dict(found), opened


def codes(found: dict[str, Analysis]) -> list[tuple[str, str, int]]:
    return [
        (path, finding.code, finding.start.line)
        for path, one in sorted(found.items())
        for finding in one.findings
    ]


def test_second_run_gives_the_same_without_reading(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = run(package, package / "cache")
    assert codes(first) == [("pkg/base.py", "DVL001", 11), ("pkg/helper.py", "DVL003", 6)]

    def refuse(*_: object) -> None:
        raise AssertionError("read again")

    monkeypatch.setattr("devicelint.workers.read_facts", refuse)
    monkeypatch.setattr("devicelint.joining.read_facts", refuse)
    second, cache = run(package, package / "cache")
    assert second == first
    assert cache is not None
    assert cache.hits == 4


@pytest.mark.parametrize(
    ("name", "old", "new", "expected"),
    [
        (
            "base",
            "torch.zeros(n)",
            "torch.zeros(n, device='cpu')",
            [("pkg/helper.py", "DVL003", 6)],
        ),
        ("base", "self.build(n)", "pass", [("pkg/helper.py", "DVL003", 6)]),
        (
            "model",
            "self.table = None",
            "super().build(n)",
            [("pkg/base.py", "DVL001", 11), ("pkg/helper.py", "DVL003", 6)],
        ),
        ("helper", "make(n))", "None)", [("pkg/base.py", "DVL001", 11)]),
    ],
)
def test_edit_of_one_file_tells_in_all(
    package: Path, name: str, old: str, new: str, expected: list[tuple[str, str, int]]
) -> None:
    run(package, package / "cache")
    path = package / "pkg" / f"{name}.py"
    put(path, path.read_text(encoding="utf-8").replace(old, new))
    cached, _ = run(package, package / "cache")
    assert codes(cached) == expected
    assert cached == run(package, None)[0]


def test_edit_of_a_base_outside_the_run_tells(package: Path) -> None:
    """Only `model` is checked; what it inherits is read from disk, and its digest remembered."""
    put(package / "pkg" / "model.py", MODEL.replace("self.table = None", "self.t = make(n)"))
    path = package / "pkg" / "model.py"
    put(
        path,
        "import torch\n" + path.read_text(encoding="utf-8").replace("make(n)", "torch.ones(n)"),
    )
    first, _ = run(package, package / "cache", ("model",))
    assert codes(first) == [("pkg/model.py", "DVL001", 7)]
    put(package / "pkg" / "base.py", BASE.replace("self.build(n)", "self.n = n"))
    second, _ = run(package, package / "cache", ("model",))
    assert codes(second) == []


TORCH = "import torch\nfrom torch import nn\n\n\n"
#: a class that is a module if its constructor says so, beside one that is for sure
LIKELY = """\
class Sure(nn.Module):
    pass


class Likely(Elsewhere):
    def __init__(self):
        super().__init__()
        self.t = torch.zeros(3)

    def forward(self):
        return self.t
"""
INSIDE = """\
class Sure(nn.Module):
    pass


def make():
    class Inside(nn.Module):
        w = torch.zeros(3)

        def __init__(self):
            super().__init__()
            self.t = torch.zeros(3)

    return Inside
"""
FURTHER_INSIDE = """\
class Sure(nn.Module):
    pass


def make():
    def inner():
        class Inside(nn.Module):
            def __init__(self):
                super().__init__()
                self.t = torch.zeros(3)
"""
CALLER = """\
from pkg.helper import Sure


class Caller(Sure):
    def __init__(self):
        super().__init__()
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (LIKELY, [("DVL001", 12)]),
        (INSIDE, [("DVL011", 11), ("DVL001", 15)]),
        (FURTHER_INSIDE, [("DVL001", 14)]),
    ],
    ids=["likely", "inside", "further inside"],
)
def test_what_another_run_has_read_of_a_file_is_not_all(
    text: str, expected: list[tuple[str, int]], package: Path
) -> None:
    put(package / "pkg" / "helper.py", TORCH + text)
    put(package / "pkg" / "model.py", CALLER)
    run(package, package / "cache", ("model",))
    cached, _ = run(package, package / "cache", ("model", "helper"))
    assert codes(cached) == [("pkg/helper.py", *item) for item in expected]
    assert cached == run(package, None, ("model", "helper"))[0]


def test_what_a_class_is_does_not_rest_on_what_was_read(package: Path) -> None:
    """`Likely` derives from a class of the project first, then from one that nobody knows."""
    put(package / "pkg" / "helper.py", TORCH + LIKELY.replace("Elsewhere", "Base"))
    put(package / "pkg" / "base.py", BASE)
    put(package / "pkg" / "model.py", "from pkg.helper import Likely\n")
    helper = package / "pkg" / "helper.py"
    put(helper, "from pkg.base import Base\n" + helper.read_text(encoding="utf-8"))
    run(package, package / "cache")
    put(package / "pkg" / "base.py", BASE.replace("class Base", "class Other"))
    cached, _ = run(package, package / "cache")
    assert ("pkg/helper.py", "DVL001", 13) in codes(cached)
    assert cached == run(package, None)[0]


def test_settings_that_matter_are_part_of_the_key(package: Path) -> None:
    run(package, package / "cache")
    settings = replace(Settings(), device_expression='"cuda:1"')
    changed, _ = run(package, package / "cache", settings=settings)
    assert changed == run(package, None, settings=settings)[0]


@pytest.mark.parametrize(
    "harm",
    [
        lambda file: file.write_bytes(b"no database at all" * 100),
        lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]),
        lambda file: file.write_bytes(b""),
        lambda file: plant(file, "runs", '{"__class__": "os.system"}'),
        lambda file: plant(file, "runs", "[[[1, 2, 3]], []]"),
        lambda file: plant(file, "runs", "[" * 5000),
        lambda file: plant(file, "facts", '[["torch", 3], 4, [5], "x", 6, 7, 8, 9, []]'),
        lambda file: plant(file, "facts", "[[], [], [[1]], [], [], [[2]], 3, 4, []]"),
    ],
)
def test_damaged_or_planted_cache_is_an_empty_one(
    package: Path, harm: Callable[[Path], object]
) -> None:
    expected, _ = run(package, None)
    run(package, package / "cache")
    (file,) = (package / "cache").glob("*.db")
    harm(file)
    assert run(package, package / "cache")[0] == expected
    assert run(package, package / "cache")[0] == expected


def test_torn_cache_is_made_anew_by_the_run_that_meets_it(package: Path) -> None:
    run(package, package / "cache")
    (file,) = (package / "cache").glob("*.db")
    file.write_bytes(b"no database at all" * 100)
    run(package, package / "cache")
    _, cache = run(package, package / "cache")
    assert cache is not None
    assert (cache.hits, cache.misses) == (4, 0)


def plant(file: Path, table: str, data: str) -> None:
    database = sqlite3.connect(file)
    with database:
        database.execute(f"update {table} set data = ?", (data,))
        if table == "facts":
            database.execute("delete from runs")
    database.close()


def test_cache_that_cannot_be_written_is_done_without(package: Path) -> None:
    blocked = package / "blocked"
    blocked.write_text("a file, not a folder", encoding="utf-8")
    found, _ = run(package, blocked / "cache")
    assert codes(found) == [("pkg/base.py", "DVL001", 11), ("pkg/helper.py", "DVL003", 6)]


def test_runs_at_the_same_time_do_not_disturb_each_other(package: Path) -> None:
    expected, _ = run(package, None)
    found: list[dict[str, Analysis]] = []
    threads = [
        threading.Thread(target=lambda: found.append(run(package, package / "cache")[0]))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 6


def test_old_entries_are_dropped(package: Path) -> None:
    run(package, package / "cache")
    (file,) = (package / "cache").glob("*.db")
    database = sqlite3.connect(file)
    with database:
        database.execute("update facts set used = 0")
        database.execute("insert into facts values ('stale', '[]', 0)")
    put(package / "pkg" / "helper.py", HELPER + "\n")
    run(package, package / "cache")
    rows = {row[0] for row in database.execute("select digest from facts")}
    database.close()
    assert "stale" not in rows


def test_cache_says_that_it_is_one(package: Path) -> None:
    run(package, package / "cache")
    tag = (package / "cache" / "CACHEDIR.TAG").read_text(encoding="utf-8")
    assert tag.startswith("Signature: 8a477f597d28d172789f06886806bc55")
    assert (package / "cache" / ".gitignore").read_text(encoding="utf-8") == "*\n"


def test_results_survive_their_json(package: Path) -> None:
    found, _ = run(package, None)
    results = Results(found, {"other.py": "abc"})
    back = results_from(frozen(results_to(results)))
    assert back.rests_on == results.rests_on
    assert back.analyses == {path: one for path, one in found.items() if one != Analysis()}


def test_facts_survive_their_json(package: Path) -> None:
    import ast

    from devicelint.facts import extract_facts

    facts = extract_facts(ast.parse(HELPER))
    assert facts_from(frozen(json.dumps(facts))) == facts


@pytest.mark.parametrize("helper", ["helper.py", "helper/__init__.py"])
def test_a_module_that_appears_beside_a_file_given_by_name_counts(
    helper: str, tmp_path: Path
) -> None:
    text = "import torch\nfrom helper import Base\n\n\nclass Net(Base):\n"
    text += "    def __init__(self):\n        super().__init__()\n        self.t = torch.zeros(3)\n"
    (tmp_path / "m.py").write_text(text, encoding="utf-8")
    request = runner.Request(cwd=tmp_path, paths=("m.py",), cache=tmp_path / "cache")
    assert runner.check(request, Settings()).files == ()
    path = tmp_path / helper
    path.parent.mkdir(exist_ok=True)
    base = "from torch import nn\n\n\nclass Base(nn.Module):\n    pass\n"
    path.write_text(base, encoding="utf-8")
    (report,) = runner.check(request, Settings()).files
    assert [(one.code, one.symbol) for one in report.findings] == [("DVL001", "Net.__init__")]
