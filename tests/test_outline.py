"""The outline of a file: what is left stands where it stood, what is left out is found again.

In: every source of this repository, and shapes that are hard to cut.  Out: tests.  Never here: what
is read from an outline.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from devicelint.facts import extend_facts, extend_facts_from, extract_facts, joined
from devicelint.files import SourceError, decode
from devicelint.ir import ModuleFacts, Unread, packed
from devicelint.outline import Outline, Stub, function_of, normalised, outline
from devicelint.reading import read_facts

ROOT = Path(__file__).resolve().parent.parent

FOLDERS = ("devicelint", "tests", "fixtures")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def texts() -> Iterator[tuple[str, str]]:
    """Give every file here that parses, with its newlines normalised."""
    for folder in FOLDERS:
        # the trees of some fixtures are too deep for `ast.dump`
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path.name.startswith("deep_"):
                continue
            try:
                text = normalised(decode(path.read_bytes()).text)
                ast.parse(text)
            except (SourceError, SyntaxError, ValueError, RecursionError, MemoryError):
                continue
            yield path.relative_to(ROOT).as_posix(), text


TEXTS = dict(texts())


def texts_in(folder: str) -> dict[str, str]:
    return {name: text for name, text in TEXTS.items() if name.startswith(f"{folder}/")}


#: a file, and the functions that are left out of it
SHAPES = {
    "functions": ("def f():\n    return 1\n\n\ndef g():\n    return 2\n", ["f", "g"]),
    "methods": (
        "class A:\n    def f(self):\n        return 1\n\n    x = 1\n\n    def g(self): \n"
        "        pass\n",
        ["f", "g"],
    ),
    "no newline at the end": ("def f():\n    return 1", ["f"]),
    "async": ("async def f():\n    await g()\n\n\nasync  def h():\n    pass\n", ["f", "h"]),
    "tabs": (
        "class A:\n\tdef f(self):\n\t\tif x:\n\t\t\treturn 1\n\n\tdef g(self):\n\t\tpass\n",
        ["f", "g"],
    ),
    "nested function": (
        "def f():\n    def g():\n        return 1\n\n    return g\n\n\nx = 1\n",
        ["f"],
    ),
    "nested class": ("def f():\n    class A:\n        pass\n\n    return A\n", []),
    "one line": ("def f(): return 1\ndef g(): return 2\nx = 1\n", ["f", "g"]),
    "one line among others": (
        "def f():\n    pass\ndef g(): return 2\ndef h():\n    pass\n",
        ["f", "g", "h"],
    ),
    "decorators": ("@a\n@b(1)\ndef f():\n    pass\n", ["f"]),
    "decorator over lines": (
        "@a(\n    1,\n    b=[\n        2,\n    ],\n)\ndef f():\n    pass\n",
        ["f"],
    ),
    "decorator and a comment": ("@a\n# about f\n@b\ndef f():\n    pass\n", ["f"]),
    "decorator and an empty line": ("@a\n\n@b\n\ndef f():\n    pass\n", ["f"]),
    "decorator of a method": (
        "class A:\n    @a(\n        1\n    )\n    def f(self):\n        pass\n",
        ["f"],
    ),
    "decorated class": ("@a\nclass A:\n    def f(self):\n        pass\n", ["f"]),
    "setter": (
        "class A:\n    @property\n    def f(self):\n        return 1\n\n"
        "    @f.setter\n    def f(self, x):\n        pass\n",
        ["f", "f"],
    ),
    "product of matrices": ("class A:\n    x = (b\n    @ c)\n    def f(self):\n        pass\n", []),
    "comments at the margin": (
        "def f():\n    x = 1\n# of no one\n    return x\n#last\n\n\nx = 1\n",
        ["f"],
    ),
    "closing bracket at the margin": ("def f():\n    x = (\n1,\n)\n    return x\n\n\ny = 1\n", []),
    "brackets closed at the margin": (
        "def f():\n    x = g(\n        1,\n)\n    return x\n\n\ny = 1\n",
        ["f"],
    ),
    "signature over lines": (
        "def f(\n    a,\n    b: dict[str, int] = {},\n) -> int:\n    return 1\n\n\nx = 1\n",
        ["f"],
    ),
    "default that calls": ("def f(a=g()):\n    return 1\n", []),
    "default that calls, over lines": (
        "def f(\n    a,\n    b=c.d(\n        1,\n    ),\n):\n    return 1\n",
        [],
    ),
    "docstring": ('def f():\n    """One.\n\n    Two.\n    """\n    return 1\n', ["f"]),
    "docstring at the margin": (
        'def f():\n    """One.\n\ndef g():\n    pass\n\nTwo.\n"""\n    return 1\n',
        [],
    ),
    "string with code": ('x = """\nclass A:\n    pass\n"""\n\n\ndef f():\n    pass\n', ["f"]),
    "string that holds a function": (
        'x = """\ndef g(a):\n    return (1\n\nx = 2\n"""\n\n\ndef f():\n    pass\n',
        ["f"],
    ),
    "string with half a function": ("x = '''\n  def g():\n'''\n\n\ndef f():\n    pass\n", ["f"]),
    "string in a function with code": (
        "def f():\n    x = '''\nclass B:\n    pass\n'''\n    return x\n\n\ny = 1\n",
        [],
    ),
    "string over lines by a backslash": (
        "def f():\n    x = 'a \\\n    b'\n    return x\n\n\ny = 1\n",
        ["f"],
    ),
    "lambda": ("f = lambda: 1\n\n\ndef g():\n    return lambda x: x\n", ["g"]),
    "in branches": (
        "if x:\n    def f():\n        return 1\nelse:\n    def f():\n        return 2\n",
        ["f", "f"],
    ),
    "in a try": (
        "try:\n    import a\nexcept ImportError:\n    def f():\n        pass\n"
        "finally:\n    x = 1\n",
        ["f"],
    ),
    "class in a class": (
        "class A:\n    class B:\n        def f(self):\n            pass\n\n"
        "    def g(self):\n        pass\n",
        ["f", "g"],
    ),
    "not ASCII": (
        "def größe():\n    return 'é'\n\n\nclass Ä:\n    def f(self):\n        return 'ü'\n",
        ["größe", "f"],
    ),
    "form feed": ("def f():\n    pass\n\x0c\n\ndef g():\n    pass\n", ["f", "g"]),
    "default in brackets that calls": ("def f(a=[g()]):\n    return 1\n", []),
    "default in round brackets that calls": ("def f(a=(g(), 1)):\n    return 1\n", []),
    "default with a sign that calls": ("def f(a=-g()):\n    return 1\n", []),
    "default that may call": ("def f(a=b or g()):\n    return 1\n", []),
    "default that calls an item": ("def f(a=b[0](1)):\n    return 1\n", []),
    "default that calls, on the next line": ("def f(a=\n    g()):\n    return 1\n", []),
    "default that calls, below a comment": (
        "def f(\n    # sizes:\n    a=g(),\n):\n    return 1\n",
        [],
    ),
    "default that calls, below a decorator": (
        "@a(lambda x:\n   x)\ndef f(a=g()):\n    return 1\n",
        [],
    ),
    "type parameters": ("def f[T](x: T) -> T:\n    return x\n", ["f"]),
    "empty lines at the end": ("def f():\n    pass\n\n\n\n", ["f"]),
    "space at the ends of lines": ("def f():   \n    pass  \n  \n\t\n    x = 1\ny = 1\n", ["f"]),
    "nothing": ("", []),
}


def parses(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def left_out(cut: Outline) -> dict[int, Stub]:
    """Give the functions left out that the skeleton has a `pass` for: others stood in strings."""
    places = {
        node.lineno for node in ast.walk(ast.parse(cut.skeleton)) if isinstance(node, ast.Pass)
    }
    return {line: stub for line, stub in cut.stubs.items() if line in places}


def first_line(node: Function | ast.ClassDef) -> int:
    return min([node.lineno, *(item.lineno for item in node.decorator_list)])


def functions_of(text: str) -> dict[int, Function]:
    """Give the functions of a file by their first line, decorators included."""
    return {
        first_line(node): node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def dumped(node: ast.AST) -> str:
    return ast.dump(node, include_attributes=True)


def place_of(stub: Stub) -> Unread:
    place = packed(stub.first, stub.line, stub.start, stub.end)
    return Unread(stub.name, "", place, stub.indent > 0)


def check(text: str) -> None:
    """Compare the outline of a text with the text's own tree."""
    cut = outline(text)
    assert cut.text == text
    assert cut.skeleton.count("\n") == text.count("\n")
    functions = functions_of(text)
    for line, stub in left_out(cut).items():
        node = functions[line]
        assert dumped(function_of(text, place_of(stub))) == dumped(node)
        assert (stub.name, stub.first, stub.line) == (node.name, line, node.lineno)
        setters = [item for item in node.decorator_list if ast.unparse(item).endswith(".setter")]
        assert stub.is_setter == bool(setters)


@pytest.mark.parametrize("folder", FOLDERS)
def test_sources_of_this_repository(folder: str) -> None:
    here = texts_in(folder)
    assert len(here) > 30
    for text in here.values():
        check(text)


def test_most_of_a_source_is_left_out() -> None:
    whole = sum(map(len, texts_in("devicelint").values()))
    skeletons = sum(
        len(outline(text).skeleton.replace("\n", "")) for text in texts_in("devicelint").values()
    )
    assert skeletons < whole / 2


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_is_left_stands_where_it_stood(folder: str) -> None:
    """The statements around functions are the same nodes at the same places."""
    for text in texts_in(folder).values():
        check_what_is_left(text)


def check_what_is_left(text: str) -> None:
    cut = outline(text)
    gone = left_out(cut)
    whole, rest = ast.parse(text), ast.parse(cut.skeleton)
    pending: list[tuple[list[ast.stmt], list[ast.stmt]]] = [(whole.body, rest.body)]
    while pending:
        one, other = pending.pop()
        assert len(one) == len(other)
        for before, after in zip(one, other, strict=True):
            if isinstance(before, ast.FunctionDef | ast.AsyncFunctionDef) and isinstance(
                after, ast.Pass
            ):
                assert first_line(before) == after.lineno
                assert after.lineno in gone
                continue
            assert type(before) is type(after)
            assert before.lineno == after.lineno
            if isinstance(before, ast.ClassDef) and isinstance(after, ast.ClassDef):
                assert [*map(dumped, before.bases)] == [*map(dumped, after.bases)]
                pending.append((before.body, after.body))


@pytest.mark.parametrize("case", SHAPES)
def test_shape(case: str) -> None:
    text, expected = SHAPES[case]
    cut = outline(text)
    if not parses(text):
        return  # newer than the Python that runs this
    check(text)
    check_what_is_left(text)
    assert [stub.name for stub in left_out(cut).values()] == expected


@pytest.mark.parametrize("case", SHAPES)
def test_shape_after_other_lines(case: str) -> None:
    """Positions are those in the file, wherever in it a shape stands, and however deep."""
    text, _ = SHAPES[case]
    if not parses(text):
        return
    check("import a\n\n\nclass Z:\n    def z(self):\n        pass\n\n\n" + text)
    if text and not re.search("'''|\"\"\"|\\\\\n|margin", text + case):
        deeper = "".join(f"    {line}" if line.strip() else line for line in text.splitlines(True))
        check("class Z:\n" + deeper.replace("\n#", "\n    #"))


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n    return (1\n\n\ndef g():\n    pass\n",
        "def f():\n    return 1)\n",
        "def f(\n    return {1}\n",
        "def f():\n    x = '''\n    return x\n",
        "def f()\n    return 1\n",
        "class A:\n    def f(self):\n        return [1\n",
    ],
)
def test_what_is_never_closed_is_left_in(text: str) -> None:
    assert not parses(outline(text).skeleton)


