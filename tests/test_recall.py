"""A run after an edit: what it recalls of the run before is what it would find out anew.

In: a package large enough to be recalled, and edits of it.  Out: tests.  Never here: timing, or
faults of the cache itself.

Whether the construction code is walked again is seen by the call of `join`.
"""

from __future__ import annotations

import ast
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devicelint import stages
from devicelint.cache import Cache
from devicelint.engine import analyse
from devicelint.files import SourceFile
from devicelint.gate import LARGE_RUN
from devicelint.model import Analysis
from devicelint.settings import Settings

BASE = '''\
"""Bases."""
import torch
from torch import nn


class Base(nn.Module):
    """What all models are."""

    scale = 2

    def __init__(self, n=4, device=None):
        """Build it."""
        super().__init__()
        self.build(n)
        self.first = torch.zeros(4)
        self.both = torch.zeros(1), torch.ones(2)

    def build(self, n):
        self.table = torch.zeros(n)

    def forward(self, x):
        """Run it."""
        return x + self.table
'''
MODEL = """\
import torch

from pkg import Sub
from pkg.base import Base
from pkg.helper import make


class Model(Base):
    def build(self, n):
        self.table = None

    def forward(self, x):
        return x


class Wide(Sub):
    def build(self, n):
        def inner(size):
            return torch.ones(size)

        super().build(n)
        self.wide = inner(n)
        self.register_buffer("long", make(n))
"""
HELPER = """\
import torch


def make(n, device=None):
    # one each
    return torch.arange(n)


def make(n):
    return torch.arange(n, 2)


def unused(n):
    return torch.full((n,), 1.0)
"""
#: silenced in part, and with a comment that silences nothing
QUIET = """\
import torch
from torch import nn


class Quiet(nn.Module):
    def __init__(self):
        super().__init__()
        # devicelint: ignore[DVL001] it is small
        self.a = torch.zeros(3)
        self.b = torch.zeros(3)
        self.c = nn.Linear(3, 3)  # devicelint: ignore[DVL002]

    def forward(self, x):
        return x
"""
#: no module, and not read
PLAIN = '''\
"""Settings."""
from dataclasses import dataclass

import torch


@dataclass
class Options:
    """What is set."""

    size: int = 3

    def table(self):
        return torch.zeros(self.size)


class Holder:
    def __init__(self):
        self.table = torch.zeros(3)
'''
BROKEN = """\
import torch
from torch import nn


class Broken(nn.Module):
    size = = 3

    def __init__(self):
        super().__init__()
        self.a = torch.zeros(3)
"""
TEXTS = {
    "__init__": "from pkg.base import Base as Sub\n",
    "base": BASE,
    "model": MODEL,
    "helper": HELPER,
    "quiet": QUIET,
    "plain": PLAIN,
    "broken": BROKEN,
}
PAD = "def pad_{0}(x):\n    # as long as a project, and of no interest\n    return x + {0}\n\n\n"
PADS = {f"pad{number}": "".join(map(PAD.format, range(480))) for number in range(12)}

Found = Mapping[str, Analysis]


@dataclass(frozen=True, slots=True)
class Ground:
    """The package as it was in its first run, and the cache after that run."""

    root: Path
    cache: Path

    def path(self, name: str) -> Path:
        return self.root / "pkg" / f"{name}.py"

    def put(self, name: str, data: bytes) -> None:
        """Write a file that was not touched just now, so that its stamp is believed."""
        path = self.path(name)
        path.write_bytes(data)
        before = path.stat().st_mtime - 100
        os.utime(path, (before, before))

    def copy_of_cache(self, number: int) -> Path:
        """Copy the cache, so that a run leaves it as it is."""
        return Path(shutil.copytree(self.cache, self.cache.with_name(f"cache_{number}")))

    def restore(self) -> None:
        for name, text in (TEXTS | PADS).items():
            if self.path(name).read_bytes() != text.encode():
                self.put(name, text.encode())

    def run(self, cache: Path | None, jobs: int = 1, options: Settings | None = None) -> Found:
        sources = [
            SourceFile(f"pkg/{name}.py", self.path(name).read_bytes()) for name in TEXTS | PADS
        ]
        opened = Cache(cache) if cache is not None else None
        found = analyse(sources, options or Settings(), jobs=jobs, cwd=self.root, cache=opened)
        if opened is not None:
            opened.save()
            opened.close()
        return found


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Ground:
    ground = Ground(tmp_path_factory.mktemp("project"), tmp_path_factory.mktemp("first"))
    ground.path("base").parent.mkdir()
    for name, text in (TEXTS | PADS).items():
        ground.put(name, text.encode())
    ground.run(ground.cache)
    return ground


