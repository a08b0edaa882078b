"""Generated modules, fixed: whatever the layout, nothing but the device comes in.

In: modules put together by hypothesis from the constructor table, layouts, sinks, line endings and
encodings.  Out: tests.  Never here: the fixer's own net; the checks are written anew.

A run takes 300 modules, or as many as the variable DEVICELINT_EXAMPLES says.
"""

from __future__ import annotations

import ast
import codecs
import io
import os
import re
import sys
import tokenize
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from devicelint import runner
from devicelint.model import Kind
from devicelint.parsing import RECURSION_LIMIT
from devicelint.settings import Settings
from devicelint.torch_api import CONSTRUCTORS

EXAMPLES = int(os.environ.get("DEVICELINT_EXAMPLES", "300"))

# The engine raises it, which hypothesis does not like to see in the middle of a test.
sys.setrecursionlimit(max(sys.getrecursionlimit(), RECURSION_LIMIT))

PLATFORM = Settings(
    device_expression="current_platform.device_type",
    device_import="from vllm.platforms import current_platform",
)
CPU = Settings(device_expression='"cpu"')

# Modules -----------------------------------------------------------------------------------------

#: what may stand between the parts of a call that is split over lines, and within one line
GAPS = ("", " ", "  ", "\t", "\x0c", "\n            ", "\n\n                ", "\\\n      ")
COMMENTED = (
    "  # a ) b ,\n            ",
    "\n            # it's (\n            ",
    "  # type: ignore\n\t\t",
    "#\n",
)
LINE_GAPS = ("", " ", "\t", "  ")

ARGUMENTS = (
    "n",
    "2",
    "(n, 2)",
    "(n)",
    "*x",
    "[1, 2.5]",
    "m := n",
    "n if n else 1",
    "(lambda: n)()",
    "len(')')",
    'ord("(")',
    "len('''(,\n''')",
    "'größe'.count('ö')",
    "torch.arange(n).sum()",
    "torch.zeros(\n    2,  # two\n)",
    "(i for i in x)",
    "[torch.ones(i) for i in x]",
    "f'{n}'",
    "x[1:n, ...]",
    "- n",
)
KEYWORDS = ("dtype=torch.float32", "dtype = None", "requires_grad=False", "**x", "pin_memory=False")
LEGACY = ("2, 3", "[1, 2]", "n", "*x", "len(x)", "[i for i in x]", "\n  2,\n  3  # three\n")

#: how a statement gets hold of the value of a call, with what becomes of it
SINKS = (
    "self.a = {}",
    "self.a, self.b = {}, 1",
    "self.a: object = {}",
    "self.register_buffer('a', {}, persistent=False)",
    "self.register_buffer(name='a', tensor={})",
    "self.a = nn.Parameter({}, requires_grad=False)",
    "self.a = [{} for i in range(n)]",
    "self.a = {{'k': {}, **x}}",
    "self.a = {}.tolist()",
    "self.a = int(({}).sum())",
    "self.a = torch.outer({}, torch.arange(n))",
    "self.a = x[{}]; self.b = 1",
    "y = 1; self.a = {}",
    "if n: self.a = {}",
    "if (y := {}) is not None: self.a = y",
    "self.a = (\n            {}\n        ).to(torch.int)",
    "self.a = f'{{{}}}'",
    'self.a = f"{{{}.item():>{{n}}}} \'"',
    "y = {}\n        self.a = y * 2",
    "self.a = self.helper({})",
    "for y in {}: self.a = y",
    "with x as y: self.a = {}",
    "self.a = lambda: {}",
    "assert ({}).numel()",
    "setattr(self, 'a', {})",
)

TENSORS = sorted(
    name
    for name, row in CONSTRUCTORS.items()
    if row.kind in (Kind.TENSOR, Kind.STREAM, Kind.GENERATOR)
)
LEGACIES = sorted(name for name, row in CONSTRUCTORS.items() if row.kind is Kind.LEGACY)