@pytest.mark.parametrize("rest", ["def g():\n    pass\n", "class A:\n    x = 1\n", "x = 1\n"])
def test_a_form_feed_is_no_indentation(rest: str) -> None:
    text = f"def f():\n    pass\n\x0c{rest}"
    check(text)
    check_what_is_left(text)


@pytest.mark.parametrize("newline", ["\r\n", "\r"])
def test_line_endings_are_normalised_first(newline: str) -> None:
    text = SHAPES["setter"][0]
    assert normalised(text.replace("\n", newline)) == text


def test_what_is_no_function_is_an_error() -> None:
    text = "x = 1\ny = 2\n"
    with pytest.raises(SyntaxError):
        function_of(text, Unread("f", "", packed(1, 1, 0, len(text)), False))


# What is read by way of an outline ----------------------------------------------------------------


def plain(facts: ModuleFacts) -> object:
    """Show facts without the order in which functions were read."""
    return (
        facts.imports,
        facts.stars,
        {item.qualname: item for item in facts.classes},
        set(facts.functions),
        facts.bindings,
        {item.qualname: item for item in facts.summaries},
        facts.shadowing,
    )


def test_facts_are_those_of_the_whole_file() -> None:
    """What an outline leaves out is there as soon as it is asked for."""
    for name, text in texts_in("fixtures").items():
        tree = ast.parse(text)
        whole = extract_facts(tree)
        whole = joined(whole, extend_facts_from(tree, whole, whole.functions))
        part = read_facts(name, text.encode())
        assert isinstance(part, ModuleFacts), name
        part = joined(part, extend_facts(text, part, [item.qualname for item in part.unread]))
        # what is nested in a function is known by now
        part = joined(part, extend_facts_from(tree, part, whole.functions))
        assert plain(part) == plain(whole), name
