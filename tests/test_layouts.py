"""Every way a call can be laid out, and the exact bytes that its fix makes of it.

In: modules spelled out here, as bytes.  Out: tests.  Never here: a rule's judgement.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from devicelint import runner
from devicelint.model import Policy
from devicelint.settings import Settings

HEAD = """\
import torch
from torch import nn


class M(nn.Module):
    def __init__(self, n, x, device=None):
        super().__init__()
"""


def fixed(data: bytes, settings: Settings | None = None, *, unsafe: bool = False) -> bytes:
    """Fix what would come from stdin; a complaint about a fix fails the test."""
    request = runner.Request(cwd=Path.cwd(), stdin=data)
    report = runner.fix(request, settings or Settings(), unsafe=unsafe)
    assert [one.message for one in report.left.diagnostics] == []
    return report.fixes[0].after if report.fixes else data


def body(text: str, newline: str = "\n") -> bytes:
    """Put lines into the constructor of a module."""
    indented = "".join(f"        {line}\n" if line else "\n" for line in text.split("\n"))
    return (HEAD + indented).replace("\n", newline).encode()


#: a statement, and the same once fixed
CASES = {
    "one line": ("self.a = torch.zeros(n)", "self.a = torch.zeros(n, device=device)"),
    "one line, trailing comma": (
        "self.a = torch.zeros(n,)",
        "self.a = torch.zeros(n, device=device,)",
    ),
    "one line, spaced comma": (
        "self.a = torch.zeros( n , )",
        "self.a = torch.zeros( n, device=device , )",
    ),
    "keywords": (
        "self.a = torch.zeros(n, dtype = torch.int)",
        "self.a = torch.zeros(n, dtype = torch.int, device=device)",
    ),
    "empty": ("self.a = torch.cuda.Stream()", "self.a = torch.cuda.Stream(device=device)"),
    "empty, spaced": (
        "self.a = torch.cuda.Stream( )",
        "self.a = torch.cuda.Stream(device=device )",
    ),
    "empty, split": (
        "self.a = torch.cuda.Stream(\n)",
        "self.a = torch.cuda.Stream(device=device\n)",
    ),
    "empty, comment": (
        "self.a = torch.cuda.Stream(  # for copies\n)",
        "self.a = torch.cuda.Stream(device=device  # for copies\n)",
    ),
    "split": (
        "self.a = torch.zeros(\n    n\n)",
        "self.a = torch.zeros(\n    n,\n    device=device\n)",
    ),
    "split, trailing comma": (
        "self.a = torch.zeros(\n    n,\n    2,\n)",
        "self.a = torch.zeros(\n    n,\n    2,\n    device=device,\n)",
    ),
    "split, two on a line": (
        "self.a = torch.zeros(\n    n, 2\n)",
        "self.a = torch.zeros(\n    n, 2, device=device\n)",
    ),
    "hanging": (
        "self.a = torch.zeros(n,\n                     2)",
        "self.a = torch.zeros(n,\n                     2,\n                     device=device)",
    ),
    "blank lines between": (
        "self.a = torch.zeros(\n    n,\n\n    2\n\n)",
        "self.a = torch.zeros(\n    n,\n\n    2,\n    device=device\n\n)",
    ),
    "comment between arguments": (
        "self.a = torch.zeros(\n    n,  # rows\n    # and columns\n    2\n)",
        "self.a = torch.zeros(\n    n,  # rows\n    # and columns\n    2,\n    device=device\n)",
    ),
    "comment after the last argument": (
        "self.a = torch.zeros(\n    n  # rows\n)",
        "self.a = torch.zeros(\n    n,  # rows\n    device=device\n)",
    ),
    "comment after the last comma": (
        "self.a = torch.zeros(\n    n,  # rows\n)",
        "self.a = torch.zeros(\n    n,  # rows\n    device=device,\n)",
    ),
    "comment below the last argument": (
        "self.a = torch.zeros(\n    n,\n    # no more\n)",
        "self.a = torch.zeros(\n    n,\n    device=device,\n    # no more\n)",
    ),
    "comment behind an argument on the opening line": (
        "self.a = torch.zeros(n  # rows\n)",
        "self.a = torch.zeros(n, device=device  # rows\n)",
    ),
    "comment with brackets": (
        "self.a = torch.zeros(\n    n,  # ) and ,\n    2  # (\n)",
        "self.a = torch.zeros(\n    n,  # ) and ,\n    2,  # (\n    device=device\n)",
    ),
    "type: ignore on the opening line": (
        "self.a = torch.zeros(  # type: ignore[call-overload]\n    n\n)",
        "self.a = torch.zeros(  # type: ignore[call-overload]\n    n,\n    device=device\n)",
    ),
    "type: ignore behind the call": (
        "self.a = torch.zeros(n)  # type: ignore",
        "self.a = torch.zeros(n, device=device)  # type: ignore",
    ),
    "comment without a space": (
        "self.a = torch.zeros(n)#end",
        "self.a = torch.zeros(n, device=device)#end",
    ),
    "backslash in the call": (
        "self.a = torch.zeros(n, \\\n    2)",
        "self.a = torch.zeros(n, \\\n    2,\n    device=device)",
    ),
    "backslash before the parenthesis": (
        "self.a = torch.zeros \\\n    (n)",
        "self.a = torch.zeros \\\n    (n, device=device)",
    ),
    "backslash before the call": (
        "self.a = \\\n    torch.zeros(n)",
        "self.a = \\\n    torch.zeros(n, device=device)",
    ),
    "starred": ("self.a = torch.zeros(*x)", "self.a = torch.zeros(*x, device=device)"),
    "starred and double starred": (
        "self.a = torch.zeros(*x, **{'dtype': torch.int})",
        "self.a = torch.zeros(*x, **{'dtype': torch.int}, device=device)",
    ),
    "generator in parentheses": (
        "self.a = torch.tensor((i for i in x))",
        "self.a = torch.tensor((i for i in x), device=device)",
    ),
    "nested": (
        "self.a = torch.outer(torch.arange(n), torch.arange(torch.ones(2).sum().item()))",
        "self.a = torch.outer(torch.arange(n, device=device),"
        ' torch.arange(torch.ones(2, device="cpu").sum().item(), device=device))',
    ),
    "nested, split": (
        "self.a = torch.stack([\n    torch.zeros(\n        n\n    ),\n    torch.ones(n),\n])",
        "self.a = torch.stack([\n    torch.zeros(\n        n,\n        device=device\n    ),\n"
        "    torch.ones(n, device=device),\n])",
    ),
    "chain over lines": (
        "self.a = (\n    torch\n    .zeros(n)\n    .float()\n)",
        "self.a = (\n    torch\n    .zeros(n, device=device)\n    .float()\n)",
    ),
    "callee in parentheses": (
        "self.a = (torch.zeros)(n)",
        "self.a = (torch.zeros)(n, device=device)",
    ),
    "value in parentheses": (
        "self.a = torch.full((n,), (1.0))",
        "self.a = torch.full((n,), (1.0), device=device)",
    ),
    "value split in parentheses": (
        "self.a = torch.zeros(n, dtype=(\n    torch.int\n))",
        "self.a = torch.zeros(n, dtype=(\n    torch.int\n), device=device)",
    ),
    "strings with brackets": (
        "self.a = torch.tensor([ord(')'), ord(\"(\"), ord(',')])",
        "self.a = torch.tensor([ord(')'), ord(\"(\"), ord(',')], device=device)",
    ),
    "text over lines": (
        "self.a = torch.tensor(len('''(\n)'''))",
        "self.a = torch.tensor(len('''(\n)'''), device=device)",
    ),
    "tabs": (
        "self.a = torch.zeros(\tn\t,\t2\t)",
        "self.a = torch.zeros(\tn\t,\t2, device=device\t)",
    ),
    "tabs, split": (
        "self.a = torch.zeros(\n\t\tn,\t# rows\n\t\t)",
        "self.a = torch.zeros(\n\t\tn,\t# rows\n\t\tdevice=device,\n\t\t)",
    ),
    "form feed": (
        "self.a = torch.zeros(n,\x0c 2)\n\x0c",
        "self.a = torch.zeros(n,\x0c 2, device=device)\n\x0c",
    ),
    "walrus": ("self.a = torch.zeros(m := n)", "self.a = torch.zeros(m := n, device=device)"),
    "walrus around": (
        "if (t := torch.zeros(n)) is not None: self.a = t",
        "if (t := torch.zeros(n, device=device)) is not None: self.a = t",
    ),
    "lambda as the last argument": (
        "self.a = torch.full((n,), (lambda: 1)())",
        "self.a = torch.full((n,), (lambda: 1)(), device=device)",
    ),
    "conditional as the last argument": (
        "self.a = torch.zeros(n if n else 1)",
        "self.a = torch.zeros(n if n else 1, device=device)",
    ),
    "no space around": (
        "self.a=torch.zeros(n)if n else torch.ones(n)",
        "self.a=torch.zeros(n, device=device)if n else torch.ones(n, device=device)",
    ),
    "behind a semicolon": (
        "y = 1; self.a = torch.zeros(n); z = 2",
        "y = 1; self.a = torch.zeros(n, device=device); z = 2",
    ),
    "two of them beside a semicolon": (
        "self.a = torch.zeros(n); self.b = torch.ones(n);",
        "self.a = torch.zeros(n, device=device); self.b = torch.ones(n, device=device);",
    ),
    "behind an if": (
        "if x: self.a = torch.zeros(2)",
        "if x: self.a = torch.zeros(2, device=device)",
    ),
    "behind an else": (
        "if x: self.a = torch.zeros(2)\nelse: self.a = torch.ones(2); self.b = 1",
        "if x: self.a = torch.zeros(2, device=device)\n"
        "else: self.a = torch.ones(2, device=device); self.b = 1",
    ),
    "comprehension": (
        "self.a = [torch.zeros(i) for i in range(n)]",
        "self.a = [torch.zeros(i, device=device) for i in range(n)]",
    ),
    "wide characters before": (
        "self.a = 'Größe ☃ 🂡', torch.zeros(n)",
        "self.a = 'Größe ☃ 🂡', torch.zeros(n, device=device)",
    ),
    "wide characters within": (
        "self.größe = torch.zeros(len('☃'), 2)",
        "self.größe = torch.zeros(len('☃'), 2, device=device)",
    ),
    "legacy, sizes": (
        "self.a = torch.Tensor(n, 3)",
        "self.a = torch.empty(n, 3, device=device)",
    ),
    "legacy, sizes split": (
        "self.a = torch.FloatTensor(\n    n,\n    3  # last\n)",
        "self.a = torch.empty(\n    n,\n    3,  # last\n    dtype=torch.float32, device=device\n)",
    ),
    "legacy, data": (
        "self.a = torch.Tensor([\n    2,  # two\n    3,\n])",
        "self.a = torch.tensor([\n    2,  # two\n    3,\n],"
        " dtype=torch.get_default_dtype(), device=device)",
    ),
}
IN_TEXT = {
    "single": ("f'{torch.zeros(n).tolist()}'", "f'{torch.zeros(n, device=\"cpu\").tolist()}'"),
    "double": ('f"{torch.zeros(n).tolist()}"', "f\"{torch.zeros(n, device='cpu').tolist()}\""),
    "neighbours": (
        "'é' f'{n}' f'{torch.zeros(n).item():>{n}}'",
        "'é' f'{n}' f'{torch.zeros(n, device=\"cpu\").item():>{n}}'",
    ),
    "over lines": (
        "f'''\n  {torch.zeros(n).item()}\n'''",
        "f'''\n  {torch.zeros(n, device=\"cpu\").item()}\n'''",
    ),
    "braces": ("f'{{{torch.zeros(n).item()}}}'", "f'{{{torch.zeros(n, device=\"cpu\").item()}}}'"),
    "no quotation mark left": (
        'f"{torch.zeros(n).item()}\'"',
        'f"{torch.zeros(n).item()}\'"',
    ),
    "beside it": (
        "f'{n} torch.zeros(n)', torch.zeros(n).item()",
        "f'{n} torch.zeros(n)', torch.zeros(n, device=\"cpu\").item()",
    ),
}
NEWLINES = {"LF": "\n", "CRLF": "\r\n", "CR": "\r"}


@pytest.mark.parametrize("newline", NEWLINES.values(), ids=NEWLINES)
@pytest.mark.parametrize("case", CASES)
def test_layout(case: str, newline: str) -> None:
    before, after = CASES[case]
    assert fixed(body(before, newline)) == body(after, newline)


@pytest.mark.parametrize("case", IN_TEXT)
def test_f_strings(case: str) -> None:
    before, after = (f"self.a = {part}" for part in IN_TEXT[case])
    assert fixed(body(before)) == body(after)


def test_f_string_in_an_f_string() -> None:
    before = "self.a = f'{f\"{torch.zeros(n).item()}\"}'"
    assert fixed(body(before)) == body(before)


@pytest.mark.parametrize(
    "statement",
    [
        "self.a = torch.tensor(i for i in x)",
        "self.a = torch.zeros(n, device=None)",
        "self.a = torch.zeros(n, pin_memory=True, out=x)",
    ],
)
def test_what_takes_no_argument_stays(statement: str) -> None:
    assert fixed(body(statement)) == body(statement)


WHOLE = {
    "decorators": (
        "import torch\n\n@a\n@b(torch)\nclass M(torch.nn.Module):\n    @c\n"
        "    def __init__(self):\n        self.a = torch.zeros(2)\n",
        "torch.zeros(2",
    ),
    "async": (
        "import torch\n\nclass M(torch.nn.Module):\n    def __init__(self):\n"
        "        self.a = torch.zeros(2)\n\n    async def load(self):\n"
        "        async with x as y:\n            await y(torch.zeros(3))\n",
        "torch.zeros(2",
    ),
    "class on one line": (
        "import torch\nclass M(torch.nn.Module):\n"
        "  def __init__(self): super().__init__(); self.a = torch.zeros(2)\n",
        "torch.zeros(2",
    ),
    "tabs as indentation": (
        "import torch\nclass M(torch.nn.Module):\n\tdef __init__(self):\n\t\tif self:\n"
        "\t\t\tself.a = torch.zeros(2)\n",
        "torch.zeros(2",
    ),
    "form feed before the class": (
        "import torch\n\x0c\nclass M(torch.nn.Module):\n    def __init__(self):\n"
        "\x0c        self.a = torch.zeros(2)\n",
        "torch.zeros(2",
    ),
    "match": (
        "import torch\nclass M(torch.nn.Module):\n    def __init__(self, x):\n        match x:\n"
        "            case {'a': [*_], **rest}: self.a = torch.zeros(2)\n",
        "torch.zeros(2",
    ),
    "deep in blocks": (
        "import torch\nclass M(torch.nn.Module):\n    def __init__(self, x):\n        try:\n"
        "            with x:\n                while x:\n                    for y in x:\n"
        "                        self.a = torch.zeros(2)\n        finally:\n            pass\n",
        "torch.zeros(2",
    ),
}


@pytest.mark.parametrize("end", ["\n", ""], ids=["final newline", "no final newline"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["no BOM", "BOM"])
@pytest.mark.parametrize("case", WHOLE)
def test_whole_files(case: str, mark: bytes, newline: str, end: str) -> None:
    text, call = WHOLE[case]
    before = mark + (text.rstrip("\n") + end).replace("\n", newline).encode()
    inserted = f"{call}, device=torch.cuda.current_device()".encode()
    assert fixed(before) == before.replace(call.encode(), inserted)


@pytest.mark.parametrize(
    ("cookie", "encoding"),
    [("latin-1", "latin-1"), ("cp1252", "cp1252"), ("shift_jis", "shift_jis"), ("utf-8", "utf-8")],
)
def test_encodings(cookie: str, encoding: str) -> None:
    letter = "テ" if encoding == "shift_jis" else "é"
    before = f"# -*- coding: {cookie} -*-\n{HEAD}        self.a = '{letter}', torch.zeros(n)\n"
    after = before.replace("zeros(n", "zeros(n, device=device")
    assert fixed(before.encode(encoding)) == after.encode(encoding)


# Imports -----------------------------------------------------------------------------------------

MODULE = """\
class M(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.a = zeros(n)
"""
CURRENT = Policy().device_expression


def with_device(text: str, expression: str) -> str:
    return text.replace("zeros(n)", f"zeros(n, device={expression})")


#: text before the class, and the same with the import (None: no fix), and the name of torch
TORCH = {
    "not bound": ("from torch import nn, zeros\n", "import torch\nfrom torch import nn, zeros\n"),
    "bound": ("import torch\nfrom torch import nn, zeros\n", "="),
    "bound below": (f"from torch import nn, zeros\n{MODULE}\nimport torch\n\n\n", "="),
    "alias": ("import torch as th\nfrom torch import nn, zeros\n", "th"),
    "submodule binds the root": ("import torch.nn.functional\nfrom torch import nn, zeros\n", "="),
    "alias of a submodule": (
        "import torch.nn as nn\nfrom torch import zeros\n",
        "import torch\nimport torch.nn as nn\nfrom torch import zeros\n",
    ),
    "docstring": (
        '"""Doc."""\n\nfrom torch import nn, zeros\n',
        '"""Doc."""\n\nimport torch\nfrom torch import nn, zeros\n',
    ),
    "docstring and __future__": (
        '"""Doc.\n\nMore."""\nfrom __future__ import annotations\nfrom torch import nn, zeros\n',
        '"""Doc.\n\nMore."""\nfrom __future__ import annotations\nimport torch\n'
        "from torch import nn, zeros\n",
    ),
    "code on the line of __future__": (
        "from __future__ import annotations; x = [\n    1]\nfrom torch import nn, zeros\n",
        "from __future__ import annotations; x = [\n    1]\nimport torch\n"
        "from torch import nn, zeros\n",
    ),
    "shebang and cookie": (
        "#!/usr/bin/env python\n# coding: utf-8\n# Copyright\nfrom torch import nn, zeros\n",
        "#!/usr/bin/env python\n# coding: utf-8\n# Copyright\nimport torch\n"
        "from torch import nn, zeros\n",
    ),
    "for type checkers alone": (
        "from typing import TYPE_CHECKING\nfrom torch import nn, zeros\n"
        "if TYPE_CHECKING:\n    import torch\n",
        "import torch\nfrom typing import TYPE_CHECKING\nfrom torch import nn, zeros\n"
        "if TYPE_CHECKING:\n    import torch\n",
    ),
    "for type checkers, first": (
        "import typing\nif typing.TYPE_CHECKING:\n    import torch\nelse:\n    torch = None\n"
        "from torch import nn, zeros\n",
        None,
    ),
    "in another function": (
        "from torch import nn, zeros\ndef f():\n    import torch\n    return torch\n",
        "import torch\nfrom torch import nn, zeros\ndef f():\n    import torch\n    return torch\n",
    ),
    "in a class body": (
        "from torch import nn, zeros\nclass C:\n    import torch\n",
        "import torch\nfrom torch import nn, zeros\nclass C:\n    import torch\n",
    ),
    "if available": (
        "if available():\n    import torch\n    from torch import nn, zeros\n",
        "=",
    ),
    "or None": (
        "try:\n    import torch\n    from torch import nn, zeros\nexcept ImportError:\n"
        "    torch = None\n",
        "=",
    ),
    "or a stand-in": (
        "try:\n    import torch\nexcept ImportError:\n    from stub import torch\n"
        "from torch import nn, zeros\n",
        "=",
    ),
    "bound to something else": ("import numpy as torch\nfrom torch import nn, zeros\n", None),
    "rebound": ("import torch\nfrom torch import nn, zeros\ntorch = wrap(torch)\n", None),
    "deleted": ("import torch\nfrom torch import nn, zeros\ndel torch\n", None),
    "a function's name": ("from torch import nn, zeros\ndef torch(): pass\n", None),
    "a walrus": ("from torch import nn, zeros\nprint(torch := 3)\n", None),
    "a loop variable": ("from torch import nn, zeros\nfor torch in ():\n    pass\n", None),
    "an exception's name": (
        "from torch import nn, zeros\ntry:\n    pass\nexcept OSError as torch:\n    pass\n",
        None,
    ),
    "a pattern's name": (
        "from torch import nn, zeros\nmatch 3:\n    case [torch, *_]:\n        pass\n",
        None,
    ),
    "in a comprehension alone": (
        "from torch import nn, zeros\nx = [torch for torch in ()]\n",
        "import torch\nfrom torch import nn, zeros\nx = [torch for torch in ()]\n",
    ),
}


@pytest.mark.parametrize("case", TORCH)
def test_import_of_torch(case: str) -> None:
    head, after = TORCH[case]
    before = head + MODULE
    if after is None:
        assert fixed(before.encode()) == before.encode()
    elif after in ("=", "th"):
        expression = CURRENT.replace("torch", "th") if after == "th" else CURRENT
        assert fixed(before.encode()).decode() == with_device(before, expression)
    else:
        assert fixed(before.encode()).decode() == with_device(after + MODULE, CURRENT)


#: the constructor's text, and what the fix calls torch there (None: no fix)
LOCAL = {
    "parameter": ("def __init__(self, n, torch=None):\n        super().__init__()", None),
    "local": ("def __init__(self, n):\n        torch = n\n        super().__init__()", None),
    "local, later": (
        "def __init__(self, n):\n        super().__init__(); x = 1\n        for torch in (): pass",
        None,
    ),
    "local import": (
        "def __init__(self, n):\n        import torch as t\n        super().__init__()",
        "t",
    ),
    "local import on a branch": (
        "def __init__(self, n):\n        if n:\n            import torch\n"
        "        super().__init__()",
        None,
    ),
    "global": (
        "def __init__(self, n):\n        global torch\n        torch = 3\n"
        "        super().__init__()",
        None,
    ),
}


@pytest.mark.parametrize("bound", [True, False], ids=["imported", "not imported"])
@pytest.mark.parametrize("case", LOCAL)
def test_names_of_the_function(case: str, bound: bool) -> None:
    written, name = LOCAL[case]
    head = (
        "import torch\nfrom torch import nn, zeros\n" if bound else "from torch import nn, zeros\n"
    )
    text = MODULE.replace("def __init__(self, n):\n        super().__init__()", written)
    before = head + text
    wanted = before
    if name is not None:
        own = "torch" if bound else name
        wanted = with_device(before, CURRENT.replace("torch", own))
    assert fixed(before.encode()).decode() == wanted


PLATFORM = Settings(
    device_expression="current_platform.device_type",
    device_import="from vllm.platforms import current_platform",
)
STATEMENT = "from vllm.platforms import current_platform\n"
BOTH = "import torch\nfrom torch import nn, zeros\n"

CONFIGURED = {
    "missing": (BOTH, STATEMENT + BOTH, "current_platform.device_type"),
    "there already": (BOTH + STATEMENT, BOTH + STATEMENT, "current_platform.device_type"),
    "there among others": (
        BOTH + "from vllm.platforms import (Platform, current_platform)\n",
        "=",
        "current_platform.device_type",
    ),
    "another name": (
        BOTH + "from vllm.platforms import current_platform as here\n",
        "=",
        "here.device_type",
    ),
    "relative": (
        BOTH + "from ..platforms import current_platform\n",
        "=",
        "current_platform.device_type",
    ),
    "from elsewhere": (BOTH + "from mine import current_platform\n", None, ""),
    "for type checkers": (
        BOTH + "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    " + STATEMENT,
        STATEMENT + BOTH + "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    " + STATEMENT,
        "current_platform.device_type",
    ),
    "in a function": (
        BOTH + "def f():\n    " + STATEMENT,
        STATEMENT + BOTH + "def f():\n    " + STATEMENT,
        "current_platform.device_type",
    ),
}


@pytest.mark.parametrize("case", CONFIGURED)
def test_configured_import(case: str) -> None:
    head, after, expression = CONFIGURED[case]
    before = head + MODULE
    found = fixed(before.encode(), PLATFORM).decode()
    if after is None:
        assert found == before
    else:
        assert found == with_device((head if after == "=" else after) + MODULE, expression)


def test_configured_import_of_a_submodule() -> None:
    settings = replace(PLATFORM, device_expression="a.b.place()", device_import="import a.b")
    for head, after in (
        ("import a\n" + BOTH, "import a.b\nimport a\n" + BOTH),
        ("import a.b.c\n" + BOTH, "import a.b.c\n" + BOTH),
        ("import a.b\n" + BOTH, "import a.b\n" + BOTH),
    ):
        found = fixed((head + MODULE).encode(), settings).decode()
        assert found == with_device(after + MODULE, "a.b.place()")


def test_torch_and_configured_import_together() -> None:
    settings = Settings(
        device_expression="torch.npu.current_device()", device_import="import torch_npu"
    )
    before = "from torch import nn, zeros\n" + MODULE + "        self.b = zeros(n)\n"
    after = with_device(f"import torch\nimport torch_npu\n{before}", "torch.npu.current_device()")
    assert fixed(before.encode(), settings).decode() == after


def test_imports_keep_the_line_ending() -> None:
    before = f"# only\r\nfrom torch import nn, zeros\r\n{MODULE}".replace("\r\n", "\n")
    after = with_device(before.replace("from torch", "import torch\nfrom torch"), CURRENT)
    crlf = before.replace("\n", "\r\n").encode()
    assert fixed(crlf) == after.replace("\n", "\r\n").encode()


def test_a_device_in_scope_needs_no_import() -> None:
    before = "from torch import nn, zeros\n" + MODULE.replace("self, n", "self, n, device")
    assert fixed(before.encode()).decode() == with_device(before, "device")
