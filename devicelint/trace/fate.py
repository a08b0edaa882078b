"""What became of the values: what a module holds, under which names, and on which device.

In: modules, when their construction has ended and once more when the program ends.  Out: what is
in them as data.  Never here: a method of a user's class: only `__dict__` and containers are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple
from weakref import ReferenceType

import torch
from torch import nn

from devicelint.trace.events import Fate

_PLAIN = (int, float, str, bool, bytes, type(None), complex, torch.dtype, torch.device, torch.Size)
_ATOMS = frozenset(_PLAIN)
#: `str(device)` takes longer than a look-up
_device_names: dict[object, str] = {}
#: A container with more than this is data, not a place for tensors of a module.
_ITEMS = 2_000
_DEPTH = 4


class Held(NamedTuple):
    """One value in a module (a tuple: thousands are made while a model is built)."""

    fate: Fate
    name: str
    value: object
    persistent: bool = True


@dataclass(frozen=True, slots=True)
class Within:
    """A module in the tree below an outermost one."""

    module: nn.Module
    path: str
    #: the device of most parameters and buffers, of its own or else of those around it
    device: str


#: What every module has of its own; nothing in there is the user's.
_OWN = frozenset(nn.Module().__dict__)


def held(module: nn.Module) -> Iterator[Held]:
    """Yield every tensor, stream and generator that a module itself holds."""
    inside = module.__dict__
    for name, value in (inside.get("_parameters") or {}).items():
        if value is not None:
            yield Held(Fate.PARAMETER, name, value)
    transient = inside.get("_non_persistent_buffers_set") or ()
    for name, value in (inside.get("_buffers") or {}).items():
        if value is not None:
            yield Held(Fate.BUFFER, name, value, name not in transient)
    for name, value in attributes(module):
        yield Held(Fate.ATTRIBUTE, name, value)


def attributes(module: nn.Module) -> Iterator[tuple[str, object]]:
    """Yield what a module holds in plain attributes, in whatever containers, with its name."""
    seen: set[int] = set()
    for name, value in list(module.__dict__.items()):
        if type(value) not in _ATOMS and name not in _OWN:
            yield from _in(value, name, _DEPTH, seen)


def _in(value: object, name: str, depth: int, seen: set[int]) -> Iterator[tuple[str, object]]:
    if isinstance(value, torch.Tensor) or is_placed(value):
        yield name, value
        return
    if depth == 0 or isinstance(value, (*_PLAIN, nn.Module, type)) or id(value) in seen:
        return
    seen.add(id(value))
    for label, item in _items(value):
        if not isinstance(item, _PLAIN):
            yield from _in(item, name + label, depth - 1, seen)


def _items(value: object) -> Iterator[tuple[str, object]]:
    """Yield what a container or an object of a plain class holds."""
    if isinstance(value, dict):
        for key, item in islice(list(value.items()), _ITEMS):
            yield f"[{key!r:.40}]", item
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(islice(value, _ITEMS)):
            yield f"[{index}]", item
    elif isinstance(value, (set, frozenset)):
        for item in islice(value, _ITEMS):
            yield "{}", item
    else:
        attributes = getattr(value, "__dict__", None)
        if type(attributes) is dict and len(attributes) < _ITEMS:
            for key, item in list(attributes.items()):
                yield f".{key}", item


def is_placed(value: object) -> bool:
    """Tell a stream or a generator: what lives on a device and is no tensor."""
    if isinstance(value, torch.Generator):
        return True
    kind = type(value)
    # Streams have no common base in every version and build; they are all called so.
    return kind.__name__.endswith("Stream") and kind.__module__.partition(".")[0] == "torch"


def device_of(value: object) -> str:
    """Name the device that something is on, "" where it does not say."""
    device = getattr(value, "device", None)
    if device is None:
        return ""
    name = _device_names.get(device)
    if name is None:
        name = _device_names[device] = str(device)
    return name


def tree(root: nn.Module) -> Iterator[Within]:
    """Yield a module and everything registered below it, each once."""
    modules = list(walk(root))
    counts: dict[int, Counter[str]] = {}
    for module, _ in reversed(modules):  # children come after their parents
        count = counts.setdefault(id(module), Counter())
        for table in ("_parameters", "_buffers"):
            for value in (module.__dict__.get(table) or {}).values():
                if value is not None:
                    count[device_of(value)] += 1
        for child in (module.__dict__.get("_modules") or {}).values():
            if child is not None and child is not module:
                count.update(counts.get(id(child), Counter()))
    around = _most(counts[id(root)])
    for module, path in modules:
        yield Within(module, path, _most(counts[id(module)]) or around)


def _most(count: Counter[str]) -> str:
    return max(count, key=lambda device: (count[device], device)) if count else ""


def walk(root: nn.Module, path: str = "") -> Iterator[tuple[nn.Module, str]]:
    """Yield a module and those registered below it, each with its path, parents first."""
    seen: set[int] = set()
    pending = [(root, path)]
    while pending:
        module, path = pending.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        yield module, path
        children = module.__dict__.get("_modules") or {}
        pending.extend(
            (child, f"{path}.{name}" if path else name)
            for name, child in reversed(list(children.items()))
            if isinstance(child, nn.Module)
        )


def living(roots: Sequence[ReferenceType[object]]) -> Iterator[nn.Module]:
    """Yield the outermost modules that still exist, less those that others have taken in."""
    seen: set[int] = set()
    for reference in reversed(roots):  # what is built later may hold what was built before
        root = reference()
        if isinstance(root, nn.Module) and id(root) not in seen:
            seen.update(id(module) for module, _ in walk(root))
            yield root
