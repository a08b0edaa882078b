"""What is read only when it is asked for is still found, and told where it is broken.

In: small projects in a temporary folder, some padded beyond the size of a small run.  Out: tests.
Never here: the text of headers or outlines by itself, the cache.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Collection, Mapping
from pathlib import Path
from textwrap import dedent

import pytest

from devicelint.collector import collector_off
from devicelint.engine import analyse
from devicelint.extras import extras
from devicelint.files import SourceFile
from devicelint.gate import LARGE_RUN
from devicelint.ir import ModuleFacts
from devicelint.joining import FactStore, index_of
from devicelint.locate import Locator
from devicelint.model import Analysis, Diagnostic
from devicelint.project import External, ProjectIndex
from devicelint.reading import read_each, read_facts
from devicelint.settings import Settings
from devicelint.walk import Walk

HEADER = "import torch\nfrom torch import nn\n\n\n"


def check(
    root: Path, files: Mapping[str, str], only: str = "", padding: int = 0
) -> Mapping[str, Analysis]:
    """Write files and check those below `only`, with so many bytes that do nothing beside them."""
    sources: list[SourceFile] = []
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
        if name.startswith(only):
            sources.append(SourceFile(name, path.read_bytes()))
    if padding:
        sources.append(SourceFile("padding.py", b"x = 1\n" * (padding // 6 + 1)))
    return analyse(sources, Settings(), jobs=1, cwd=root)


def found(analyses: Mapping[str, Analysis]) -> list[tuple[str, str, str]]:
    """List what was found: file, rule, symbol."""
    return sorted(
        (path, finding.code, finding.symbol)
        for path, one in analyses.items()
        for finding in one.findings
    )


def told(analyses: Mapping[str, Analysis]) -> list[tuple[str, int]]:
    """List the files that could not be checked, with the line."""
    return [(path, item.line) for path, one in analyses.items() for item in one.diagnostics]


LAYERS = (
    HEADER
    + """\
class Rope(nn.Module):
    def __init__(self, dim, device=None):
        super().__init__()
        self.register_buffer("b", torch.zeros(dim, device=device))


class Norm(nn.Module):
    def __init__(self, mean):
        super().__init__()
        self.register_buffer("mean", mean)
"""
)


def test_constructors_of_modules_outside_the_run_count(tmp_path: Path) -> None:
    model = """
        import torch
        from torch import nn
        from pkg.layers import Norm, Rope


        class A(nn.Module):
            def __init__(self, device=None):
                super().__init__()
                self.rope = Rope(3)
                self.norm = Norm(torch.tensor([0.4]))
        """
    files = {
        "pkg/__init__.py": "",
        "pkg/layers.py": LAYERS,
        "pkg/models/__init__.py": "",
        "pkg/models/m.py": model,
    }
    whole = [item for item in found(check(tmp_path, files)) if "models" in item[0]]
    assert [code for _, code, _ in whole] == ["DVL003", "DVL010"]
    assert found(check(tmp_path, files, only="pkg/models/")) == whole


LIKELY = """\
class Likely(Elsewhere):
    def __init__(self):
        super().__init__()
        self.build()

    def build(self):
        self.x = torch.zeros(2)

    def forward(self):
        return self.x
"""
SURE = "\n\nclass Sure(nn.Module):\n    pass\n"


@pytest.mark.parametrize("padding", [0, LARGE_RUN])
@pytest.mark.parametrize("text", [LIKELY, LIKELY + SURE])
def test_a_class_that_looks_like_a_module_is_one_beside_a_sure_one(
    text: str, padding: int, tmp_path: Path
) -> None:
    files = {"a.py": HEADER + text}
    assert found(check(tmp_path, files, padding=padding)) == [("a.py", "DVL001", "Likely.build")]


def test_a_class_that_looks_like_a_module_by_a_base_outside_the_run(tmp_path: Path) -> None:
    files = {
        "pkg/__init__.py": "",
        "pkg/base.py": HEADER + LIKELY,
        "pkg/sub/__init__.py": "",
        "pkg/sub/a.py": HEADER
        + """\
from pkg.base import Likely


class A(Likely):
    def build(self):
        self.x = torch.ones(2)
""",
    }
    assert found(check(tmp_path, files, only="pkg/sub/")) == [("pkg/sub/a.py", "DVL001", "A.build")]


def test_a_constructor_at_fault_makes_no_module(tmp_path: Path) -> None:
    text = HEADER + LIKELY.replace("self.build()", "self.build() )") + SURE
    analyses = check(tmp_path, {"a.py": text}, padding=LARGE_RUN)
    assert found(analyses) == []
    assert told(analyses) == [("a.py", 8)]


@pytest.mark.parametrize("bases", ["C0, nn.Linear", "nn.Linear, C0"])
def test_a_layer_runs_its_hooks_though_its_base_is_none(bases: str, tmp_path: Path) -> None:
    text = f"""\
