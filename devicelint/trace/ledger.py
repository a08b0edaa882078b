"""The book that a recorder keeps: one entry a place, a module class and a way it went.

In: what hooks see, call by call.  Out: frozen `Construction`s; new entries are handed to a writer
at once, so that a log is complete up to the call at which a program dies.  Never here: PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple
from weakref import ReferenceType

from devicelint.trace.events import Building, Construction, Destination, Fate, Named, Place

#: Of one entry, so many values are looked at again when the program ends; the rest only counts.
_LOOKED_AT = 2_000


class End(NamedTuple):
    """What tells one kind of destination from another."""

    fate: Fate
    module: str = ""
    name: str = ""
    persistent: bool = True
    device: str = ""


@dataclass(eq=False, slots=True)
class Entry:
    """A construction that is still going on being seen."""

    key: Hashable
    place: Place
    callable: str
    kind: str
    named: Named
    device: str
    context: str
    empty: bool
    building: tuple[Building, ...]
    chain: tuple[str, ...]
    #: what the key names by identity must not be replaced by something else
    keeps: tuple[object, ...]
    count: int = 0
    moved: bool = False
    reads: set[Fate] = field(default_factory=set)
    #: kind of end -> how many, and what leads to one of them (`layers.0.`)
    ends: dict[End, tuple[int, str]] = field(default_factory=dict)
    #: where each was found, to be looked at again
    found: list[tuple[End, ReferenceType[object]]] = field(default_factory=list)
    #: the count when it was last written to the log
    written: int = 0

    def put(self, end: End, prefix: str, module: ReferenceType[object] | None) -> None:
        """Note where a value has ended, and in which module."""
        count, first = self.ends.get(end, (0, prefix))
        self.ends[end] = (count + 1, first)
        if module is not None and len(self.found) < _LOOKED_AT:
            self.found.append((end, module))

    def absorb(self, other: Entry) -> None:
        """Add what another ledger has seen of the same."""
        self.count += other.count
        self.moved |= other.moved
        self.reads |= other.reads
        self.found.extend(other.found)
        for end, (count, prefix) in other.ends.items():
            known, first = self.ends.get(end, (0, prefix))
            self.ends[end] = (known + count, first)

    def frozen(self, final: Callable[[End, object], str] | None = None) -> Construction:
        """Give what was seen so far; `final` looks up where a value is by now."""
        finals: dict[End, set[str]] = {}
        if final is not None:
            for end, module in self.found:
                finals.setdefault(end, set()).add(final(end, module()))
        destinations = [
            Destination(
                end.fate,
                end.module,
                end.name,
                prefix + end.name,
                end.persistent,
                end.device,
                ", ".join(sorted(finals.get(end, set()) - {""})),
                count,
            )
            for end, (count, prefix) in self.ends.items()
        ]
        destinations += [Destination(fate) for fate in sorted(self.reads)]
        return Construction(
            self.place,
            self.callable,
            self.kind,
            self.named,
            self.device,
            self.context,
            self.moved,
            self.empty,
            self.count,
            self.building,
            self.chain,
            tuple(destinations),
        )


@dataclass(eq=False, slots=True)
class Ledger:
    """Entries by what makes them one, and the outermost modules built so far."""

    entries: dict[Hashable, Entry] = field(default_factory=dict)
    roots: list[ReferenceType[object]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def add_root(self, root: ReferenceType[object]) -> None:
        """Remember an outermost module; the dead ones are dropped now and then."""
        self.roots.append(root)
        if len(self.roots) & (len(self.roots) - 1) == 0:
            self.roots = [one for one in self.roots if one() is not None]

    def fault(self, text: str) -> None:
        """Note what went wrong in the recorder itself; the first few suffice."""
        if len(self.faults) < 5 and text not in self.faults:
            self.faults.append(text)

    def absorb(self, entries: Iterable[Entry]) -> None:
        """Take over what an inner ledger has seen."""
        for entry in entries:
            known = self.entries.setdefault(entry.key, entry)
            if known is not entry:
                known.absorb(entry)
