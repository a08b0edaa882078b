"""What is known while one function is read: names, calls, and where values went so far.

In: what the readers of statements and expressions tell.  Out: `FunctionFacts` once all is told.
Never here: evaluation of syntax, another file, or knowledge of what a callee does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from devicelint.ir import CallFact, FunctionFacts, Value, placed
from devicelint.model import Sink
from devicelint.sharing import same, same_event
from devicelint.syntax import FunctionNode, is_placeholder, written
from devicelint.torch_api import CONSTRUCTORS, canonical
from devicelint.values import (
    MAX_ATOMS,
    NONE,
    bare_name,
    device_in_scope,
    either,
    merge,
    references,
    spread_of,
    tracked,
)

#: What something was built for (a name, `self.name`, "return"), and the calls that built it: the
#: number of the first, and of the first after them.
Built = tuple[str, int, int]

#: The value of `self` in a method.
SELF: Value = (("self",),)


class FileScope(Protocol):
    """The file around a function: its names, and where nested definitions are registered."""

    def lookup(self, name: str, outer: Outer | None = None) -> Value:
        """Give the value of a name that is not local."""

    def add_function(
        self, qualname: str, node: FunctionNode, owner: str, outer: Outer | None
    ) -> str:
        """Register a nested function under a qualified name of its own, and return that."""

    def add_class(self, node: ast.ClassDef, qualname: str, outer: Outer | None) -> str:
        """Register a nested class under a qualified name of its own, and return that."""

    def function_at(self, line: int) -> FunctionNode | None:
        """Give the function that was left out at a line, None if none was."""


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

    def each(self) -> list[Value]:
        """List the values of the arguments that have a place: not what is in a `**`."""
        return [*self.positional, *(value for _, value in self.keywords)]

    def all(self) -> Value:
        """Join the values of all arguments."""
        return merge(*self.positional, *(value for _, value in self.keywords), *self.spreads)

    def has_device(self) -> bool:
        """Tell whether `device=` is among them, even if it is None."""
        return any(name == "device" for name, _ in self.keywords)

    def then(self, later: Arguments) -> Arguments:
        """Put further arguments after these, as a `partial` does when it is called."""
        return Arguments(
            [*self.positional, *later.positional],
            self.star if self.star >= 0 else later.star,
            [*self.keywords, *later.keywords],
            [*self.spreads, *later.spreads],
        )

    def without_first(self) -> Arguments:
        """Give what a `partial` keeps: all but the function itself."""
        star = self.star - 1 if self.star > 0 else -1
        return Arguments(self.positional[1:], star, self.keywords, self.spreads)

    def join(self, again: Arguments) -> None:
        """Add what the same call was given when it was read again."""
        for index, value in enumerate(again.positional[: len(self.positional)]):
            self.positional[index] = merge(self.positional[index], value)
        later = dict(again.keywords)
        self.keywords = [(name, merge(value, later.get(name, ()))) for name, value in self.keywords]


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

    def is_constructor(self) -> bool:
        """Tell whether the call may make something on a device."""
        return any(canonical(name) in CONSTRUCTORS for name in references(self.callees))

    def names_device(self) -> bool:
        """Tell whether the call says on which device."""
        if any(name == "device" and value != NONE for name, value in self.args.keywords):
            return True
        return spread_of(self.args.spreads) == "device"

    def settles(self) -> bool:
        """Tell a constructor call that names its device, or a move to one."""
        return self.callees == (("move",),) or (self.is_constructor() and self.names_device())

    def freeze(self) -> CallFact:
        """Give the call as plain data."""
        node, args = self.node, self.args
        return CallFact(
            callees=same(self.callees),
            text=same(self.text),
            place=placed(
                (node.lineno, node.col_offset),
                (node.end_lineno or node.lineno, node.end_col_offset or 0),
                self.statement,
            ),
            args=same(tuple(args.positional)),
            keywords=same(tuple(args.keywords)),
            star=args.star,
            spread=spread_of(args.spreads),
            context=self.context,
            device_in_scope=self.device,
            placeholder=self.placeholder,
            twin=self.twin,
            receiver=same(self.receiver),
        )


@dataclass(slots=True)
class Frame:
    """One function (or a class or module body) while it is read in order."""

    scope: FileScope
    qualname: str
    owner: str
    kind: str
    line: int
    outer: Outer | None = None
    #: False where the text is known not to name a device
    may_name_device: bool = True
    #: the value of each local name and, under `self.name`, of what is kept on `self`
    env: dict[str, Value] = field(default_factory=dict)
    #: what was kept on `self` where the function returned
    left: dict[str, Value] = field(default_factory=dict)
    calls: list[PendingCall] = field(default_factory=list)
    #: `id` of a call's node -> its number; the tree outlives the frame
    by_node: dict[int, int] = field(default_factory=dict)
    #: `id` of a definition's node -> its value, so that a second pass registers nothing twice
    nested: dict[int, Value] = field(default_factory=dict)
    events: dict[tuple[str, str], Value] = field(default_factory=dict)
    meets: dict[tuple[int | str, ...], None] = field(default_factory=dict)
    #: names that are not bound on every way to here
    unsure: set[str] = field(default_factory=set)
    #: the function and the arguments of each `functools.partial`
    partials: list[tuple[Value, Arguments]] = field(default_factory=list)
    log: list[Built] = field(default_factory=list)
    #: bare names of what is called or handed on: functions of the file to read next
    named: dict[str, None] = field(default_factory=dict)
    #: the device contexts around the statement, as bits (see `ir`)
    context: int = 0
    #: first and last line of the statement
    span: tuple[int, int] = (0, 0)
    params: list[str] = field(default_factory=list)
    positional: int = 0
    vararg: str = ""
    kwarg: str = ""
    defaults: list[tuple[str, Value]] = field(default_factory=list)
    tensor_params: list[str] = field(default_factory=list)
    #: parameters that are True or False by default
    flags: frozenset[str] = frozenset()

    # -- what happens to values ----------------------------------------------------------------

    def copied(self, value: Value, detail: str = "") -> None:
        """Note that a value is copied into a tensor that exists: at once, or by way of a name."""
        at_once = tuple(
            atom
            for atom in value
            if atom[0] == "param"
            or (atom[0] == "call" and self.calls[int(atom[1])].statement == self.span)
        )
        self.event(Sink.EXISTING, detail, at_once)
        self.event("copied", detail, tuple(atom for atom in value if atom not in at_once))

    def event(self, kind: str, detail: str, value: Value) -> None:
        """Note that something is done with a value."""
        if kind not in ("attribute", "returned"):
            value = tracked(value)
        if value:
            self.events[kind, detail] = merge(self.events.get((kind, detail), ()), value)

    def declare(self, sink: str, label: str) -> None:
        """Note that the module has a buffer or parameter of this name, whatever is in it."""
        self.events.setdefault((f"declared {sink}", label), NONE)

    def meet(self, *values: Value) -> Value:
        """Join values that one expression computes with, and note whose results they are."""
        joined = merge(*values)
        if ("tensor",) in joined:
            self.event("fed", "", joined)
        calls = sorted({int(atom[1]) for atom in joined if atom[0] in ("call", "item")})
        held = sorted({str(atom[1]) for atom in joined if atom[0] == "attr"})
        if calls and len(calls) + len(held) > 1 and len(calls) < MAX_ATOMS:
            self.meets[(*calls, *held)] = None
        return joined

    def join(self, other: dict[str, Value]) -> None:
        """Take in the names of another branch: each may have its value from there."""
        self.unsure |= self.env.keys() ^ other.keys()
        for key, value in other.items():
            mine = self.env.get(key)
            self.env[key] = value if mine is None or mine == value else either(mine, value)

    def leave(self) -> None:
        """Note what is on `self` where the function returns."""
        for key, value in self.env.items():
            if key.startswith("self.") and value:
                self.left[key] = merge(self.left.get(key, ()), value)

    # -- calls ---------------------------------------------------------------------------------

    def record(self, node: ast.expr, callees: Value, args: Arguments, receiver: Value) -> Value:
        """Add a call (or to the same call, read before) and give its result."""
        index = self.by_node.get(id(node))
        if index is None:
            index = self.by_node[id(node)] = len(self.calls)
            self.calls.append(self._pending(node, callees, args, receiver))
            self._note_device(self.calls[index])
        else:
            call = self.calls[index]
            call.callees = merge(call.callees, callees)
            call.receiver = merge(call.receiver, receiver)
            call.args.join(args)
        self._name(callees, args)
        return (("call", index),)

    def _pending(
        self, node: ast.expr, callees: Value, args: Arguments, receiver: Value
    ) -> PendingCall:
        return PendingCall(
            node=node,
            callees=callees,
            text=written(node.func if isinstance(node, ast.Call) else node),
            args=args,
            context=self.context,
            statement=self.span,
            device=self.device(),
            placeholder=isinstance(node, ast.Call) and is_placeholder(node),
            receiver=receiver,
        )

    def _note_device(self, call: PendingCall) -> None:
        """Note that the device which a constructor call lacks is a parameter as it was given."""
        value = self.env.get(call.device, ())
        if value == (("param", call.device),) and call.is_constructor() and not call.names_device():
            self.event("used device", call.device, value)

    def _name(self, callees: Value, args: Arguments) -> None:
        """Note by name what is called, and what is handed on and may be called there."""
        for atom in callees:
            if atom[0] in ("attr", "super", "bound"):
                self.named[str(atom[1])] = None
        for value in (callees, *args.each()):
            for atom in value:
                if atom[0] in ("attr", "ref"):
                    self.named[bare_name(str(atom[1]))] = None
                elif atom[0] == "func":
                    self.named[str(atom[1])] = None

    def device(self) -> str:
        """Find an expression for a device here, or else where a nested function was defined."""
        if not self.may_name_device:
            return self.outer.device if self.outer else ""
        hidden = self.unsure | self.flags if self.unsure else self.flags
        device = device_in_scope(
            self.env,
            hidden,
            [name for name, value in self.defaults if value == NONE],
            is_constructor=self.qualname.endswith(".__init__"),
        )
        return device or (self.outer.device if self.outer else "")

    def constructor_calls(self) -> set[int]:
        """Give the numbers of the calls that make something on a device."""
        return {number for number, call in enumerate(self.calls) if call.is_constructor()}

    def mark_twins(self, first: Iterable[Built], second: Iterable[Built]) -> None:
        """Mark device-less constructors whose counterpart in the other branch has a device."""
        one, two = self._by_target(first), self._by_target(second)
        for key in one.keys() & two.keys():
            for mine, other in ((one[key], two[key]), (two[key], one[key])):
                if any(call.settles() for call in other):
                    for call in mine:
                        call.twin = call.twin or call.is_constructor()

    def _by_target(self, log: Iterable[Built]) -> dict[str, list[PendingCall]]:
        arm: dict[str, list[PendingCall]] = {}
        for key, first, end in log:
            arm.setdefault(key, []).extend(self.calls[first:end])
        return arm

    # -- definitions ---------------------------------------------------------------------------

    def as_outer(self) -> Outer:
        """Give what a function defined here sees."""
        return Outer(self.env, self.device(), self.outer)

    def add_function(self, node: FunctionNode, name: str) -> Value:
        """Register a nested function and give its value."""
        if id(node) not in self.nested:
            qualname = self.scope.add_function(
                f"{self.qualname}.<locals>.{name}", node, self.owner, self.as_outer()
            )
            self.nested[id(node)] = (("func", qualname),)
        return self.nested[id(node)]

    def add_class(self, node: ast.ClassDef) -> Value:
        """Register a nested class and give its value."""
        if id(node) not in self.nested:
            qualname = f"{self.qualname}.<locals>.{node.name}"
            name = self.scope.add_class(node, qualname, self.as_outer())
            self.nested[id(node)] = (("ref", f"~.{name}"),)
        return self.nested[id(node)]

    # -- the end -------------------------------------------------------------------------------

    def finish(self) -> FunctionFacts:
        """Close the function: what is kept on `self` now is an attribute."""
        if self.kind != "body":
            self.leave()
            for key, value in self.left.items():
                self.event("attribute", key.removeprefix("self."), value)
        return FunctionFacts(
            qualname=self.qualname,
            owner=self.owner,
            kind=self.kind,
            params=same(tuple(self.params)),
            positional=self.positional,
            vararg=self.vararg,
            kwarg=self.kwarg,
            defaults=tuple(self.defaults),
            tensor_params=tuple(self.tensor_params),
            calls=tuple(call.freeze() for call in self.calls),
            events=tuple(
                same_event(kind, detail, value) for (kind, detail), value in self.events.items()
            ),
            meets=tuple(self.meets),
            line=self.line,
        )