class C0(nn.Module):
    def __init__(self):
        super().__init__()


class C2({bases}):
    def reset_parameters(self):
        self.x = torch.zeros(2)
"""
    assert found(check(tmp_path, {"a.py": HEADER + text})) == [
        ("a.py", "DVL001", "C2.reset_parameters")
    ]


@pytest.mark.parametrize(
    "maker",
    [
        "def make():\n    class Inner(nn.Module):\n{0}\n    return Inner\n",
        "def make():\n    class Outer:\n        class Inner(nn.Module):\n{1}\n    return Outer\n",
        "class T:\n    def make(self):\n        class Inner(nn.Module):\n{1}\n        return Inner",
    ],
)
@pytest.mark.parametrize("other", ["", "class First(nn.Module):\n    pass\n\n\n"])
def test_classes_inside_functions_come_to_light(maker: str, other: str, tmp_path: Path) -> None:
    body = "{0}def __init__(self):\n{0}    super().__init__()\n{0}    self.x = torch.zeros(3)"
    text = HEADER + other + maker.format(body.format(" " * 8), body.format(" " * 12))
    assert [code for _, code, _ in found(check(tmp_path, {"a.py": text}))] == ["DVL001"]


@pytest.mark.parametrize("names", [(), ("B",), ("A", "C")])
def test_all_classes_are_known_whoever_asks_for_what(names: tuple[str, ...]) -> None:
    text = """\
def f():
    def g():
        class A:
            def h(self):
                if f:
                    class B:
                        pass
    class C:
        pass

def k():
    pass
"""
    facts = read_facts("a.py", text.encode(), names)
    assert isinstance(facts, ModuleFacts)
    assert {item.qualname.rpartition(".")[2] for item in facts.classes} == {"A", "B", "C"}


def test_a_function_in_a_loop_of_a_class_body(tmp_path: Path) -> None:
    text = """\
class A(nn.Module):
    for _ in range(2):
        def helper(self):
            self.x = torch.zeros(3)

    def __init__(self):
        super().__init__()
        self.helper()
"""
    assert [code for _, code, _ in found(check(tmp_path, {"a.py": HEADER + text}))] == ["DVL001"]


@pytest.mark.parametrize("mark", ["@p.setter_of", '@made("x.setter")', "# no p.setter\n    @made"])
def test_what_is_no_setter(mark: str, tmp_path: Path) -> None:
    text = f"""\
class A(nn.Module):
    def __init__(self):
        super().__init__()
        self.helper()

    {mark}
    def helper(self):
        self.x = torch.zeros(3)
"""
    assert [code for _, code, _ in found(check(tmp_path, {"a.py": HEADER + text}))] == ["DVL001"]


CALLER = (
    HEADER
    + """\
from {0} import {1}


class A(nn.Module):
    def __init__(self):
        super().__init__()
        self.x = build()
"""
)
BROKEN = "import torch\n\n\ndef build():\n    return torch.zeros(3)\n\n\nx = )\n"


@pytest.mark.parametrize("names", ["build", "*"])
def test_an_error_in_what_is_needed_is_told_in_a_large_run(names: str, tmp_path: Path) -> None:
    files = {"a.py": CALLER.format("act", names), "act.py": BROKEN}
    assert told(check(tmp_path, files, padding=LARGE_RUN)) == [("act.py", 8)]


def test_an_error_in_a_function_costs_that_function(tmp_path: Path) -> None:
    text = (
        HEADER
        + """\
class A(nn.Module):
    def __init__(self):
        super().__init__()
        self.x = torch.zeros(3)
        self.fill()

    def fill(self):
        self.y = = torch.zeros(3)

    def forward(self, x):
        return x
