"""Summarise one function: which calls it makes, and where the values go.

In: the syntax tree of a function and the names of its file.  Out: `FunctionFacts`.  Never here:
another file, a decision about what is a module, a device or a finding.

The body is read once in source order with a map from local names to values (see `ir`); branches
are joined, loop bodies read a second time where a value comes round.  What is kept on `self` is
known at the end, so that `self.w = t; self.w = nn.Parameter(self.w)` is a parameter only.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from devicelint.calls import CONTEXTS
from devicelint.expressions import evaluate, evaluate_callee, evaluate_test, iterate, store
from devicelint.frame import SELF, Frame
from devicelint.ir import TENSOR_CONTEXT, FunctionFacts
from devicelint.syntax import (
    DEVICE_CONTEXTS,
    FunctionNode,
    defaults_of,
    imported,
    is_tensor_annotation,
    key_of,
    names_a_device,
    written,
)
from devicelint.torch_api import canonical
from devicelint.values import FALSE, TRUE, references, tracked

#: Statements after which a block does not go on.
_JUMPS = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def read_function(frame: Frame, node: FunctionNode) -> FunctionFacts:
    """Read a function from its parameters to its end, in a frame of its own."""
    _parameters(frame, node)
    if isinstance(node, ast.Lambda):
        frame.span = (node.lineno, node.end_lineno or node.lineno)
        frame.event("returned", "", evaluate(frame, node.body))
    else:
        _block(frame, node.body)
    return frame.finish()


def read_statement(frame: Frame, node: ast.stmt) -> None:
    """Read one statement, with those inside it."""
    handler = _STATEMENTS.get(type(node))
    if handler is not None:
        frame.span = (node.lineno, _header_end(node))
        handler(frame, node)


def _parameters(frame: Frame, node: FunctionNode) -> None:
    args = node.args
    ordered = [*args.posonlyargs, *args.args]
    frame.positional = len(ordered)
    if args.defaults or args.kw_defaults:
        _defaults(frame, args)
    for parameter in [*ordered, *args.kwonlyargs]:
        frame.params.append(parameter.arg)
        frame.env[parameter.arg] = (("param", parameter.arg),)
        if parameter.annotation is not None and is_tensor_annotation(parameter.annotation):
            frame.tensor_params.append(parameter.arg)
    if args.vararg:
        frame.vararg = args.vararg.arg
        frame.env[frame.vararg] = (("param", frame.vararg), ("box",))
    if args.kwarg:
        frame.kwarg = args.kwarg.arg
        frame.env[frame.kwarg] = (("param", frame.kwarg),)
    is_method = frame.kind in ("method", "setter", "class")
    if is_method and ordered and not isinstance(node, ast.Lambda):
        frame.env[ordered[0].arg] = SELF


def _defaults(frame: Frame, args: ast.arguments) -> None:
    # they are evaluated outside, where the calls in them are noted too (see `facts`)
    name = f"{frame.qualname}.<defaults>"
    outside = Frame(frame.scope, name, "", "body", frame.line, frame.outer, may_name_device=False)
    for name, default in defaults_of(args):
        value = evaluate(outside, default)
        frame.defaults.append((name, tuple(atom for atom in value if atom[0] != "call")))
    frame.flags = frozenset(name for name, value in frame.defaults if value in (TRUE, FALSE))


# Blocks -------------------------------------------------------------------------------------------


def _block(frame: Frame, body: list[ast.stmt]) -> bool:
    """Read statements; True if control can fall through to what follows."""
    for index, statement in enumerate(body):
        if isinstance(statement, ast.If) and not statement.orelse and _ends(statement.body):
            # `if x: return a` followed by more: the rest is the other branch
            return _branches(frame, statement, statement.body, body[index + 1 :])
        read_statement(frame, statement)
        if isinstance(statement, _JUMPS):
            return False
        if isinstance(statement, ast.If) and _ends(statement.body) and _ends(statement.orelse):
            return False
    return True


def _ends(body: list[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], _JUMPS)


def _header_end(node: ast.stmt) -> int:
    """Give the last line of a statement, of its header only if it has a body."""
    body = getattr(node, "body", None)
    if isinstance(body, list) and body:
        return max(node.lineno, int(body[0].lineno) - 1)
    return node.end_lineno or node.lineno


def _branches(frame: Frame, node: ast.If, first: list[ast.stmt], second: list[ast.stmt]) -> bool:
    frame.span = (node.lineno, _header_end(node))
    evaluate_test(frame, node.test)
    before, start = dict(frame.env), len(frame.log)
    first_falls = _block(frame, first)
    first_env, middle = frame.env, len(frame.log)
    frame.env = before
    second_falls = _block(frame, second)
    frame.mark_twins(frame.log[start:middle], frame.log[middle:])
    if first_falls and second_falls:
        frame.join(first_env)
    elif first_falls:
        frame.env = first_env
    return first_falls or second_falls


def _repeat(frame: Frame, body: list[ast.stmt]) -> None:
    """Read the body of a loop, which may run not at all, once, or with values of its last run."""
    before = dict(frame.env)
    _block(frame, body)
    comes_round = any(
        key in before and value != before[key] and tracked(value)
        for key, value in frame.env.items()
    )
    frame.join(before)
    if comes_round:
        _block(frame, body)
        frame.join(before)


# Simple statements --------------------------------------------------------------------------------


def _expression(frame: Frame, node: ast.Expr) -> None:
    evaluate(frame, node.value)


def _assign(frame: Frame, node: ast.Assign) -> None:
    before = len(frame.calls)
    value = evaluate(frame, node.value)
    for target in node.targets:
        store(frame, target, value, node.value)
        key = key_of(target)
        if key:
            frame.log.append((key, before, len(frame.calls)))


def _annotated(frame: Frame, node: ast.AnnAssign) -> None:
    if node.value is not None:
        before = len(frame.calls)
        store(frame, node.target, evaluate(frame, node.value), node.value)
        key = key_of(node.target)
        if key:
            frame.log.append((key, before, len(frame.calls)))


def _augmented(frame: Frame, node: ast.AugAssign) -> None:
    value = evaluate(frame, node.value)
    current = evaluate(frame, node.target)
    store(frame, node.target, frame.meet(current, value), None)


def _delete(frame: Frame, node: ast.Delete) -> None:
    for target in node.targets:
        frame.env.pop(key_of(target), None)


def _return(frame: Frame, node: ast.Return) -> None:
    if node.value is not None:
        before = len(frame.calls)
        if isinstance(node.value, ast.Tuple):
            for index, item in enumerate(node.value.elts):
                frame.event("returned", str(index), evaluate(frame, item))
        else:
            frame.event("returned", "", evaluate(frame, node.value))
        frame.log.append(("return", before, len(frame.calls)))
    frame.leave()


def _import(frame: Frame, node: ast.Import | ast.ImportFrom) -> None:
    for name, target in imported(node):
        if name != "*":
            frame.env[name] = (("ref", target),)


def _function(frame: Frame, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    frame.env[node.name] = frame.add_function(node, node.name)


def _pass(frame: Frame, node: ast.Pass) -> None:
    """A function may have been left out here: in a loop of a class body, say."""
    function = frame.scope.function_at(node.lineno) if frame.kind == "body" else None
    if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        _function(frame, function)


def _class(frame: Frame, node: ast.ClassDef) -> None:
    frame.env[node.name] = frame.add_class(node)


# Compound statements ------------------------------------------------------------------------------


def _if(frame: Frame, node: ast.If) -> None:
    _branches(frame, node, node.body, node.orelse)


def _for(frame: Frame, node: ast.For | ast.AsyncFor) -> None:
    iterate(frame, node.target, node.iter)
    _repeat(frame, node.body)
    _block(frame, node.orelse)


def _while(frame: Frame, node: ast.While) -> None:
    evaluate_test(frame, node.test)
    _repeat(frame, node.body)
    _block(frame, node.orelse)


def _with(frame: Frame, node: ast.With | ast.AsyncWith) -> None:
    around = frame.context
    for item in node.items:
        value = evaluate(frame, item.context_expr)
        frame.context |= _context_of(frame, item.context_expr)
        if item.optional_vars is not None:
            store(frame, item.optional_vars, value, None)
    _block(frame, node.body)
    frame.context = around


def _context_of(frame: Frame, node: ast.expr) -> int:
    """Say for what a context manager decides the device, as bits."""
    match node:
        case ast.Call(func=func):
            if written(func).rsplit(".", 1)[-1] in DEVICE_CONTEXTS:
                return TENSOR_CONTEXT
            names = [canonical(name) for name in references(evaluate_callee(frame, func))]
            return next((CONTEXTS[name] for name in names if name in CONTEXTS), 0)
        case ast.IfExp(body=body, orelse=orelse):
            return _context_of(frame, body) | _context_of(frame, orelse)
        case ast.Name(id=name) if ("device",) in frame.env.get(name, ()):
            return TENSOR_CONTEXT
    return TENSOR_CONTEXT if names_a_device(node) else 0


def _try(frame: Frame, node: ast.Try | ast.TryStar) -> None:
    before, start = dict(frame.env), len(frame.log)
    _block(frame, node.body)
    _block(frame, node.orelse)
    done, middle = frame.env, len(frame.log)
    for handler in node.handlers:
        sure = set(frame.unsure)
        # the exception may have come before the first statement, or after the last
        frame.env = dict(before)
        frame.join(done)
        if _block(frame, handler.body):
            frame.join(done)
            done = frame.env
        else:
            frame.unsure = sure
    frame.mark_twins(frame.log[start:middle], frame.log[middle:])
    frame.env = done
    _block(frame, node.finalbody)


def _match(frame: Frame, node: ast.Match) -> None:
    evaluate_test(frame, node.subject)
    before = dict(frame.env)
    done = dict(before)
    for case in node.cases:
        frame.env = dict(before)
        if _block(frame, case.body):
            frame.join(done)
            done = frame.env
    frame.env = done


_STATEMENTS: dict[type[ast.stmt], Callable[..., None]] = {
    ast.Expr: _expression,
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.Return: _return,
    ast.If: _if,
    ast.For: _for,
    ast.AsyncFor: _for,
    ast.While: _while,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.Try: _try,
    ast.TryStar: _try,
    ast.Match: _match,
    ast.Import: _import,
    ast.ImportFrom: _import,
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.ClassDef: _class,
    ast.Delete: _delete,
    ast.Pass: _pass,
}
