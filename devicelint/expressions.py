"""Evaluate expressions: where the value may come from, what is called, what is done with values.

In: a frame and the syntax of an expression.  Out: a value (see `ir`); events, calls and names
noted in the frame.  Never here: statements, or what a callee does.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from devicelint.calls import invoke
from devicelint.frame import SELF, Arguments, Frame
from devicelint.ir import Value
from devicelint.methods import bound, call_method, member
from devicelint.model import Sink
from devicelint.syntax import key_of
from devicelint.values import NONE, dict_of, either, element, merge, tracked, with_key

#: Atoms that name something inside one function, and mean nothing in a function nested in it.
_LOCAL_ATOMS = ("call", "item", "param", "partial")
#: Comparisons that make a tensor of tensors; `is` and `in` make a truth value.
_ELEMENTWISE = (ast.Eq, ast.NotEq, ast.Lt, ast.Gt, ast.LtE, ast.GtE)
#: A longer string names nothing: it is a docstring or a message.
_LONGEST_NAME = 80


def evaluate(frame: Frame, node: ast.expr) -> Value:
    """Evaluate an expression: give its value, note its calls and what it does."""
    handler = _EXPRESSIONS.get(type(node))
    return handler(frame, node) if handler is not None else ()


def evaluate_callee(frame: Frame, node: ast.expr) -> Value:
    """Evaluate what is called; a method of a local object stays a bound name."""
    if isinstance(node, ast.Attribute):
        return bound(frame, evaluate(frame, node.value), node.attr)
    return evaluate(frame, node)


def evaluate_test(frame: Frame, node: ast.expr) -> None:
    """Evaluate a condition: a tensor in it is read on the host."""
    frame.event("iterated", "", evaluate(frame, node))


# Stores -------------------------------------------------------------------------------------------


def store(frame: Frame, target: ast.expr, value: Value, source: ast.expr | None) -> None:
    """Bind a target; `source` is the expression that gave the value, if it may be taken apart."""
    match target:
        case ast.Name(id=name):
            frame.env[name] = value
            frame.unsure.discard(name)
        case ast.Attribute(value=base, attr=attr):
            _store_attribute(frame, base, attr, value)
        case ast.Subscript(value=base, slice=index):
            # an index on another device than the tensor is refused
            frame.meet(evaluate(frame, base), evaluate(frame, index))
            _store_item(frame, base, index, value)
        case ast.Starred(value=inner):
            store(frame, inner, value, None)
        case ast.Tuple(elts=targets) | ast.List(elts=targets):
            _unpack(frame, targets, value, source)


#: The dicts in which a module keeps what moves with it.
_REGISTRIES = {"self._buffers": str(Sink.BUFFER), "self._parameters": str(Sink.PARAMETER)}


def _unpack(frame: Frame, targets: list[ast.expr], value: Value, source: ast.expr | None) -> None:
    starred = any(isinstance(item, ast.Starred) for item in targets)
    if (
        isinstance(source, ast.Tuple | ast.List)
        and len(source.elts) == len(targets)
        and not starred
    ):
        for item, part in zip(targets, source.elts, strict=True):
            store(frame, item, evaluate(frame, part), part)
        return
    for index, item in enumerate(targets):
        store(frame, item, value if starred else element(value, index), None)


def _store_attribute(frame: Frame, base: ast.expr, attr: str, value: Value) -> None:
    owner = evaluate(frame, base)
    if owner == SELF:
        frame.env[f"self.{attr}"] = value
        frame.unsure.discard(f"self.{attr}")
    elif attr == "data":
        frame.event(Sink.PARAMETER, "", value)
    else:
        frame.event("attribute", attr, value)


def _is_held_elsewhere(value: Value) -> bool:
    """Tell a container that outlives the function: of a class, or of the module."""
    return any(atom[0] == "ref" for atom in value)


def _store_item(frame: Frame, base: ast.expr, index: ast.expr, new: Value) -> None:
    """Store into a container (the value is kept with it) or into a tensor (copied)."""
    root = base
    while isinstance(root, ast.Subscript):
        root = root.value
    key = key_of(root)
    held = frame.env.get(key) if key else None
    name = index.value if isinstance(index, ast.Constant) else None
    if held is not None and any(atom[0] in ("call", "item", "box", "dict") for atom in held):
        if isinstance(name, str):
            held = with_key(held, name)
        frame.env[key] = frame.meet(held, new)
    elif key in _REGISTRIES:
        frame.event(_REGISTRIES[key], "", new)
    elif (
        isinstance(name, str)
        or key == "self.__dict__"
        or _is_held_elsewhere(held if held is not None else evaluate(frame, root))
    ):
        frame.event("attribute", "", new)
    else:
        # made elsewhere: a tensor there takes a copy
        frame.copied(new, key)


def iterate(frame: Frame, target: ast.expr, iterable: ast.expr) -> None:
    """Bind the target of a loop; `enumerate` and `zip` are taken apart, element by element."""
    value = evaluate(frame, iterable)
    frame.event("iterated", "", value)
    if isinstance(target, ast.Tuple):
        parts = _parts_of(iterable, len(target.elts))
        if parts is not None:
            for item, part in zip(target.elts, parts, strict=True):
                store(frame, item, () if part is None else evaluate(frame, part), None)
            return
    store(frame, target, value, None)


def _parts_of(iterable: ast.expr, count: int) -> list[ast.expr | None] | None:
    """Say what each of `count` targets runs over (None: over numbers); None if that is unknown."""
    match iterable:
        case ast.Call(func=ast.Name(id="enumerate"), args=[first, *_]) if count == 2:
            return [None, first]
        case ast.Call(func=ast.Name(id="zip"), args=args) if len(args) == count:
            return [*args]
    return None


# Names and parts ----------------------------------------------------------------------------------


def _name(frame: Frame, node: ast.Name) -> Value:
    value = frame.env.get(node.id)
    if value is not None:
        return value
    outside = frame.scope.lookup(node.id, frame.outer)
    if frame.outer is not None:
        outside = tuple(atom for atom in outside if atom[0] not in _LOCAL_ATOMS)
    return outside


def _constant(frame: Frame, node: ast.Constant) -> Value:
    match node.value:
        case str(text):
            return (("str", text),) if len(text) < _LONGEST_NAME else ()
        case None:
            return NONE
        case bool(flag):
            return (("true",) if flag else ("false",),)
    return ()


def _attribute(frame: Frame, node: ast.Attribute) -> Value:
    return member(frame, evaluate(frame, node.value), node.attr)


def _subscript(frame: Frame, node: ast.Subscript) -> Value:
    base = evaluate(frame, node.value)
    frame.meet(base, evaluate(frame, node.slice))
    match node.slice:
        case ast.Constant(value=int(index)) if not isinstance(index, bool):
            return element(base, index)
    return base


def _slice(frame: Frame, node: ast.Slice) -> Value:
    for part in (node.lower, node.upper, node.step):
        if part is not None:
            evaluate(frame, part)
    return ()


def _inner(frame: Frame, node: ast.Starred | ast.Await) -> Value:
    return evaluate(frame, node.value)


def _walrus(frame: Frame, node: ast.NamedExpr) -> Value:
    value = evaluate(frame, node.value)
    store(frame, node.target, value, node.value)
    return value


# Operators ----------------------------------------------------------------------------------------


def _binary(frame: Frame, node: ast.BinOp) -> Value:
    return frame.meet(evaluate(frame, node.left), evaluate(frame, node.right))


def _unary(frame: Frame, node: ast.UnaryOp) -> Value:
    if isinstance(node.op, ast.Not):
        evaluate_test(frame, node.operand)
        return ()
    return tracked(evaluate(frame, node.operand))


def _compare(frame: Frame, node: ast.Compare) -> Value:
    values = [evaluate(frame, item) for item in (node.left, *node.comparators)]
    if all(isinstance(op, _ELEMENTWISE) for op in node.ops):
        return tracked(frame.meet(*values))
    return ()


def _either(frame: Frame, node: ast.BoolOp) -> Value:
    return either(*(evaluate(frame, item) for item in node.values))


def _conditional(frame: Frame, node: ast.IfExp) -> Value:
    evaluate_test(frame, node.test)
    low = len(frame.calls)
    first = evaluate(frame, node.body)
    middle = len(frame.calls)
    second = evaluate(frame, node.orelse)
    frame.mark_twins([("", low, middle)], [("", middle, len(frame.calls))])
    return either(first, second)


# Displays and comprehensions ----------------------------------------------------------------------


def _display(frame: Frame, node: ast.List | ast.Tuple | ast.Set) -> Value:
    return merge(*(evaluate(frame, item) for item in node.elts), (("box",),))


def _dict(frame: Frame, node: ast.Dict) -> Value:
    values = [evaluate(frame, item) for item in node.values]
    keys: list[str | None] = []
    spreads: list[Value] = []
    for key, value in zip(node.keys, values, strict=True):
        if key is None:
            spreads.append(value)
            continue
        evaluate(frame, key)
        text = key.value if isinstance(key, ast.Constant) else None
        keys.append(text if isinstance(text, str) else None)
    kept = [tuple(atom for atom in value if atom[0] != "dict") for value in values]
    return merge((dict_of(keys, spreads),), *kept)


def _comprehension(frame: Frame, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> Value:
    return _comprehend(frame, node.generators, [node.elt])


def _dict_comprehension(frame: Frame, node: ast.DictComp) -> Value:
    return merge(_comprehend(frame, node.generators, [node.key, node.value]), (("dict", 0),))


def _comprehend(
    frame: Frame, generators: list[ast.comprehension], results: list[ast.expr]
) -> Value:
    saved = dict(frame.env)
    for generator in generators:
        iterate(frame, generator.target, generator.iter)
        for condition in generator.ifs:
            evaluate_test(frame, condition)
    made = merge(*(evaluate(frame, item) for item in results), (("box",),))
    # only the targets are local to it: what a walrus binds inside stays
    targets = [item for generator in generators for item in ast.walk(generator.target)]
    for name in {item.id for item in targets if isinstance(item, ast.Name)}:
        if name in saved:
            frame.env[name] = saved[name]
        else:
            frame.env.pop(name, None)
    return made


# Functions and calls ------------------------------------------------------------------------------


def _joined(frame: Frame, node: ast.JoinedStr) -> Value:
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            evaluate(frame, part.value)
    return ()


def _yield(frame: Frame, node: ast.Yield | ast.YieldFrom) -> Value:
    if node.value is not None:
        frame.event("returned", "", evaluate(frame, node.value))
    return ()


def _lambda(frame: Frame, node: ast.Lambda) -> Value:
    return frame.add_function(node, "<lambda>")


def _call(frame: Frame, node: ast.Call) -> Value:
    if not isinstance(node.func, ast.Attribute):
        callee = evaluate(frame, node.func)
        return invoke(frame, node, callee, _arguments(frame, node), ())
    base = evaluate(frame, node.func.value)
    callee = bound(frame, base, node.func.attr)
    args = _arguments(frame, node)
    result = call_method(frame, node, node.func, base, args)
    return result if result is not None else invoke(frame, node, callee, args, base)


def _arguments(frame: Frame, node: ast.Call) -> Arguments:
    args = Arguments()
    for index, item in enumerate(node.args):
        if isinstance(item, ast.Starred) and args.star < 0:
            args.star = index
        args.positional.append(evaluate(frame, item))
    for keyword in node.keywords:
        value = evaluate(frame, keyword.value)
        if keyword.arg is None:
            args.spreads.append(value)
        else:
            args.keywords.append((keyword.arg, value))
    return args


_EXPRESSIONS: dict[type[ast.expr], Callable[..., Value]] = {
    ast.Name: _name,
    ast.Constant: _constant,
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    ast.Slice: _slice,
    ast.Call: _call,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.Compare: _compare,
    ast.BoolOp: _either,
    ast.IfExp: _conditional,
    ast.Lambda: _lambda,
    ast.List: _display,
    ast.Tuple: _display,
    ast.Set: _display,
    ast.Dict: _dict,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.DictComp: _dict_comprehension,
    ast.JoinedStr: _joined,
    ast.Starred: _inner,
    ast.Await: _inner,
    ast.Yield: _yield,
    ast.YieldFrom: _yield,
    ast.NamedExpr: _walrus,
}
