"""Say which functions a call may run, seen from a function that runs on a concrete class.

In: values of callees, and the `State` they are seen from.  Out: functions, classes and outside
names.  Never here: the order in which things run, where values end, I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from devicelint.arguments import parameters_of
from devicelint.extras import Extras
from devicelint.ir import Atom, CallFact, FunctionFacts, Value
from devicelint.project import ClassTarget, External, FunctionTarget, Key, ProjectIndex, Target
from devicelint.receivers import Receivers, classes_made


class Callee(NamedTuple):
    """A function that a call may run: on which class, and whether `self` is bound already."""

    key: Key
    on: Key | None
    bound: bool


#: what a parameter that is called stands for: (parameter, alternatives)
Bindings = tuple[tuple[str, tuple[Callee | External, ...]], ...]


@dataclass(frozen=True, slots=True)
class State:
    """A function as reached: on a class, inside device contexts, with functions as arguments."""

    key: Key
    on: Key | None
    context: int
    bindings: Bindings


class CalleeResolver:
    """Resolves callees; `read` gives summaries and notes who waits for one that is not there."""

    def __init__(
        self,
        index: ProjectIndex,
        read: Callable[[State, Key], FunctionFacts | None],
        extras: Extras,
    ) -> None:
        self._index = index
        self._extras = extras
        self._read = read
        self.receivers = Receivers(index)
        #: whether a class came up by its name that is the one which `self` is of
        self.met_own_class = False

    def targets(
        self, state: State, summary: FunctionFacts, value: Value
    ) -> Iterator[Callee | ClassTarget | External]:
        """Say what a callee's value may be; the project's own constructors count as outside."""
        for atom in value:
            for target in self._target(state, summary, atom):
                yield target if isinstance(target, External) else self._own(target) or target

    def _meet(self, state: State, key: Key | None) -> None:
        self.met_own_class = self.met_own_class or key == state.on is not None

    def _own(self, target: Callee | ClassTarget) -> External | None:
        return self._extras.constructor_of(target.key)

    def bind(
        self,
        state: State,
        summary: FunctionFacts,
        call: CallFact,
        callee: Callee,
        facts: FunctionFacts,
    ) -> Bindings:
        """Say which parameters of a callee stand for functions."""
        bindings: list[tuple[str, tuple[Callee | External, ...]]] = []
        for parameter, value in parameters_of(call, facts, callee.bound):
            functions = dict.fromkeys(self._functions(state, summary, value))
            if functions:
                bindings.append((parameter, tuple(functions)))
        return tuple(bindings)

    def _functions(
        self, state: State, summary: FunctionFacts, value: Value
    ) -> Iterator[Callee | External]:
        for atom in value:
            if atom[0] not in ("func", "attr", "ref", "param"):
                continue
            if atom[0] == "attr" and not self._has_method(state, str(atom[1])):
                continue
            for target in self.targets(state, summary, (atom,)):
                match target:
                    case Callee():
                        yield target
                    case External(name=name) if name in self._extras.constructors:
                        yield target

    def _has_method(self, state: State, name: str) -> bool:
        return state.on is not None and bool(self.receivers.methods(state.on, name))

    def _target(
        self, state: State, summary: FunctionFacts, atom: Atom
    ) -> Iterator[Callee | ClassTarget | External]:
        # the first part says what it is, see `ir`: `match` would take three times as long
        kind, path = atom[0], state.key[0]
        if kind == "ref":
            for target in self._index.resolve(path, str(atom[1])):
                if isinstance(target, FunctionTarget):
                    yield from self._seen_from(state, target)
                else:
                    yield target
        elif kind == "attr":
            yield from self._attribute(state, str(atom[1]))
        elif kind == "super" and len(atom) > 1:
            yield from self._inherited(state, summary, str(atom[1]))
        elif kind == "bound":
            yield from self._method_of(state, summary, str(atom[1]), atom[2:])
        elif kind == "func":
            yield Callee((path, str(atom[1])), state.on, False)
        elif kind == "param":
            yield from self._parameter(state, summary, str(atom[1]))
        elif kind == "call":
            yield from self._result(state, summary, int(atom[1]))

    def _seen_from(self, state: State, target: Target) -> Iterator[Callee | ClassTarget | External]:
        """A function named outside; of a method, the class it then runs on."""
        if not isinstance(target, FunctionTarget):
            yield target
            return
        key = target.key
        summary = self._read(state, key)
        if summary is None:
            return
        owner = (key[0], summary.owner) if summary.owner else None
        if owner is None or summary.kind not in ("method", "class", "setter"):
            self._meet(state, owner)
            yield Callee(key, owner, False)
            return
        # `Base.method(self, ...)` keeps the class under construction
        descends = state.on is not None and self.receivers.descends(state.on, owner)
        yield Callee(key, state.on if descends else owner, summary.kind == "class")

    def _inherited(
        self, state: State, summary: FunctionFacts, name: str
    ) -> Iterator[Callee | External]:
        owner = (state.key[0], summary.owner)
        found = self.receivers.methods(state.on, name, owner) if state.on is not None else ()
        for function, _ in found:
            yield Callee(function, state.on, True)
        if not found:
            yield External(f"super.{name}")

    def _attribute(self, state: State, name: str) -> Iterator[Callee | ClassTarget | External]:
        """`self.name(...)`: a method, or what constructors and class bodies keep there."""
        if state.on is None:
            return
        methods = self.receivers.methods(state.on, name)
        for function, _ in methods:
            summary = self._read(state, function)
            if summary is not None:
                yield Callee(function, state.on, summary.kind != "static")
        if not methods:
            yield from list(self._held(state, state.on, name)) or [External(f"self.{name}")]

    def _held(self, state: State, on: Key, name: str) -> Iterator[Callee | ClassTarget | External]:
        self._await_constructors(state, on)
        for path, value in self.receivers.kept(on, name):
            for atom in value:
                if atom[0] == "func":
                    yield Callee((path, str(atom[1])), on, False)
                elif atom[0] == "ref":
                    for target in self._index.resolve(path, str(atom[1])):
                        yield from self._seen_from(state, target)

    def _await_constructors(self, state: State, on: Key) -> None:
        """Have those constructors read that tell what a class keeps in its attributes."""
        for key in self.receivers.unread(on):
            self._read(state, key)

    def _parameter(
        self, state: State, summary: FunctionFacts, name: str
    ) -> Iterator[Callee | ClassTarget | External]:
        """A parameter is called: what the caller gave for it, else its default."""
        for bound, alternatives in state.bindings:
            if bound == name:
                yield from alternatives
                return
        for parameter, value in summary.defaults:
            if parameter == name:
                for atom in value:
                    if atom[0] in ("ref", "func"):
                        yield from self._target(state, summary, atom)

    def _method_of(
        self, state: State, summary: FunctionFacts, name: str, base: Atom
    ) -> Iterator[Callee | External]:
        found = False
        for key in self._classes(state, summary, base):
            self._meet(state, key)
            for function, _ in self._index.methods(key, name):
                found = True
                yield Callee(function, key, True)
        if not found:
            yield External(f"*.{name}")

    def _classes(self, state: State, summary: FunctionFacts, atom: Atom) -> Iterator[Key]:
        """Give the project classes that a value may be an object of."""
        if atom[0] == "call":
            yield from classes_made(self._index, state.key[0], summary.calls[int(atom[1])])
        elif atom[0] == "attr" and state.on is not None:
            self._await_constructors(state, state.on)
            yield from self.receivers.made(state.on, str(atom[1]))

    def _result(self, state: State, summary: FunctionFacts, number: int) -> Iterator[Callee]:
        """The result of a call is called: a function that it returns, or an object's `__call__`."""
        for atom in summary.calls[number].callees:
            if atom[0] not in ("ref", "attr", "func", "super"):
                continue
            for target in self._target(state, summary, atom):
                match target:
                    case ClassTarget(key=key) if not self._index.is_module(key):
                        self._meet(state, key)
                        for function, _ in self._index.methods(key, "__call__"):
                            yield Callee(function, key, True)
                    case Callee():
                        yield from self._returned(target)

    def _returned(self, callee: Callee) -> Iterator[Callee]:
        summary = self._index.summary(callee.key)
        for event in summary.events if summary else ():
            if event.kind == "returned":
                for atom in event.value:
                    if atom[0] == "func":
                        yield Callee((callee.key[0], str(atom[1])), callee.on, False)
