"""Follow a constructed value to where it ends, through returns, arguments and helpers.

In: the `Construction` and the summaries behind it.  Out: for a call, the set of things that become
of its value, and the one word (`Sink`) for it.  Never here: syntax, rules, I/O.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from devicelint.arguments import is_pinned, parameters_of
from devicelint.callees import Callee
from devicelint.construction import Construction
from devicelint.ir import Atom, CallFact, Event, FunctionFacts
from devicelint.model import Kind, Sink
from devicelint.project import ClassTarget, External, Key, ProjectIndex
from devicelint.torch_api import CONSTRUCTORS, TENSOR_ARGUMENT_SINKS

#: (kind, name): kind is a `Sink` value or moved, probe, managed, iterated
End = tuple[str, str]

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


@dataclass(frozen=True, slots=True)
class Outcome:
    """What becomes of a value.  `harmless`: nothing that could be on the wrong device."""

    sink: Sink
    target: str
    also: tuple[Sink, ...]
    harmless: bool


class Flow:
    """Answers where values end, remembering each answer."""

    def __init__(
        self, index: ProjectIndex, construction: Construction, managed: frozenset[str]
    ) -> None:
        self._index = index
        self._construction = construction
        self._managed = managed
        self._ends: dict[tuple[Key, Atom], frozenset[End]] = {}
        self._open: set[tuple[Key, Atom]] = set()
        self._uses: dict[Key, _Uses] = {}
        self._declared: dict[Key, dict[str, str]] = {}

    def outcome(self, function: Key, number: int, kind: Kind) -> Outcome:
        """Say what becomes of the result of call `number` of a function."""
        ends = self.ends(function, ("call", number))
        kinds = {kind_ for kind_, _ in ends}
        summary = self._index.summary(function)
        call = summary.calls[number] if summary else None
        if kind is Kind.STREAM:
            return Outcome(Sink.STREAM, _name(ends, "attribute"), (), False)
        if kind is Kind.GENERATOR:
            return Outcome(Sink.GENERATOR, _name(ends, "attribute"), (), False)
        if call is not None and is_pinned(call):
            return Outcome(Sink.HOST, "", (), False)
        found = [sink for sink in _PRECEDENCE if sink in kinds]
        if kinds and kinds <= _HARMLESS | {"iterated"} and kinds & _HARMLESS:
            return Outcome(Sink.EXISTING if "existing" in kinds else Sink.LOCAL, "", (), True)
        if kinds == {"iterated"}:
            return Outcome(Sink.HOST, "", (), False)
        if not found:
            return Outcome(Sink.LOCAL, "", (), False)
        return Outcome(found[0], _name(ends, found[0]), tuple(found[1:]), False)

    def ends(self, function: Key, atom: Atom) -> frozenset[End]:
        """Collect everything that becomes of a value of a function."""
        mark = (function, atom)
        known = self._ends.get(mark)
        if known is not None:
            return known
        if mark in self._open or len(self._open) > 200:
            return frozenset()
        self._open.add(mark)
        try:
            result = frozenset(self._collect(function, atom))
        finally:
            self._open.discard(mark)
        if not self._open:
            # inside a cycle an answer may still lack what is being asked for around it
            self._ends[mark] = result
        return result

    def _collect(self, function: Key, atom: Atom) -> Iterator[End]:
        summary = self._index.summary(function)
        if summary is None:
            return
        uses = self._uses.get(function)
        if uses is None:
            uses = self._uses[function] = _Uses(summary)
        for related in uses.related(atom):
            for event in uses.events.get(related, ()):
                yield from self._event(function, summary, event, atom)
            for number, position in uses.arguments.get(related, ()):
                yield from self._argument(function, summary, number, position, related)

    def _event(
        self, function: Key, summary: FunctionFacts, event: Event, atom: Atom
    ) -> Iterator[End]:
        if event.kind == "attribute":
            yield from self._attribute(function, summary, event)
        elif event.kind == "returned":
            for caller, number in self._construction.callers.get(function, ()):
                if event.detail:
                    yield from self.ends(caller, ("item", number, int(event.detail)))
                elif atom[0] == "item" or not event.detail:
                    yield from self.ends(caller, ("call", number))
        elif event.kind == "default":
            name, _, parameter = event.detail.rpartition(":")
            yield from self.ends((function[0], name), ("param", parameter))
        elif not event.kind.startswith(("declared", "used")):
            yield event.kind, event.detail

    def _attribute(self, function: Key, summary: FunctionFacts, event: Event) -> Iterator[End]:
        for on in self._construction.reached.get(function, {None}):
            setter = self._index.setter(on, event.detail) if on and event.detail else None
            facts = self._index.summary(setter) if setter else None
            if setter and facts and len(facts.params) > 1 and setter != function:
                yield from self.ends(setter, ("param", facts.params[1]))
                continue
            declared = self._declarations(on).get(event.detail) if on else None
            yield declared or str(Sink.ATTRIBUTE), event.detail

    def _declarations(self, on: Key) -> dict[str, str]:
        """Give the names a class registers as buffers or parameters."""
        known = self._declared.get(on)
        if known is None:
            known = {}
            for holder in self._index.ancestry(on).classes:
                facts = self._index.class_facts(holder)
                for _, qualnames in facts.methods if facts else ():
                    for qualname in qualnames:
                        summary = self._index.summary((holder[0], qualname))
                        for event in summary.events if summary else ():
                            if event.kind.startswith("declared ") and event.detail:
                                known.setdefault(event.detail, event.kind[9:])
            self._declared[on] = known
        return known

    def _argument(
        self, function: Key, summary: FunctionFacts, number: int, position: int | str, atom: Atom
    ) -> Iterator[End]:
        """A value is handed to a call: follow it into the function, or past it."""
        call = summary.calls[number]
        callees = self._construction.callees.get((function, number), {})
        last = call.text.rsplit(".", 1)[-1]
        if last in self._managed:
            yield "managed", ""
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
            yield from self._past(function, number, call, callees, last)

    def _held(self, key: Key) -> Iterator[End]:
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
    ) -> Iterator[End]:
        if position == "receiver":
            return
        value = call.args[position] if isinstance(position, int) else dict(call.keywords)[position]
        for parameter, given in parameters_of(call, facts, callee.bound):
            if given is value:
                yield from self.ends(callee.key, ("param", parameter))

    def _past(
        self,
        function: Key,
        number: int,
        call: CallFact,
        callees: Mapping[Callee | ClassTarget | External, None],
        last: str,
    ) -> Iterator[End]:
        """What an unknown function does with a value is unknown; a function's result holds it."""
        names = [callee.name for callee in callees if isinstance(callee, External)]
        if any(name in CONSTRUCTORS for name in names):
            yield from self.ends(function, ("call", number))
        elif last[:1].isupper():
            yield str(Sink.ARGUMENT), call.text
        else:
            further = self.ends(function, ("call", number))
            yield from further
            if not further:
                yield str(Sink.ARGUMENT), call.text


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
                    self.arguments.setdefault(atom, []).append((number, position))
                    self._note(atom)
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


def _name(ends: frozenset[End], kind: str) -> str:
    return min((name for end, name in ends if end == kind and name), default="")
