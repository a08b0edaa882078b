"""What a class answers to all that a method asks of `self`.

In: the index.  Out: methods, setters, and what attributes hold.  Never here: a call, or what is
reached.

A method does the same on two classes that give the same answers, so what is asked is noted: in
transformers 5.24.0 the methods of `PreTrainedModel` run on 3,900 classes, most of which change
nothing that these methods use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from devicelint.ir import CallFact, FunctionFacts, Value
from devicelint.project import ClassTarget, Key, ProjectIndex


class Question(NamedTuple):
    """What is asked of a class: a method of `Receivers`, and its other arguments."""

    kind: str
    name: str
    owner: Key | None = None


Questions = tuple[Question, ...]
#: Answers are compared, and nothing else.
Answers = tuple[object, ...]


#: What a question is about, and a class may have something to say on: its kind and its name, or the
#: class that it asks for; `super` is the kind of those asked behind some class.
Subject = tuple[str, str | Key]


#: A class, and what those classes say that are met on the way to it.
_Rung = tuple[Key, tuple[frozenset[Subject], ...]]


class Asked(NamedTuple):
    """What questions are about."""

    about: frozenset[Subject]
    #: the classes behind which is looked
    behind: frozenset[Key]


def asked_by(questions: Questions) -> Asked:
    """Say what questions are about."""
    about: set[Subject] = set()
    behind: set[Key] = set()
    for question in questions:
        if question.owner is None:
            about.add((question.kind, question.name))
            continue
        about.add(("descends", question.owner))
        if question.kind == "methods":
            about.add(("super", question.name))
            behind.add(question.owner)
    return Asked(frozenset(about), frozenset(behind))


class _Own(NamedTuple):
    """What the constructors in one class's body keep in each attribute."""

    values: dict[str, list[Value]]
    #: the calls whose results are kept
    calls: dict[str, list[CallFact]]


class _Sources(NamedTuple):
    """Where the values of a class's attributes come from, in order of resolution."""

    bodies: tuple[tuple[str, Mapping[str, Value]], ...]
    constructors: tuple[tuple[Key, _Own], ...]


