"""Which constructions a tensor comes from.

In: the calls that a torch function mode sees.  Out: for a tensor, the entries of the ledger whose
values went into it; what was read on the host or copied is noted on the entries.  Never here: a
reference that keeps a tensor's memory.

A value is known by its storage: a parameter, a view, `.data` and `detach()` share it.  A weak
reference to each storage keeps its address from being used again, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum, auto

import torch

from devicelint.torch_api import HOST_METHODS, MOVING_METHODS, PROBES
from devicelint.trace.events import INTERNAL, Fate
from devicelint.trace.ledger import Entry

_HOST = HOST_METHODS | {"__contains__"}
#: The last argument is written into the first.
_COPIES = frozenset(
    """copy_ fill_ index_copy_ index_fill_ index_put_ masked_fill_ masked_scatter_ put_
    scatter_ select_scatter slice_scatter""".split()
)
#: What a list of arguments is searched for tensors: `torch.stack` of more than this is rare.
_SEARCHED = 256


class Act(Enum):
    """What a function does with the tensors it is given, as far as values are followed."""

    IGNORE = auto()
    CONSTRUCT = auto()
    HOST = auto()
    MOVE = auto()
    COPY = auto()
    FILL = auto()
    CHANGE = auto()
    DERIVE = auto()


def act_of(function: object) -> Act:
    """Classify a function by its name."""
    name = getattr(function, "__name__", "")
    if name in PROBES or name in ("__get__", "__delete__", "__hash__", "__len__", "dim", "size"):
        return Act.IGNORE
    if name in _HOST:
        return Act.HOST
    if name in MOVING_METHODS:
        return Act.MOVE
    if name == "__setitem__":
        return Act.FILL
    if name in _COPIES:
        return Act.COPY
    if (name.endswith("_") and not name.endswith("__")) or name.startswith("__i"):
        return Act.CHANGE
    return Act.DERIVE


class Lineage:
    """Storages by address, each with the entries that its value comes from."""

    def __init__(self) -> None:
        self._origins: dict[int, set[Entry]] = {}
        self._weak: dict[int, int] = {}
        #: tensors without a storage (sparse ones) are held until construction ends
        self._held: dict[int, object] = {}

    def track(self, tensor: torch.Tensor, entries: Iterable[Entry]) -> None:
        """Note that a tensor comes from these entries."""
        try:
            storage = tensor.untyped_storage()
            key: int = storage._cdata
        except (RuntimeError, NotImplementedError):
            storage, key = None, -id(tensor)
        known = self._origins.get(key)
        if known is not None:
            known.update(entries)
            return
        self._origins[key] = set(entries)
        if storage is None:
            self._held[key] = tensor
        else:
            self._weak[key] = storage._weak_ref()

    def hold(self, value: object, entry: Entry) -> None:
        """Note a stream or generator: they are small, so they are simply held."""
        self._origins[-id(value)] = {entry}
        self._held[-id(value)] = value

    def find(self, value: object) -> Iterable[Entry]:
        """Give the entries that a value comes from."""
        key = self._key(value) if isinstance(value, torch.Tensor) else -id(value)
        return self._origins.get(key, ())

    def alive(self) -> Iterator[tuple[int, set[Entry]]]:
        """Yield what is still referred to by somebody."""
        for key, entries in self._origins.items():
            weak = self._weak.get(key)
            if weak is None or not torch.UntypedStorage._expired(weak):
                yield key, entries

    def all(self) -> Iterator[tuple[int, set[Entry]]]:
        """Yield everything tracked."""
        yield from self._origins.items()

    def clear(self) -> None:
        """Forget everything."""
        for weak in self._weak.values():
            torch.UntypedStorage._free_weak_ref(weak)
        self._origins.clear()
        self._weak.clear()
        self._held.clear()

    def observe(
        self, act: Act, args: tuple[object, ...], kwargs: Mapping[str, object], result: object
    ) -> None:
        """Follow the values of one call."""
        if not self._origins:
            return
        given = [*args, *kwargs.values()]
        if act is Act.CHANGE and sum(1 for _ in _tensors(given)) < 2:
            return  # `fill_(0)`, an initialiser: nothing flows
        if act is Act.COPY or act is Act.FILL:
            self._copy(act, args, given)
            return
        sources = self._among(given)
        if not sources:
            return
        if act is Act.HOST:
            for entry in sources:
                entry.reads.add(Fate.HOST)
        elif act is Act.MOVE and _is_move(given[1:]):
            for entry in sources:
                entry.moved = True
        for tensor in _tensors([result]):
            self.track(tensor, sources)

    def _copy(self, act: Act, args: tuple[object, ...], given: list[object]) -> None:
        sources = self._among(given[-1:])
        for entry in sources:
            entry.reads.add(Fate.EXISTING)
        # A table that is filled by slices comes from what fills it; a parameter of a layer that
        # PyTorch has made is there, and has its device.
        own = any(entry.kind not in ("module", INTERNAL) for entry in self._among(args[:1]))
        if act is Act.FILL and own:
            for target in _tensors(args[:1]):
                self.track(target, sources)

    def _among(self, values: Iterable[object]) -> set[Entry]:
        found: set[Entry] = set()
        for tensor in _tensors(values):
            found |= self._origins.get(self._key(tensor), frozenset())
        return found

    def _key(self, tensor: torch.Tensor) -> int:
        try:
            address: int = tensor.untyped_storage()._cdata
        except (RuntimeError, NotImplementedError):
            return -id(tensor)
        return address


def _tensors(values: Iterable[object]) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif type(value) in (list, tuple):
            assert isinstance(value, (list, tuple))
            yield from (item for item in value[:_SEARCHED] if isinstance(item, torch.Tensor))


def _is_move(given: Iterable[object]) -> bool:
    """Tell `.to(device)`, `.cuda()` from `.to(dtype)`."""
    given = list(given)
    return not given or any(
        isinstance(value, (torch.device, str, int, torch.Tensor)) and not isinstance(value, bool)
        for value in given
    )
