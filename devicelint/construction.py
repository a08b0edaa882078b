"""Find what runs while an nn.Module is built, and which constructor calls are among it.

In: a `ProjectIndex` and the module classes to start from.  Out: a `Construction`: the functions
reached, who calls whom, and the constructor calls met on the way.  Never here: where a value ends,
rules, syntax trees or I/O.

The walk starts at the `__init__` of every module class and follows calls on the concrete class, so
that overriding is respected; breadth first, so that the chain kept for a call is a shortest one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from devicelint.ir import STREAM_CONTEXT, TENSOR_CONTEXT, Atom, CallFact, FunctionFacts, Value
from devicelint.model import Constructor, Kind
from devicelint.project import ClassTarget, External, FunctionTarget, Key, ProjectIndex, Target
from devicelint.torch_api import CONSTRUCTORS

#: Methods of known external bases that call a hook of the class: name -> hooks.
_LIFECYCLE = {"post_init": ("_init_weights", "init_weights"), "init_weights": ("_init_weights",)}

#: Longest chain of calls followed from a constructor.
MAX_DEPTH = 24


@dataclass(frozen=True, slots=True)
class Callee:
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
    chain: tuple[Key, ...]


@dataclass(slots=True)
class Reach:
    """A constructor call without a device that construction code makes."""

    constructor: Constructor
    #: dotted name, or the callee as written where it is only known through a value
    callable: str
    chain: tuple[Key, ...]
    on: Key | None
    #: contexts that surround the call on every way to it
    context: int
    import_time: bool = False


@dataclass(slots=True)
class Construction:
    """What was reached.  `sites` and `callees` are keyed by (function, index of the call)."""

    sites: dict[tuple[Key, int], Reach] = field(default_factory=dict)
    callees: dict[tuple[Key, int], dict[Callee | External, None]] = field(default_factory=dict)
    callers: dict[Key, dict[tuple[Key, int], None]] = field(default_factory=dict)
    #: functions named on the way that have no summary yet
    missing: dict[Key, None] = field(default_factory=dict)
    reached: dict[Key, set[Key | None]] = field(default_factory=dict)
    #: calls of helpers whose device parameter defaults to a fixed device: (function, call) -> chain
    defaulted: dict[tuple[Key, int], tuple[Key, ...]] = field(default_factory=dict)


class Walk:
    """Walks from constructors through everything that they run.

    `run` goes as far as summaries are there; `result.missing` then names the functions to read,
    and `resume` goes on where they were called.
    """

    def __init__(self, index: ProjectIndex) -> None:
        self.index = index
        self.result = Construction()
        self.queue: deque[State] = deque()
        self.seen: set[tuple[Key, Key | None, int, Bindings]] = set()
        self.waiting: dict[Key, dict[State, None]] = {}
        self.kept: dict[Key, frozenset[int]] = {}

    def start(self, classes: Iterable[Key], bodies: Iterable[Key]) -> None:
        """Start at the constructors of `classes`, and at `bodies`, which run at import."""
        for key in classes:
            self.enter(key, 0, ())
        for key in bodies:
            self.queue.append(State(key, None, 0, (), (key,)))
        self.run()

    def resume(self, keys: Iterable[Key]) -> None:
        """Go on with what waited for the functions `keys`, which have been read."""
        self.result.missing.clear()
        for key in keys:
            for state in self.waiting.pop(key, ()):
                self.seen.discard((state.key, state.on, state.context, state.bindings))
                self.queue.append(state)
        self.run()

    def run(self) -> None:
        """Visit every queued function."""
        while self.queue:
            state = self.queue.popleft()
            mark = (state.key, state.on, state.context, state.bindings)
            if mark in self.seen:
                continue
            self.seen.add(mark)
            summary = self._summary(state, state.key)
            if summary is None:
                continue
            self.result.reached.setdefault(state.key, set()).add(state.on)
            for number, call in enumerate(summary.calls):
                self._visit(state, summary, number, call)
            self._setters(state, summary)

    def _summary(self, state: State, key: Key) -> FunctionFacts | None:
        """Give a function's summary, or note that `state` waits for it."""
        summary = self.index.summary(key)
        if summary is None:
            self.result.missing[key] = None
            self.waiting.setdefault(key, {})[state] = None
        return summary

    def enter(self, key: Key, context: int, chain: tuple[Key, ...]) -> list[Callee]:
        """Start at what runs when an object of class `key` is made."""
        entered: list[Callee] = []
        for name in ("__init__", "__post_init__"):
            for function, _ in self.index.methods(key, name):
                entered.append(Callee(function, key, True))
        for holder in self.index.ancestry(key).classes:
            facts = self.index.class_facts(holder)
            for _, value in facts.field_factories if facts else ():
                for atom in value:
                    if atom[0] == "func":
                        entered.append(Callee((holder[0], str(atom[1])), key, False))
                    elif atom[0] == "ref":
                        for target in self.index.resolve(holder[0], str(atom[1])):
                            if isinstance(target, FunctionTarget):
                                entered.append(Callee(target.key, None, False))
        for callee in entered:
            self._push(callee, context, (), chain)
        return entered

    def _push(self, callee: Callee, context: int, bindings: Bindings, chain: tuple[Key, ...]) -> None:
        if len(chain) < MAX_DEPTH:
            self.queue.append(State(callee.key, callee.on, context, bindings, (*chain, callee.key)))

    # -- one call ------------------------------------------------------------------------------

    def _visit(self, state: State, summary: FunctionFacts, number: int, call: CallFact) -> None:
        context = state.context | call.context
        where = (state.key, number)
        known = self.result.callees.setdefault(where, {})
        for target in self.targets(state, summary, call.callees):
            match target:
                case External():
                    known[target] = None
                    self._external(state, call, where, target, context)
                case ClassTarget(key=key):
                    self._construct(state, summary, number, key, context, known)
                case Callee():
                    known[target] = None
                    self._call(state, summary, call, where, target, context)

    def _call(
        self,
        state: State,
        summary: FunctionFacts,
        call: CallFact,
        where: tuple[Key, int],
        callee: Callee,
        context: int,
    ) -> None:
        self.result.callers.setdefault(callee.key, {})[where] = None
        callee_summary = self._summary(state, callee.key)
        if callee_summary is None:
            return
        bindings = self._bind(state, summary, call, callee, callee_summary)
        if leaves_device_to_default(call, callee_summary, callee.bound):
            self.result.defaulted.setdefault(where, state.chain)
        self._push(callee, context, bindings, state.chain)

    def _construct(
        self,
        state: State,
        summary: FunctionFacts,
        number: int,
        key: Key,
        context: int,
        known: dict[Callee | External, None],
    ) -> None:
        """A class is called: a module is an entry of its own, another object counts if kept."""
        where = (state.key, number)
        if self.index.is_module(key):
            for function, _ in self.index.methods(key, "__init__"):
                callee = Callee(function, key, True)
                known[callee] = None
                self.result.callers.setdefault(function, {})[where] = None
            return
        kept = self.kept.get(state.key)
        if kept is None:
            kept = self.kept[state.key] = kept_calls(summary)
        if number not in kept:
            return
        for callee in self.enter(key, context, state.chain):
            known[callee] = None
            self.result.callers.setdefault(callee.key, {})[where] = None

    def _external(
        self, state: State, call: CallFact, where: tuple[Key, int], target: External, context: int
    ) -> None:
        constructor = CONSTRUCTORS.get(target.name)
        if constructor is None:
            self._hooks(state, call, context)
            return
        if constructor.kind is Kind.MODULE or call.placeholder or has_device(call, constructor):
            return
        direct = any(atom == ("ref", target.name) for atom in call.callees)
        name = target.name if direct and not call.text.startswith("getattr(") else call.text
        site = self.result.sites.get(where)
        if site is None:
            self.result.sites[where] = Reach(
                constructor, name, state.chain, state.on, context, is_body(state.chain[0])
            )
        else:
            site.context &= context
            site.import_time = site.import_time and is_body(state.chain[0])
            if len(state.chain) < len(site.chain):
                site.chain = state.chain

    def _hooks(self, state: State, call: CallFact, context: int) -> None:
        """A method of an external base that calls a hook of the class (`self.post_init()`)."""
        if state.on is None:
            return
        for atom in call.callees:
            if atom[0] in ("attr", "super"):
                for hook in _LIFECYCLE.get(str(atom[1]), ()):
                    for function, _ in self.index.methods(state.on, hook):
                        self._push(Callee(function, state.on, True), context, (), state.chain)

    def _setters(self, state: State, summary: FunctionFacts) -> None:
        if state.on is None:
            return
        for event in summary.events:
            if event.kind == "attribute" and event.detail:
                function = self.index.setter(state.on, event.detail)
                if function is not None:
                    self._push(Callee(function, state.on, True), state.context, (), state.chain)

    # -- who is called -------------------------------------------------------------------------

    def targets(
        self, state: State, summary: FunctionFacts, value: Value
    ) -> Iterator[Callee | ClassTarget | External]:
        """Say what a callee's value may be, as seen from a function on a class."""
        for atom in value:
            yield from self._target(state, summary, atom)

    def _target(
        self, state: State, summary: FunctionFacts, atom: Atom
    ) -> Iterator[Callee | ClassTarget | External]:
        path = state.key[0]
        match atom[0]:
            case "attr":
                yield from self._attribute(state, str(atom[1]))
            case "super" if len(atom) > 1:
                owner = (path, summary.owner)
                found = self.index.methods(state.on, str(atom[1]), owner) if state.on else ()
                for function, _ in found:
                    yield Callee(function, state.on, True)
                if not found:
                    yield External(f"super.{atom[1]}")
            case "ref":
                for target in self.index.resolve(path, str(atom[1])):
                    yield from self._of(state, target)
            case "func":
                yield Callee((path, str(atom[1])), state.on, False)
            case "param":
                yield from self._parameter(state, summary, str(atom[1]))
            case "bound":
                yield from self._bound(state, summary, str(atom[1]), tuple(atom[2:]))
            case "call":
                yield from self._result(state, summary, int(atom[1]))

    def _of(self, state: State, target: Target) -> Iterator[Callee | ClassTarget | External]:
        match target:
            case FunctionTarget(key=key):
                summary = self._summary(state, key)
                if summary is None:
                    return
                if summary.kind in ("method", "class", "setter"):
                    owner = (key[0], summary.owner)
                    # Base.method(self, ...) keeps the class under construction
                    on = state.on if self._descends(state.on, owner) else owner
                    yield Callee(key, on, summary.kind == "class")
                else:
                    yield Callee(key, (key[0], summary.owner) if summary.owner else None, False)
            case _:
                yield target

    def _descends(self, on: Key | None, owner: Key) -> bool:
        return on is not None and owner in self.index.ancestry(on).classes

    def _attribute(self, state: State, name: str) -> Iterator[Callee | ClassTarget | External]:
        if state.on is None:
            return
        found = False
        for function, _ in self.index.methods(state.on, name):
            found = True
            summary = self._summary(state, function)
            if summary is not None:
                yield Callee(function, state.on, summary.kind != "static")
        if found:
            return
        for holder, value in self._assigned(state.on, name):
            for atom in value:
                if atom[0] == "func":
                    found = True
                    yield Callee((holder, str(atom[1])), state.on, False)
                elif atom[0] == "ref":
                    for target in self.index.resolve(holder, str(atom[1])):
                        found = True
                        yield from self._of(state, target)
        if not found:
            yield External(f"self.{name}")

    def _assigned(self, on: Key, name: str) -> Iterator[tuple[str, Value]]:
        """Give what constructors and class bodies assign to an attribute."""
        for holder in self.index.ancestry(on).classes:
            facts = self.index.class_facts(holder)
            if facts is None:
                continue
            for bound, value in facts.bindings:
                if bound == name:
                    yield holder[0], value
            for method, qualnames in facts.methods:
                if method != "__init__":
                    continue
                for qualname in qualnames:
                    summary = self.index.summary((holder[0], qualname))
                    for event in summary.events if summary else ():
                        if event.kind == "attribute" and event.detail == name:
                            yield holder[0], event.value

    def _parameter(
        self, state: State, summary: FunctionFacts, name: str
    ) -> Iterator[Callee | ClassTarget | External]:
        for bound, alternatives in state.bindings:
            if bound == name:
                yield from alternatives
                return
        for parameter, value in summary.defaults:
            if parameter == name:
                for atom in value:
                    if atom[0] in ("ref", "func"):
                        yield from self._target(state, summary, atom)

    def _bound(
        self, state: State, summary: FunctionFacts, name: str, base: Atom
    ) -> Iterator[Callee | ClassTarget | External]:
        found = False
        for key in self._types(state, summary, base):
            for function, _ in self.index.methods(key, name):
                found = True
                yield Callee(function, key, True)
        if not found:
            yield External(f"*.{name}")

    def _types(self, state: State, summary: FunctionFacts, atom: Atom) -> Iterator[Key]:
        """Give the project classes that a value may be an object of."""
        if atom[0] == "call":
            call = summary.calls[int(atom[1])]
            for inner in call.callees:
                if inner[0] in ("ref", "attr") and inner != atom:
                    for target in self._target(state, summary, inner):
                        if isinstance(target, ClassTarget):
                            yield target.key
        elif atom[0] == "attr" and state.on is not None:
            for holder in self.index.ancestry(state.on).classes:
                facts = self.index.class_facts(holder)
                for method, qualnames in facts.methods if facts else ():
                    if method != "__init__":
                        continue
                    for qualname in qualnames:
                        yield from self._attribute_types((holder[0], qualname), str(atom[1]))

    def _attribute_types(self, function: Key, name: str) -> Iterator[Key]:
        summary = self.index.summary(function)
        for event in summary.events if summary else ():
            if summary is None or event.kind != "attribute" or event.detail != name:
                continue
            for atom in event.value:
                if atom[0] == "call":
                    for inner in summary.calls[int(atom[1])].callees:
                        if inner[0] == "ref":
                            for target in self.index.resolve(function[0], str(inner[1])):
                                if isinstance(target, ClassTarget):
                                    yield target.key

    def _result(
        self, state: State, summary: FunctionFacts, number: int
    ) -> Iterator[Callee | ClassTarget | External]:
        """The result of a call is called: a function that it returns, or an object's `__call__`."""
        call = summary.calls[number]
        for atom in call.callees:
            if atom[0] not in ("ref", "attr", "func", "super"):
                continue
            for target in self._target(state, summary, atom):
                if isinstance(target, ClassTarget) and not self.index.is_module(target.key):
                    for function, _ in self.index.methods(target.key, "__call__"):
                        yield Callee(function, target.key, True)
                elif isinstance(target, Callee):
                    inner = self.index.summary(target.key)
                    for event in inner.events if inner else ():
                        if event.kind == "returned":
                            for returned in event.value:
                                if returned[0] == "func":
                                    yield Callee(
                                        (target.key[0], str(returned[1])), target.on, False
                                    )

    def _bind(
        self,
        state: State,
        summary: FunctionFacts,
        call: CallFact,
        callee: Callee,
        facts: FunctionFacts,
    ) -> Bindings:
        """Say which parameters of the callee stand for functions."""
        bindings: list[tuple[str, tuple[Callee | External, ...]]] = []
        for parameter, value in parameters_of(call, facts, callee.bound):
            functions: dict[Callee | External, None] = {}
            for atom in value:
                if atom[0] not in ("func", "attr", "ref", "param"):
                    continue
                if atom[0] == "attr" and not (
                    state.on and self.index.methods(state.on, str(atom[1]))
                ):
                    continue
                for target in self._target(state, summary, atom):
                    if isinstance(target, Callee):
                        functions[target] = None
                    elif isinstance(target, External) and target.name in CONSTRUCTORS:
                        functions[target] = None
            if functions:
                bindings.append((parameter, tuple(functions)))
        return tuple(bindings)


