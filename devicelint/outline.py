"""Cut a source down to what an object's construction can start from, line numbers kept.

In: the text of a file.  Out: a skeleton, in which each function but the constructors is a lone
`pass`, and a stub for each of these, to be parsed when somebody asks for it.  Never here: a
decision that needs a syntax tree.

Most of a file is code that no constructor reaches.  Parsing is what costs (143 ms a MB), so what is
left out is not parsed.  Functions are found by their indentation alone; where that could be wrong
(text in multi-line strings that looks like code), the function is left in.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace

#: Methods that run when an object is made, without being named by anyone.
ENTRY_METHODS = ("__init__", "__post_init__", "__new__")

_START = re.compile(r"^([ \t]*)(?:(@)|(?:async[ \t]+)?def[ \t]+(\w+)|class\b)", re.M)
#: decorators and signature: up to the first line that ends in a colon
_HEADER = re.compile(r".*?:[ \t]*(?:#.*)?$", re.M | re.S)
_INNER_CLASS = re.compile(r"^[ \t]+class\s", re.M)
_DEFAULT_CALL = re.compile(r"=\s*[\w.]+\(")
_NEWLINE = re.compile(r"\r\n?")


@dataclass(frozen=True, slots=True)
class Stub:
    """A function that was left out: its name, where it stands, and whether it is a setter.

    `first` is its first line (from 1), decorators included, `lineno` that of its `def`; `start`
    and `end` are offsets into the text with its newlines normalised.
    """

    name: str
    first: int
    lineno: int
    start: int
    end: int
    indent: int
    is_setter: bool


@dataclass(frozen=True, slots=True)
class Outline:
    """A skeleton that parses as the file does, and what was left out of it, by line."""

    text: str
    skeleton: str
    stubs: dict[int, Stub]


def normalised(text: str) -> str:
    """Turn every line ending into a newline, as Python's own reader does."""
    return _NEWLINE.sub("\n", text) if "\r" in text else text


def outline(text: str) -> Outline:
    """Leave out of a text (newlines normalised) the functions that no object starts with."""
    pieces: list[str] = []
    stubs: dict[int, Stub] = {}
    done = line = 0
    for stub in _functions(text):
        body = text[stub.start : stub.end]
        if stub.name in ENTRY_METHODS or _is_uncertain(body):
            continue
        pieces += [text[done : stub.start], _indent(body), "pass", "\n" * body.count("\n")]
        line += text.count("\n", done, stub.start)
        above = text.count("\n", stub.start, stub.start + stub.lineno)
        stubs[line + 1] = replace(stub, first=line + 1, lineno=line + 1 + above)
        line += body.count("\n")
        done = stub.end
    pieces.append(text[done:])
    return Outline(text, "".join(pieces), stubs)


def function_of(text: str, stub: Stub) -> ast.FunctionDef | ast.AsyncFunctionDef:
    """Parse one function at its place in the file; raises SyntaxError.

    Empty lines are put before it, so that its positions are those in the file.
    """
    body = text[stub.start : stub.end]
    if stub.indent:
        body = "if 1:\n" + body
    tree = ast.parse("\n" * (stub.first - 1 - bool(stub.indent)) + body)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            return node
    raise SyntaxError(f"no function in line {stub.lineno}")


def _is_uncertain(body: str) -> bool:
    """Tell a function whose end may be wrong, or whose default arguments call something.

    So are functions that do not parse: what is left out must not hide a syntax error, as far as
    brackets tell.
    """
    if body.count('"""') % 2 or body.count("'''") % 2:
        return True
    if _INNER_CLASS.search(body):
        return True  # a factory of classes, whose constructors count
    if any(body.count(one) != body.count(other) for one, other in ("()", "[]", "{}")):
        return True
    header = _HEADER.match(body)
    return header is None or _DEFAULT_CALL.search(header[0]) is not None


def _indent(body: str) -> str:
    return body[: len(body) - len(body.lstrip(" \t"))]


def _functions(text: str) -> list[Stub]:
    """Find the outermost functions and methods, with their decorators."""
    found: list[Stub] = []
    position = 0
    decorated: re.Match[str] | None = None
    while (match := _START.search(text, position)) is not None:
        position = match.end()
        if match[2]:
            decorated = decorated or match
            continue
        if not match[3]:
            decorated = None  # a class: its decorators stay where they are
            continue
        start = match.start()
        if decorated is not None:
            between = text[decorated.start() : start]
            if len(decorated[1]) == len(match[1]) and _are_decorators(between, match[1]):
                start = decorated.start()
            decorated = None
        end = _end_of(text, match.end(), len(match[1]))
        setter = ".setter" in text[start : match.start()]
        # where the `def` is, counted from the first decorator, until the lines are known
        found.append(Stub(match[3], 0, match.start() - start, start, end, len(match[1]), setter))
        position = end
    return found


def _are_decorators(text: str, indent: str) -> bool:
    """Tell decorators (continuation lines are indented further or close a bracket)."""
    for line in text.splitlines():
        if line.startswith(indent) and line[len(indent) : len(indent) + 1] not in " \t@)]}#":
            return False
        if not line.startswith(indent) and line.strip():
            return False
    return True


def _end_of(text: str, position: int, indent: int) -> int:
    """Find the first line behind `position` that is indented no deeper, and is code."""
    pattern = _DEDENTS.get(indent)
    if pattern is None:
        pattern = _DEDENTS[indent] = re.compile(rf"^[ \t]{{0,{indent}}}[^\s)\]}}#]", re.M)
    match = pattern.search(text, position)
    return match.start() if match is not None else len(text)


_DEDENTS: dict[int, re.Pattern[str]] = {}