HEADERS = (
    "import torch\nfrom torch import nn",
    "import torch as th\nimport torch\nimport torch.nn as nn",
    "from __future__ import annotations\nimport torch; from torch import nn",
    "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch as th\nimport torch\n"
    "from torch import nn",
    "import os\n\x0c\nimport torch\nfrom vllm.platforms import current_platform\n"
    "from torch import nn",
    "try:\n    import torch\n    from torch import nn\nexcept ImportError:\n    torch = nn = None",
)
BARE = "from torch import nn, cuda, zeros, arange, full, tensor, empty, Tensor, FloatTensor"


@st.composite
def calls(draw: st.DrawFn, gaps: tuple[str, ...]) -> str:
    """Write a constructor call in one of many layouts."""
    legacy = draw(st.integers(0, 5)) == 0
    name = draw(st.sampled_from(LEGACIES if legacy else TENSORS))
    if legacy:
        arguments = [draw(st.sampled_from(LEGACY))]
    else:
        arguments = draw(st.lists(st.sampled_from(ARGUMENTS), max_size=3))
        arguments += draw(st.lists(st.sampled_from(KEYWORDS), max_size=2, unique=True))
    gap = st.sampled_from(gaps)
    pieces = [name, draw(st.sampled_from(("", "", "", " ", " \\\n  "))), "(", draw(gap)]
    for number, argument in enumerate(arguments):
        is_last = number == len(arguments) - 1
        comma = "," if not is_last or draw(st.booleans()) else ""
        pieces += [argument, draw(st.sampled_from(LINE_GAPS)), comma, draw(gap)]
    return "".join((*pieces, ")"))


@dataclass(frozen=True)
class Module:
    """A generated file, and what it was made of, for the report of a failure."""

    text: str
    newline: str
    encoding: str
    mark: bool

    @property
    def data(self) -> bytes:
        head = "" if self.encoding == "utf-8" else f"# -*- coding: {self.encoding} -*-\n"
        text = (head + self.text).replace("\n", self.newline)
        return codecs.BOM_UTF8 * self.mark + text.encode(self.encoding)


