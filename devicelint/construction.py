"""Find what runs while an nn.Module is built, and which constructor calls are among it.

In: a `ProjectIndex` and the module classes to start from.  Out: a `Construction`: the functions
reached, who calls whom, and the constructor calls met on the way.  Never here: where a value ends,
rules, syntax trees or I/O.

The walk starts at the `__init__` of every module class and follows calls on the concrete class, so
that overriding is respected.  What it finds does not depend on the order in which it goes: chains
are worked out at the end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from devicelint.arguments import has_device, kept_calls, leaves_device_to_default
from devicelint.callees import Bindings, Callee, CalleeResolver, State
from devicelint.extras import Extras
from devicelint.ir import CallFact, FunctionFacts
from devicelint.model import Constructor, Kind
from devicelint.project import ClassTarget, External, FunctionTarget, Key, ProjectIndex
from devicelint.receivers import Answers, Questions, Receivers
from devicelint.torch_api import CONSTRUCTORS

#: Methods of known external bases that call a hook of the class: name -> hooks.
_LIFECYCLE = {"post_init": ("_init_weights", "init_weights"), "init_weights": ("_init_weights",)}

#: Methods that the layers of torch.nn call in their own `__init__` (read in torch 2.13).
_LAYER_HOOKS = ("reset_parameters", "_reset_parameters", "reset_running_stats")

#: Longest chain of calls followed from a constructor.
MAX_DEPTH = 24

#: A call: the function that holds it, and its number there.
CallKey = tuple[Key, int]

#: A function and the class that it runs on, None if that is unknown or there is none.
OnClass = tuple[Key, Key | None]


@dataclass(slots=True)
class Reach:
    """A constructor call without a device that construction code makes."""

    constructor: Constructor
    #: dotted name, or the callee as written where it is only known through a value
    callable: str
    #: contexts that surround the call on every way to it
    context: int


#: A function to be visited: on which class, in which context, with which functions as arguments.
_Push = tuple[Callee, int, Bindings]


@dataclass(frozen=True, slots=True)
class Visit:
    """What a function ran on a class; not all of it if it lacks functions still to be read."""

    on: Key | None
    context: int
    pushes: tuple[_Push, ...]
    lacking: tuple[Key, ...]
    #: the names that were asked of the class; None if it would not do the same on another one
    names: frozenset[str] | None = None


@dataclass(slots=True)
class Construction:
    """What was reached."""

    sites: dict[CallKey, Reach] = field(default_factory=dict)
    #: what each call may run, on whichever class
    callees: dict[CallKey, dict[Callee | ClassTarget | External, None]] = field(
        default_factory=dict
    )
    callers: dict[Key, dict[CallKey, None]] = field(default_factory=dict)
    #: functions reached, and the classes they run on
    reached: dict[Key, set[Key | None]] = field(default_factory=dict)
    #: calls of helpers whose device parameter defaults to a fixed device
    defaulted: dict[CallKey, None] = field(default_factory=dict)
    #: functions that something outside starts: constructors of modules, bodies
    entries: dict[OnClass, None] = field(default_factory=dict)
    #: function -> class it runs on -> what it runs there, visit by visit
    leads: dict[Key, dict[Key | None, tuple[Visit, ...]]] = field(default_factory=dict)
    #: functions named on the way that have no summary yet
    missing: dict[Key, None] = field(default_factory=dict)

    def chains(self) -> Mapping[Key, tuple[Key, ...]]:
        """Give for each function a shortest chain that leads to it, itself last.

        Chains from constructors come first; one that starts in a body is of a function that only
        runs at import.  Of chains equally short the first in order of names is taken.  A chain
        keeps to its class: a base's method runs the hooks of the class whose constructor led to it.
        """
        found: dict[Key, tuple[Key, ...]] = {}
        taken: dict[OnClass, tuple[Key, ...]] = {}
        for bodies in (False, True):
            level = [
                runs for runs in self.entries if is_body(runs[0]) is bodies and runs not in taken
            ]
            taken.update((runs, (runs[0],)) for runs in level)
            while level:
                following: list[OnClass] = []
                for runs in sorted(level, key=taken.__getitem__):
                    chain = taken[runs]
                    found.setdefault(runs[0], chain)
                    for child in self._children(runs):
                        if child not in taken:
                            taken[child] = (*chain, child[0])
                            following.append(child)
                level = following
        return found

    def _children(self, runs: OnClass) -> Iterator[OnClass]:
        """Give the functions that a function runs, each with its class."""
        key, on = runs
        for visit in self.leads.get(key, {}).get(on, ()):
            for callee, _, _ in visit.pushes:
                yield callee.key, on if callee.on == visit.on else callee.on


def _names_stranger(questions: Questions, answers: Answers) -> bool:
    """Tell whether a class was named that the one in question is not: a subclass may be it."""
    return any(
        asked.kind == "descends" and not answer
        for asked, answer in zip(questions, answers, strict=True)
    )


def _moved(push: _Push, before: Key | None, now: Key) -> _Push:
    """Put what ran on one class on another one."""
    callee, context, bindings = push
    if bindings:
        bindings = tuple(
            (
                name,
                tuple(
                    _on(item, before, now) if isinstance(item, Callee) else item for item in items
                ),
            )
            for name, items in bindings
        )
    return _on(callee, before, now), context, bindings


def _on(callee: Callee, before: Key | None, now: Key) -> Callee:
    return Callee(callee.key, now, callee.bound) if callee.on == before else callee


class Walk:
    """Walks from constructors through everything that they run.

    `start` goes as far as summaries are there; `take_missing` then names the functions to read, and
    `resume` goes on where they were called.
    """

    def __init__(self, index: ProjectIndex, extras: Extras) -> None:
        self.result = Construction()
        self._index = index
        self._extras = extras
        self._resolver = CalleeResolver(index, self._summary, extras)
        self._receivers = self._resolver.receivers
        self._queue: deque[State] = deque()
        #: the classes on which a function was visited in a context, with bindings
        self._seen: dict[tuple[Key, int, Bindings], set[Key | None]] = {}
        self._waiting: dict[Key, dict[State, None]] = {}
        self._kept: dict[Key, frozenset[int]] = {}
        #: visits of functions in a context, which need not be made again on classes like theirs
        self._visits: dict[tuple[Key, int], dict[Questions, dict[Answers, Visit]]] = {}
        self._pushed: list[_Push] = []
        self._lacking: list[Key] = []

    def start(self, classes: Iterable[Key], bodies: Iterable[Key]) -> None:
        """Start at the constructors of `classes`, and at `bodies`, which run at import."""
        for key in classes:
            self._enter(key, 0, None)
        for key in bodies:
            self.result.entries[key, None] = None
            self._queue.append(State(key, None, 0, (), 0))
        self._run()

    def take_missing(self) -> list[Key]:
        """Give the functions that the walk has come to and that have no summary, each once."""
        missing = list(self.result.missing)
        self.result.missing.clear()
        return missing

    def finish(self) -> Construction:
        """Give what was reached, and let go of what only the walk itself needed."""
        self._seen.clear()
        self._visits.clear()
        self._waiting.clear()
        self._resolver.receivers = self._receivers = Receivers(self._index)
        return self.result

    def resume(self, keys: Iterable[Key]) -> None:
        """Go on with what waited for the functions `keys`, which have been read."""
        states = dict.fromkeys(state for key in keys for state in self._waiting.pop(key, ()))
        for state in states:
            self._seen[state.key, state.context, state.bindings].discard(state.on)
            self._queue.append(state)
        for where in {(state.key, state.context) for state in states} & self._visits.keys():
            for visits in self._visits[where].values():
                for answers in [asked for asked, visit in visits.items() if visit.lacking]:
                    del visits[answers]
        self._run()

    def _run(self) -> None:
        while self._queue:
            state = self._queue.popleft()
            seen = self._seen.setdefault((state.key, state.context, state.bindings), set())
            if state.on in seen:
                continue
            seen.add(state.on)
            if state.on is None or state.bindings:
                self._visit_all(state)
            elif not self._repeat(state, state.on):
                self._visit_first(state, state.on)

    def _repeat(self, state: State, on: Key) -> bool:
        """Do what the function did on another class, or wait as it does; False if `on` differs."""
        visit = self._visit_on_parent(state, on)
        if visit is not None:
            self._replay(visit, state, on)
            return True
        for questions, visits in self._visits.get((state.key, state.context), {}).items():
            visit = visits.get(self._receivers.answers(on, questions))
            if visit is None:
                continue
            for key in visit.lacking:
                self._waiting.setdefault(key, {})[state] = None
            if not visit.lacking:
                self._replay(visit, state, on)
            return True
        return False

    def _visit_on_parent(self, state: State, on: Key) -> Visit | None:
        """Find the visit on the only base of a class that changes nothing of what it asked."""
        parent = self._index.parent(on)
        for visit in self.result.leads.get(state.key, {}).get(parent, ()):
            if (
                visit.context == state.context
                and visit.names is not None
                and self._receivers.adds_none_of(on, visit.names)
            ):
                return visit
        return None

    def _replay(self, visit: Visit, state: State, on: Key) -> None:
        self.result.reached.setdefault(state.key, set()).add(on)
        self._lead(state, visit)
        for push in visit.pushes:
            self._push(*_moved(push, visit.on, on), state)

    def _visit_first(self, state: State, on: Key) -> None:
        """Visit a function, and note what it asks of its class."""
        self._receivers.take_notes()
        self._resolver.met_own_class = False
        visit = self._made(state)
        if not self._resolver.met_own_class:
            questions, answers = self._receivers.take_notes()
            visits = self._visits.setdefault((state.key, state.context), {})
            if not visit.lacking and not _names_stranger(questions, answers):
                names = frozenset(question.name for question in questions)
                visit = replace(visit, names=names)
            visits.setdefault(questions, {})[answers] = visit
        self._lead(state, visit)

    def _visit_all(self, state: State) -> None:
        self._lead(state, self._made(state))

    def _lead(self, state: State, visit: Visit) -> None:
        if visit.pushes or visit.names is not None:
            leads = self.result.leads.setdefault(state.key, {})
            before = leads.get(state.on)
            leads[state.on] = (visit,) if before is None else (*before, visit)

    def _made(self, state: State) -> Visit:
        """Visit a function."""
        self._pushed, self._lacking = [], []
        summary = self._summary(state, state.key)
        if summary is not None:
            self.result.reached.setdefault(state.key, set()).add(state.on)
            for number, call in enumerate(summary.calls):
                self._visit(state, summary, number, call)
            self._setters(state, summary)
        return Visit(state.on, state.context, tuple(self._pushed), tuple(self._lacking))

    def _summary(self, state: State, key: Key) -> FunctionFacts | None:
        """Give a function's summary, or note that `state` waits for it."""
        summary = self._index.summary(key)
        if summary is None:
            self.result.missing[key] = None
            self._lacking.append(key)
            self._waiting.setdefault(key, {})[state] = None
        return summary

    def _push(self, callee: Callee, context: int, bindings: Bindings, state: State | None) -> None:
        """Have a function visited; `state` is what runs it, None if that is outside."""
        if state is None:
            self.result.entries[callee.key, callee.on] = None
        else:
            self._pushed.append((callee, context, bindings))
        depth = state.depth + 1 if state is not None else 0
        if depth < MAX_DEPTH:
            self._queue.append(State(callee.key, callee.on, context, bindings, depth))

    def _enter(self, key: Key, context: int, state: State | None) -> list[Callee]:
        """Start at what runs when an object of class `key` is made."""
        entered = list(self._entries(key))
        for callee in entered:
            self._push(callee, context, (), state)
        return entered

    def _entries(self, key: Key) -> Iterator[Callee]:
        for name in ("__init__", "__post_init__"):
            for function, _ in self._index.methods(key, name):
                yield Callee(function, key, True)
        for holder in self._index.ancestry(key).classes:
            facts = self._index.class_facts(holder)
            for _, value in facts.field_factories if facts else ():
                for atom in value:
                    if atom[0] == "func":
                        yield Callee((holder[0], str(atom[1])), key, False)
                    elif atom[0] == "ref":
                        for target in self._index.resolve(holder[0], str(atom[1])):
                            if isinstance(target, FunctionTarget):
                                yield Callee(target.key, None, False)

    # -- one call ------------------------------------------------------------------------------

    def _visit(self, state: State, summary: FunctionFacts, number: int, call: CallFact) -> None:
        context = state.context | call.context
        where = (state.key, number)
        known = self.result.callees.setdefault(where, {})
        for target in self._resolver.targets(state, summary, call.callees):
            match target:
                case External():
                    known[target] = None
                    self._external(state, call, where, target, context)
                case ClassTarget(key=key):
                    known[target] = None
                    self._construct(state, summary, where, key, context)
                case Callee(key=key, bound=bound):
                    known[Callee(key, None, bound)] = None
                    self._call(state, summary, call, where, target, context)

    def _call(
        self,
        state: State,
        summary: FunctionFacts,
        call: CallFact,
        where: CallKey,
        callee: Callee,
        context: int,
    ) -> None:
        if is_module_body(state.key):
            return  # scripts and tests run their functions from the module's body
        self.result.callers.setdefault(callee.key, {})[where] = None
        facts = self._summary(state, callee.key)
        if facts is None:
            return
        bindings = self._resolver.bind(state, summary, call, callee, facts)
        if leaves_device_to_default(call, facts, callee.bound):
            self.result.defaulted[where] = None
        self._push(callee, context, bindings, state)

    def _construct(
        self, state: State, summary: FunctionFacts, where: CallKey, key: Key, context: int
    ) -> None:
        """A class is called: a module is an entry of its own, another object counts if kept."""
        if key == state.on:
            self._resolver.met_own_class = True
        if self._index.is_module(key):
            entered = [Callee(item, key, True) for item, _ in self._index.methods(key, "__init__")]
            for callee in entered:
                # an entry of its own, but for a class outside the run: where values go in it counts
                self._summary(state, callee.key)
        elif where[1] in self._kept_calls(summary, state.key) and not is_module_body(state.key):
            entered = self._enter(key, context, state)
        else:
            entered = []
        for callee in entered:
            self.result.callees[where][Callee(callee.key, None, callee.bound)] = None
            self.result.callers.setdefault(callee.key, {})[where] = None

    def _kept_calls(self, summary: FunctionFacts, key: Key) -> frozenset[int]:
        kept = self._kept.get(key)
        if kept is None:
            kept = self._kept[key] = kept_calls(summary)
        return kept

    def _external(
        self, state: State, call: CallFact, where: CallKey, target: External, context: int
    ) -> None:
        constructor = self._extras.constructors.get(target.name)
        if constructor is None:
            self._hooks(state, call, context)
            return
        if constructor.kind is Kind.MODULE or call.placeholder or has_device(call, constructor):
            return
        site = self.result.sites.get(where)
        if site is None:
            name = _name_of(call, target, is_own=target.name not in CONSTRUCTORS)
            self.result.sites[where] = Reach(constructor, name, context)
        else:
            site.context &= context

    def _hooks(self, state: State, call: CallFact, context: int) -> None:
        """A method of an external base that calls a hook of the class (`self.post_init()`)."""
        if state.on is None:
            return
        for atom in call.callees:
            if atom[0] in ("attr", "super"):
                hooks = _LIFECYCLE.get(str(atom[1]), ())
                if atom == ("super", "__init__") and self._receivers.is_layer(state.on):
                    hooks = _LAYER_HOOKS
                for hook in hooks:
                    for function, _ in self._receivers.methods(state.on, hook):
                        self._push(Callee(function, state.on, True), context, (), state)

    def _setters(self, state: State, summary: FunctionFacts) -> None:
        """`self.name = value` runs a property's setter where there is one."""
        if state.on is None:
            return
        for event in summary.events:
            if event.kind == "attribute" and event.detail:
                function = self._receivers.setter(state.on, event.detail)
                if function is not None:
                    callee = Callee(function, state.on, True)
                    self._push(callee, state.context, (), state)


def _name_of(call: CallFact, target: External, *, is_own: bool) -> str:
    """Name a constructor as PyTorch or the settings do, or as written where only a value leads
    to it."""
    alternatives = [atom for atom in call.callees if atom != ("none",)]
    if is_own:
        direct = any(atom[0] in ("ref", "attr") for atom in alternatives)
    else:
        # where there are several, one that may refuse `device=` is enough
        direct = alternatives == [("ref", target.name)] or all(
            atom[0] == "ref" and _takes_device(str(atom[1])) for atom in alternatives
        )
    # `getattr(torch, name)(...)`, `torch.get_device_module().Stream()`
    return target.name if direct and "(" not in call.text else call.text


def _takes_device(name: str) -> bool:
    return name in CONSTRUCTORS and CONSTRUCTORS[name].takes_device


def is_body(key: Key) -> bool:
    """Tell the body of a class or module from a function."""
    return key[1].endswith("<body>") or is_module_body(key)


def is_module_body(key: Key) -> bool:
    """Tell the body of a module."""
    return key[1] == "<module>"
