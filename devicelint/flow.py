"""Follow a constructed value to where it ends, through returns, arguments and helpers.

In: the `Construction` and the summaries behind it.  Out: for a call, the set of things that become
of its value, and the one word (`Sink`) for it.  Never here: syntax, rules, I/O.

The places where a value occurs form a graph: from an argument to the parameter, from what a
function returns to its callers.  What becomes of a value is all that can be reached from it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from devicelint.arguments import covers, has_device, is_pinned, parameters_of
from devicelint.callees import Callee
from devicelint.construction import Construction, Runnable
from devicelint.extras import Extras
from devicelint.ir import Atom, CallFact, Event, FunctionFacts, Value
from devicelint.model import Constructor, Kind, Sink
from devicelint.project import ClassTarget, External, Key, ProjectIndex
from devicelint.torch_api import COPYING_METHODS, TENSOR_ARGUMENT_SINKS

#: (kind, name): kind is a `Sink` value or moved, probe, managed, iterated, `copied` (into a tensor
#: that exists, by way of a name), `fed` (a module computes with it, or a weight meets it), or
#: `handed`: given to a function outside the project, whose result may lead further
End = tuple[str, str]


class Place(NamedTuple):
    """A value in a function."""

    function: Key
    atom: Atom


#: Ends that put a value out of harm's way, if nothing else becomes of it.
_HARMLESS = frozenset({"existing", "moved", "probe", "managed"})

#: Which end gives a value its sink when there are several: first kept ones, worst first.
_PRECEDENCE = (
    Sink.PARAMETER,
    Sink.BUFFER,
    Sink.ATTRIBUTE,
    Sink.HOST,
    Sink.ARGUMENT,
    Sink.EXISTING,
)

#: Methods of a module that give modules.
_GIVING_MODULES = frozenset(
    {"children", "modules", "named_children", "named_modules", "get_submodule"}
)

#: The callee of `.to(device)` and its kind.
MOVE: Value = (("move",),)

#: How far up the callers a device is looked for.
_MAX_CALLERS = 4


@dataclass(frozen=True, slots=True)
class Outcome:
    """What becomes of a value.  `harmless`: nothing that could be on the wrong device."""

    sink: Sink
    target: str
    also: tuple[Sink, ...]
    harmless: bool
    #: it is filled with random numbers on the way
    drawn: bool = False
    #: it meets the weights of a module, which are wherever they are
    fed: bool = False


class Flow:
    """Answers where values end, remembering every step."""

    def __init__(self, index: ProjectIndex, construction: Construction, extras: Extras) -> None:
        self._index = index
        self._construction = construction
        self._extras = extras
        self._steps: dict[Place, tuple[frozenset[End], tuple[Place, ...]]] = {}
        self._uses: dict[Key, _Uses] = {}
        self._declared: dict[Key, dict[str, str]] = {}

    def followed(self) -> Collection[Place]:
        """Give the places where a value was followed to."""
        return self._steps.keys()

    def outcome(self, function: Key, number: int, kind: Kind) -> Outcome:
        """Say what becomes of the result of call `number` of a function."""
        ends = self.ends(function, ("call", number))
        summary = self._index.summary(function)
        call = summary.calls[number] if summary else None
        if kind in (Kind.STREAM, Kind.GENERATOR):
            sink = Sink.STREAM if kind is Kind.STREAM else Sink.GENERATOR
            return Outcome(sink, _name(ends, "attribute"), (), False)
        if call is not None and is_pinned(call):
            return Outcome(Sink.HOST, "", (), False)
        kinds = {end for end, _ in ends}
        if "existing" in kinds and summary and not _is_copied_at_once(summary, number):
            kinds = kinds - {"existing"} | {"copied"}
        if summary and "moved" in kinds and self._is_moved_in_place(function, summary, number):
            return Outcome(Sink.LOCAL, "", (), True)
        outcome = _outcome_of(kinds - {"drawn", "fed"}, ends)
        return replace(outcome, drawn="drawn" in kinds, fed="fed" in kinds)

    def _is_moved_in_place(self, function: Key, summary: FunctionFacts, number: int) -> bool:
        """Tell `self.x = t`, and later `self.x = self.x.to(device)`: the author has seen to it."""
        for event in summary.events:
            if event.kind != "attribute" or ("call", number) not in event.value:
                continue
            for atom in event.value:
                call = summary.calls[int(atom[1])] if atom[0] == "call" else None
                if call is not None and call.callees == MOVE and ("call", number) in call.args[0]:
                    return self.moves_away(function, call)
        return False

    def ends(self, function: Key, atom: Atom) -> frozenset[End]:
        """Collect everything that becomes of a value of a function."""
        pending = [Place(function, atom)]
        seen = set(pending)
        found: set[End] = set()
        while pending:
            ends, places = self._step(pending.pop())
            found |= ends
            for place in places:
                if place not in seen:
                    seen.add(place)
                    pending.append(place)
        return frozenset(found)

    def _step(self, place: Place) -> tuple[frozenset[End], tuple[Place, ...]]:
        known = self._steps.get(place)
        if known is None:
            ends: set[End] = set()
            places: dict[Place, None] = {}
            for item in self._from(*place):
                if isinstance(item, Place):
                    places[item] = None
                else:
                    ends.add(item)
            known = self._steps[place] = (frozenset(ends), tuple(places))
        return known

    def _from(self, function: Key, atom: Atom) -> Iterator[End | Place]:
        summary = self._index.summary(function)
        if summary is None:
            return
        uses = self._uses.get(function)
        if uses is None:
            uses = self._uses[function] = _Uses(summary)
        for related in uses.related(atom):
            for event in uses.events.get(related, ()):
                yield from self._event(function, summary, event)
            for number, position in uses.arguments.get(related, ()):
                yield from self._argument(function, summary, number, position)

    def _event(self, function: Key, summary: FunctionFacts, event: Event) -> Iterator[End | Place]:
        if event.kind == "attribute":
            yield from self._attribute(function, summary, event)
        elif event.kind == "returned":
            for caller, number in self._construction.callers.get(function, ()):
                index = ("item", number, int(event.detail)) if event.detail else ("call", number)
                yield Place(caller, index)
        elif event.kind == "default":
            name, _, parameter = event.detail.rpartition(":")
            yield Place((function[0], name), ("param", parameter))
        elif not event.kind.startswith(("declared", "used")):
            yield event.kind, event.detail

    def _attribute(
        self, function: Key, summary: FunctionFacts, event: Event
    ) -> Iterator[End | Place]:
        for on in self._construction.reached.get(function, {None}):
            setter = self._index.setter(on, event.detail) if on and event.detail else None
            facts = self._index.summary(setter) if setter else None
            if setter and facts and len(facts.params) > 1 and setter != function:
                yield Place(setter, ("param", facts.params[1]))
                continue
            declared = self._declarations(on).get(event.detail) if on else None
            held = any(atom[0] in ("box", "dict") for atom in event.value)
            name = f"{event.detail}[...]" if held and event.detail else event.detail
            yield (declared, event.detail) if declared else (str(Sink.ATTRIBUTE), name)

    def _declarations(self, on: Key) -> dict[str, str]:
        """Give the names a class registers as buffers or parameters."""
        known = self._declared.get(on)
        if known is None:
            known = {}
            for holder in self._index.ancestry(on).classes:
                facts = self._index.class_facts(holder)
                for _, qualnames in facts.methods if facts else ():
                    for qualname in qualnames:
                        # only what runs: what else has been read depends on earlier runs
                        function = (holder[0], qualname)
                        if function not in self._construction.reached:
                            continue
                        summary = self._index.summary(function)
                        for event in summary.events if summary else ():
                            if event.kind.startswith("declared ") and event.detail:
                                known.setdefault(event.detail, event.kind[9:])
            self._declared[on] = known
        return known

    def _argument(
        self, function: Key, summary: FunctionFacts, number: int, position: int | str
    ) -> Iterator[End | Place]:
        """A value is handed to a call: follow it into the function, or past it."""
        call = summary.calls[number]
        if call.callees == MOVE:
            if position == 0 and self.moves_away(function, call):
                yield "moved", ""
            else:
                # not moved at all, or the value whose device decides where the other one goes
                yield Place(function, ("call", number))
            return
        callees = self._construction.calls.of(function, number)
        if position != "receiver" and self._runs_module(function, summary, call, callees):
            yield "fed", ""
        names = [callee.name for callee in callees if isinstance(callee, External)]
        keys = [callee.key for callee in callees if not isinstance(callee, External)]
        sink = self._extras.sink_of(call.text, names, keys)
        if sink is not None:
            yield sink, ""
            return
        outside = not callees
        for callee in callees:
            if isinstance(callee, External):
                outside = True
                continue
            if isinstance(callee, ClassTarget):
                yield from self._held(callee.key)
                continue
            facts = self._index.summary(callee.key)
            if facts is None:
                outside = True
                continue
            yield from self._into(call, callee, facts, position)
        if outside:
            yield from self._past(function, number, position, call, callees)

    def _runs_module(
        self,
        function: Key,
        summary: FunctionFacts,
        call: CallFact,
        callees: Collection[Runnable],
    ) -> bool:
        """Tell a call of a module: of this one, of a layer of it, or of one that was made here."""
        known = any(not isinstance(callee, External) for callee in callees)
        for atom in call.callees:
            match atom:
                case ("self",) | ("attr" | "super" | "bound", "forward" | "__call__", *_):
                    return True
                case ("attr", _) | ("bound", _, "attr", *_) | ("param", _) if not known:
                    return True
                case ("call" | "item", int(maker), *_) if self._makes_module(
                    function, summary, maker
                ):
                    return True
        # what nothing is known of is a layer rather than a function
        return not call.callees and "." not in call.text

    def _makes_module(self, function: Key, summary: FunctionFacts, number: int) -> bool:
        """Tell whether a call gives a module, or modules to loop over."""
        if summary.calls[number].text.rpartition(".")[2] in _GIVING_MODULES:
            return True
        for callee in self._construction.calls.of(function, number):
            match callee:
                case ClassTarget(key=key) if self._index.is_module(key):
                    return True
                case External(name=name):
                    row = self._extras.constructors.get(name)
                    if row is not None and row.kind is Kind.MODULE:
                        return True
        return False

    def moves_away(self, function: Key, call: CallFact) -> bool:
        """Tell whether a move takes its value to a device that somebody chose.

        `.to(device)` with a `device` that nobody in the project fills in is `.to(None)`, which
        moves nothing; `.to(x.device)` moves nothing if `x` was built like the value itself.
        """
        destination = call.args[1]
        if not destination or destination == (("none",),):
            return not destination
        return self._is_chosen_in(function, destination, 0)

    def _is_chosen_in(self, function: Key, value: Value, depth: int) -> bool:
        """Tell whether a value names a device that somebody chose; one that is built does not."""
        verdicts = {atom: self._is_chosen(function, atom, depth) for atom in value}
        built = ("call", "item", "device_of")
        if any(atom[0] in built and not chosen for atom, chosen in verdicts.items()):
            return False
        return any(verdicts.values())

    def _is_chosen(self, function: Key, atom: Atom, depth: int) -> bool:
        match atom:
            case ("none",):
                return False
            case ("device_of", *inner):
                return self._is_chosen(function, tuple(inner), depth)
            case ("call" | "item", int(number), *_):
                return (function, number) not in self._construction.sites
            case ("param", str(name)) if depth < _MAX_CALLERS:
                return self._is_filled_in(function, name, depth)
        return True

    def _is_filled_in(self, function: Key, name: str, depth: int) -> bool:
        """Tell whether a parameter may stand for something chosen: by a caller, or by default."""
        summary = self._index.summary(function)
        callers = self._construction.callers.get(function)
        if summary is None or not callers:
            return True
        default = dict(summary.defaults).get(name)
        for caller, number in callers:
            given = self._given(caller, number, function, name)
            if given is None:
                if default != (("none",),):
                    return True
            elif not given or self._is_chosen_in(caller, given, depth + 1):
                return True
        return False

    def may_be_given(self, function: Key, name: str, depth: int = 0) -> bool:
        """Tell whether a parameter may stand for a device: of a helper that only this project
        calls, without one, it is None for sure."""
        summary = self._index.summary(function)
        callers = self._construction.callers.get(function)
        if summary is None or not callers or depth == _MAX_CALLERS:
            return True
        if function[1].endswith(".__init__") or dict(summary.defaults).get(name) != (("none",),):
            return True
        for caller, number in callers:
            given = self._given(caller, number, function, name)
            for atom in (("none",),) if given is None else given or (("device",),):
                passed_on = atom[0] == "param" and not self.may_be_given(
                    caller, str(atom[1]), depth + 1
                )
                if atom != ("none",) and not passed_on:
                    return True
        return False

    def _given(self, caller: Key, number: int, function: Key, name: str) -> Value | None:
        """Give the argument of a call for a parameter of the function it runs."""
        outer, facts = self._index.summary(caller), self._index.summary(function)
        if outer is None or facts is None:
            return ()
        call = outer.calls[number]
        if call.spread:
            return ()
        for callee in self._construction.calls.of(caller, number):
            if isinstance(callee, Callee) and callee.key == function:
                return dict(parameters_of(call, facts, callee.bound)).get(name)
        return ()

    def _held(self, key: Key) -> Iterator[End | Place]:
        """What an object of a project class makes of an argument that no `__init__` takes."""
        for name in self._index.ancestry(key).externals:
            if name in TENSOR_ARGUMENT_SINKS:
                # a subclass of nn.Parameter or nn.Buffer
                yield str(TENSOR_ARGUMENT_SINKS[name]), ""
                return
        if not self._index.methods(key, "__init__"):
            yield str(Sink.ATTRIBUTE), ""  # a field of a dataclass or tuple

    def _into(
        self, call: CallFact, callee: Callee, facts: FunctionFacts, position: int | str
    ) -> Iterator[End | Place]:
        if position == "receiver":
            return
        value = call.args[position] if isinstance(position, int) else dict(call.keywords)[position]
        for parameter, given in parameters_of(call, facts, callee.bound):
            if given is value:
                yield Place(callee.key, ("param", parameter))

    def _past(
        self,
        function: Key,
        number: int,
        position: int | str,
        call: CallFact,
        callees: Collection[Runnable],
    ) -> Iterator[End | Place]:
        """What an unknown function does with a value is unknown; a function's result holds it."""
        names = [callee.name for callee in callees if isinstance(callee, External)]
        known = self._extras.constructors
        rows = [known[name] for name in names if name in known]
        last = call.text.rsplit(".", 1)[-1]
        if any(row.follows_tensor and _places(call, row) for row in rows):
            yield "moved", ""
        elif rows:
            # a layer takes sizes, which it reads; so does a factory, whose result may hold the rest
            if all(row.kind is Kind.TENSOR and not row.follows_tensor for row in rows):
                yield str(Sink.HOST), ""
            if any(row.kind is not Kind.MODULE for row in rows):
                yield Place(function, ("call", number))
        elif last in COPYING_METHODS and position not in (0, "receiver"):
            # a function of that name copies as the method does: `copy_(target, source)`
            yield str(Sink.EXISTING), ""
        elif last[:1].isupper():
            yield str(Sink.ARGUMENT), call.text
        else:
            yield "handed", call.text
            yield Place(function, ("call", number))


