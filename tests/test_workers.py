"""One process, several, and the cache: the same is found.

In: all fixtures in one run, with as much other code as makes processes worth their start.  Out:
tests.  Never here: timing, or what is found.
"""

from __future__ import annotations

import concurrent.futures
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from devicelint import workers
from devicelint.cache import Cache
from devicelint.engine import analyse
from devicelint.files import SourceFile
from devicelint.gate import LARGE_RUN
from devicelint.glance import glance_at
from devicelint.ir import Glance
from devicelint.model import Analysis
from devicelint.reading import read_facts
from devicelint.settings import Settings
from devicelint.workers import Workers

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"

#: code that is read: modules which build what the fixtures' helpers do
MODULE = '''\
class Layer{0}(Base):
    """As long as the code of a project."""

    def build(self, n):
        super().build(n)
        self.table{0} = torch.full((n, {0}), 1.0)

    def forward(self, x):
'''
FORWARD = "        x = x * self.scale + self.shift if self.training else x.detach() + {0}\n" * 30

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
FILES = 8

Found = Mapping[str, Analysis]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All fixtures, and files of modules beside them."""
    folder = tmp_path_factory.mktemp("project")
    shutil.copytree(FIXTURES, folder / "fixtures", ignore=shutil.ignore_patterns("*.md", "deep_*"))
    (folder / "base.py").write_text(BASE, encoding="utf-8")
    for number in range(FILES):
        layers = "".join((MODULE + FORWARD).format(item) for item in range(24))
        text = f"import torch\n\nfrom base import Base\n\n\n{layers}"
        (folder / f"layers{number}.py").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def sources(project: Path) -> list[SourceFile]:
    found = [
        SourceFile(path.relative_to(project).as_posix(), path.read_bytes())
        for path in sorted(project.rglob("*.py"))
    ]
    assert sum(len(source.data) for source in found) > LARGE_RUN
    return found


@pytest.fixture(scope="module")
def serial(project: Path, sources: list[SourceFile]) -> Found:
    """What one process finds."""
    return analyse(sources, Settings(), jobs=1, cwd=project)


@pytest.fixture
def pools(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of processes of each pool that is started."""
    started: list[int] = []

    class Pool(concurrent.futures.ProcessPoolExecutor):
        def __init__(self, count: int, **options) -> None:
            started.append(count)
            super().__init__(count, **options)

    monkeypatch.setattr(concurrent.futures, "ProcessPoolExecutor", Pool)
    return started


def run(project: Path, sources: list[SourceFile], cache: Path | None, jobs: int) -> Found:
    opened = Cache(cache) if cache is not None else None
    found = analyse(sources, Settings(), jobs=jobs, cwd=project, cache=opened)
    if opened is not None:
        opened.save()
        opened.close()
    return found


def test_there_is_something_to_find(serial: Found) -> None:
    codes = {finding.code for one in serial.values() for finding in one.findings}
    assert len(codes) >= 10
    assert sum(len(one.findings) for one in serial.values()) > FILES * 20
    assert any(one.diagnostics for one in serial.values())
    assert any(one.looked for one in serial.values())


def test_several_processes_find_what_one_finds(
    project: Path, sources: list[SourceFile], serial: Found, pools: list[int]
) -> None:
    assert run(project, sources, None, 2) == serial
    assert pools == [2]


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_cache_holds_what_was_found(
    jobs: int, project: Path, sources: list[SourceFile], serial: Found, tmp_path: Path, pools
) -> None:
    assert run(project, sources, tmp_path / "cache", jobs) == serial
    assert pools == [2] * (jobs - 1)
    # of one and of several processes, whichever was first
    assert run(project, sources, tmp_path / "cache", 3 - jobs) == serial
    assert pools == [2] * (jobs - 1)


def test_facts_of_the_cache_are_those_read(
    project: Path, sources: list[SourceFile], serial: Found, tmp_path: Path
) -> None:
    """A run over other files recalls no results, only what the files hold."""
    run(project, [one for one in sources if "layers7" not in one.path], tmp_path / "cache", 1)
    assert run(project, sources, tmp_path / "cache", 1) == serial


def test_the_order_of_the_files_does_not_matter(
    project: Path, sources: list[SourceFile], serial: Found
) -> None:
    assert run(project, sources[::-1], None, 1) == serial


def test_a_small_run_starts_no_process(
    project: Path, sources: list[SourceFile], pools: list[int]
) -> None:
    small = [source for source in sources if "layers" not in source.path]
    assert sum(len(source.data) for source in small) <= LARGE_RUN
    run(project, small, None, 2)
    assert pools == []


# A pool by itself ---------------------------------------------------------------------------------


@pytest.fixture
def given() -> dict[str, SourceFile]:
    texts = {
        f"{number}.py": f"class C{number}(nn.Module):\n    x = {number}\n" + "# pad\n" * 9000
        for number in range(8)
    }
    return {path: SourceFile(path, text.encode()) for path, text in texts.items()}


def test_a_pool_gives_something_for_every_file(given: dict[str, SourceFile], pools) -> None:
    with Workers(2, given) as pool:
        glances = dict(pool.glance(given))
        facts = dict(pool.read({path: frozenset() for path in given}, dict))
    assert pools == [2]
    assert glances == {path: glance_at(one.data) for path, one in given.items()}
    assert facts == {path: read_facts(path, one.data, ()) for path, one in given.items()}


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_reading_leads_to_is_read(jobs: int, given: dict[str, SourceFile], pools) -> None:
    """Files that are named on the way are read in the same go."""
    paths = sorted(given)
    steps = iter([paths[5:6], paths[6:], [], []])

    def further() -> dict[str, frozenset[str]]:
        return {path: frozenset() for path in next(steps, [])}

    with Workers(jobs, given) as pool:
        read = [path for path, _ in pool.read(dict.fromkeys(paths[:5], frozenset()), further)]
    assert sorted(read) == paths
    assert len(pools) == jobs - 1


def dies(given: Mapping[str, SourceFile], items: list[tuple[str]]) -> list[tuple[str, Glance]]:
    """Look at files, and die of one of them."""
    for (path,) in items:
        if path == "3.py":
            os._exit(1)
    return [(path, glance_at(given[path].data)) for (path,) in items]


def test_a_file_that_kills_its_process_costs_itself_alone(
    given: dict[str, SourceFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "_glance", dies)
    with Workers(2, given) as pool:
        found = dict(pool.glance(given))
    assert found.keys() == given.keys()
    assert [path for path, one in found.items() if not isinstance(one, Glance)] == ["3.py"]
