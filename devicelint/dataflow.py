"""Summarise one function: which calls it makes, and where the values go.

In: the syntax tree of a function and the names of its file.  Out: `FunctionFacts`.  Never here:
another file, a decision about what is a module, a device or a finding.

The body is read once in source order with a map from local names to values (see `ir`); branches
are joined, loop bodies read a second time where a value comes round.  What is kept on `self` is
known at the end, so that `self.w = t; self.w = nn.Parameter(self.w)` is a parameter only.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from devicelint.ir import STREAM_CONTEXT, TENSOR_CONTEXT, CallFact, Event, FunctionFacts, Value
from devicelint.model import Kind, Sink
from devicelint.torch_api import (
    CONSTRUCTORS,
    HOST_FUNCTIONS,
    HOST_METHODS,
    MOVING_METHODS,
    PROBES,
    TENSOR_ARGUMENT_SINKS,
    TENSOR_METHODS,
    canonical,
    is_module_class,
)
from devicelint.values import (
    DEVICE_CONTEXTS,
    bare_name,
    device_in_scope,
    dict_of,
    element,
    imported,
    is_placeholder,
    looks_like_dtype,
    merge,
    names_a_device,
    references,
    spread_of,
    tracked,
    with_key,
    written,
)

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class FileScope(Protocol):
    """The file around a function: its names, and where nested definitions are registered."""

    def lookup(self, name: str, outer: Outer | None = None) -> Value:
        """Give the value of a name that is not local."""

    def add_function(
        self, qualname: str, node: FunctionNode, owner: str, outer: Outer | None
    ) -> str:
        """Register a nested function."""

    def add_class(self, node: ast.ClassDef, qualname: str, outer: Outer | None) -> str:
        """Register a nested class."""


#: Methods that put their arguments into the receiver.
MUTATORS = frozenset({"append", "extend", "insert", "add", "update", "appendleft", "setdefault"})
#: Methods of containers whose result is an element or a view of the container.
ACCESSORS = frozenset({"get", "items", "values", "keys", "pop", "popitem", "popleft"})
#: Builtins that hand their arguments on (`sum`, `max` of tensors are tensors).
PASSING = frozenset(
    "list tuple set frozenset dict zip enumerate reversed sorted iter next sum max min abs map "
    "filter divmod pow".split()
)
#: Callables that call a function given to them.
CALLERS = frozenset({"apply", "map", "filter", "reduce", "starmap", "tree_map"})

#: Context managers of PyTorch by what they decide (with a CUDA device: streams only).
_CONTEXTS = {
    "torch.device": TENSOR_CONTEXT,
    "torch.get_default_device": TENSOR_CONTEXT,
    "torch.cuda.device": STREAM_CONTEXT,
    "torch.cuda.device_of": STREAM_CONTEXT,
    "torch.cuda.stream": STREAM_CONTEXT,
    "torch.accelerator.device_index": STREAM_CONTEXT,
    "torch.xpu.device": STREAM_CONTEXT,
}

_SITE_KINDS = (Kind.TENSOR, Kind.STREAM, Kind.GENERATOR, Kind.LEGACY, Kind.HOST_MEMORY)
_SELF: Value = (("self",),)
_UNTRACKED_OUTSIDE = ("call", "item", "param", "partial")


@dataclass(slots=True)
class Outer:
    """What a nested function sees of the function around it."""

    env: dict[str, Value]
    device: str = ""
    parent: Outer | None = None


@dataclass(slots=True)
class Arguments:
    """The evaluated arguments of a call."""

    positional: list[Value] = field(default_factory=list)
    star: int = -1
    keywords: list[tuple[str, Value]] = field(default_factory=list)
    spreads: list[Value] = field(default_factory=list)

    def get(self, index: int, keyword: str) -> Value:
        """Give the argument at a position or with a keyword, empty if it is not there."""
        for name, value in self.keywords:
            if name == keyword:
                return value
        return self.positional[index] if index < len(self.positional) else ()

    def all(self) -> Value:
        """Join the values of all arguments."""
        return merge(*self.positional, *(value for _, value in self.keywords), *self.spreads)


@dataclass(slots=True)
class PendingCall:
    """A call as read so far; a second pass over a loop adds to it."""

    node: ast.expr
    callees: Value
    text: str
    args: Arguments
    context: int
    statement: tuple[int, int]
    device: str
    placeholder: bool
    receiver: Value
    twin: bool = False


class FunctionReader:
    """Reads the statements of one function (or of a class or module body) in order."""

    def __init__(
        self,
        reader: FileScope,
        qualname: str,
        owner: str,
        kind: str,
        line: int,
        outer: Outer | None = None,
    ) -> None:
        self.reader = reader
        self.qualname = qualname
        self.owner = owner
        self.kind = kind
        self.line = line
        self.outer = outer
        self.env: dict[str, Value] = {}
        self.left: dict[str, Value] = {}
        self.calls: list[PendingCall] = []
        self.by_node: dict[int, int] = {}
        self.nested: dict[int, Value] = {}
        self.events: dict[tuple[str, str], Value] = {}
        self.meets: dict[tuple[int, ...], None] = {}
        self.partials: list[tuple[Value, Arguments]] = []
        self.log: list[tuple[str, int, int]] = []
        self.named: set[str] = set()
        self.context = 0
        self.span = (line, line)
        self.params: list[str] = []
        self.positional = 0
        self.vararg = self.kwarg = ""
        self.defaults: list[tuple[str, Value]] = []
        self.tensor_params: list[str] = []
        self.is_init = qualname.endswith(".__init__")

    # -- the whole function --------------------------------------------------------------------

    def read(self, node: FunctionNode) -> FunctionFacts:
        """Read a function from its parameters to its end."""
        self._parameters(node.args, isinstance(node, ast.Lambda))
        if isinstance(node, ast.Lambda):
            self.span = (node.lineno, node.end_lineno or node.lineno)
            self.event("returned", "", self.value(node.body))
        else:
            self._block(node.body)
        return self.finish()

    def finish(self) -> FunctionFacts:
        """Close the function: what is kept on `self` now is an attribute."""
        if self.kind != "body":
            self._leave()
            for key, value in self.left.items():
                self.event("attribute", key[5:], value)
        return FunctionFacts(
            self.qualname,
            self.owner,
            self.kind,
            tuple(self.params),
            self.positional,
            self.vararg,
            self.kwarg,
            tuple(self.defaults),
            tuple(self.tensor_params),
            tuple(self._freeze(call) for call in self.calls),
            tuple(Event(kind, detail, value) for (kind, detail), value in self.events.items()),
            tuple(self.meets),
            self.line,
        )

    def _freeze(self, call: PendingCall) -> CallFact:
        node, args = call.node, call.args
        return CallFact(
            call.callees,
            call.text,
            (node.lineno, node.col_offset),
            (node.end_lineno or node.lineno, node.end_col_offset or 0),
            tuple(args.positional),
            tuple(args.keywords),
            args.star,
            spread_of(args.spreads),
            call.context,
            call.statement,
            call.device,
            call.placeholder,
            call.twin,
            call.receiver,
        )

    def _parameters(self, args: ast.arguments, is_lambda: bool) -> None:
        ordered = [*args.posonlyargs, *args.args]
        self.positional = len(ordered)
        outside = FunctionReader(self.reader, "", "", "body", self.line, self.outer)
        for name, default in defaults_of(args):
            value = outside.value(default)
            self.defaults.append((name, tuple(atom for atom in value if atom[0] != "call")))
        for parameter in [*ordered, *args.kwonlyargs]:
            self.params.append(parameter.arg)
            self.env[parameter.arg] = (("param", parameter.arg),)
            if parameter.annotation is not None and _is_tensor(parameter.annotation):
                self.tensor_params.append(parameter.arg)
        if args.vararg:
            self.vararg = args.vararg.arg
            self.env[self.vararg] = (("param", self.vararg), ("box",))
        if args.kwarg:
            self.kwarg = args.kwarg.arg
            self.env[self.kwarg] = (("param", self.kwarg),)
        if self.kind in ("method", "setter", "class") and ordered and not is_lambda:
            self.env[ordered[0].arg] = _SELF

    def _leave(self) -> None:
        for key, value in self.env.items():
            if key.startswith("self.") and value:
                self.left[key] = merge(self.left.get(key, ()), value)

    def event(self, kind: str, detail: str, value: Value) -> None:
        """Note that something is done with a value."""
        if kind != "attribute":
            value = value if kind == "returned" else tracked(value)
        if value:
            self.events[kind, detail] = merge(self.events.get((kind, detail), ()), value)

    def _meet(self, *values: Value) -> Value:
        joined = merge(*values)
        calls = sorted({int(atom[1]) for atom in joined if atom[0] in ("call", "item")})
        if len(calls) > 1:
            self.meets[tuple(calls)] = None
        return joined

    def constructor_calls(self) -> set[int]:
        """Give the numbers of the calls that make something on a device."""
        return {number for number, call in enumerate(self.calls) if _is_constructor(call)}

    # -- statements ----------------------------------------------------------------------------

    def _block(self, body: list[ast.stmt]) -> bool:
        """Read statements; True if control can fall through to what follows."""
        for index, statement in enumerate(body):
            if isinstance(statement, ast.If) and not statement.orelse and _ends(statement.body):
                # `if x: return a` followed by more: the rest is the other branch
                return self._branches(statement, statement.body, body[index + 1 :])
            self.statement(statement)
            if isinstance(statement, ast.Return | ast.Raise | ast.Continue | ast.Break):
                return False
            if isinstance(statement, ast.If) and _ends(statement.body) and _ends(statement.orelse):
                return False
        return True

    def statement(self, node: ast.stmt) -> None:
        """Read one statement."""
        handler = _STATEMENTS.get(type(node))
        if handler is not None:
            self.span = (node.lineno, _header_end(node))
            handler(self, node)

    def _expression(self, node: ast.Expr) -> None:
        self.value(node.value)

    def _assign(self, node: ast.Assign) -> None:
        before = len(self.calls)
        value = self.value(node.value)
        for target in node.targets:
            self._store(target, value, node.value)
            key = _key_of(target)
            if key:
                self.log.append((key, before, len(self.calls)))

    def _annotated(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            before = len(self.calls)
            self._store(node.target, self.value(node.value), node.value)
            self.log.append((_key_of(node.target), before, len(self.calls)))

    def _augmented(self, node: ast.AugAssign) -> None:
        value = self.value(node.value)
        current = self.value(node.target)
        self._store(node.target, self._meet(current, value), None)

    def _store(self, target: ast.expr, value: Value, source: ast.expr | None) -> None:
        match target:
            case ast.Name(id=name):
                self.env[name] = value
            case ast.Attribute(value=base, attr=attr):
                self._store_attribute(base, attr, value)
            case ast.Subscript(value=base, slice=index):
                self.value(index)
                self._store_item(base, index, value)
            case ast.Starred(value=inner):
                self._store(inner, value, None)
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                self._unpack(targets, value, source)

    def _unpack(self, targets: list[ast.expr], value: Value, source: ast.expr | None) -> None:
        starred = any(isinstance(item, ast.Starred) for item in targets)
        if (
            isinstance(source, ast.Tuple | ast.List)
            and len(source.elts) == len(targets)
            and not starred
        ):
            for item, part in zip(targets, source.elts, strict=True):
                self._store(item, self.value(part), part)
            return
        for index, item in enumerate(targets):
            self._store(item, value if starred else element(value, index), None)

    def _store_attribute(self, base: ast.expr, attr: str, value: Value) -> None:
        owner = self.value(base)
        if owner == _SELF:
            self.env[f"self.{attr}"] = value
        elif attr == "data":
            self.event(Sink.PARAMETER, "", value)
        else:
            self.event("attribute", attr, value)

    def _store_item(self, base: ast.expr, index: ast.expr, value: Value) -> None:
        """Store into a container (the value is kept with it) or into a tensor (copied)."""
        root = base
        while isinstance(root, ast.Subscript):
            root = root.value
        key = _key_of(root)
        held = self.env.get(key) if key else None
        if held is None:
            if key.startswith("self.") and key != "self.__dict__":
                # a tensor made elsewhere takes a copy; what is a dict or list here keeps it
                self.event(Sink.EXISTING, key[5:], value)
            else:
                self.event("attribute", "", value)
            return
        if isinstance(index, ast.Constant) and isinstance(index.value, str):
            held = with_key(held, index.value)
        holds = any(atom[0] in ("call", "item", "box", "dict") for atom in held)
        if holds:
            self.env[key] = self._meet(held, value)
        else:
            self.event(Sink.EXISTING, key, value)

    def _delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            self.env.pop(_key_of(target), None)

    def _return(self, node: ast.Return) -> None:
        if node.value is not None:
            before = len(self.calls)
            if isinstance(node.value, ast.Tuple):
                for index, item in enumerate(node.value.elts):
                    self.event("returned", str(index), self.value(item))
            else:
                self.event("returned", "", self.value(node.value))
            self.log.append(("return", before, len(self.calls)))
        self._leave()

    def _if(self, node: ast.If) -> None:
        self._branches(node, node.body, node.orelse)

    def _branches(self, node: ast.If, first: list[ast.stmt], second: list[ast.stmt]) -> bool:
        self.span = (node.lineno, _header_end(node))
        self._test(node.test)
        before, start = dict(self.env), len(self.log)
        first_falls = self._block(first)
        first_env, middle = self.env, len(self.log)
        self.env = before
        second_falls = self._block(second)
        self._mark_twins(self.log[start:middle], self.log[middle:])
        if first_falls and second_falls:
            self._join(first_env)
        elif first_falls:
            self.env = first_env
        return first_falls or second_falls

    def _join(self, other: dict[str, Value]) -> None:
        for key, value in other.items():
            mine = self.env.get(key)
            self.env[key] = value if mine is None or mine == value else merge(mine, value)

    def _test(self, node: ast.expr) -> None:
        self.event("iterated", "", self.value(node))

    def _mark_twins(self, first: Iterable[tuple[str, int, int]], second: object) -> None:
        """Mark device-less constructors whose counterpart in the other branch has a device."""
        assert isinstance(second, list)
        arms: tuple[dict[str, list[PendingCall]], dict[str, list[PendingCall]]] = ({}, {})
        for arm, entries in zip(arms, (first, second), strict=True):
            for key, low, high in entries:
                arm.setdefault(key, []).extend(self.calls[low:high])
        for key in arms[0].keys() & arms[1].keys():
            for mine, other in ((arms[0][key], arms[1][key]), (arms[1][key], arms[0][key])):
                if any(_is_constructor(call) and _names_device(call) for call in other):
                    for call in mine:
                        call.twin = call.twin or _is_constructor(call)

    def _for(self, node: ast.For | ast.AsyncFor) -> None:
        self._iterate(node.target, node.iter)
        self._loop(node.body)
        self._block(node.orelse)

    def _while(self, node: ast.While) -> None:
        self._test(node.test)
        self._loop(node.body)
        self._block(node.orelse)

    def _iterate(self, target: ast.expr, iterable: ast.expr) -> None:
        value = self.value(iterable)
        self.event("iterated", "", value)
        if isinstance(iterable, ast.Call) and isinstance(target, ast.Tuple):
            # `for i, t in enumerate(xs)`, `for a, b in zip(xs, ys)`: element by element
            match iterable:
                case ast.Call(func=ast.Name(id="enumerate"), args=[first, *_]) if (
                    len(target.elts) == 2
                ):
                    self._store(target.elts[0], (), None)
                    self._store(target.elts[1], self.value(first), None)
                    return
                case ast.Call(func=ast.Name(id="zip"), args=args) if (
                    len(args) == len(target.elts)
                ):
                    for item, arg in zip(target.elts, args, strict=True):
                        self._store(item, self.value(arg), None)
                    return
        self._store(target, value, None)

    def _loop(self, body: list[ast.stmt]) -> None:
        before = dict(self.env)
        self._block(body)
        changed = any(
            key in before and value != before[key] and tracked(value)
            for key, value in self.env.items()
        )
        self._join(before)
        if changed:
            self._block(body)
            self._join(before)

    def _with(self, node: ast.With | ast.AsyncWith) -> None:
        saved = self.context
        for item in node.items:
            value = self.value(item.context_expr)
            self.context |= self._context_of(item.context_expr)
            if item.optional_vars is not None:
                self._store(item.optional_vars, value, None)
        self._block(node.body)
        self.context = saved

    def _context_of(self, node: ast.expr) -> int:
        match node:
            case ast.Call(func=func):
                last = written(func).rsplit(".", 1)[-1]
                if last in DEVICE_CONTEXTS:
                    return TENSOR_CONTEXT
                for name in references(self._callees(func)):
                    if canonical(name) in _CONTEXTS:
                        return _CONTEXTS[canonical(name)]
                return 0
            case ast.IfExp(body=body, orelse=orelse):
                return self._context_of(body) | self._context_of(orelse)
            case ast.Name(id=name) if name in self.env:
                for atom in self.env[name]:
                    if atom[0] == "device":
                        return TENSOR_CONTEXT
        return TENSOR_CONTEXT if names_a_device(node) else 0

    def _try(self, node: ast.Try) -> None:
        before = dict(self.env)
        self._block(node.body)
        self._block(node.orelse)
        done = self.env
        for handler in node.handlers:
            self.env = dict(before)
            self._join(done)
            if self._block(handler.body):
                self._join(done)
                done = self.env
        self.env = done
        self._block(node.finalbody)

    def _match(self, node: ast.Match) -> None:
        self._test(node.subject)
        before = dict(self.env)
        done = dict(before)
        for case in node.cases:
            self.env = dict(before)
            if self._block(case.body):
                self._join(done)
                done = self.env
        self.env = done

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        for name, target in imported(node):
            if name != "*":
                self.env[name] = (("ref", target),)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.env[node.name] = self._nested(node, node.name)

    def _class(self, node: ast.ClassDef) -> None:
        if id(node) not in self.nested:
            name = self.reader.add_class(
                node, f"{self.qualname}.<locals>.{node.name}", self._as_outer()
            )
            self.nested[id(node)] = (("ref", f"~.{name}"),)
        self.env[node.name] = self.nested[id(node)]

    def _nested(self, node: FunctionNode, name: str) -> Value:
        if id(node) not in self.nested:
            qualname = self.reader.add_function(
                f"{self.qualname}.<locals>.{name}", node, self.owner, self._as_outer()
            )
            self.nested[id(node)] = (("func", qualname),)
        return self.nested[id(node)]

    def _as_outer(self) -> Outer:
        device = device_in_scope(self.env, self.is_init)
        return Outer(self.env, device or (self.outer.device if self.outer else ""), self.outer)

    # -- expressions ---------------------------------------------------------------------------

    def value(self, node: ast.expr) -> Value:
        """Evaluate an expression: give its value, note its calls and what it does."""
        handler = _EXPRESSIONS.get(type(node))
        return handler(self, node) if handler is not None else ()

    def _name(self, node: ast.Name) -> Value:
        value = self.env.get(node.id)
        if value is not None:
            return value
        outside = self.reader.lookup(node.id, self.outer)
        if self.outer is not None:
            outside = tuple(atom for atom in outside if atom[0] not in _UNTRACKED_OUTSIDE)
        return outside

    def _constant(self, node: ast.Constant) -> Value:
        match node.value:
            case str(text):
                return (("str", text),) if len(text) < 80 else ()
            case None:
                return (("none",),)
            case bool(flag):
                return (("true",) if flag else ("false",),)
        return ()

    def _attribute(self, node: ast.Attribute) -> Value:
        base = self.value(node.value)
        return self._member(base, node.attr)

    def _member(self, base: Value, attr: str) -> Value:
        if base == _SELF:
            return merge((("attr", attr),), self.env.get(f"self.{attr}", ()))
        result: list[Value] = []
        for atom in base:
            match atom[0]:
                case "ref":
                    result.append((("ref", f"{atom[1]}.{attr}"),))
                case "self":
                    result.append((("attr", attr),))
                case "super":
                    if len(atom) == 1:
                        result.append((("super", attr),))
                case "call" | "item":
                    if attr in PROBES:
                        self.event("probe", "", (atom,))
                    else:
                        result.append((atom,))
                case "param":
                    if attr in PROBES:
                        self.event("probe", "", (atom,))
                    elif attr in _VIEWS:
                        result.append((atom,))
                case "attr":
                    if attr in _VIEWS:
                        result.append((atom,))
        return merge(*result)

    def _callees(self, node: ast.expr) -> Value:
        """Evaluate what is called; a method of a local object stays a bound name."""
        if not isinstance(node, ast.Attribute):
            return self.value(node)
        base = self.value(node.value)
        return self._bound(base, node.attr)

    def _bound(self, base: Value, attr: str) -> Value:
        return merge(
            self._member(base, attr) if base == _SELF else (),
            *(
                (("ref", f"{atom[1]}.{attr}"),)
                if atom[0] == "ref"
                else (("super", attr),)
                if atom[0] == "super" and len(atom) == 1
                else (("attr", attr),)
                if atom[0] == "self"
                else (("bound", attr, *atom),)
                if atom[0] in ("call", "item", "param", "attr")
                else ()
                for atom in base
            ),
        )

    def _subscript(self, node: ast.Subscript) -> Value:
        base = self.value(node.value)
        self.value(node.slice)
        match node.slice:
            case ast.Constant(value=int(index)) if not isinstance(node.slice.value, bool):
                return element(base, index)
        return base

    def _slice(self, node: ast.Slice) -> Value:
        for part in (node.lower, node.upper, node.step):
            if part is not None:
                self.value(part)
        return ()

    def _binary(self, node: ast.BinOp) -> Value:
        return self._meet(self.value(node.left), self.value(node.right))

    def _unary(self, node: ast.UnaryOp) -> Value:
        value = self.value(node.operand)
        if isinstance(node.op, ast.Not):
            self.event("iterated", "", value)
            return ()
        return tracked(value)

    def _compare(self, node: ast.Compare) -> Value:
        values = [self.value(item) for item in (node.left, *node.comparators)]
        if all(isinstance(op, ast.Eq | ast.NotEq | ast.Lt | ast.Gt | ast.LtE | ast.GtE) for op in node.ops):
            return tracked(self._meet(*values))
        return ()

    def _either(self, node: ast.BoolOp) -> Value:
        return merge(*(self.value(item) for item in node.values))

    def _conditional(self, node: ast.IfExp) -> Value:
        self._test(node.test)
        low = len(self.calls)
        first = self.value(node.body)
        middle = len(self.calls)
        second = self.value(node.orelse)
        self._mark_twins([("", low, middle)], [("", middle, len(self.calls))])
        return merge(first, second)

    def _lambda(self, node: ast.Lambda) -> Value:
        return self._nested(node, f"<lambda>@{node.lineno}:{node.col_offset}")

    def _display(self, node: ast.List | ast.Tuple | ast.Set) -> Value:
        return merge(*(self.value(item) for item in node.elts), (("box",),))

    def _dict(self, node: ast.Dict) -> Value:
        values = [self.value(item) for item in node.values]
        keys: list[str | None] = []
        spreads: list[Value] = []
        for key, value in zip(node.keys, values, strict=True):
            if key is None:
                spreads.append(value)
                continue
            self.value(key)
            text = key.value if isinstance(key, ast.Constant) else None
            keys.append(text if isinstance(text, str) else None)
        kept = [tuple(atom for atom in value if atom[0] != "dict") for value in values]
        return merge((dict_of(keys, spreads),), *kept)

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> Value:
        return self._in_comprehension(node.generators, [node.elt])

    def _dict_comprehension(self, node: ast.DictComp) -> Value:
        return merge(self._in_comprehension(node.generators, [node.key, node.value]), (("dict", 0),))

    def _in_comprehension(
        self, generators: list[ast.comprehension], results: list[ast.expr]
    ) -> Value:
        saved = dict(self.env)
        for generator in generators:
            self._iterate(generator.target, generator.iter)
            for test in generator.ifs:
                self._test(test)
        value = merge(*(self.value(item) for item in results), (("box",),))
        names = {
            item.id
            for generator in generators
            for item in ast.walk(generator.target)
            if isinstance(item, ast.Name)
        }
        for name in names:
            if name in saved:
                self.env[name] = saved[name]
            else:
                self.env.pop(name, None)
        return value

    def _joined(self, node: ast.JoinedStr) -> Value:
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self.value(part.value)
        return ()

    def _starred(self, node: ast.Starred) -> Value:
        return self.value(node.value)

    def _await(self, node: ast.Await) -> Value:
        return self.value(node.value)

    def _yield(self, node: ast.Yield | ast.YieldFrom) -> Value:
        if node.value is not None:
            self.event("returned", "", self.value(node.value))
        return ()

    def _walrus(self, node: ast.NamedExpr) -> Value:
        value = self.value(node.value)
        self._store(node.target, value, node.value)
        return value

    # -- calls ---------------------------------------------------------------------------------

    def _call(self, node: ast.Call) -> Value:
        base: Value = ()
        if isinstance(node.func, ast.Attribute):
            base = self.value(node.func.value)
            callees = self._bound(base, node.func.attr)
        else:
            callees = self.value(node.func)
        args = self._arguments(node)
        if isinstance(node.func, ast.Attribute):
            result = self._method(node, node.func, base, args)
            if result is not None:
                return result
        return self._invoke(node, callees, args, base)

    def _arguments(self, node: ast.Call) -> Arguments:
        args = Arguments()
        for index, item in enumerate(node.args):
            if isinstance(item, ast.Starred) and args.star < 0:
                args.star = index
            args.positional.append(self.value(item))
        for keyword in node.keywords:
            value = self.value(keyword.value)
            if keyword.arg is None:
                args.spreads.append(value)
            else:
                args.keywords.append((keyword.arg, value))
        return args

    def _method(
        self, node: ast.Call, func: ast.Attribute, base: Value, args: Arguments
    ) -> Value | None:
        """Judge a method by its name; None if it has to be looked up."""
        name = func.attr
        if name in _REGISTRATIONS and not references(base):
            return self._register(node, name, args)
        if name in MUTATORS:
            return self._mutate(func.value, base, args)
        if base == _SELF or any(atom[0] in ("ref", "super", "self") for atom in base):
            return None
        if not base and not tracked(args.all()):
            return () if name not in CALLERS else None
        if name in MOVING_METHODS and self._moves(node, name):
            self.event("moved", "", base)
            return ()
        if name in HOST_METHODS:
            self.event(Sink.HOST, "", base)
            return ()
        if name in PROBES and not args.positional:
            self.event("probe", "", base)
            return ()
        if name == "copy_":
            self.event(Sink.EXISTING, "", args.get(0, "src"))
            return base
        if name in ACCESSORS:
            return merge(base, args.all())
        if name in TENSOR_METHODS or name in MOVING_METHODS:
            if name.startswith("new_") and any(key == "device" for key, _ in args.keywords):
                return ()
            return base if name.endswith("_") else tracked(self._meet(base, args.all()))
        return None

    def _moves(self, node: ast.Call, name: str) -> bool:
        """Tell a move between devices from `.to(dtype)`."""
        if name != "to":
            return True
        if any(keyword.arg in ("device", "other", "tensor") for keyword in node.keywords):
            return True
        return bool(node.args) and not looks_like_dtype(node.args[0])

    def _register(self, node: ast.Call, name: str, args: Arguments) -> Value:
        sink, position, keyword = _REGISTRATIONS[name]
        label = next((str(a[1]) for a in args.get(0, "name") if a[0] == "str"), "")
        value = args.get(position, keyword)
        if value == (("none",),):
            # the name is taken: a later `self.name = t` is a buffer (or parameter) then
            self.events.setdefault((f"declared {sink}", label), (("none",),))
        self.event(sink, label, value)
        if label and sink != "attribute":
            self.events.setdefault((f"declared {sink}", label), (("none",),))
        if label:
            calls = [i for i, call in enumerate(self.calls) if _inside(call.node, node)]
            if calls:
                self.log.append((f"self.{label}", calls[0], calls[-1] + 1))
        return ()

    def _mutate(self, target: ast.expr, base: Value, args: Arguments) -> Value:
        """Put the arguments of `append` and its kind into the container."""
        root = target
        while isinstance(root, ast.Subscript) or (
            isinstance(root, ast.Call) and isinstance(root.func, ast.Attribute)
        ):
            root = root.value if isinstance(root, ast.Subscript) else root.func.value  # type: ignore[attr-defined]
        key = _key_of(root)
        value = args.all()
        if key and key in self.env:
            held = self.env[key]
            for name, _ in args.keywords:
                held = with_key(held, name)
            self.env[key] = merge(held, value)
        elif key.startswith("self."):
            self.env[key] = merge((("attr", key[5:]),), value)
        else:
            self.event("attribute", "", value)
        return ()

    def _invoke(self, node: ast.Call, callees: Value, args: Arguments, base: Value) -> Value:
        if any(atom[0] == "partial" for atom in callees):
            return self._call_partial(node, callees, args)
        names = [canonical(name) for name in references(callees)]
        if len(names) == len(callees) and names:
            results = [self._known(node, name, args) for name in names]
            if all(result is not None for result in results):
                return merge(*(result or () for result in results))
        self._callbacks(node, args)
        if not callees and not tracked(args.all()):
            return ()
        return self._record(node, node, callees, args, base)

    def _known(self, node: ast.Call, name: str, args: Arguments) -> Value | None:
        """Judge a function of Python, NumPy or PyTorch by its name; None: record the call."""
        root, _, rest = name.partition(".")
        if root == "builtins":
            return self._builtin(node, rest, args)
        if root == "torch":
            return self._torch(node, name, args)
        if root in ("math", "numpy", "operator", "cmath"):
            self.event(Sink.HOST, "", args.all())
            return ()
        if name in ("functools.partial", "functools.partialmethod") and args.positional:
            rest_args = Arguments(
                args.positional[1:], args.star - 1 if args.star > 0 else -1, args.keywords, args.spreads
            )
            self.partials.append((args.positional[0], rest_args))
            # the function may be called later by others: keep it among the alternatives
            return (("partial", len(self.partials) - 1),)
        if name in ("copy.copy", "copy.deepcopy", "typing.cast", "collections.OrderedDict"):
            return args.all()
        return None

    def _builtin(self, node: ast.Call, name: str, args: Arguments) -> Value | None:
        if name == "super":
            return (("super",),)
        if name == "getattr" and len(node.args) >= 2:
            return self._getattr(node, args)
        if name == "setattr" and len(args.positional) == 3:
            self._setattr(args)
            return ()
        if name in CALLERS:
            self._callbacks(node, args)
        if name == "dict":
            atom = dict_of([key for key, _ in args.keywords], [*args.positional, *args.spreads])
            return merge((atom,), *(value for _, value in args.keywords))
        if name in HOST_FUNCTIONS:
            self.event(Sink.HOST, "", args.all())
            return ()
        if name in PASSING:
            return merge(args.all(), (("box",),))
        if name == "vars":
            return args.all()
        return ()

    def _getattr(self, node: ast.Call, args: Arguments) -> Value:
        base = args.positional[0]
        names = [str(atom[1]) for atom in args.positional[1] if atom[0] == "str"]
        if not names:
            names = self._default_strings(args.positional[1])
        if not names:
            # any function of a project's own module may be meant: `getattr(ops, name)(x)`
            return tuple(("ref", f"{atom[1]}.*") for atom in base if atom[0] == "ref")
        return merge(*(self._bound(base, name) for name in names))

    def _default_strings(self, value: Value) -> list[str]:
        """Give the string defaults of the parameters that a value may be."""
        defaults = dict(self.defaults)
        return [
            str(inner[1])
            for atom in value
            if atom[0] == "param"
            for inner in defaults.get(str(atom[1]), ())
            if inner[0] == "str"
        ]

    def _setattr(self, args: Arguments) -> None:
        owner, name, value = args.positional
        label = next((str(atom[1]) for atom in name if atom[0] == "str"), "")
        if owner == _SELF and label:
            self.env[f"self.{label}"] = value
        else:
            self.event("attribute", label, value)

    def _torch(self, node: ast.Call, name: str, args: Arguments) -> Value | None:
        constructor = CONSTRUCTORS.get(name)
        if constructor is not None:
            if constructor.kind in _SITE_KINDS:
                return self._record(node, node, (("ref", name),), args, ())
            self._tensor_arguments(name, args)
            return self._record(node, node, (("ref", name),), args, ())
        if name in TENSOR_ARGUMENT_SINKS or is_module_class(name):
            self._tensor_arguments(name, args)
            self._callbacks(node, args)
            return ()
        if name.endswith((".copy_",)):
            self.event(Sink.EXISTING, "", args.get(1, "src"))
            return args.get(0, "tensor")
        if name in _CONTEXTS or name == "torch.device":
            self._record(node, node, (("ref", name),), args, ())
            return (("device",),)
        if name.startswith(("torch.Tensor.", "torch.distributed.", "torch.ops.")):
            self.event(Sink.ARGUMENT, name, args.all())
            return tracked(args.all())
        if any(key == "device" for key, _ in args.keywords) and name.endswith("_like"):
            return ()
        return tracked(self._meet(args.all()))

    def _tensor_arguments(self, name: str, args: Arguments) -> None:
        """Note what a class of torch.nn makes of the tensors handed to it."""
        sink = TENSOR_ARGUMENT_SINKS.get(name, Sink.ARGUMENT)
        self.event(sink, "" if sink is not Sink.ARGUMENT else name, args.all())

    def _callbacks(self, node: ast.Call, args: Arguments) -> None:
        """Note calls of the functions that are handed to `apply`, `map` and their kind."""
        if written(node.func).rsplit(".", 1)[-1] not in CALLERS:
            return
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        others = args.all()
        for item, value in zip(
            given, [*args.positional, *(v for _, v in args.keywords)], strict=False
        ):
            functions = tuple(a for a in value if a[0] in ("func", "attr", "ref", "super"))
            if functions:
                passed = Arguments([tracked(others)])
                self._record(item, item, functions, passed, ())

    def _call_partial(self, node: ast.Call, callees: Value, args: Arguments) -> Value:
        results: list[Value] = [tuple(atom for atom in callees if atom[0] in ("call", "item"))]
        plain = tuple(atom for atom in callees if atom[0] != "partial")
        for atom in callees:
            if atom[0] == "partial":
                inner, bound = self.partials[int(atom[1])]
                joined = Arguments(
                    [*bound.positional, *args.positional],
                    bound.star if bound.star >= 0 else args.star,
                    [*bound.keywords, *args.keywords],
                    [*bound.spreads, *args.spreads],
                )
                results.append(self._invoke(node, inner, joined, ()))
        if plain:
            results.append(self._invoke(node, plain, args, ()))
        return merge(*results)

    def _record(
        self, node: ast.expr, key: ast.expr, callees: Value, args: Arguments, base: Value
    ) -> Value:
        """Add a call (or to the same call, read before) and give its result."""
        index = self.by_node.get(id(key))
        if index is None:
            index = self.by_node[id(key)] = len(self.calls)
            device = device_in_scope(self.env, self.is_init)
            if not device and self.outer is not None:
                device = self.outer.device
            self.calls.append(
                PendingCall(
                    node,
                    callees,
                    written(node.func if isinstance(node, ast.Call) else node),
                    args,
                    self.context,
                    self.span,
                    device,
                    isinstance(node, ast.Call) and is_placeholder(node),
                    base,
                )
            )
        else:
            call = self.calls[index]
            call.callees = merge(call.callees, callees)
            call.receiver = merge(call.receiver, base)
            _add(call.args, args)
        for atom in callees:
            if atom[0] in ("attr", "super", "bound"):
                self.named.add(str(atom[1]))
        for value in (callees, *args.positional, *(v for _, v in args.keywords)):
            for atom in value:
                if atom[0] in ("func", "attr", "ref"):
                    self.named.add(bare_name(str(atom[1])))
        return (("call", index),)


_VIEWS = frozenset({"T", "data", "real", "imag", "mT", "mH", "H", "grad", "values", "indices"})

#: registering method -> (sink, position and keyword of the value)
_REGISTRATIONS = {
    "register_buffer": (str(Sink.BUFFER), 1, "tensor"),
    "register_parameter": (str(Sink.PARAMETER), 1, "param"),
    "__setattr__": ("attribute", 1, "value"),
}


def defaults_of(args: ast.arguments) -> Iterator[tuple[str, ast.expr]]:
    """Yield each parameter that has a default, with the default."""
    ordered = [*args.posonlyargs, *args.args]
    for parameter, default in zip(ordered[::-1], args.defaults[::-1], strict=False):
        yield parameter.arg, default
    for parameter, maybe in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        if maybe is not None:
            yield parameter.arg, maybe


def _add(known: Arguments, more: Arguments) -> None:
    for index, value in enumerate(more.positional[: len(known.positional)]):
        known.positional[index] = merge(known.positional[index], value)
    later = dict(more.keywords)
    known.keywords = [(name, merge(value, later.get(name, ()))) for name, value in known.keywords]


def _is_tensor(annotation: ast.expr) -> bool:
    match annotation:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name in ("Tensor", "Parameter")
        case ast.Constant(value=str(text)):
            return text.endswith("Tensor")
        case ast.BinOp(left=left, right=right):
            return _is_tensor(left) or _is_tensor(right)
        case ast.Subscript(value=value, slice=inner):
            return written(value).endswith("Optional") and _is_tensor(inner)
    return False


def _ends(body: list[ast.stmt]) -> bool:
    return bool(body) and isinstance(
        body[-1], ast.Return | ast.Raise | ast.Continue | ast.Break
    )


def _header_end(node: ast.stmt) -> int:
    """Give the last line of a statement, of its header only if it has a body."""
    body = getattr(node, "body", None)
    if isinstance(body, list) and body:
        return max(node.lineno, int(body[0].lineno) - 1)
    return node.end_lineno or node.lineno


def _key_of(target: ast.expr) -> str:
    match target:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id="self"), attr=attr):
            return f"self.{attr}"
    return ""


def _inside(inner: ast.expr, outer: ast.expr) -> bool:
    start = (outer.lineno, outer.col_offset)
    end = (outer.end_lineno or 0, outer.end_col_offset or 0)
    return start <= (inner.lineno, inner.col_offset) and (
        (inner.end_lineno or 0, inner.end_col_offset or 0) <= end
    )


def _is_constructor(call: PendingCall) -> bool:
    return any(canonical(name) in CONSTRUCTORS for name in references(call.callees))


def _names_device(call: PendingCall) -> bool:
    if any(name == "device" and value != (("none",),) for name, value in call.args.keywords):
        return True
    return spread_of(call.args.spreads) == "device"


_STATEMENTS: dict[type[ast.stmt], Callable[[FunctionReader, ast.stmt], None]] = {
    ast.Expr: FunctionReader._expression,
    ast.Assign: FunctionReader._assign,
    ast.AnnAssign: FunctionReader._annotated,
    ast.AugAssign: FunctionReader._augmented,
    ast.Return: FunctionReader._return,
    ast.If: FunctionReader._if,
    ast.For: FunctionReader._for,
    ast.AsyncFor: FunctionReader._for,
    ast.While: FunctionReader._while,
    ast.With: FunctionReader._with,
    ast.AsyncWith: FunctionReader._with,
    ast.Try: FunctionReader._try,
    ast.TryStar: FunctionReader._try,
    ast.Match: FunctionReader._match,
    ast.Import: FunctionReader._import,
    ast.ImportFrom: FunctionReader._import,
    ast.FunctionDef: FunctionReader._function,
    ast.AsyncFunctionDef: FunctionReader._function,
    ast.ClassDef: FunctionReader._class,
    ast.Delete: FunctionReader._delete,
}

_EXPRESSIONS: dict[type[ast.expr], Callable[[FunctionReader, ast.expr], Value]] = {
    ast.Name: FunctionReader._name,
    ast.Constant: FunctionReader._constant,
    ast.Attribute: FunctionReader._attribute,
    ast.Subscript: FunctionReader._subscript,
    ast.Slice: FunctionReader._slice,
    ast.Call: FunctionReader._call,
    ast.BinOp: FunctionReader._binary,
    ast.UnaryOp: FunctionReader._unary,
    ast.Compare: FunctionReader._compare,
    ast.BoolOp: FunctionReader._either,
    ast.IfExp: FunctionReader._conditional,
    ast.Lambda: FunctionReader._lambda,
    ast.List: FunctionReader._display,
    ast.Tuple: FunctionReader._display,
    ast.Set: FunctionReader._display,
    ast.Dict: FunctionReader._dict,
    ast.ListComp: FunctionReader._comprehension,
    ast.SetComp: FunctionReader._comprehension,
    ast.GeneratorExp: FunctionReader._comprehension,
    ast.DictComp: FunctionReader._dict_comprehension,
    ast.JoinedStr: FunctionReader._joined,
    ast.Starred: FunctionReader._starred,
    ast.Await: FunctionReader._await,
    ast.Yield: FunctionReader._yield,
    ast.YieldFrom: FunctionReader._yield,
    ast.NamedExpr: FunctionReader._walrus,
}
