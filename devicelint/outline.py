"""Cut a source down to what it defines, line numbers kept.

In: the text of a file.  Out: a skeleton, in which each function is a lone `pass`, and a stub for
each of these, to be parsed when somebody asks for it.  Never here: a decision that needs a syntax
tree.

Most of a file is code that no constructor reaches.  Parsing is what costs (143 ms a MB), so what is
left out is not parsed.  Functions are found by their indentation alone; where that could be wrong
(text in multi-line strings that looks like code, form feeds), and where a default argument calls
something, the function is left in.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from sys import intern
from typing import NamedTuple

from devicelint.ir import Unread

#: Methods that run when an object is made, without being named by anyone.
ENTRY_METHODS = ("__init__", "__post_init__", "__new__")

# `re` looks for a first newline five times as fast as for the start of a line (`^`).
_START = re.compile(r"\n([ \t]*)(?:(@)|(?:async[ \t]+)?def[ \t]+(\w+)|class\b)")
#: parameters and what must follow them; without a call, which would run where the function is
#: defined (the only brackets are those of a tuple), in strings and comments whatever there is
_PLAIN = re.compile(
    r"[ \t]*(?:\[[^\[\]()]*\])?[ \t]*"
    r"\((?:[^()#'\"=]++|=[ \t]*\([^()#'\"]*\)|=|'[^'\\\n]*'|\"[^\"\\\n]*\"|#[^\n]*)*+\)"
    r"[ \t]*(?::|->)"
)
#: after one, the indentation of a line is counted anew
_FORM_FEED = re.compile(r"^[ \t]*\f[ \t\f]*[^\s#]", re.M)
_SETTER = re.compile(r"\n[ \t]*@[\w.]+\.setter[ \t]*(?:#.*)?\n")
_INNER_CLASS = re.compile(r"\n[ \t]+class\b")
_NEWLINE = re.compile(r"\r\n?")


class Stub(NamedTuple):
    """A function that was left out: its name, where it stands, and whether it is a setter.

    `first` is its first line (from 1), decorators included, `line` that of its `def`; `start` and
    `end` are offsets into the text with its newlines normalised.
    """

    name: str
    first: int
    line: int
    start: int
    end: int
    indent: int
    is_setter: bool
    #: its parameters hold no call
    is_plain: bool


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
    """Leave out of a text (newlines normalised) every function whose ends are certain."""
    if "\f" in text and _FORM_FEED.search(text):
        return Outline(text, text, {})
    pieces: list[str] = []
    stubs: dict[int, Stub] = {}
    done = line = 0
    for stub in _functions(text):
        body = text[stub.start : stub.end]
        if not stub.is_plain or _is_uncertain(body):
            continue
        lines = body.count("\n")
        pieces += [text[done : stub.start], _indent(body), "pass", "\n" * lines]
        line += text.count("\n", done, stub.start)
        stubs[line + 1] = stub._replace(first=line + 1, line=line + 1 + stub.line)
        line += lines
        done = stub.end
    pieces.append(text[done:])
    return Outline(text, "".join(pieces), stubs)


def function_of(text: str, place: Unread) -> ast.FunctionDef | ast.AsyncFunctionDef:
    """Parse one function at its place in the file; raises SyntaxError.

    Empty lines are put before it, so that its positions are those in the file: 20 us for 1,000.
    """
    body = text[place.start : place.end]
    if place.is_indented:
        body = "if 1:\n" + body
    block = ast.parse("\n" * (place.first - 1 - place.is_indented) + body).body
    match block:
        case [ast.If(body=[ast.FunctionDef() | ast.AsyncFunctionDef() as node])]:
            return node
        case [ast.FunctionDef() | ast.AsyncFunctionDef() as node]:
            return node
    raise SyntaxError(f"no function in line {place.line}")


def _is_uncertain(body: str) -> bool:
    """Tell a function whose end may be wrong, or that has to be read with what is around it.

    So are functions that do not parse: what is left out must not hide a syntax error, as far as
    brackets tell.
    """
    if body.count('"""') % 2 or ("'''" in body and body.count("'''") % 2):
        return True
    if "class" in body and _INNER_CLASS.search(body):
        return True  # a factory of classes, whose constructors count
    brackets = body.encode(errors="replace").translate(None, _NO_BRACKETS)
    return (
        brackets.count(b"(") != brackets.count(b")")
        or brackets.count(b"[") != brackets.count(b"]")
        or brackets.count(b"{") != brackets.count(b"}")
    )


#: To count in what is left takes a third of counting six times in all.
_NO_BRACKETS = bytes(set(range(256)) - set(b"()[]{}"))


def _indent(body: str) -> str:
    return body[: len(body) - len(body.lstrip(" \t"))]


def _functions(text: str) -> list[Stub]:
    """Find the outermost functions and methods, with their decorators."""
    found: list[Stub] = []
    # a match starts at the newline before a line: one is put before the first
    lines = "\n" + text
    position = 0
    decorated: re.Match[str] | None = None
    while (match := _START.search(lines, position)) is not None:
        position = match.end()
        if match[2]:
            decorated = decorated or match
            continue
        if not match[3]:
            decorated = None  # a class: its decorators stay where they are
            continue
        start = match.start()
        if decorated is not None:
            between = lines[decorated.start() + 1 : start + 1]
            if len(decorated[1]) == len(match[1]) and _are_decorators(between, match[1]):
                start = decorated.start()
            decorated = None
        end = _end_of(lines, match.end(), len(match[1]))
        setter = _SETTER.search(lines[start : match.start()] + "\n") is not None
        # lines are counted from the first decorator, until it is known where that is
        above = lines.count("\n", start, match.start())
        plain = _PLAIN.match(lines, match.end()) is not None
        found.append(Stub(intern(match[3]), 0, above, start, end, len(match[1]), setter, plain))
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


def _end_of(lines: str, position: int, indent: int) -> int:
    """Find the newline before the first line that is indented no deeper, and is code."""
    pattern = _DEDENTS.get(indent)
    if pattern is None:
        pattern = _DEDENTS[indent] = re.compile(rf"\n[ \t]{{0,{indent}}}+[^\s)\]}}#]")
    match = pattern.search(lines, position)
    return match.start() if match is not None else len(lines) - 1


_DEDENTS: dict[int, re.Pattern[str]] = {}