"""
    )
    analyses = check(tmp_path, {"a.py": text}, padding=LARGE_RUN)
    assert found(analyses) == [("a.py", "DVL001", "A.__init__")]
    assert told(analyses) == [("a.py", 12)]
    unreached = text.replace("        self.fill()\n", "")
    assert told(check(tmp_path, {"a.py": unreached}, padding=LARGE_RUN)) == []
    assert told(check(tmp_path, {"a.py": unreached})) == [("a.py", 11)]


def test_a_star_import_of_a_module_without_a_file(tmp_path: Path) -> None:
    """Its name leads to the package, which imports it: that has an end."""
    files = {
        "p/__init__.py": "from .a import *\n",
        "p/a.py": HEADER
        + "from ._C import *\n\n\n"
        + "class A(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        + "        self.x = torch.zeros(3)\n        self.y = compiled()\n",
    }
    assert found(check(tmp_path, files)) == [("p/a.py", "DVL001", "A.__init__")]


PACKAGE = {
    "p/__init__.py": "from .empty import *\nfrom .full import *\n",
    "p/empty.py": "{all}\n\ndef make():\n    return None\n",
    "p/full.py": HEADER + "def make():\n    return torch.zeros(3)\n",
    "model.py": HEADER
    + "from p import make\n\n\n"
    + "class A(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    + "        self.x = make()\n",
}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("__all__ = ['other']", [("p/full.py", "DVL001", "make")]),
        ("__all__ = []", [("p/full.py", "DVL001", "make")]),
        ("__all__ = ['make']", []),
        ("__all__ = ['other']\n__all__ += ['make']", []),
        ("__all__ = ['other'] + names", []),
        ("", []),
    ],
)
def test_a_star_import_takes_what_all_lists(
    line: str, expected: list[tuple[str, str, str]], tmp_path: Path
) -> None:
    files = {name: text.replace("{all}", line) for name, text in PACKAGE.items()}
    assert found(check(tmp_path, files)) == expected


def test_a_file_whose_all_leaves_a_name_out_is_not_read_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def noted(path: str, *arguments):
        read.append(Path(path).name)
        return read_facts(path, *arguments)

    monkeypatch.setattr("devicelint.joining.read_facts", noted)
    files = {name: text.replace("{all}", "__all__ = ['a']") for name, text in PACKAGE.items()}
    check(tmp_path, files)
    assert "full.py" in read
    assert "empty.py" not in read


#: A name is looked for below the package, where packages hold nothing but what they import.
NESTED = {
    "p/__init__.py": "from .models import *\n",
    "p/models/__init__.py": "from .one import *\nfrom .two import *\n",
    "p/models/one/__init__.py": "from .code import *\nfrom .. import *\n",
    "p/models/one/code.py": HEADER + "def first():\n    return torch.zeros(1)\n",
    "p/models/two/__init__.py": "from . import tools\nfrom .code import *\nrenamed = tools.last\n",
    "p/models/two/code.py": HEADER + "def second():\n    return torch.zeros(2)\n",
    "p/models/two/tools.py": HEADER + "def last():\n    return torch.zeros(3)\n",
}


@pytest.mark.parametrize("asked", [["{}"], ["first", "{}"], ["second", "first", "nowhere", "{}"]])
@pytest.mark.parametrize(
    ("call", "place"),
    [
        ("first", ("one/code", "first")),
        ("second", ("two/code", "second")),
        ("renamed", ("two/tools", "last")),
        ("tools.last", ("two/tools", "last")),
    ],
)
def test_a_name_that_star_imports_lead_down_to(
    call: str, place: tuple[str, str], asked: list[str], tmp_path: Path
) -> None:
    """Whatever was looked for before: from the first name on it is known what is not there."""
    calls = [name.format(call) for name in asked]
    model = (
        HEADER
        + f"from p import {', '.join({name.partition('.')[0] for name in calls})}\n\n\n"
        + "class A(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        + "".join(f"        self.x{at} = {name}()\n" for at, name in enumerate(calls))
    )
    path, symbol = place
    assert (f"p/models/{path}.py", "DVL001", symbol) in found(
        check(tmp_path, {**NESTED, "model.py": model})
    )


@pytest.mark.parametrize(
    "package",
    [
        "import p.sub\n",
        "from .other import f\n",
        "def load():\n    from . import sub\n\n\nload()\n",
        "import importlib\n\nimportlib.import_module('.sub', __name__)\n",
    ],
)
@pytest.mark.parametrize("calls", [["f()", "sub.make()"], ["sub.make()", "f()"]])
def test_a_star_import_brings_the_modules_of_a_package(
    calls: list[str], package: str, tmp_path: Path
) -> None:
    """Whoever has imported them has made them attributes of the package."""
    files = {
        "p/__init__.py": package,
        "p/other.py": "from .sub import make\n\n\ndef f():\n    return None\n",
        "p/sub.py": "import torch\n\n\ndef make():\n    return torch.zeros(3)\n",
        "model.py": HEADER
        + "from p import *\n\n\n"
        + "class A(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        + "".join(f"        self.x{at} = {call}\n" for at, call in enumerate(calls)),
    }
    assert found(check(tmp_path, files)) == [("p/sub.py", "DVL001", "make")]


def test_a_name_that_star_imports_do_not_hold_is_not_looked_up_again(tmp_path: Path) -> None:
    """Transformers has 550 packages with nothing but star imports, and thousands of names."""
    for name in ("p/__init__.py", *(f"p/m{at}/__init__.py" for at in range(50))):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("import torch\n", encoding="utf-8")
    (tmp_path / "p/__init__.py").write_text(
        "".join(f"from .m{at} import *\n" for at in range(50)), encoding="utf-8"
    )
    looked_up: list[str] = []
    locator = Locator((), str(tmp_path))

    def find(path: str, name: str) -> tuple[str, int] | None:
        looked_up.append(name)
        return locator.find(path, name)

    index = ProjectIndex(FactStore({}, {}, None), find)
    model = str(tmp_path / "model.py")
    assert index.resolve(model, "p.first") == (External("p.first"),)
    assert len(looked_up) > 100
    looked_up.clear()
    assert index.resolve(model, "p.second") == (External("p.second"),)
    assert len(looked_up) < 5


# What runs without being named --------------------------------------------------------------------


def test_a_hook_is_read_with_what_has_it_called() -> None:
    text = (
        HEADER
        + """class Base(PreTrainedModel):
    def _init_weights(self, module):
        module.bias = torch.zeros(3)

    def other(self):
        pass


