"""Know when a module is under construction, without a frame of ours on the stack.

In: PyTorch's `nn.Module` and two callbacks.  Out: a call when the construction of a module begins,
before a line of its `__init__` has run, and one when it has ended, however it ends.  Never here:
what is recorded.

`__init__` of each module class becomes a descriptor.  Its `__get__` runs when `type.__call__`
looks `__init__` up; what it returns is a `functools.partial` that is called, and dropped, by C
code.  So user code sees its own functions (`Model.__init__`, `inspect.signature`), tracebacks have
no additional lines, and the end is the moment at which the partial is dropped.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType

from torch import nn


class _Construct(functools.partial):  # type: ignore[type-arg]
    """The bound `__init__`; its end of life is the end of the construction."""

    __slots__ = ("ended", "token")
    ended: Callable[[object], None]
    token: object

    def __del__(self) -> None:
        self.ended(self.token)


class _Initialiser:
    """Stands for a class's `__init__`."""

    __slots__ = ("hooks", "original")

    def __init__(self, original: Callable[..., None], hooks: Hooks) -> None:
        self.original = original
        self.hooks = hooks

    def __get__(self, instance: object, owner: type | None = None) -> Callable[..., None]:
        bind = self.original.__get__
        if instance is None:
            # What the class would have given without us.
            plain: Callable[..., None] = bind(None, owner)
            return plain
        bound: Callable[..., None] = bind(instance, owner)
        if not isinstance(instance, nn.Module):
            return bound
        token = self.hooks.begin(instance, sys._getframe(1))
        if token is None:
            return bound
        construct = _Construct(bound)
        construct.token = token
        construct.ended = self.hooks.end
        return construct


class _Newcomer:
    """Stands for `nn.Module.__init_subclass__`: hooks classes as they are made."""

    __slots__ = ("hooks",)

    def __init__(self, hooks: Hooks) -> None:
        self.hooks = hooks

    def __get__(self, instance: object, owner: type) -> Callable[..., None]:
        self.hooks.meet(owner)
        following: Callable[..., None] = super(nn.Module, owner).__init_subclass__  # type: ignore[misc]
        return following


class Hooks:
    """The hooks on all module classes; in force from `install` to `remove`."""

    def __init__(
        self,
        begin: Callable[[nn.Module, FrameType], object | None],
        end: Callable[[object], None],
    ) -> None:
        self.begin = begin
        self.end = end
        self._hooked: list[tuple[type, Callable[..., None]]] = []
        self._lock = threading.Lock()
        #: classes made just now: a decorator may yet replace their `__init__`
        self._recent: list[type] = []

    def install(self) -> None:
        """Hook every module class there is, and those to come."""
        nn.Module.__init_subclass__ = _Newcomer(self)
        for cls in _subclasses(nn.Module):
            self._hook(cls)

    def remove(self) -> None:
        """Put everything back."""
        if isinstance(nn.Module.__dict__.get("__init_subclass__"), _Newcomer):
            del nn.Module.__init_subclass__
        with self._lock:
            for cls, original in reversed(self._hooked):
                current = cls.__dict__.get("__init__")
                if isinstance(current, _Initialiser) and current.hooks is self:
                    cls.__init__ = original
            self._hooked.clear()

    def meet(self, cls: type) -> None:
        """Hook a class that has just been made, and again those made before it."""
        self.refresh()
        self._hook(cls)
        self._recent.append(cls)

    def refresh(self) -> None:
        """Hook again what a class decorator has replaced in the meantime."""
        if self._recent:
            recent, self._recent = self._recent, []
            for cls in recent:
                self._hook(cls)

    def _hook(self, cls: type) -> None:
        """Hook the `__init__` that instances of a class run, wherever it is inherited from."""
        owner = next((one for one in cls.__mro__ if "__init__" in one.__dict__), object)
        original = owner.__dict__["__init__"]
        if isinstance(original, _Initialiser) or not hasattr(original, "__get__"):
            return
        with self._lock:
            try:
                owner.__init__ = _Initialiser(original, self)  # type: ignore[misc]
            except TypeError:
                return  # a class written in C; its instances count to whatever is built around them
            self._hooked.append((owner, original))


def _subclasses(cls: type) -> Iterator[type]:
    seen: set[type] = set()
    pending = [cls]
    while pending:
        one = pending.pop()
        if one not in seen:
            seen.add(one)
            yield one
            pending.extend(one.__subclasses__())
