"""Walk from the constructors of module classes through everything that they run.

In: a `ProjectIndex` and the module classes to start from.  Out: a `Construction`.  Never here:
where a value ends, rules, syntax trees or I/O.

The walk follows calls on the concrete class, so that overriding is respected; what it finds does
not depend on the order in which it goes.  It goes function by function, each for all classes at
once that come to it: in transformers 5.24.0, 3,900 classes run the constructor of
`PreTrainedModel` and the thirty methods that this calls.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from devicelint.arguments import has_device, kept_calls, leaves_device_to_default
from devicelint.callees import Bindings, Callee, CalleeResolver, State
from devicelint.construction import CallKey, Construction, Push, Reach, Visit, Where, is_module_body
from devicelint.extras import Extras
from devicelint.ir import CallFact, FunctionFacts
from devicelint.model import Kind
from devicelint.project import ClassTarget, External, FunctionTarget, Key, ProjectIndex
from devicelint.receivers import Answers, Asked, Question, Questions, Subject, asked_by
from devicelint.torch_api import CONSTRUCTORS, LAYER_HOOKS, LIFECYCLE

#: Longest chain of calls followed from a constructor.
MAX_DEPTH = 24

#: A function as the walk comes to it; the number counts the functions above it on the way taken.
_Stop = tuple[Where, int]

#: Classes, in order.
_Classes = dict[Key | None, None]


@dataclass(slots=True)
class _Visits:
    """Visits that have asked the same questions."""

    questions: Questions
    #: the answers to the first visit: most functions see but one
    answers: Answers
    visit: Visit
    others: dict[Answers, Visit] | None = None
    by_class: dict[Key, Visit] | None = None
    #: what the questions are about, once a second class has come
    asked: Asked | None = None

    def answered(self, answers: Answers) -> Visit | None:
        """Give the visit on a class that gave these answers."""
        if answers == self.answers:
            return self.visit
        return self.others.get(answers) if self.others is not None else None

    def add(self, answers: Answers, visit: Visit) -> None:
        """Note a visit on a class that gave other answers."""
        if self.others is None:
            self.others = {}
        self.others[answers] = visit

    def without_lacking(self) -> _Visits | None:
        """Give the visits that lacked nothing; the others can be made anew by now."""
        visits = {self.answers: self.visit, **(self.others or {})}
        whole = {answers: visit for answers, visit in visits.items() if not visit.lacking}
        if not whole:
            return None
        (answers, visit), *others = whole.items()
        return _Visits(self.questions, answers, visit, dict(others) or None, asked=self.asked)


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
        #: where to go, in order, and the classes to go there with
        self._queue: deque[_Stop] = deque()
        self._queued: dict[_Stop, _Classes] = {}
        self._missing: dict[Key, None] = {}
        self._waiting: dict[Key, dict[_Stop, _Classes]] = {}
        self._kept: dict[Key, frozenset[int]] = {}
        #: visits of functions in a context, which need not be made again on classes like theirs
        self._visits: dict[Where, list[_Visits]] = {}
        # questions that were asked, and what they are about
        self._question: dict[Question, Question] = {}
        self._questions: dict[Questions, Questions] = {}
        self._about: dict[Questions, Asked] = {}
        self._subjects: dict[Subject, Subject] = {}
        self._pushed: list[Push] = []
        self._lacking: list[Key] = []

    def start(self, classes: Iterable[Key], bodies: Iterable[Key]) -> None:
        """Start at the constructors of `classes`, and at `bodies`, which run at import."""
        for key in classes:
            for callee in self._entries(key):
                self._begin(callee.key, callee.on)
        for key in bodies:
            self._begin(key, None)
        self._run()

    def look_at(self, key: Key, numbers: Iterable[int], context: int) -> None:
        """Take in calls of a function that run nothing of the project, and go nowhere."""
        state = State(key, None, context, ())
        summary = self._summary(state, key)
        if summary is not None:
            for number in numbers:
                self._visit(state, summary, number, summary.calls[number])

    def _begin(self, key: Key, on: Key | None) -> None:
        self.result.entries[key, on] = None
        self._go((Where(key, 0, ()), 0), (on,))

    @property
    def misses(self) -> bool:
        """Tell whether the walk has come to functions that have no summary."""
        return bool(self._missing)

    def take_missing(self) -> list[Key]:
        """Give the functions that the walk has come to and that have no summary, each once."""
        missing = list(self._missing)
        self._missing.clear()
        return missing

    def finish(self) -> Construction:
        """Give what was reached, and let go of what only the walk itself needed.

        The resolver holds the walk, too: with it, neither would go without the collector.
        """
        self._visits.clear()
        for known in (self._question, self._questions, self._about, self._subjects):
            known.clear()
        self._waiting.clear()
        self.result.attributes = frozenset(self._receivers.attributes)
        self.result.reached = self._reached()
        del self._resolver, self._receivers
        return self.result

    def _reached(self) -> Mapping[Key, Collection[Key | None]]:
        reached: dict[Key, Collection[Key | None]] = {}
        for where, visits in self.result.visits.items():
            if self._index.summary(where.key) is not None:
                before = reached.get(where.key)
                reached[where.key] = visits.keys() if before is None else {*before, *visits}
        return reached

    def resume(self, keys: Iterable[Key]) -> None:
        """Go on with what waited for the functions `keys`, which have been read."""
        again = dict.fromkeys(stop for key in keys for stop in self._waiting.get(key, ()))
        for key in keys:
            for stop, classes in self._waiting.pop(key, {}).items():
                visits = self.result.visits[stop[0]]
                for on in classes:
                    visits.pop(on, None)
                self._go(stop, classes)
        for where in {where for where, _ in again} & self._visits.keys():
            whole = [known.without_lacking() for known in self._visits[where]]
            self._visits[where] = [known for known in whole if known is not None]
        self._run()

    def _go(self, stop: _Stop, classes: Iterable[Key | None]) -> None:
        """Have a function visited on classes."""
        queued = self._queued.get(stop)
        if queued is None:
            queued = self._queued[stop] = {}
            self._queue.append(stop)
        queued.update(classes if isinstance(classes, dict) else dict.fromkeys(classes))

    def _run(self) -> None:
        while self._queue:
            stop = self._queue.popleft()
            where = stop[0]
            visits = self.result.visits.setdefault(where, {})
            alike: dict[int, tuple[Visit, _Classes]] = {}
            for on in self._queued.pop(stop):
                if on not in visits:
                    visit = visits[on] = self._visit_on(where, on)
                    same = alike.get(id(visit))
                    if same is None:
                        alike[id(visit)] = (visit, {on: None})
                    else:
                        same[1][on] = None
            for visit, classes in alike.values():
                for key in visit.lacking:
                    self._waiting.setdefault(key, {}).setdefault(stop, {}).update(classes)
                if not visit.lacking:
                    self._push(stop, visit, classes)
                elif visit.on in classes:
                    # the others have not asked all that the first one will
                    runs = (where.key, visit.on)
                    self.result.early[runs] = (*self.result.early.get(runs, ()), visit)
                    self._push(stop, visit, (visit.on,))

    def _push(self, stop: _Stop, visit: Visit, classes: Collection[Key | None]) -> None:
        """Go on to what a visit has come to, on all classes on which it does the same."""
        depth = stop[1] + 1
        if depth == MAX_DEPTH:
            return
        for callee, context, bindings in visit.pushes:
            if callee.on != visit.on and not bindings:
                self._go((Where(callee.key, context, ()), depth), (callee.on,))
            elif not bindings:
                self._go((Where(callee.key, context, ()), depth), classes)
            else:
                for on in classes:
                    moved = _moved(bindings, visit.on, on)
                    here = on if callee.on == visit.on else callee.on
                    self._go((Where(callee.key, context, moved), depth), (here,))

    def _visit_on(self, where: Where, on: Key | None) -> Visit:
        """Visit a function, if it was on no class that answers alike."""
        if on is None or where.bindings:
            return self._made(where, on)
        return self._known(where, on) or self._new(where, on)

    def _known(self, where: Where, on: Key) -> Visit | None:
        """Find the visit on a class that gives the same answers."""
        for visits in self._visits.get(where, ()):
            if visits.asked is None:
                visits.asked = self._asked(visits.questions)
            if visits.by_class is None:
                visits.by_class = {}
            alike = self._receivers.highest_alike(on, visits.asked)
            visit = visits.by_class.get(alike)
            if visit is None:
                visit = visits.answered(self._receivers.answers(on, visits.questions))
            if visit is not None:
                visits.by_class[alike] = visit
                return visit
        return None

    def _new(self, where: Where, on: Key) -> Visit:
        """Visit a function, and note what it asks of its class."""
        self._receivers.take_notes()
        self._resolver.met_own_class = False
        visit = self._made(where, on)
        if not self._resolver.met_own_class:
            questions, answers = self._receivers.take_notes()
            known = self._visits.setdefault(where, [])
            same = next((item for item in known if item.questions == questions), None)
            if same is None:
                known.append(_Visits(self._once(questions), answers, visit))
            else:
                same.add(answers, visit)
        return visit

    def _once(self, questions: Questions) -> Questions:
        """Give questions as they were first asked: many functions ask the same."""
        known = self._questions.get(questions)
        if known is None:
            each = self._question
            known = tuple([each.setdefault(question, question) for question in questions])
            self._questions[known] = known
        return known

    def _asked(self, questions: Questions) -> Asked:
        asked = self._about.get(questions)
        if asked is None:
            asked = asked_by(questions)
            each = self._subjects
            about = frozenset([each.setdefault(item, item) for item in asked.about])
            asked = self._about[questions] = asked._replace(about=about)
        return asked

    def _made(self, where: Where, on: Key | None) -> Visit:
        """Visit a function."""
        self._pushed, self._lacking = [], []
        state = State(where.key, on, where.context, where.bindings)
        summary = self._summary(state, where.key)
        if summary is not None:
            for number, call in enumerate(summary.calls):
                self._visit(state, summary, number, call)
            self._setters(state, summary)
        return Visit(on, tuple(dict.fromkeys(self._pushed)), tuple(dict.fromkeys(self._lacking)))

    def _summary(self, state: State, key: Key) -> FunctionFacts | None:
        """Give a function's summary, or note that what is visited lacks it."""
        summary = self._index.summary(key)
        if summary is None:
            self._missing[key] = None
            self._lacking.append(key)
        return summary

    def _entries(self, key: Key) -> Iterator[Callee]:
        """Give what runs when an object of class `key` is made."""
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
        note = self.result.calls.note
        for target in self._resolver.targets(state, summary, call.callees):
            match target:
                case External():
                    note(where, target)
                    self._external(state, call, where, target, context)
                case ClassTarget(key=key):
                    note(where, target)
                    self._construct(state, summary, where, key, context)
                case Callee(key=key, bound=bound):
                    note(where, Callee(key, None, bound))
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
        self._pushed.append((callee, context, bindings))

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
            entered = list(self._entries(key))
            self._pushed += [(callee, context, ()) for callee in entered]
        else:
            entered = []
        for callee in entered:
            self.result.calls.note(where, Callee(callee.key, None, callee.bound))
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
                hooks = LIFECYCLE.get(str(atom[1]), ())
                if atom == ("super", "__init__") and self._receivers.is_layer(state.on):
                    hooks = LAYER_HOOKS
                for hook in hooks:
                    for function, _ in self._receivers.methods(state.on, hook):
                        self._pushed.append((Callee(function, state.on, True), context, ()))

    def _setters(self, state: State, summary: FunctionFacts) -> None:
        """`self.name = value` runs a property's setter where there is one."""
        if state.on is None:
            return
        for event in summary.events:
            if event.kind == "attribute" and event.detail:
                function = self._receivers.setter(state.on, event.detail)
                if function is not None:
                    callee = Callee(function, state.on, True)
                    self._pushed.append((callee, state.context, ()))


def _moved(bindings: Bindings, before: Key | None, now: Key | None) -> Bindings:
    """Put functions that run on one class on another one."""
    return tuple(
        (name, tuple(_on(item, before, now) for item in alternatives))
        for name, alternatives in bindings
    )


def _on(item: Callee | External, before: Key | None, now: Key | None) -> Callee | External:
    if isinstance(item, Callee) and item.on == before:
        return Callee(item.key, now, item.bound)
    return item


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