class _Uses:
    """Where each atom of a function occurs, looked up once."""

    __slots__ = ("arguments", "events", "items")

    def __init__(self, summary: FunctionFacts) -> None:
        self.events: dict[Atom, list[Event]] = {}
        self.arguments: dict[Atom, list[tuple[int, int | str]]] = {}
        self.items: dict[int, set[Atom]] = {}
        for event in summary.events:
            for atom in event.value:
                self.events.setdefault(atom, []).append(event)
                self._note(atom)
        for number, call in enumerate(summary.calls):
            for position, value in enumerate(call.args):
                for atom in value:
                    held = tuple(atom[1:]) if atom[0] == "device_of" else atom
                    self.arguments.setdefault(held, []).append((number, position))
                    self._note(held)
            for name, value in call.keywords:
                for atom in value:
                    self.arguments.setdefault(atom, []).append((number, name))
                    self._note(atom)
            for atom in call.receiver:
                self.arguments.setdefault(atom, []).append((number, "receiver"))
                self._note(atom)

    def _note(self, atom: Atom) -> None:
        if atom[0] == "item":
            self.items.setdefault(int(atom[1]), set()).add(atom)

    def related(self, atom: Atom) -> list[Atom]:
        """Give the atom and those that hold its value too: a result and its elements."""
        if atom[0] == "call":
            return [atom, *sorted(self.items.get(int(atom[1]), ()), key=str)]
        if atom[0] == "item":
            return [atom, ("call", int(atom[1]))]
        return [atom]


