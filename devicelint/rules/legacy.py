"""What the arguments of a legacy constructor mean: `torch.Tensor(3)` is a shape, `([3])` is data.

In: the arguments of a call as text.  Out: their meaning, as far as the text alone settles it.
Never here: an edit, or a guess about what a name stands for.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from enum import StrEnum

from devicelint.model import Argument

_INT_CALLS = frozenset({"int", "len"})
_INT_METHODS = frozenset({"bit_length", "dim", "ndimension", "nelement", "numel"})
_DATA_CALLS = frozenset({"list", "range", "sorted", "tuple"})
_INT_OPERATORS = (ast.Add, ast.FloorDiv, ast.LShift, ast.Mod, ast.Mult, ast.RShift, ast.Sub)


class Meaning(StrEnum):
    """What the arguments say: how large, or what is in it."""

    SIZES = "sizes"
    DATA = "data"
    UNCLEAR = "unclear"


def meaning(arguments: Sequence[Argument]) -> Meaning:
    """Tell sizes from data.

    Several arguments can only be sizes; one may be either, unless it is surely an int or surely
    a sequence.  `torch.Tensor((2, 3))` is data, `torch.Tensor(torch.Size((2, 3)))` is not, so a
    `x.shape`, which is a plain tuple on an array, stays unclear.
    """
    if not arguments or any(a.keyword is not None or a.star == "**" for a in arguments):
        return Meaning.UNCLEAR
    if len(arguments) > 1 or arguments[0].star:
        return Meaning.SIZES
    node = _parse(arguments[0].text)
    if node is None:
        return Meaning.UNCLEAR
    if _is_int(node):
        return Meaning.SIZES
    return Meaning.DATA if _is_data(node) else Meaning.UNCLEAR


def _parse(text: str) -> ast.expr | None:
    try:
        # In parentheses, and ended by a newline: the argument may span lines or end in a comment.
        return ast.parse(f"({text}\n)", mode="eval").body
    except SyntaxError:
        return None


def _is_int(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=value):
            # torch.Tensor(True) is a TypeError, not a size.
            return isinstance(value, int) and not isinstance(value, bool)
        case ast.UnaryOp(op=ast.UAdd() | ast.USub(), operand=operand):
            return _is_int(operand)
        case ast.BinOp(left=left, op=operator, right=right):
            return isinstance(operator, _INT_OPERATORS) and _is_int(left) and _is_int(right)
        case ast.IfExp(body=body, orelse=orelse):
            return _is_int(body) and _is_int(orelse)
        case ast.Call():
            return _is_int_call(node)
        case ast.Subscript(value=ast.Attribute(attr="shape"), slice=index):
            return _is_int(index)
        case ast.Attribute(attr="ndim"):
            return True
    return False


def _is_int_call(node: ast.Call) -> bool:
    match node:
        case ast.Call(func=ast.Name(id=name)) if name in _INT_CALLS:
            return True
        case ast.Call(func=ast.Name(id="max" | "min"), args=[_, _, *_] as values):
            return all(_is_int(value) for value in values)
        case ast.Call(func=ast.Attribute(attr="size"), args=[index]):
            return _is_int(index)
        case ast.Call(func=ast.Attribute(attr=name), args=[]) if name in _INT_METHODS:
            return True
    return False


def _is_data(node: ast.expr) -> bool:
    match node:
        case ast.List() | ast.ListComp() | ast.Tuple():
            return True
        case ast.BinOp(left=left, op=ast.Add() | ast.Mult(), right=right):
            return _is_data(left) or _is_data(right)
        case ast.IfExp(body=body, orelse=orelse):
            return _is_data(body) and _is_data(orelse)
        case ast.Call(func=ast.Name(id=name)):
            return name in _DATA_CALLS
    return False