@st.composite
def modules(draw: st.DrawFn) -> Module:
    """Write a module class whose constructor holds a few calls."""
    gaps = draw(st.sampled_from((LINE_GAPS, GAPS, (*GAPS, *COMMENTED))))
    indent = draw(st.sampled_from(("        ", "\t\t", "          ")))
    parameters = draw(st.sampled_from(("", "", ", device=None", ", factory_kwargs=None")))
    lines = []
    for _ in range(draw(st.integers(1, 4))):
        statement = draw(st.sampled_from(SINKS)).format(draw(calls(gaps)))
        statement = statement.replace("\n        self", f"\n{indent}self")
        lines.append(
            indent + statement + draw(st.sampled_from(("", "", "  # end", ";", "\n", "\x0c")))
        )
    header = draw(st.sampled_from(HEADERS))
    body = "\n".join(lines)
    if draw(st.integers(0, 3)) == 0:
        header = BARE
        body = re.sub(r"torch\.(?=(?:cuda|zeros|arange|full|tensor|empty|Tensor)\b)", "", body)
    docstring = draw(st.sampled_from(("", '"""Größe."""\n', '"""A.\n\nB"""\n')))
    decorator = draw(st.sampled_from(("", "@x\n", "@x(torch)\n")))
    unit = indent[: len(indent) // 2]
    text = (
        f"{docstring}{header}\n\n\n{decorator}class M(nn.Module):\n"
        f"{unit}def __init__(self, n, x{parameters}):\n{indent}super().__init__()\n{body}\n\n"
        f"{unit}def helper(self, value):\n{indent}return value\n\n"
        f"{unit}async def forward(self, x):\n{indent}return torch.zeros(3)\n"
    )
    encoding = draw(st.sampled_from(("utf-8", "utf-8", "latin-1", "cp1252")))
    return Module(
        text=text if draw(st.booleans()) else text.rstrip("\n"),
        newline=draw(st.sampled_from(("\n", "\n", "\r\n", "\r"))),
        encoding=encoding,
        mark=encoding == "utf-8" and draw(st.booleans()),
    )


# What must hold ----------------------------------------------------------------------------------


def fix(data: bytes, options: Settings, *, unsafe: bool) -> tuple[bytes, runner.FixReport]:
    request = runner.Request(cwd=Path.cwd(), stdin=data)
    report = runner.fix(request, options, unsafe=unsafe)
    return report.fixes[0].after if report.fixes else data, report


def parsed(data: bytes) -> ast.Module:
    return ast.parse(data)


def without_insertions(tree: ast.Module, imports: set[str]) -> str:
    """Dump a tree without devices, dtypes, legacy names and the imports that a fix may add."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            node.keywords = [one for one in node.keywords if one.arg not in ("device", "dtype")]
            name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            name = node.func.id if isinstance(node.func, ast.Name) else name
            if name in ("empty", "tensor") or name.endswith("Tensor"):
                node.func = ast.Name("made")
    tree.body = [one for one in tree.body if ast.unparse(one) not in imports]
    return ast.dump(tree)


def devices(tree: ast.Module) -> int:
    return sum(
        keyword.arg == "device"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for keyword in node.keywords
    )


def is_within(before: bytes, after: bytes) -> bool:
    """Tell whether `before`, legacy names aside, is `after` with bytes taken out."""
    names = rb"(?:\w+\.)*(?:[A-Z]\w*)?Tensor(?=[\s\\]*\()"
    rest = iter(after)
    return all(byte in rest for byte in re.sub(names, b"", before))


def comments(data: bytes) -> list[str]:
    # As Python does, `tokenize` is given lines that end in a line feed.
    lines = io.BytesIO(re.sub(rb"\r\n?", b"\n", data))
    found = tokenize.tokenize(lines.readline)
    return [token.string for token in found if token.type == tokenize.COMMENT]


def check_invariants(before: bytes, options: Settings, *, unsafe: bool) -> int:
    """Fix a file, check everything that a fix must leave alone, and return how many there were."""
    after, report = fix(before, options, unsafe=unsafe)
    assert report.left.diagnostics == ()
    applied = [finding for change in report.fixes for finding in change.applied]
    old, new = parsed(before), parsed(after)

    assert devices(new) - devices(old) == len(applied)
    imports = {"import torch", options.device_import}
    assert without_insertions(old, imports) == without_insertions(new, imports)
    assert is_within(before, after)
    assert comments(before) == comments(after)

    assert after.startswith(codecs.BOM_UTF8) == before.startswith(codecs.BOM_UTF8)
    assert set(re.findall(rb"\r\n|\r|\n", after)) == set(re.findall(rb"\r\n|\r|\n", before))
    assert before[-1:] == after[-1:]
    for mark in (b"\x0c", b"coding:", b'"""', b"\\"):
        assert before.count(mark) == after.count(mark)
    # A new line is indented like the one above it.
    assert after.count(b"\t") >= before.count(b"\t")

    again, second = fix(after, options, unsafe=unsafe)
    assert again == after
    assert second.fixes == ()
    left = {(one.code, one.callable) for _, one in report.left.findings}
    assert left == {(one.code, one.callable) for _, one in second.left.findings}
    return len(applied)


@settings(
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(modules(), st.sampled_from((Settings(), PLATFORM, CPU)), st.booleans())
def test_generated_modules(module: Module, options: Settings, unsafe: bool) -> None:
    try:
        parsed(module.data)
    except (SyntaxError, ValueError):
        assume(False)
    count = check_invariants(module.data, options, unsafe=unsafe)
    event(f"{min(count, 4)} fixes")


#: where two numbers would be something else: a device, or a form that takes none
ARGUMENTS_OF = {
    "torch.nn.Transformer.generate_square_subsequent_mask": "2",
    "torch.normal": "0.0, 1.0, size=(2,)",
}


@pytest.mark.parametrize("name", [*TENSORS, *LEGACIES])
def test_every_constructor(name: str) -> None:
    bare = any(part in name for part in ("Stream", "Generator"))
    argument = "" if bare else ARGUMENTS_OF.get(name, "2, 3")
    text = (
        "import torch\nfrom torch import nn\n\n\nclass M(nn.Module):\n"
        "    def __init__(self, device):\n        super().__init__()\n"
        f"        self.a = {name}({argument})\n"
    )
    row = CONSTRUCTORS[name]
    takes_one = row.takes_device or row.kind is Kind.LEGACY
    assert check_invariants(text.encode(), Settings(), unsafe=True) == takes_one