def _is_copied_at_once(summary: FunctionFacts, number: int) -> bool:
    """Tell `x.copy_(torch.arange(n))` and `fill(x, torch.arange(n))`: no name in between."""
    atom = ("call", number)
    if any(event.kind == Sink.EXISTING and atom in event.value for event in summary.events):
        return True
    statement = summary.calls[number].statement
    return any(
        call.statement == statement and any(atom in value for value in call.args)
        for call in summary.calls
    )


def _outcome_of(kinds: set[str], ends: frozenset[End]) -> Outcome:
    if "handed" in kinds:
        # given to somebody else: that is all there is to say only if nothing is known further
        kinds.discard("handed")
        if kinds <= {"iterated", "probe"}:
            kinds.add(str(Sink.ARGUMENT))
    found = [sink for sink in _PRECEDENCE if sink in kinds]
    if kinds <= _HARMLESS | {"iterated", "copied"} and "copied" in kinds:
        return Outcome(Sink.EXISTING, "", (), False)
    if kinds <= _HARMLESS | {"iterated"} and kinds & _HARMLESS:
        return Outcome(Sink.EXISTING if "existing" in kinds else Sink.LOCAL, "", (), True)
    if kinds == {"iterated"}:
        return Outcome(Sink.HOST, "", (), False)
    if not found:
        return Outcome(Sink.LOCAL, "", (), False)
    return Outcome(found[0], _name(ends, found[0]), tuple(found[1:]), False)


def _places(call: CallFact, constructor: Constructor) -> bool:
    """Tell whether a constructor call decides itself where its result goes."""
    return has_device(call, constructor) or covers(constructor, call.context)


def _name(ends: frozenset[End], kind: str) -> str:
    return min((name for end, name in ends if end == kind and name), default="")
