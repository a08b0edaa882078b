"""Narrow patches for the constructors that no torch function mode sees.

In: a callback.  Out: while installed, it is called with each legacy tensor, host-memory tensor,
generator, stream and the like that is made, after the fact.  Never here: what is done with it.

`torch.Tensor` and the stream classes that are written in Python keep their identity: only their
`__new__` is replaced.  What is written in C gets a stand-in for its name in `torch`: a class whose
`isinstance`, `issubclass`, equality and attributes are those of the real one.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import TypeAlias

import torch

from devicelint.model import Constructor, Kind
from devicelint.trace import catalogue

#: row, arguments, keywords, what was made, the frame that called
Made: TypeAlias = Callable[
    [Constructor, tuple[object, ...], Mapping[str, object], object, FrameType], None
]
#: Factories of the table that never reach a mode (verified on 2.13).
_UNSEEN = ("torch.range", "torch.nested.nested_tensor")
_MISSING = object()


class _StandIn(type):
    """The class of stand-ins: everything about them is the real one's, but for the call."""

    real: type
    row: Constructor
    made: Made

    def __call__(cls, *args: object, **kwargs: object) -> object:
        value: object = cls.real(*args, **kwargs)
        cls.made(cls.row, args, kwargs, value, sys._getframe(1))
        return value

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.real)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return subclass is cls or issubclass(subclass, cls.real)

    def __getattr__(cls, name: str) -> object:
        return getattr(cls.real, name)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is cls.real

    def __hash__(cls) -> int:
        return hash(cls.real)

    def __repr__(cls) -> str:
        return repr(cls.real)


def _stand_in(row: Constructor, real: type, made: Made) -> _StandIn:
    # `tensor.type(torch.FloatTensor)` goes by the name of the class, the module's included.
    name = row.name if row.kind is Kind.LEGACY else row.name.rpartition(".")[2]
    return _StandIn(
        name, (), {"real": real, "row": row, "made": staticmethod(made), "__module__": "torch"}
    )


def _function(row: Constructor, real: Callable[..., object], made: Made) -> Callable[..., object]:
    @functools.wraps(real)
    def function(*args: object, **kwargs: object) -> object:
        value = real(*args, **kwargs)
        made(row, args, kwargs, value, sys._getframe(1))
        return value

    return function


def _new(row: Constructor, cls: type, made: Made) -> staticmethod[..., object]:
    real: Callable[..., object] = cls.__new__

    def __new__(kind: type, *args: object, **kwargs: object) -> object:
        value = real(kind, *args, **kwargs)
        if kind is cls:
            made(row, args, kwargs, value, sys._getframe(1))
        return value

    return staticmethod(__new__)


class Patches:
    """All of them, prepared once, installed and removed as often as modules are built."""

    def __init__(self, made: Made) -> None:
        self._prepared = [*self._legacy(made), *self._functions(made), *self._others(made)]
        self._replaced: list[tuple[object, str, object]] = []
        # PyTorch remembers its list of constructors at first use: with ours in it if that comes
        # while they are installed
        listed = getattr(torch.utils._device, "_device_constructors", None)
        if listed is not None:
            listed()

    def install(self) -> None:
        """Replace the constructors."""
        for owner, name, replacement in self._prepared:
            self._replaced.append((owner, name, vars(owner).get(name, _MISSING)))
            setattr(owner, name, replacement)

    def remove(self) -> None:
        """Put the constructors back, unless somebody else has replaced them meanwhile."""
        ours = {(id(owner), name): new for owner, name, new in self._prepared}
        for owner, name, original in reversed(self._replaced):
            if vars(owner).get(name) is not ours[id(owner), name]:
                continue
            if original is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, original)
        self._replaced.clear()

    def _legacy(self, made: Made) -> list[tuple[object, str, object]]:
        found: list[tuple[object, str, object]] = []
        for row, real in catalogue.rows(Kind.LEGACY):
            if not isinstance(real, type):
                continue
            if row.name == "torch.Tensor":
                found.append((real, "__new__", _new(row, real, made)))
            else:
                found.append((*_owner(row), _stand_in(row, real, made)))
        return found

    def _functions(self, made: Made) -> list[tuple[object, str, object]]:
        rows = [
            *catalogue.rows(Kind.HOST_MEMORY),
            *((row, real) for row, real in catalogue.rows(Kind.TENSOR) if row.name in _UNSEEN),
        ]
        return [(*_owner(row), _function(row, real, made)) for row, real in rows if callable(real)]

    def _others(self, made: Made) -> list[tuple[object, str, object]]:
        """Prepare streams and generators."""
        found: list[tuple[object, str, object]] = []
        for row, real in catalogue.rows(Kind.STREAM, Kind.GENERATOR):
            if not isinstance(real, type):
                continue
            cls: type = real
            if "__new__" in vars(cls) and cls.__flags__ & (1 << 9):  # made in Python: can change
                found.append((cls, "__new__", _new(row, cls, made)))
            else:
                found.append((*_owner(row), _stand_in(row, cls, made)))
        return found


def _owner(row: Constructor) -> tuple[object, str]:
    path, _, name = row.name.rpartition(".")
    return (torch if path == "torch" else catalogue.resolve(path)), name