class Model(Base):
    def __init__(self, config):
        super().__init__(config)
        self.post_init()
"""
    )
    facts = read_facts("a.py", text.encode(), {"Model"})
    assert isinstance(facts, ModuleFacts)
    read = {summary.qualname for summary in facts.summaries}
    assert {"Base._init_weights", "Model.__init__"} <= read
    assert [item.qualname for item in facts.unread] == ["Base.other"]


@pytest.mark.parametrize("names", [None, (), {"B"}])
def test_reading_leaves_nothing_for_the_collector(names: Collection[str] | None) -> None:
    """It is off: what holds itself would be there until the process ends."""
    text = (
        f"{LAYERS}\n\ndef make(n):\n    class B(nn.Module):\n        pass\n    return lambda: B\n"
    )
    gc.collect()
    with collector_off():
        facts = read_facts("a.py", text.encode(), names)
        assert isinstance(facts, ModuleFacts)
        wanted = [item.qualname for item in facts.unread]
        news = read_each("a.py", text.encode(), facts, wanted) if wanted else []
        assert all(isinstance(item, ModuleFacts) for item in news)
        assert gc.collect() == 0


def test_what_was_walked_goes_without_the_collector(tmp_path: Path) -> None:
    """It is half of what a run takes, and judging takes its place."""
    path = tmp_path / "a.py"
    path.write_text(LAYERS, encoding="utf-8")
    with collector_off():
        store = FactStore({str(path): SourceFile(str(path), path.read_bytes())}, {}, None)
        index = index_of(store, Locator((), str(tmp_path)).find, Settings())
        walk = Walk(index, extras({}, {}, ()))
        walk.start([(str(path), "Rope"), (str(path), "Norm")], [])
        for key in walk.take_missing():
            facts = store.one_more(key)
            assert facts is not None
            index.put(str(path), facts)
        walk.resume([(str(path), "Rope.__init__"), (str(path), "Norm.__init__")])
        assert walk.finish().sites == {}
        held = [weakref.ref(walk), weakref.ref(index)]
        del walk, index
        assert [one() for one in held] == [None, None]


# A function at fault ------------------------------------------------------------------------------

TWO = """\
import torch


def good(n):
    return torch.zeros(n)


def bad(n):
    return torch.zeros(n) n


def last(n):
    return torch.ones(n)
"""


@pytest.mark.parametrize("wanted", [["good", "bad"], ["bad", "last", "good"], ["last", "good"]])
def test_a_function_at_fault_does_not_cost_those_asked_for_with_it(wanted: list[str]) -> None:
    facts = read_facts("a.py", TWO.encode(), ())
    assert isinstance(facts, ModuleFacts)
    outcomes = read_each("a.py", TWO.encode(), facts, wanted)
    read = {
        summary.qualname
        for item in outcomes
        if isinstance(item, ModuleFacts)
        for summary in item.summaries
    }
    assert read - {"<module>"} == {*wanted} - {"bad"}
    faults = [item for item in outcomes if isinstance(item, Diagnostic)]
    assert [fault.line for fault in faults] == ([9] if "bad" in wanted else [])
