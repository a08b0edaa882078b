"""What the constructors of the table are at run time.

In: the constructor table and the user's PyTorch.  Out: a row for a function, a code object or a
class, and how a call came by its device.  Never here: the call itself.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from types import CodeType

import torch

from devicelint.model import Constructor, Kind
from devicelint.torch_api import CONSTRUCTORS
from devicelint.trace.events import Named

#: Loading these takes a second; whoever has not imported them calls nothing in them.
_HEAVY = "torch.nn.attention.flex_attention."


def resolve(name: str) -> object | None:
    """Find what a qualified name stands for, None if this PyTorch has no such thing."""
    if name.startswith(_HEAVY) and _HEAVY.rstrip(".") not in sys.modules:
        return None
    value: object = torch
    for part in name.split(".")[1:]:
        value = getattr(value, part, None)
        if value is None:
            return None
    return value


def rows(*kinds: Kind) -> Iterator[tuple[Constructor, object]]:
    """Yield the rows of some kinds with what they stand for, where it exists."""
    for name, row in CONSTRUCTORS.items():
        if row.kind in kinds and (value := resolve(name)) is not None:
            yield row, value


def functions() -> dict[object, Constructor]:
    """Give the tensor factories by function object, as a torch function mode is handed them."""
    return {value: row for row, value in rows(Kind.TENSOR)}


def codes() -> dict[CodeType, Constructor]:
    """Give the factories that are written in Python by their code: modes see only their inside."""
    return {
        value.__code__: row for row, value in rows(Kind.TENSOR) if isinstance(value, type(resolve))
    }


def module_names() -> dict[type, str]:
    """Give the name in the table for each module class of PyTorch."""
    return {value: row.name for row, value in rows(Kind.MODULE) if isinstance(value, type)}


def how_named(row: Constructor, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Named:
    """Tell how a call came by its device."""
    if kwargs.get("device") is not None:
        return Named.YES
    index = row.device_index
    if index is not None and len(args) > index and args[index] is not None:
        return Named.YES
    if kwargs:
        for word in row.settled_by:
            if kwargs.get(word) is not None:
                return Named.FOLLOWS
    if row.follows_tensor:
        values = [*args[:3], *kwargs.values()]
        if any(isinstance(value, torch.Tensor) for value in values):
            return Named.FOLLOWS
    return Named.NONE if "device" in kwargs else Named.NO