class Receivers:
    """Answers what `self` is asked, and notes it until somebody takes the notes."""

    def __init__(self, index: ProjectIndex) -> None:
        self._index = index
        self._owns: dict[Key, _Own] = {}
        self._known: dict[Key, _Sources] = {}
        self._made: dict[tuple[Key, str], tuple[Key, ...]] = {}
        self._complete: set[Key] = set()
        self._ladders: dict[Key, tuple[_Rung, ...]] = {}
        #: what the body and the constructors of a class say, by itself and as one of the bases
        self._said: dict[tuple[Key, bool], frozenset[Subject]] = {}
        self._asked: dict[Question, object] = {}
        #: the attributes whose values were asked for, of whichever class
        self.attributes: set[str] = set()

    def take_notes(self) -> tuple[Questions, Answers]:
        """Give what was asked since the last time, with the answers."""
        notes = tuple(self._asked), tuple(self._asked.values())
        self._asked.clear()
        return notes

    def answers(self, on: Key, questions: Questions) -> Answers:
        """Ask a class the same questions."""
        return tuple([_ANSWERS[asked.kind](self, on, asked) for asked in questions])

    def highest_alike(self, on: Key, asked: Asked) -> Key:
        """Give the highest ancestor that is sure to answer what is asked as a class does."""
        if asked.behind and not asked.behind.issubset(self._index.ancestry(on).classes):
            return on
        about = asked.about
        for base, added in self._ladder(on):
            for said in added:
                if not about.isdisjoint(said):
                    return on
            on = base
        return on

    def _ladder(self, on: Key) -> tuple[_Rung, ...]:
        """Give the classes that a class answers like, but for what is added on the way to each."""
        known = self._ladders.get(on)
        if known is None:
            base = self._base(on)
            if base is None:
                known = self._ladders[on] = ()
            else:
                added = self._added(on)
                if added is None:
                    return ()  # known once the constructors have been read
                known = ((base, added), *self._ladder(base))
                if self._is_whole(known[-1][0]):
                    self._ladders[on] = known
        return known

    def _is_whole(self, top: Key) -> bool:
        return self._ladders.get(top) == ()

    def _base(self, on: Key) -> Key | None:
        """Give the next class in the order of resolution, which keeps that of each base (C3)."""
        lines = self._index.ancestry(on).lines
        if len(lines) > 1 or len(lines[0]) == 1:
            return None
        base = self._index.ancestry(lines[0][1])
        if self._is_layer(on) != self._is_layer(lines[0][1]):
            return None
        # several orders, or one that Python refuses
        kept = tuple(item for item in lines[0] if item in base.classes)
        return lines[0][1] if base.lines == (kept,) else None

    def _added(self, on: Key) -> tuple[frozenset[Subject], ...] | None:
        """Give what a class says, and what those of its bases do that its next one has not.

        None as long as their constructors have not been read.
        """
        line = self._index.ancestry(on).lines[0]
        rest = self._index.ancestry(line[1]).classes
        found = [self._said_by(holder, on) for holder in line if holder not in rest]
        added = tuple(one for one in found if one is not None)
        return added if len(added) == len(found) else None

    def _said_by(self, holder: Key, on: Key) -> frozenset[Subject] | None:
        """Give what the body of a class and its constructors say; None if these were not read.

        What stands behind `super()` can be but another class than `on` itself.
        """
        said = self._said.get((holder, holder == on))
        if said is None:
            names: set[Subject] = {("kept", name) for name in self._index.bindings_of(holder)}
            names.add(("descends", holder))
            for name in self._index.callable_in(holder):
                names.add(("methods", name))
                if holder != on:
                    names.add(("super", name))
            names.update(("setter", name) for name in self._index.setters_in(holder))
            for qualname in self._index.defined_in(holder, "__init__"):
                own = self._own((holder[0], qualname))
                if own is None:
                    return None
                names.update(("kept", name) for name in own.values)
                names.update(("made", name) for name, calls in own.calls.items() if calls)
            said = self._said[holder, holder == on] = frozenset(names)
        return said

    def unread(self, on: Key) -> list[Key]:
        """Give the constructors of a class and its ancestors that are still to be read.

        As long as there are any, what is in attributes is not known in full.
        """
        if on in self._complete:
            return []
        missing = [key for key in self._constructors(on) if self._index.summary(key) is None]
        if not missing:
            self._complete.add(on)
        return missing

    # -- questions -----------------------------------------------------------------------------

    def methods(self, on: Key, name: str, after: Key | None = None) -> tuple[tuple[Key, Key], ...]:
        """Find a method, see `ProjectIndex.methods`."""
        found = self._index.methods(on, name, after)
        self._asked[Question("methods", name, after)] = found
        return found

    def setter(self, on: Key, name: str) -> Key | None:
        """Find the setter of a property."""
        found = self._index.setter(on, name)
        self._asked[Question("setter", name)] = found
        return found

    def descends(self, on: Key, owner: Key | None) -> bool:
        """Tell whether a class is `owner` or derives from it."""
        found = owner in self._index.ancestry(on).classes
        self._asked[Question("descends", "", owner)] = found
        return found

    def is_layer(self, on: Key) -> bool:
        """Tell a class whose `__init__` is in the end that of a layer of torch.nn."""
        found = self._asked[Question("is_layer", "")] = self._is_layer(on)
        return found

    def _is_layer(self, on: Key) -> bool:
        return any(
            name.startswith("torch.nn.") and name != "torch.nn.Module"
            for name in self._index.ancestry(on).externals
        )

    def kept(self, on: Key, name: str) -> tuple[tuple[str, Value], ...]:
        """Give what class bodies and constructors assign to an attribute, with the file."""
        self.attributes.add(name)
        sources = self._sources(on)
        found = [(path, bound[name]) for path, bound in sources.bodies if name in bound]
        for key, own in sources.constructors:
            found += [(key[0], value) for value in own.values.get(name, ())]
        answer = tuple(found)
        self._asked[Question("kept", name)] = answer
        return answer

    def made(self, on: Key, name: str) -> tuple[Key, ...]:
        """Give the classes of the objects that constructors make and keep in an attribute."""
        self.attributes.add(name)
        answer = tuple(
            dict.fromkeys(
                made
                for key, own in self._sources(on).constructors
                if name in own.calls
                for made in self._classes_made(key, name, own)
            )
        )
        self._asked[Question("made", name)] = answer
        return answer

    # -- constructors --------------------------------------------------------------------------

    def _constructors(self, on: Key) -> Iterator[Key]:
        """Give the `__init__` of a class and of each of its ancestors."""
        for holder in self._index.ancestry(on).classes:
            for qualname in self._index.defined_in(holder, "__init__"):
                yield holder[0], qualname

    def _sources(self, on: Key) -> _Sources:
        """Give where the values of attributes come from; remembered once all is read."""
        known = self._known.get(on)
        if known is None:
            bodies = [
                (holder[0], bound)
                for holder in self._index.ancestry(on).classes
                if (bound := self._index.bindings_of(holder))
            ]
            constructors = [
                (key, own)
                for key in self._constructors(on)
                if (own := self._own(key)) is not None and own.values
            ]
            known = _Sources(tuple(bodies), tuple(constructors))
            if not self.unread(on):
                self._known[on] = known
        return known

    def _own(self, key: Key) -> _Own | None:
        known = self._owns.get(key)
        if known is None:
            summary = self._index.summary(key)
            if summary is not None:
                known = self._owns[key] = _own_of(summary)
        return known

    def _classes_made(self, key: Key, name: str, own: _Own) -> tuple[Key, ...]:
        known = self._made.get((key, name))
        if known is None:
            known = self._made[key, name] = tuple(
                made for call in own.calls[name] for made in classes_made(self._index, key[0], call)
            )
        return known


#: How each kind of question is answered.
_ANSWERS: Mapping[str, Callable[[Receivers, Key, Question], object]] = {
    "methods": lambda it, on, asked: it.methods(on, asked.name, asked.owner),
    "setter": lambda it, on, asked: it.setter(on, asked.name),
    "descends": lambda it, on, asked: it.descends(on, asked.owner),
    "is_layer": lambda it, on, asked: it.is_layer(on),
    "kept": lambda it, on, asked: None if it.unread(on) else it.kept(on, asked.name),
    "made": lambda it, on, asked: None if it.unread(on) else it.made(on, asked.name),
}


def _own_of(summary: FunctionFacts) -> _Own:
    own = _Own({}, {})
    for event in summary.events:
        if event.kind == "attribute" and event.detail:
            own.values.setdefault(event.detail, []).append(event.value)
            own.calls.setdefault(event.detail, []).extend(
                summary.calls[int(atom[1])] for atom in event.value if atom[0] == "call"
            )
    return own


def classes_made(index: ProjectIndex, path: str, call: CallFact) -> Iterator[Key]:
    """Give the project classes that a call makes an object of."""
    for atom in call.callees:
        if atom[0] == "ref":
            for target in index.resolve(path, str(atom[1])):
                if isinstance(target, ClassTarget):
                    yield target.key
