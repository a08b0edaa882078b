"""Gather where the values of a construction have ended, once the outermost module stands.

In: that module, the modules built with it, and the lineage of the values.  Out: destinations on
the entries.  Never here: anything kept alive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from weakref import ReferenceType, ref

from torch import nn

from devicelint.trace.events import Fate
from devicelint.trace.fate import attributes, device_of, walk
from devicelint.trace.ledger import End, Entry
from devicelint.trace.lineage import Lineage


def harvest(
    root: nn.Module,
    built: Sequence[ReferenceType[object]],
    lineage: Lineage,
    natives: Mapping[int, Entry],
) -> None:
    """Look into every module of the tree, and into those that were built and not registered.

    `natives` are modules of PyTorch's own, by identity: what is in them and comes from nowhere
    else was made by the entry.
    """
    harvester = _Harvester(lineage, natives)
    seen: set[int] = set()
    for module, path in walk(root):
        seen.add(id(module))
        harvester.look(module, path)
    for reference in built:
        module = reference()
        if isinstance(module, nn.Module) and id(module) not in seen:
            seen.add(id(module))
            harvester.look(module, "")
    harvester.rest()


class _Harvester:
    """What has been found so far."""

    def __init__(self, lineage: Lineage, natives: Mapping[int, Entry]) -> None:
        self._lineage = lineage
        self._natives = natives
        self._placed: set[Entry] = set()

    def look(self, module: nn.Module, path: str) -> None:
        """Note what a module itself holds."""
        inside = module.__dict__
        reference: ReferenceType[object] = ref(module)
        prefix = f"{path}." if path else ""
        for name, value in (inside.get("_parameters") or {}).items():
            if value is not None:
                self._note(module, reference, Fate.PARAMETER, prefix, name, value, True)
        transient = inside.get("_non_persistent_buffers_set") or ()
        for name, value in (inside.get("_buffers") or {}).items():
            if value is not None:
                persistent = name not in transient
                self._note(module, reference, Fate.BUFFER, prefix, name, value, persistent)
        if id(module) in self._natives:
            return  # PyTorch's own have their numbers and flags there
        for name, value in attributes(module):
            self._note(module, reference, Fate.ATTRIBUTE, prefix, name, value, True)

    def _note(
        self,
        module: nn.Module,
        reference: ReferenceType[object],
        fate: Fate,
        prefix: str,
        name: str,
        value: object,
        persistent: bool,
    ) -> None:
        entries = self._lineage.find(value)
        if not entries:
            native = self._natives.get(id(module))
            if native is None or fate is Fate.ATTRIBUTE:
                return
            native.count += 1
            entries = (native,)
        end = End(fate, type(module).__qualname__, name, persistent, device_of(value))
        for entry in entries:
            entry.put(end, prefix, reference)
        self._placed.update(entries)

    def rest(self) -> None:
        """Note what was found in no module at all."""
        alive = {entry for _, entries in self._lineage.alive() for entry in entries}
        for entry in {entry for _, entries in self._lineage.all() for entry in entries}:
            if entry not in self._placed:
                entry.put(End(Fate.ELSEWHERE if entry in alive else Fate.GONE), "", None)