@pytest.fixture
def ground(first: Ground, tmp_path: Path) -> Iterator[Ground]:
    """The package, with a cache of the first run alone."""
    yield Ground(first.root, Path(shutil.copytree(first.cache, tmp_path / "cache")))
    first.restore()


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows with every walk."""
    made: list[int] = []
    join = stages.join

    def noted(*arguments):
        made.append(len(made))
        return join(*arguments)

    monkeypatch.setattr(stages, "join", noted)
    return made


def changed(name: str, old: str, new: str) -> bytes:
    """Give a file with one place edited."""
    text = (TEXTS | PADS)[name]
    assert old in text, "the edit is out of date"
    return text.replace(old, new, 1).encode()


def parses(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def agrees(ground: Ground) -> bool:
    """Run with the cache and without it."""
    return ground.run(ground.cache) == ground.run(None)


def test_the_package_is_large_and_has_findings_of_many_kinds(ground: Ground) -> None:
    assert sum(len(text) for text in (TEXTS | PADS).values()) > LARGE_RUN
    found = ground.run(None)
    codes = {
        (path.rpartition("/")[2], finding.code)
        for path, one in found.items()
        for finding in one.findings
    }
    assert codes == {
        ("base.py", "DVL001"),
        ("model.py", "DVL001"),
        ("helper.py", "DVL003"),
        ("quiet.py", "DVL001"),
    }
    assert found["pkg/broken.py"].diagnostics
    assert found["pkg/quiet.py"].looked is not None


# One file -----------------------------------------------------------------------------------------

#: file, text before, text after: nothing that the run has used
SAYS_THE_SAME = [
    ("comment above", "base", "import torch\n", "# about it\nimport torch\n"),
    ("comment at the end", "base", "self.build(n)", "self.build(n)  # as it is"),
    ("comment gone", "helper", "    # one each\n", ""),
    ("empty line", "base", "\n\n\nclass", "\n\n\n\nclass"),
    ("docstring of the file", "base", "Bases.", "Bases,\nin two lines."),
    ("docstring of the class", "base", "What all models are.", "What\n    they are."),
    ("docstring of a method", "base", "Build it.", "Build it on a device."),
    ("number in an argument", "base", "torch.zeros(4)", "torch.zeros(44)"),
    ("call over two lines", "base", "torch.zeros(4)", "torch.zeros(\n            4\n        )"),
    ("line moved to the right", "base", "self.build(n)\n", "self.build( n )\n"),
    ("code in forward", "base", "return x + self.table", "y = x * 2\n        return y"),
    ("tensor in forward", "model", "return x\n", "return x + torch.zeros(3)\n"),
    ("in a function nobody calls", "helper", "torch.full((n,), 1.0)", "torch.rand(n)"),
    ("a name of no use", "base", "self.build(n)\n", "self.build(n)\n        _ = 0\n"),
    ("above a redefinition", "helper", "import torch\n", "import torch\n\n#\n"),
    ("above a nested function", "model", "def inner", "# inner\n        def inner"),
    ("noqa for all", "base", "torch.zeros(n)", "torch.zeros(n)  # noqa"),
    ("reason of a directive", "quiet", "it is small", "it is quite small"),
    (
        "one more directive",
        "quiet",
        "self.b = torch.zeros(3)",
        "self.b = torch.zeros(3)  # devicelint: ignore",
    ),
    ("directive moved", "quiet", "        # devicelint", "\n        # devicelint"),
    ("lines above directives", "quiet", "import torch\n", "# one\n# two\nimport torch\n"),
    ("code without modules", "plain", "torch.zeros(self.size)", "torch.ones(self.size)"),
    ("constructor of no module", "plain", "self.table = torch.zeros(3)", "self.table = 3"),
    ("import that no base needs", "plain", "import torch\n", "import math\n\nimport torch\n"),
    ("function of no interest", "pad3", "return x + 7\n", "return x - 7\n"),
    ("error in what is not read", "pad3", "return x + 7\n", "return x +\n"),
]

#: what the run has used is not as it was
SAYS_ANOTHER_THING = [
    ("tensor gone", "base", "        self.first = torch.zeros(4)\n", ""),
    ("kept under another name", "base", "self.first =", "self.other ="),
    ("not kept", "base", "self.first =", "first ="),
    ("other base", "model", "class Model(Base)", "class Model(torch.nn.Module)"),
    ("base of no module", "model", "class Wide(Sub)", "class Wide(object)"),
    (
        "override gone",
        "model",
        "def build(self, n):\n        self",
        "def built(self, n):\n        self",
    ),
    ("import of another thing", "model", "import make", "import unused as make"),
    ("re-export of another thing", "__init__", "base import Base", "plain import Holder"),
    ("default", "base", "device=None", 'device="cpu"'),
    ("tensor as a default", "base", "def build(self, n):", "def build(self, n=torch.ones(2)):"),
    (
        "call in a class body",
        "base",
        "    scale = 2\n",
        "    scale = 2\n    print(torch.ones(2))\n",
    ),
    ("parameter", "helper", "def make(n, device=None)", "def make(n, m=1, device=None)"),
    ("device of a helper", "helper", "    # one each\n", "    other = torch.ones(n)\n"),
    ("helper called no more", "model", "make(n))", "None)"),
    ("buffer no more", "model", 'self.register_buffer("long", make(n))', "self.long = make(n)"),
    ("class attribute", "base", "scale = 2", "scale = torch.zeros(2)"),
    ("class added", "helper", "import torch\n", "import torch\n\n\nclass New:\n    pass\n"),
    ("class added to what is not read", "pad3", "def pad_0", "class New:\n    pass\n\n\ndef pad_0"),
    ("module in what was not read", "plain", "class Holder:", "class Holder(torch.nn.Module):"),
    ("class renamed", "plain", "class Holder:", "class Keeper:"),
    ("first directive", "base", "torch.zeros(4)", "torch.zeros(4)  # devicelint: ignore"),
    ("first noqa of its own", "model", "torch.ones(size)", "torch.ones(size)  # noqa: DVL001"),
    ("file skipped", "base", '"""Bases."""\n', '"""Bases."""\n# devicelint: skip-file\n'),
    ("error", "base", "scale = 2", "scale ="),
    ("error mended", "broken", "size = = 3", "size = 3"),
    ("other error", "broken", "size = = 3", "size = 3 +"),
    ("comment above an error", "broken", "import torch\n", "# about it\nimport torch\n"),
    (
        "process group",
        "plain",
        "return torch.zeros(self.size)",
        "torch.distributed.init_process_group()",
    ),
]

#: what is new or gone, the run has not asked for: text to put behind the call of `build` in `base`
NOBODY_ASKED = [
    ("new tensor", "self.u = torch.ones(n)"),
    ("new parameter", "self.u = nn.Parameter(torch.empty(n))"),
    ("new buffer", 'self.register_buffer("u", torch.ones(n))'),
    ("new stream", "self.u = torch.cuda.Stream()"),
    ("tensor on a device", "self.u = torch.ones(n, device=device)"),
    ("tensor of no further use", "u = torch.ones(n)"),
    ("tensor that is printed", "print(torch.ones(n))"),
    ("tensor by way of a name", "u = torch.ones(n)\n        self.u = u"),
    ("tensor from a tensor", "self.u = torch.exp(torch.ones(n))"),
    ("tensor read on the host", "self.u = torch.ones(n).tolist()"),
    ("tensors in a context", 'with torch.device("cuda"): self.u = torch.ones(n)'),
    ("two tensors, each by itself", "self.u = torch.ones(n)\n        self.v = torch.ones(n)"),
    ("tensor moved", 'self.u = torch.ones(n).to("cuda")'),
    ("tensor by way of its methods", "self.u = torch.ones(n).float().t()"),
    ("tensor kept twice", "self.u = self.v = torch.ones(n)"),
    ("attribute that is a method as well", "self.build = torch.ones(n)"),
    ("function that nobody calls", "def inner(): return torch.ones(n)"),
    ("call of something outside", "warnings.warn(str(n))"),
]

#: the same, elsewhere in the package
NOBODY_ASKED_ELSEWHERE = [
    ("two numbers for one", "base", "torch.zeros(4)", "torch.zeros(4, 5)"),
    ("tensor without elements", "base", "torch.zeros(4)", "torch.zeros(0)"),
    ("device given", "base", "torch.zeros(4)", "torch.zeros(4, device=device)"),
    ("device context", "base", "self.first =", "with torch.device('cpu'): self.first ="),
    ("method gone", "plain", "    def table(self):\n        return torch.zeros(self.size)\n", ""),
    (
        "new method",
        "model",
        "    def forward",
        "    def other(self):\n        x()\n\n    def forward",
    ),
    ("new function", "base", "\n\nclass", "\n\ndef other():\n    return x()\n\n\nclass"),
    ("new import", "base", "import torch\n", "import math\nimport torch\n"),
    (
        "tensor before others",
        "base",
        "super().__init__()",
        "self.u = torch.ones(1)\n        super().__init__()",
    ),
]

#: what is new or gone says something to others: text to put behind the call of `build` in `base`
SOMEBODY_ASKED = [
    ("attribute that a subclass keeps", "self.wide = torch.ones(n)"),
    ("attribute that a subclass registers", "self.long = torch.ones(n)"),
    ("call of a method", "self.build(torch.ones(n))"),
    ("call of a function of the file", "self.u = Base(torch.ones(n))"),
    ("tensors that meet", "self.u = torch.ones(n) + torch.ones(n)"),
    ("tensor that meets an attribute", "self.u = torch.ones(n) * self.first"),
    ("tensor that depends", "self.u = torch.ones(n) if n else torch.zeros(n)"),
    ("tensor kept by another function as well", "self.both = torch.ones(n)"),
    ("tensor returned", "return torch.ones(n)"),
    ("layer that takes a device", "self.u = nn.Linear(n, n)"),
    ("call of what a parameter holds", "self.u = device(n)"),
    ("tensor moved to what somebody chose", "self.u = torch.ones(n).to(device)"),
    ("function as an argument", "self.apply(lambda x: torch.ones(n))"),
]

BEHIND = "self.build(n)\n"


def behind(edits: list[tuple[str, str]]) -> list[tuple[str, str, str, str]]:
    return [(name, "base", BEHIND, f"{BEHIND}        {text}\n") for name, text in edits]


OWN_AFFAIRS = behind(NOBODY_ASKED) + NOBODY_ASKED_ELSEWHERE
EDITS = SAYS_THE_SAME + OWN_AFFAIRS + SAYS_ANOTHER_THING + behind(SOMEBODY_ASKED)


def named(edits: list[tuple[str, str, str, str]]) -> list[object]:
    return [pytest.param(*edit, id=name) for name, *edit in edits]


@pytest.mark.parametrize(("name", "old", "new"), named(SAYS_THE_SAME + OWN_AFFAIRS))
def test_no_walk_after(name: str, old: str, new: str, ground: Ground, walks: list[int]) -> None:
    ground.put(name, changed(name, old, new))
    recalled = ground.run(ground.cache)
    assert walks == []
    assert recalled == ground.run(None)


@pytest.mark.parametrize(("name", "old", "new"), named(SAYS_ANOTHER_THING + behind(SOMEBODY_ASKED)))
def test_walk_after(name: str, old: str, new: str, ground: Ground, walks: list[int]) -> None:
    ground.put(name, changed(name, old, new))
    cached = ground.run(ground.cache)
    assert len(walks) == 1
    assert cached == ground.run(None)


@pytest.mark.parametrize("name", ["base", "model", "helper", "quiet", "plain"])
@pytest.mark.parametrize(
    "rewrite",
    [
        pytest.param(lambda data: data.replace(b"\n", b"\r\n"), id="CRLF"),
        pytest.param(lambda data: data.replace(b"\n", b"\r"), id="CR"),
        pytest.param(lambda data: b"\xef\xbb\xbf" + data, id="BOM"),
        pytest.param(lambda data: data.replace(b"    ", b"\t"), id="tabs"),
        pytest.param(lambda data: "# é\n".encode("latin-1") + data, id="not UTF-8"),
        pytest.param(lambda data: b"# coding: latin-1\n# \xe9\n" + data, id="cookie"),
        pytest.param(lambda data: b"", id="empty"),
    ],
)
def test_other_bytes(name: str, rewrite, ground: Ground) -> None:
    ground.put(name, rewrite(TEXTS[name].encode()))
    assert agrees(ground)


@pytest.mark.parametrize("name", [name for name in TEXTS if name != "broken"])
def test_a_comment_above_any_line(name: str, ground: Ground, walks: list[int]) -> None:
    lines = TEXTS[name].splitlines(keepends=True)
    for number in range(len(lines) + 1):
        ground.put(name, "".join([*lines[:number], "# a line\n", *lines[number:]]).encode())
        recalled = ground.run(ground.copy_of_cache(number))
        assert walks == [], number
        assert recalled == ground.run(None), number
        walks.clear()


@pytest.mark.parametrize("name", ["base", "model", "helper", "quiet"])
def test_any_line_left_out(name: str, ground: Ground) -> None:
    lines = TEXTS[name].splitlines(keepends=True)
    for number in range(len(lines)):
        text = "".join([*lines[:number], *lines[number + 1 :]])
        if parses(text):
            ground.put(name, text.encode())
            assert ground.run(ground.copy_of_cache(number)) == ground.run(None), lines[number]


# Several edits ------------------------------------------------------------------------------------


def test_an_edit_undone_is_the_run_before(ground: Ground, walks: list[int]) -> None:
    before = ground.run(ground.cache)
    ground.put("base", changed("base", "self.build(n)", "pass"))
    assert ground.run(ground.cache) != before
    assert len(walks) == 1
    ground.restore()
    assert ground.run(ground.cache) == before
    assert len(walks) == 1


def test_edits_one_after_the_other(ground: Ground, walks: list[int]) -> None:
    for name, old, new in (
        ("base", "import torch\n", "# one\nimport torch\n"),
        ("base", "import torch\n", "# one\n# two\nimport torch\n"),
        ("quiet", "import torch\n", "# one\nimport torch\n"),
        ("base", "torch.zeros(4)", "torch.zeros(5)"),
    ):
        ground.put(name, changed(name, old, new))
        recalled = ground.run(ground.cache)
        assert walks == []
        assert recalled == ground.run(None)
        walks.clear()


def test_an_edit_that_matters_between_two_that_do_not(ground: Ground, walks: list[int]) -> None:
    ground.put("helper", changed("helper", "import torch\n", "# one\nimport torch\n"))
    assert agrees(ground)
    ground.put("base", changed("base", "self.build(n)", "pass"))
    assert agrees(ground)
    walks.clear()
    ground.put("model", changed("model", "import torch\n", "# one\nimport torch\n"))
    recalled = ground.run(ground.cache)
    assert walks == []
    assert recalled == ground.run(None)


@pytest.mark.parametrize("count", [2, 12, 13])
def test_several_files_edited(count: int, ground: Ground, walks: list[int]) -> None:
    names = ["base", "model", "helper", "quiet", "plain", "__init__", *PADS][:count]
    for name in names:
        ground.put(name, b"# a line\n" + (TEXTS | PADS)[name].encode())
    recalled = ground.run(ground.cache)
    assert recalled == ground.run(None)


def test_a_file_that_calls_lead_to_is_broken_and_mended(ground: Ground) -> None:
    """`helper` is read when the walk comes to it."""
    ground.put("helper", changed("helper", "import torch\n", "import torch\n  x\n"))
    assert agrees(ground)
    ground.put("helper", changed("helper", "import torch\n", "import torch\n# x\n"))
    assert agrees(ground)
    ground.restore()
    assert agrees(ground)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("__init__", "from", " from"),
        ("base", "class Base(nn.Module):\n", ""),
        ("helper", "import torch\n", "import torch\n  x\n"),
    ],
)
def test_an_error_is_told_with_the_cache_as_without_it(
    name: str, old: str, new: str, ground: Ground
) -> None:
    ground.put(name, changed(name, old, new))
    assert ground.run(ground.cache) == ground.run(None)


def test_a_file_in_error_is_told_in_a_large_run(ground: Ground) -> None:
    ground.put("helper", changed("helper", "import torch\n", "import torch\n  x\n"))
    assert ground.run(None)["pkg/helper.py"].diagnostics


def test_statements_that_shared_a_line_are_parted(ground: Ground) -> None:
    shared = changed(
        "base", "self.first = torch.zeros(4)", "self.first = torch.zeros(4); self.n = torch.ones(4)"
    )
    ground.put("base", shared)
    ground.run(ground.cache)
    parted = shared.replace(
        b"; self.n = torch.ones(4)", b"\n        self.n = torch.ones(4)  # noqa"
    )
    ground.put("base", parted)
    assert agrees(ground)


def test_many_edits_one_after_the_other(ground: Ground, walks: list[int]) -> None:
    """What is in use stays in the cache."""
    for number in range(40):
        ground.put("base", f"# {number}\n{BASE}".encode())
        ground.run(ground.cache)
    assert walks == []


def test_an_edit_of_what_a_star_import_takes(ground: Ground, walks: list[int]) -> None:
    ground.put("__init__", b"from pkg.plain import *\nfrom pkg.base import Base as Sub\n")
    ground.put("plain", b"__all__ = ['Options']\n" + TEXTS["plain"].encode())
    ground.put("model", changed("model", "from pkg import Sub", "from pkg import Sub, Holder"))
    ground.put("model", ground.path("model").read_bytes().replace(b"(Sub)", b"(Holder)"))
    assert agrees(ground)
    walks.clear()
    text = TEXTS["plain"].replace("class Holder", "class Holder(torch.nn.Module)").encode()
    ground.put("plain", b"__all__ = ['Options', 'Holder']\n" + text)
    assert agrees(ground)
    ground.put("plain", b"__all__ = ['Options']\n" + text)
    cached = ground.run(ground.cache)
    assert len(walks) > 2
    assert cached == ground.run(None)


def test_one_of_several_edits_matters(ground: Ground, walks: list[int]) -> None:
    ground.put("base", changed("base", "import torch\n", "# one\nimport torch\n"))
    ground.put("model", changed("model", "class Wide(Sub)", "class Wide(object)"))
    cached = ground.run(ground.cache)
    assert len(walks) == 1
    assert cached == ground.run(None)


@settings(max_examples=12)
@given(st.lists(st.sampled_from(range(len(EDITS))), min_size=1, max_size=6))
def test_any_edits_in_any_order(first: Ground, tmp_path_factory, numbers: list[int]) -> None:
    """An edit replaces the one before of the same file."""
    folder = tmp_path_factory.mktemp("any")
    ground = Ground(first.root, Path(shutil.copytree(first.cache, folder / "cache")))
    try:
        for number in numbers:
            _, name, old, new = EDITS[number]
            ground.put(name, changed(name, old, new))
            assert agrees(ground)
    finally:
        first.restore()
        shutil.rmtree(folder)


def test_other_settings_recall_nothing(ground: Ground, walks: list[int]) -> None:
    options = replace(Settings(), device_expression='"cuda:1"')
    ground.put("base", changed("base", "import torch\n", "# one\nimport torch\n"))
    assert ground.run(ground.cache, options=options) == ground.run(None, options=options)
    assert len(walks) == 2


def test_several_processes_recall_the_same(ground: Ground, walks: list[int]) -> None:
    ground.put("base", changed("base", "torch.zeros(4)", "torch.zeros(5)"))
    recalled = ground.run(ground.cache, jobs=2)
    assert walks == []
    assert recalled == ground.run(None)


def test_a_file_outside_the_run_counts(tmp_path: Path, walks: list[int]) -> None:
    (tmp_path / "other.py").write_text(HELPER, encoding="utf-8")
    user = (
        "import torch\nfrom torch import nn\nfrom other import make\n\n\n"
        "class User(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.a = make(3)\n        self.b = torch.zeros(3)\n"
    )

    def run(head: str, cache: Path | None) -> Found:
        opened = Cache(cache) if cache is not None else None
        texts = {"user.py": head + user} | {f"{name}.py": text for name, text in PADS.items()}
        sources = [SourceFile(name, text.encode()) for name, text in texts.items()]
        found = analyse(sources, Settings(), jobs=1, cwd=tmp_path, cache=opened)
        if opened is not None:
            opened.save()
            opened.close()
        return found

    run("", tmp_path / "cache")
    walks.clear()
    run("# one\n", tmp_path / "cache")
    assert walks == []
    (tmp_path / "other.py").write_text(HELPER.replace("n, 2", "n, device='cpu'"), encoding="utf-8")
    assert run("# two\n", tmp_path / "cache") == run("# two\n", None)
    assert len(walks) == 2


# Small projects -----------------------------------------------------------------------------------

HEAD = "import lib\nimport torch\nfrom torch import nn\n\n\n"
CLASS = "class {0}({1}):\n    def __init__(self, a=None):\n        super().__init__()\n"
BUFFER = "    def one(self):\n        self.register_buffer('x', None)\n\n"
PARAMETER = "    def two(self):\n        self.register_parameter('x', None)\n\n"
BOTH = HEAD + CLASS.format("B", "nn.Module") + "        self.x = torch.zeros(3)\n"
BOTH += "        self.one()\n        self.two()\n\n"
CALLER = HEAD + "from b import build\n" + CLASS.format("M", "nn.Module")
CALLER += "        build(self, torch.zeros(3))\n"
COPIED = HEAD + CLASS.format("B", "nn.Module")
COPIED += "        t = torch.arange(3){0}lib.copy_(self.w, t)\n"
ODD = "import torch\n\n\nY = frobnicate(3)  # devicelint: ignore[DVL004]\n\n\ndef make(n):\n"
ODD += "    return 3\n"
UNREACHED = "class P:\n    def __init__(self):\n        pass\n\n    def helper(self):\n"
UNREACHED += "        make(3)\n\n\n"

#: files before, and what an edit makes of some: each was once taken for nobody's affair
EDITED: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "a parameter that is kept together with a new tensor": (
        {"a.py": CALLER, "b.py": HEAD + "def build(m, foo):\n    k = 1\n"},
        {"b.py": HEAD + "def build(m, foo):\n    m.register_buffer('z', foo or torch.ones(2))\n"},
    ),
    "a parameter that is read on the host with a new tensor": (
        {
            "a.py": CALLER,
            "b.py": HEAD + "def build(m, a):\n    m.a = a\n    torch.ones(1).item()\n",
        },
        {"b.py": HEAD + "def build(m, a):\n    m.a = a\n    torch.zeros(2).item()\n    a.item()\n"},
    ),
    "a parameter of a name that a subclass keeps": (
        {
            "a.py": HEAD
            + "from b import B\n"
            + CLASS.format("C", "B")
            + "        self.w = torch.ones(3)\n",
            "b.py": HEAD + CLASS.format("B", "nn.Module"),
        },
        {
            "b.py": HEAD
            + CLASS.format("B", "nn.Module")
            + "        self.register_parameter('w', lib.P(torch.zeros(2)))\n"
        },
    ),
    "two statements on one line": (
        {"b.py": COPIED.format("\n        ")},
        {"b.py": COPIED.format("; ")},
    ),
    "two statements on two lines": (
        {"b.py": COPIED.format("; ")},
        {"b.py": COPIED.format("\n        ")},
    ),
    "methods in another order": (
        {"b.py": BOTH + BUFFER + PARAMETER},
        {"b.py": BOTH + PARAMETER + BUFFER},
    ),
    "a file that nothing imports any more": (
        {
            "s.py": ODD,
            "t.py": HEAD
            + "from s import make\n"
            + CLASS.format("T", "nn.Module")
            + "        self.y = make(3)\n",
        },
        {"t.py": HEAD + CLASS.format("T", "nn.Module") + "        self.y = 3\n"},
    ),
    "an import that just a function asks for which never runs": (
        {
            "a.py": HEAD
            + "from b import make\n\n\n"
            + UNREACHED
            + CLASS.format("M", "nn.Module")
            + "        self.helper()\n\n    def helper(self):\n        pass\n",
            "b.py": HEAD + CLASS.format("N", "nn.Module"),
            "c.py": ODD,
        },
        {"b.py": HEAD + "from c import make\n" + CLASS.format("N", "nn.Module")},
    ),
}


def check_folder(root: Path, cache: Path | None, below: str = "") -> Found:
    opened = Cache(cache) if cache is not None else None
    sources = [
        SourceFile(path.relative_to(root).as_posix(), path.read_bytes())
        for path in sorted((root / below).glob("*.py"))
    ]
    found = analyse(sources, Settings(), jobs=1, cwd=root, cache=opened)
    if opened is not None:
        opened.save()
        opened.close()
    return found


@pytest.mark.parametrize("case", EDITED)
def test_an_edit_that_somebody_asked_for(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stages, "LARGE_RUN", 0)
    before, after = EDITED[case]
    project = tmp_path / "project"
    project.mkdir()
    for texts in (before, after, before):
        for name, text in texts.items():
            (project / name).write_text(text, encoding="utf-8")
        assert check_folder(project, tmp_path / "cache") == check_folder(project, None)


def test_a_file_that_comes_to_be_outside_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stages, "LARGE_RUN", 0)
    model = "from base import Base\n\n\n" + CLASS.format("M", "Base")
    (tmp_path / "m").mkdir()
    (tmp_path / "m/a.py").write_text(
        HEAD + model + "        self.x = torch.zeros(3)\n", encoding="utf-8"
    )
    assert not check_folder(tmp_path, tmp_path / ".cache", "m")["m/a.py"].findings
    (tmp_path / "base.py").write_text(HEAD + "class Base(nn.Module):\n    pass\n", encoding="utf-8")
    assert check_folder(tmp_path, tmp_path / ".cache", "m")["m/a.py"].findings
