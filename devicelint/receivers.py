"""What a class answers to all that a method asks of `self`.

In: the index.  Out: methods, setters, and what attributes hold.  Never here: a call, or what is
reached.

A method does the same on two classes that give the same answers, so what is asked is noted: in
transformers 5.24.0 the methods of `PreTrainedModel` run on 1,900 classes, most of which change
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
        #: what the body and the constructor of a class add to its bases
        self._added: dict[Key, frozenset[str]] = {}
        self._asked: dict[Question, object] = {}
        self._kinds: dict[str, Callable[[Key, Question], object]] = {
            "methods": lambda on, asked: self.methods(on, asked.name, asked.owner),
            "setter": lambda on, asked: self.setter(on, asked.name),
            "descends": lambda on, asked: self.descends(on, asked.owner),
            "is_layer": lambda on, asked: self.is_layer(on),
            "kept": lambda on, asked: None if self.unread(on) else self.kept(on, asked.name),
            "made": lambda on, asked: None if self.unread(on) else self.made(on, asked.name),
        }

    def take_notes(self) -> tuple[Questions, Answers]:
        """Give what was asked since the last time, with the answers."""
        notes = tuple(self._asked), tuple(self._asked.values())
        self._asked.clear()
        return notes

    def answers(self, on: Key, questions: Questions) -> Answers:
        """Ask a class the same questions."""
        return tuple([self._kinds[asked.kind](on, asked) for asked in questions])

    def adds_none_of(self, on: Key, names: frozenset[str]) -> bool:
        """Tell a class that answers what is asked by `names` as its only base does."""
        known = self._added.get(on)
        if known is None:
            own = set(self._index.names_in(on))
            for qualname in self._index.defined_in(on, "__init__"):
                constructor = self._own((on[0], qualname))
                if constructor is None:
                    return False
                own.update(constructor.values)
            known = self._added[on] = frozenset(own)
        return known.isdisjoint(names)

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
        found = any(
            name.startswith("torch.nn.") and name != "torch.nn.Module"
            for name in self._index.ancestry(on).externals
        )
        self._asked[Question("is_layer", "")] = found
        return found

    def kept(self, on: Key, name: str) -> tuple[tuple[str, Value], ...]:
        """Give what class bodies and constructors assign to an attribute, with the file."""
        sources = self._sources(on)
        found = [(path, bound[name]) for path, bound in sources.bodies if name in bound]
        for key, own in sources.constructors:
            found += [(key[0], value) for value in own.values.get(name, ())]
        answer = tuple(found)
        self._asked[Question("kept", name)] = answer
        return answer

    def made(self, on: Key, name: str) -> tuple[Key, ...]:
        """Give the classes of the objects that constructors make and keep in an attribute."""
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
