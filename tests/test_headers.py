"""Class headers read from bytes, and the classes that may be modules by them.

In: headers and imports in odd layouts, small projects, and the fixtures.  Out: tests.  Never here:
what becomes of the classes named.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from devicelint.facts import extract_facts
from devicelint.files import SourceError
from devicelint.glance import glance_at
from devicelint.headers import exports_of, read_headers
from devicelint.ir import ModuleFacts
from devicelint.locate import Locator
from devicelint.project import ProjectIndex, UnknownBases
from devicelint.prospects import prospects
from devicelint.reading import parse
from devicelint.values import bare_name

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"

#: the text of a file, and what a star import takes from it
EXPORTS: dict[str, tuple[str, set[str] | None]] = {
    "none": ("x = 1\n", None),
    "list": ('__all__ = ["a", "b"]\n', {"a", "b"}),
    "empty list": ("x = 1\n__all__ = []\n", set()),
    "tuple": ("__all__ = ('a', 'b')", {"a", "b"}),
    "tuple of one": ("__all__ = ('a',)\n", {"a"}),
    "a string, in fact": ("__all__ = ('ab')\n", None),
    "several lines": ('__all__ = [\n    "a",  # not "c"\n    # d\n    "b",\n]\n', {"a", "b"}),
    "comment behind": ('__all__ = ["a"]  # all\n', {"a"}),
    "other line endings": ('x = 1\r\n__all__ = [\r\n"a"]\r\n', {"a"}),
    "byte order mark": ('\ufeff__all__ = ["a"]\n', {"a"}),
    "with more added": ('__all__ = ["a"]\n__all__ += ["b"]\n', None),
    "sum": ('__all__ = ["a"] + b.names\n', None),
    "sum on the next line": ('__all__ = ["a"] \\\n    + names\n', None),
    "names": ("__all__ = [a, b]\n", None),
    "unpacked": ('__all__ = ["a", *b]\n', None),
    "strings that are joined": ('__all__ = ["a" "b"]\n', None),
    "escape": ('__all__ = ["\\x61"]\n', None),
    "prefix": ('__all__ = [f"a"]\n', None),
    "annotated": ('__all__: list[str] = ["a"]\n', None),
    "in a branch": ('if x:\n    __all__ = ["a"]\n', None),
    "in a comment": ('# __all__ = ["a"]\n', None),
    "in a docstring": ('"""Say\n\n__all__ = ["a"]\n"""\n', None),
    "of another module": ('b.__all__ = ["a"]\n', None),
    "statement behind": ('__all__ = ["a"]; x = 1\n', None),
}


@pytest.mark.parametrize("case", EXPORTS)
def test_exports(case: str) -> None:
    text, expected = EXPORTS[case]
    assert exports_of(text.encode()) == expected


#: the text of a file, and its classes with the names that their bases mention
LAYOUTS = {
    "plain": ("class A(B):\n    pass\n", {"A": ["B"]}),
    "no brackets": ("class A:\n    pass\n", {"A": []}),
    "empty brackets": ("class A():\n    pass\n", {"A": []}),
    "two bases": ("class A(B, c.D):\n    pass\n", {"A": ["B", "c.D"]}),
    "spaces": ("class  A ( B , C ) :\n    pass\n", {"A": ["B", "C"]}),
    "tabs": ("class\tA\t(\tB\t):\n\tpass\n", {"A": ["B"]}),
    "one line": ("class A(B): pass\n", {"A": ["B"]}),
    "body on the line of a later class": (
        "class A(B): x = 1\nclass C(D): y = 2\n",
        {"A": ["B"], "C": ["D"]},
    ),
    "no newline at the end": ("class A(B): pass", {"A": ["B"]}),
    "several lines": ("class A(\n    B,\n    C,\n):\n    pass\n", {"A": ["B", "C"]}),
    "continued before the name": ("class \\\n  A(B):\n    pass\n", {"A": ["B"]}),
    "continued after the name": ("class A \\\n  (B):\n    pass\n", {"A": ["B"]}),
    "continued inside": ("class A(B, \\\n  C):\n    pass\n", {"A": ["B", "C"]}),
    "comment": ("class A(  # of all\n    B,\n):\n    pass\n", {"A": ["B"]}),
    "comment with a bracket": (
        "class A(\n    # see (1\n    B,  # 2)\n    C,\n):\n    pass\n",
        {"A": ["B", "C"]},
    ),
    "comment with a name": ("class A(\n    # not C\n    B,\n):\n    pass\n", {"A": ["B"]}),
    "brackets": ("class A((B)):\n    pass\n", {"A": ["B"]}),
    "call": ("class A(make(B, c.D)):\n    pass\n", {"A": ["make", "B", "c.D"]}),
    "call in a call": ("class A(make(mix(B))):\n    pass\n", {"A": ["?"]}),
    "never closed": ("class A(B:\n    pass\n", {"A": ["?"]}),
    "conditional": ("class A(B if c else D):\n    pass\n", {"A": ["B", "if", "c", "else", "D"]}),
    "subscript": ("class A(B[T]):\n    pass\n", {"A": ["B"]}),
    "nested subscripts": ("class A(B[dict[str, list[T]]], C):\n    pass\n", {"A": ["B", "C"]}),
    "subscript over lines": (
        "class A(\n    B[\n        T,  # one\n    ],\n):\n    pass\n",
        {"A": ["B"]},
    ),
    "subscript with brackets": ("class A(B[Callable[[], int]], C):\n    pass\n", {"A": ["B", "C"]}),
    "subscript never closed": ("class A(B[T):\n    pass\n", {"A": ["?"]}),
    "type parameters": ("class A[T](B):\n    pass\n", {"A": ["B"]}),
    "type parameters, no bases": ("class A[T]:\n    pass\n", {"A": []}),
    "bounded type parameters": ("class A[T: (int, str), *U](B[T]):\n    pass\n", {"A": ["B"]}),
    "bracket in type parameters": ("class A[T: list[int]](B):\n    pass\n", {"A": ["B"]}),
    "metaclass": ("class A(B, metaclass=Meta):\n    pass\n", {"A": ["B"]}),
    "metaclass alone": ("class A(metaclass=abc.Meta):\n    pass\n", {"A": []}),
    "metaclass called": ("class A(B, metaclass=meta(1, C)):\n    pass\n", {"A": ["B"]}),
    "keyword on its line": ("class A(\n    B,\n    total = False,\n):\n    pass\n", {"A": ["B"]}),
    "CRLF": ("class A(\r\n    B,\r\n    C,\r\n):\r\n    pass\r\n", {"A": ["B", "C"]}),
    "CR": ("class A(B):\r    pass\rclass C(D):\r    pass\r", {"A": ["B"], "C": ["D"]}),
    "CR and a comment": ("class A(\r    # (\r    B,\r):\r    pass\r", {"A": ["B"]}),
    "CRLF and a continuation": ("class \\\r\n  A(B):\r\n    pass\r\n", {"A": ["B"]}),
    "byte order mark": ("\ufeffclass A(B):\n    pass\n", {"A": ["B"]}),
    "form feed": (
        "\x0cclass A(B):\n    pass\n\x0c\nclass C(D):\n    pass\n",
        {"A": ["B"], "C": ["D"]},
    ),
    "tab indentation": ("if x:\n\tclass A(B):\n\t\tpass\n", {"A": ["B"]}),
    "not ASCII": ("class Größe(B):\n    pass\n", {"Größe": ["B"]}),
    "base without ASCII": ("class A(Слой):\n    pass\n", {"A": ["Слой"]}),
    "base with more than ASCII": ("class A(Maß):\n    pass\n", {"A": ["Maß"]}),
    "in a function": ("def f():\n    class A(B):\n        pass\n", {"A": ["B"]}),
    "in an if": (
        "if x:\n    class A(B):\n        pass\nelse:\n    class A(C):\n        pass\n",
        {"A": ["B", "C"]},
    ),
    "in a class": ("class A(B):\n    class C(D):\n        pass\n", {"A": ["B"], "C": ["D"]}),
    "in a try": ("try:\n    class A(B):\n        pass\nexcept E:\n    A = None\n", {"A": ["B"]}),
    "decorated": ("@make(\n    C)\nclass A(B):\n    pass\n", {"A": ["B"]}),
    "prose of a comment": ("# class of (all\nclass A(B):\n    pass\n", {"A": ["B"]}),
    "prose of a docstring": (
        '"""One\nclass of (all\n"""\nclass A(B):\n    pass\n',
        {"of": ["?"], "A": ["B"]},
    ),
    "prose that swallows a bracket": (
        '"""\nclass a (b\n"""\nclass A(B, (C)):\n    pass\n)',
        {"a": None, "A": ["B", "C"]},
    ),
    "prose in the line": ('x = "a class A(B): of all"\nclass C(D):\n    pass\n', {"C": ["D"]}),
    "part of a word": ("subclass A(B)\nclassy = 1\nclass_ = 2\n", {}),
    "two of one name": ("class A(B):\n    pass\nclass A(C):\n    pass\n", {"A": ["B", "C"]}),
    "no class": ("def f():\n    pass\n", {}),
    "nothing": ("", {}),
}

#: imports before `class A(<base>)`, and what the first part of the base is imported from
IMPORTS = {
    "from": ("from m import B", "B", ["m.B"]),
    "from a submodule": ("from m.n import B", "B", ["m.n.B"]),
    "aliased": ("from m import C as B", "B", ["m.C"]),
    "one of several": ("from m import C, B, D", "B", ["m.B"]),
    "brackets": ("from m import (C, B)", "B", ["m.B"]),
    "brackets over lines": ("from m import (\n    C,\n    B,\n)", "B", ["m.B"]),
    "comments": (
        "from m import (  # of m (all\n    C,  # C, D)\n    D as B,  # B\n)",
        "B",
        ["m.D"],
    ),
    "CRLF": ("from m import (\r\n    C,  # )\r\n    B,\r\n)\r\n", "B", ["m.B"]),
    "CR": ("from m import (\r    C,  # )\r    B,\r)\r", "B", ["m.B"]),
    "comment behind": ("from m import B  # , C", "B", ["m.B"]),
    "continued after import": ("from m import \\\n    B", "B", ["m.B"]),
    "continued behind a name": ("from m import C, \\\n    B", "B", ["m.B"]),
    "continued twice": ("from m import C, \\\n    D, \\\n    E as B", "B", ["m.E"]),
    "followed by a statement": ("from m import B; x = 1", "B", ["m.B"]),
    "tabs": ("from\tm\timport\tB", "B", ["m.B"]),
    "relative": ("from . import B", "B", [".B"]),
    "relative module": ("from .m import B", "B", [".m.B"]),
    "without a space": ("from.m import B", "B", [".m.B"]),
    "two levels": ("from .. import B", "B", ["..B"]),
    "three levels": ("from ...m.n import C as B", "B", ["...m.n.C"]),
    "module": ("import m", "m.B", ["m"]),
    "submodule": ("import m.n", "m.n.B", ["m"]),
    "module aliased": ("import m.n as o", "o.B", ["m.n"]),
    "several modules": ("import k, m.n as o, l", "o.B", ["m.n"]),
    "module and a comment": ("import m  # n", "m.B", ["m"]),
    "module and a statement": ("import m; x = 1", "m.B", ["m"]),
    "module of a package": ("from m import n", "n.B", ["m.n"]),
    "in a try": (
        "try:\n    from m import B\nexcept ImportError:\n    from n import B",
        "B",
        ["m.B", "n.B"],
    ),
    "in an if": ("if x:\n    import m as o\nelse:\n    import n as o", "o.B", ["m", "n"]),
    "in a function": ("def f():\n    from m import B", "B", ["m.B"]),
    "of no base": ("from m import C\nimport n", "B", []),
    "in a string": ('x = "from m import B"', "B", []),
    "of a builtin name": ("from m import C", "object", []),
}


def read(text: str) -> dict[str, list[str]]:
    """Read the classes of a text; of one name there may be several.

    That a base of a class inside something may be a parameter (`?parameter`) is left out.
    """
    found: dict[str, list[str]] = {}
    for name, bases in read_headers(text.encode()).classes:
        found.setdefault(name, []).extend(base for base in bases if base != "?parameter")
    return found


@pytest.mark.parametrize("case", LAYOUTS)
def test_headers(case: str) -> None:
    text, expected = LAYOUTS[case]
    found = read(text)
    assert found.keys() == expected.keys()
    for name, bases in expected.items():
        assert bases is None or found[name] == bases


@pytest.mark.parametrize("case", IMPORTS)
def test_imports(case: str) -> None:
    text, base, expected = IMPORTS[case]
    headers = read_headers(f"{text}\nclass A({base}):\n    pass\n".encode())
    root = base.partition(".")[0]
    assert [target for name, target in headers.imports if name == root] == expected


def test_a_file_without_classes_is_not_looked_at_further() -> None:
    headers = read_headers(b"from m import B\ndef forward(x):\n    return B\n")
    assert headers == ((), (), (), False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A = B", ["A"]),
        ("A=B", ["A"]),
        ("A.x = B", []),
        ("C = A", []),
        ("A: type = B", ["A"]),
        ("A, C = B", ["A"]),
        ("C, A = B", ["A"]),
        ("A == B", []),
    ],
)
def test_reassigned(text: str, expected: list[str]) -> None:
    source = f"class A:\n    pass\n{text}\nclass X(A):\n    pass\n"
    assert [*read_headers(source.encode()).reassigned] == expected


@pytest.mark.parametrize("line", ["def forward(self):", "async def forward(self):"])
def test_forwards(line: str) -> None:
    assert read_headers(f"class A(B):\n    {line}\n        pass\n".encode()).forwards


def test_a_glance_tells_all_that_bytes_tell() -> None:
    data = b"class A(B):  # noqa: DVL001\n    pass\n"
    assert glance_at(data) == (read_headers(data), True, False)
    group = b"import torch.distributed as d\nd.init_process_group()\n"
    assert glance_at(group) == (((), (), (), False), False, True)


# Prospects ----------------------------------------------------------------------------------------

Names = dict[str, set[str]]


def chosen(
    folder: Path,
    texts: Mapping[str, str],
    extra_bases: tuple[str, ...] = (),
    *,
    trusts_unknown: bool = False,
    outside: Mapping[str, str] | None = None,
) -> Names:
    """Write files and give the prospects of each; `outside` are not part of the run."""
    for name, text in (texts | (outside or {})).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    contents = {str(folder / name): (folder / name).read_bytes() for name in texts}
    found, _ = prospects(
        contents.get,
        {path: read_headers(data) for path, data in contents.items()},
        Locator((), str(folder)).find,
        extra_bases,
        trusts_unknown=trusts_unknown,
    )
    return {Path(path).relative_to(folder).as_posix(): set(names) for path, names in found.items()}


NN = "from torch import nn\n"
MODULE = NN + "class Base(nn.Module): ...\n"
SETTINGS = "class Base: ...\n"

#: files, and the classes of each that may be modules
PROJECTS: dict[str, tuple[dict[str, str], Names]] = {
    "direct base": (
        {"a.py": MODULE + "class Other: ...\n"},
        {"a.py": {"Base"}},
    ),
    "base in the file": (
        {"a.py": MODULE + "class A(Base): ...\nclass B(Other): ...\nclass Other: ...\n"},
        {"a.py": {"Base", "A"}},
    ),
    "base that comes later": (
        {"a.py": NN + "def f():\n    class A(B): ...\nclass B(nn.Module): ...\n"},
        {"a.py": {"A", "B"}},
    ),
    "base in another file": (
        {"a.py": MODULE, "b.py": "from a import Base\nclass A(Base): ...\n"},
        {"a.py": {"Base"}, "b.py": {"A"}},
    ),
    "base of no interest in another file": (
        {"a.py": SETTINGS, "b.py": "from a import Base\nclass A(Base): ...\n"},
        {},
    ),
    "relative base": (
        {
            "p/__init__.py": "",
            "p/a.py": MODULE,
            "p/q/__init__.py": "",
            "p/q/b.py": "from ..a import Base\nclass A(Base): ...\n",
        },
        {"p/a.py": {"Base"}, "p/q/b.py": {"A"}},
    ),
    "module of a package": (
        {
            "p/__init__.py": "",
            "p/a.py": MODULE,
            "p/b.py": "from . import a\nclass A(a.Base): ...\n",
            "c.py": "import p.a\nclass C(p.a.Base): ...\n",
            "d.py": "import p.a as other\nclass D(other.Base): ...\n",
        },
        {"p/a.py": {"Base"}, "p/b.py": {"A"}, "c.py": {"C"}, "d.py": {"D"}},
    ),
    "re-exported base": (
        {
            "p/__init__.py": "from .a import Base\nfrom .s import Base as Plain\n",
            "p/a.py": MODULE,
            "p/s.py": SETTINGS,
            "b.py": "from p import Base, Plain\nclass A(Base): ...\nclass B(Plain): ...\n",
        },
        {"p/a.py": {"Base"}, "b.py": {"A"}},
    ),
    "re-exported twice, and renamed": (
        {
            "p/__init__.py": "from .q import (\n    Layer as Final,  # (\n)\n",
            "p/q/__init__.py": "from .a import Base as Layer\n",
            "p/q/a.py": MODULE,
            "b.py": "from p import Final\nclass A(Final): ...\n",
        },
        {"p/q/a.py": {"Base"}, "b.py": {"A"}},
    ),
    "aliased base": (
        {
            "a.py": SETTINGS,
            "b.py": MODULE,
            "c.py": "from b import Base as B\nfrom a import Base\n"
            "class A(B): ...\nclass C(Base): ...\n",
        },
        {"b.py": {"Base"}, "c.py": {"A"}},
    ),
    "star import": (
        {"a.py": MODULE, "b.py": "from a import *\nclass A(Base): ...\n"},
        {"a.py": {"Base"}, "b.py": {"A"}},
    ),
    "star import of settings, which cannot be told": (
        {"a.py": SETTINGS, "b.py": "from a import *\nclass A(Base): ...\n"},
        {"b.py": {"A"}},
    ),
    "either of two": (
        {
            "a.py": MODULE,
            "b.py": "try:\n    from enum import Enum as Base\nexcept ImportError:\n"
            "    from a import Base\nclass A(Base): ...\n",
        },
        {"a.py": {"Base"}, "b.py": {"A"}},
    ),
    "reassigned": (
        {"a.py": SETTINGS + "if x:\n    Base = y\nclass A(Base): ...\n"},
        {"a.py": {"A", "Base"}},
    ),
    "reassigned in another file": (
        {
            "a.py": SETTINGS + "Base = y(Base)\n",
            "b.py": "from a import Base\nclass A(Base): ...\n",
        },
        {"a.py": {"Base"}, "b.py": {"A"}},
    ),
    "assigned alone": (
        {"a.py": "Base = make()\nclass A(Base): ...\n"},
        {"a.py": {"A"}},
    ),
    "call": (
        {"a.py": "class A(make(1)): ...\ndef make(n):\n    return n\n"},
        {"a.py": {"A"}},
    ),
    "call with a module": (
        {"a.py": "from functools import wraps\n" + MODULE + "class A(wraps(Base)): ...\n"},
        {"a.py": {"A", "Base"}},
    ),
    "call in a call": (
        {"a.py": "from functools import wraps\nclass A(wraps(wraps(int))): ...\n"},
        {"a.py": {"A"}},
    ),
    "subscript": (
        {"a.py": "BASES = {}\nclass A(BASES['x']): ...\n"},
        {"a.py": {"A"}},
    ),
    "star": (
        {"a.py": "BASES = ()\nclass A(*BASES): ...\n"},
        {"a.py": {"A"}},
    ),
    "generic base": (
        {
            "a.py": "from typing import Generic\n"
            + MODULE
            + "class A(Generic[T]): ...\nclass B(A[int], Base): ...\n"
        },
        {"a.py": {"A", "B", "Base"}},
    ),
    "unknown base": (
        {"a.py": "from far import Base\nclass A(Base):\n    def run(self): ...\n"},
        {},
    ),
    "unknown base and a forward": (
        {"a.py": "from far import Base\nclass A(Base):\n    def forward(self): ...\n"},
        {"a.py": {"A"}},
    ),
    "unknown base and a forward of an ancestor": (
        {
            "a.py": "from far import Base\nclass A(Base):\n    def forward(self): ...\n",
            "b.py": "from a import A\nclass B(A): ...\n",
        },
        {"a.py": {"A"}, "b.py": {"B"}},
    ),
    "unknown base and a forward of a mixin": (
        {
            "a.py": "class Mixin:\n    def forward(self): ...\n",
            "b.py": "from a import Mixin\nfrom far import Base\nclass B(Mixin, Base): ...\n",
        },
        {"a.py": {"Mixin"}, "b.py": {"B"}},
    ),
    "foreign bases": (
        {
            "a.py": "import enum\nfrom pydantic import BaseModel\n"
            "from torch.utils.data import Dataset\n"
            "from torch import autograd as ag\n"
            "class A(enum.Enum): ...\nclass B(BaseModel):\n    def forward(self): ...\n"
            "class C(Dataset): ...\nclass D(ag.Function): ...\n"
            "class E(ValueError): ...\nclass F(object): ...\n",
        },
        {},
    ),
    "foreign and unknown base": (
        {
            "a.py": "from enum import Enum\nfrom far import Base\n"
            "class A(Base, Enum):\n    def forward(self): ...\n"
        },
        {"a.py": {"A"}},
    ),
    "a mixin is named too": (
        {
            "a.py": "class Mixin: ...\nclass Other: ...\n",
            "b.py": NN + "from a import Mixin\nclass B(Mixin, nn.Module): ...\n",
        },
        {"a.py": {"Mixin"}, "b.py": {"B"}},
    ),
    "a mixin of a mixin is named too": (
        {
            "a.py": "class Root: ...\nclass Mixin(Root): ...\n",
            "p/__init__.py": "from a import Mixin\n",
            "b.py": NN + "import p\nclass B(p.Mixin, nn.Module): ...\n",
        },
        {"a.py": {"Mixin", "Root"}, "b.py": {"B"}},
    ),
    "base of a nested class": (
        {"a.py": NN + "class A:\n    class B(nn.Module): ...\nclass C(A.B): ...\n"},
        {"a.py": {"B", "C"}},
    ),
    "class under the name of its base": (
        {"a.py": MODULE, "b.py": "from a import Base\nclass Base(Base): ...\n"},
        {"a.py": {"Base"}, "b.py": {"Base"}},
    ),
    "bases in a circle": (
        {
            "a.py": "from b import B\nclass A(B): ...\n",
            "b.py": "from a import A\nclass B(A): ...\n",
        },
        {},
    ),
    "imports in a circle": (
        {
            "a.py": "from b import A\n",
            "b.py": "from a import A\n",
            "c.py": "from a import A\nclass C(A): ...\n",
        },
        {"c.py": {"C"}},
    ),
    "name that a file lacks": (
        {"a.py": "x = 1\n", "b.py": "from a import Base\nclass A(Base): ...\n"},
        {"b.py": {"A"}},
    ),
    "modules of torch and of other packages": (
        {
            "a.py": "import torch\nimport torch.nn as tnn\n"
            "from transformers import PreTrainedModel\n"
            "class A(torch.nn.Linear): ...\nclass B(tnn.modules.conv.Conv1d): ...\n"
            "class C(PreTrainedModel): ...\nclass D(tnn.Parameter): ...\n",
        },
        {"a.py": {"A", "B", "C"}},
    ),
}


@pytest.mark.parametrize("case", PROJECTS)
def test_prospects(case: str, tmp_path: Path) -> None:
    texts, expected = PROJECTS[case]
    found = chosen(tmp_path, texts)
    assert found == expected
    # classes of unknown ancestry are the only ones that trust adds
    trusted = chosen(tmp_path, texts, trusts_unknown=True)
    assert all(names <= trusted[path] for path, names in found.items())


def test_trust_in_unknown_bases(tmp_path: Path) -> None:
    texts, _ = PROJECTS["unknown base"]
    assert chosen(tmp_path, texts, trusts_unknown=True) == {"a.py": {"A"}}
    texts, _ = PROJECTS["foreign bases"]
    assert chosen(tmp_path, texts, trusts_unknown=True) == {}


def test_extra_bases(tmp_path: Path) -> None:
    texts = {
        "a.py": "class Base: ...\nclass A(Base): ...\nclass Other: ...\n",
        "b.py": "from far.away import Layer\nclass B(Layer): ...\n",
        "c.py": "from enum import Enum\nimport a\nclass C(a.Base): ...\nclass D(Enum): ...\n",
    }
    assert chosen(tmp_path, texts) == {}
    assert chosen(tmp_path, texts, ("pkg.a.Base",)) == {"a.py": {"Base", "A"}, "c.py": {"C"}}
    assert chosen(tmp_path, texts, ("far.away.Layer",)) == {"b.py": {"B"}}
    assert chosen(tmp_path, texts, ("enum.Enum",)) == {"c.py": {"D"}}


def test_a_file_outside_the_run_may_hold_anything(tmp_path: Path) -> None:
    texts = {"b.py": "from a import Base\nclass A(Base): ...\n"}
    assert chosen(tmp_path, texts, outside={"a.py": SETTINGS}) == {"b.py": {"A"}}


def test_files_whose_imports_were_followed(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("from b import Base\n", encoding="utf-8")
    (tmp_path / "b.py").write_text(SETTINGS, encoding="utf-8")
    (tmp_path / "c.py").write_text("from a import Base\nclass A(Base): ...\n", encoding="utf-8")
    contents = {str(path): path.read_bytes() for path in sorted(tmp_path.iterdir())}
    _, consulted = prospects(
        contents.get,
        {path: read_headers(data) for path, data in contents.items()},
        Locator((), str(tmp_path)).find,
        (),
        trusts_unknown=False,
    )
    assert consulted.keys() >= {str(tmp_path / "a.py")}
    assert str(tmp_path / "c.py") not in consulted


# No loss ------------------------------------------------------------------------------------------


def facts_of(contents: Mapping[str, bytes]) -> dict[str, ModuleFacts]:
    """Read files whole."""
    found: dict[str, ModuleFacts] = {}
    for path, data in contents.items():
        try:
            found[path] = extract_facts(parse(data))
        except (SourceError, RecursionError):
            continue
    return found


@dataclass
class _Files:
    """Files that were read whole."""

    facts: Mapping[str, ModuleFacts]

    def load(self, path: str) -> ModuleFacts | None:
        return self.facts.get(path)

    def one_more(self, key: tuple[str, str]) -> ModuleFacts | None:
        return None

    def exports(self, path: str) -> frozenset[str] | None:
        return None

    def below(self, path: str) -> frozenset[str]:
        return frozenset()


def lost(
    folder: Path, contents: Mapping[str, bytes], policy: UnknownBases
) -> Iterator[tuple[str, str]]:
    """Give the module classes of files that are no prospects."""
    facts = facts_of(contents)
    find = Locator((), str(folder)).find
    index = ProjectIndex(_Files(facts), find, frozenset(), policy)
    found, _ = prospects(
        contents.get,
        {path: read_headers(data) for path, data in contents.items()},
        find,
        (),
        trusts_unknown=policy is UnknownBases.ALWAYS,
    )
    for path, one in facts.items():
        for item in one.classes:
            name = bare_name(item.qualname)
            known = name in found.get(path, ()) or not name.isascii()
            if index.is_module((path, item.qualname)) and not known:
                yield Path(path).relative_to(folder).as_posix(), item.qualname


def read_all(paths: Iterator[Path]) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(paths)}


@pytest.mark.parametrize("policy", UnknownBases)
def test_no_module_of_the_fixtures_is_lost(policy: UnknownBases) -> None:
    together = read_all(path for path in FIXTURES.rglob("*.py") if "deep_" not in path.name)
    assert [*lost(FIXTURES, together, policy)] == []


@pytest.mark.parametrize("policy", UnknownBases)
def test_no_module_of_a_fixture_alone_is_lost(policy: UnknownBases) -> None:
    for path in [*FIXTURES.glob("*.py"), *FIXTURES.glob("hard/*.py")]:
        assert [*lost(FIXTURES, {str(path): path.read_bytes()}, policy)] == []
    for project in (FIXTURES / "projects").iterdir():
        assert [*lost(project, read_all(project.rglob("*.py")), policy)] == []


@pytest.mark.parametrize("policy", UnknownBases)
@pytest.mark.parametrize("case", PROJECTS)
def test_no_module_of_a_project_is_lost(case: str, policy: UnknownBases, tmp_path: Path) -> None:
    texts, _ = PROJECTS[case]
    chosen(tmp_path, texts)
    contents = {str(tmp_path / name): text.encode() for name, text in texts.items()}
    assert [*lost(tmp_path, contents, policy)] == []


@pytest.mark.parametrize("case", LAYOUTS)
def test_no_class_of_a_layout_is_lost(case: str) -> None:
    text, _ = LAYOUTS[case]
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return  # prose, or newer than the Python that runs this
    classes = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    assert classes <= read(text).keys()


#: one file each, with a module `A`
MODULES = {
    "two imports in a line": "from os import path; from torch import nn\nclass A(nn.Module): ...\n",
    "module imported behind a semicolon": (
        "from typing import Any; import torch.nn as nn\nclass A(nn.Module): ...\n"
    ),
    "import or assignment": (
        "from torch import nn\ntry:\n    from far import Base\nexcept ImportError:\n"
        "    Base = nn.Module\nclass A(Base): ...\n"
    ),
    "foreign import or assignment": (
        "from torch import nn\ntry:\n    from enum import Base\nexcept ImportError:\n"
        "    Base = nn.Module\nclass A(Base): ...\n"
    ),
    "class or annotated assignment": (
        "from torch import nn\nif x:\n    class Base: ...\nelse:\n    Base: type = nn.Module\n"
        "class A(Base): ...\n"
    ),
    "class or one of two assigned": (
        "from torch import nn\nif x:\n    class Base: ...\nelse:\n    Base, y = nn.Module, 1\n"
        "class A(Base): ...\n"
    ),
    "class or continued import": (
        "try:\n    from torch.nn import Linear, \\\n        Module as Base\nexcept ImportError:\n"
        "    class Base: ...\nclass A(Base): ...\n"
    ),
    "base without ASCII": "from torch import nn\nclass Слой(nn.Module): ...\nclass A(Слой): ...\n",
    "base defined again by way of a subclass": (
        "from torch import nn\nclass Base(nn.Module): ...\nclass Sub(Base): ...\n"
        "class Base(Sub): ...\nclass A(Sub): ...\n"
    ),
    "imported under a builtin name": "from torch.nn import Fold as filter\nclass A(filter): ...\n",
    "assigned to a builtin name": "import torch\nfilter = torch.nn.Linear\nclass A(filter): ...\n",
    "parameter under the name of a class": (
        "class Base: ...\ndef make(Base):\n    class A(Base):\n        def __init__(self):\n"
        "            super().__init__()\n        def forward(self): ...\n    return A\n"
    ),
    "import in a docstring": (
        '"""Do not write\n\nfrom enum import Base\n"""\nimport torch\nBase = torch.nn.Module\n'
        "class A(Base): ...\n"
    ),
    "comment with a bracket inside a call": (
        "from functools import wraps\nfrom torch import nn\n"
        "class A(wraps(  # see 1)\n    int), nn.Module): ...\n"
    ),
    "string with a bracket": (
        "from collections import namedtuple\nfrom torch import nn\n"
        "class A(namedtuple('A', ')'), nn.Module): ...\n"
    ),
    "string with a hash": (
        "from collections import namedtuple\nfrom torch import nn\n"
        "class A(namedtuple('A', '#'), nn.Module): ...\n"
    ),
    "form feed in the header": "from torch import nn\nclass A\x0c(nn.Module): ...\n",
}


@pytest.mark.parametrize("case", MODULES)
def test_no_module_of_an_odd_file_is_lost(case: str, tmp_path: Path) -> None:
    text = MODULES[case]
    contents = {str(tmp_path / "a.py"): text.encode()}
    assert [*lost(tmp_path, contents, UnknownBases.HEURISTIC)] == []