def is_body(key: Key) -> bool:
    """Tell the body of a class or module from a function."""
    return key[1].endswith(("<body>", "<module>"))


def parameters_of(
    call: CallFact, facts: FunctionFacts, bound: bool
) -> Iterator[tuple[str, Value]]:
    """Pair the arguments of a call with the parameters of the function it runs."""
    offset = 1 if bound and facts.kind in ("method", "class", "setter") else 0
    for index, value in enumerate(call.args):
        if call.star >= 0 and index >= call.star:
            # behind `*args` every further parameter may get the value
            for name in facts.params[index + offset : facts.positional]:
                yield name, value
            if facts.vararg:
                yield facts.vararg, value
        elif index + offset < facts.positional:
            yield facts.params[index + offset], value
        elif facts.vararg:
            yield facts.vararg, value
    for name, value in call.keywords:
        if name in facts.params:
            yield name, value
        elif facts.kwarg:
            yield facts.kwarg, value


def has_device(call: CallFact, constructor: Constructor) -> bool:
    """Tell whether a call says where its result goes: keyword, position, `**`, `out=`, tensor."""
    for name, value in call.keywords:
        if name == "device":
            return value != (("none",),)
        if name in constructor.settled_by:
            return True
    if call.spread in ("open", "device"):
        return True
    position = constructor.device_index
    if position is not None and len(call.args) > position and call.star < 0:
        return call.args[position] != (("none",),)
    return False


def kept_calls(summary: FunctionFacts) -> frozenset[int]:
    """Give the calls whose results are kept, returned or handed on, not merely used."""
    values: list[Value] = [
        event.value
        for event in summary.events
        if event.kind in ("attribute", "returned", "argument")
    ]
    for call in summary.calls:
        values += [*call.args, *(given for _, given in call.keywords)]
    return frozenset(int(atom[1]) for value in values for atom in value if atom[0] == "call")


def leaves_device_to_default(call: CallFact, facts: FunctionFacts, bound: bool) -> bool:
    """Tell a call that leaves a helper's `device` parameter to a default that is a fixed device."""
    default = dict(facts.defaults).get("device")
    if default is None or call.spread:
        return False
    fixed = any(atom[0] in ("str", "device") for atom in default)
    return fixed and all(name != "device" for name, _ in parameters_of(call, facts, bound))


def covers(constructor: Constructor, context: int) -> bool:
    """Tell whether surrounding contexts settle where a constructor's result goes."""
    if constructor.kind is Kind.STREAM:
        return bool(context & STREAM_CONTEXT)
    return constructor.honours_context and bool(context & TENSOR_CONTEXT)
