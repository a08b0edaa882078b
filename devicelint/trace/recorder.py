"""Record what modules construct, and where it lands.

In: a program that builds modules.  Out: a ledger of what was seen.  Never here: files, reports, or
an error of ours that reaches the program: it becomes a fault in the ledger.

Outside the construction of modules nothing is in force but a descriptor in place of each module
class's `__init__`.  When the outermost one of a thread begins, a torch function mode is pushed and
the patches are installed; when it ends, they are taken away.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from os.path import dirname
from types import FrameType
from weakref import ref

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._device import DeviceContext

from devicelint.model import Constructor, Kind
from devicelint.trace import catalogue, positions
from devicelint.trace.events import INTERNAL, Building, Named
from devicelint.trace.fate import device_of, walk
from devicelint.trace.harvest import harvest
from devicelint.trace.hooks import Hooks
from devicelint.trace.interrupts import raise_later
from devicelint.trace.ledger import Entry, Ledger
from devicelint.trace.lineage import Act, act_of
from devicelint.trace.patches import Patches
from devicelint.trace.positions import Positions
from devicelint.trace.session import Build, Pause, Session, default_device, modes, remove_mode

_INJECTS = DeviceContext.__torch_function__.__code__

_Arguments = tuple[object, ...]
_Keywords = Mapping[str, object]


@dataclass(eq=False, slots=True)
class Watchers:
    """Who wants to know: a writer of logs, or nobody."""

    seen: Callable[[Entry], None] = field(default=lambda _: None)
    built: Callable[[Ledger], None] = field(default=lambda _: None)


class Recorder:
    """The hooks, the mode and the patches, and the ledger that they fill."""

    def __init__(self, watchers: Watchers | None = None) -> None:
        self.ledger = Ledger()
        self.watchers = watchers or Watchers()
        self._hooks = Hooks(self._begin, self._end)
        self._patches = Patches(self._made)
        self._session = Session()
        self._positions = Positions((dirname(torch.__file__),))
        self._functions = catalogue.functions()
        self._codes = catalogue.codes()
        self._names = catalogue.module_names()
        #: what is known of a function, and that of most nothing is of interest
        self.acts: dict[object, Act] = {}
        self._mode = _Mode(self)
        self._lock = threading.RLock()
        self._building_threads = 0

    def install(self) -> None:
        """Start recording."""
        self._hooks.install()

    def remove(self) -> None:
        """Stop recording, and leave PyTorch as it was."""
        self._hooks.remove()
        if not self._session.stack:
            remove_mode(self._mode)

    def forget(self) -> None:
        """Start afresh in a forked process: what was seen so far is the parent's to tell."""
        self.ledger = Ledger()
        self._lock = threading.RLock()

    # Construction begins and ends ----------------------------------------------------------------

    def _begin(self, module: nn.Module, caller: FrameType) -> Build | None:
        """Note that a module's construction begins; None if it has begun before (`super()`)."""
        stack = self._session.stack
        if stack:
            if stack[-1].module is module or stack[-1].pause is not None:
                return None
            self._drop_stale(stack)
            for build in stack:
                if build.module is module:
                    return None
        elif positions.is_lookup(caller):
            return None  # `layer.__init__` of a module that stands
        self._hooks.refresh()
        build = Build(module, caller, caller.f_lasti)
        if not stack:
            self._switch_on()
        stack.append(build)
        self._session.built.append(ref(module))
        return build

    def _end(self, build: object) -> None:
        """Note that a module's construction has ended.  Runs where no exception may leave."""
        try:
            stack = self._session.stack
            if not isinstance(build, Build) or build not in stack:
                return
            if build.pause is not None:
                self._resume(build, build.pause)
            del stack[stack.index(build) :]
            if not stack:
                self._switch_off()
                with torch._C.DisableTorchFunction():
                    self._harvest(build.module)
        except Exception:  # noqa: BLE001 - the program must not notice
            self._fault()
        except BaseException as error:  # noqa: BLE001 - Ctrl-C belongs to the program
            raise_later(error)

    def pause(self) -> None:
        """Stop watching until the module that PyTorch builds for the user stands.

        A linear layer makes a dozen calls of torch functions; one tells how its device was named,
        and the rest is in the layer at the end.
        """
        build, entry = self._session.pausable or (None, None)
        self._session.pausable = None
        if build is not None and entry is not None and build in self._session.stack:
            build.pause = Pause(torch._C.DisableTorchFunction(), entry)
            build.pause.guard.__enter__()

    def _resume(self, build: Build, pause: Pause) -> None:
        pause.guard.__exit__(None, None, None)
        build.pause = None
        natives = self._session.natives
        natives[id(build.module)] = pause.entry
        if build.module.__dict__["_modules"]:
            natives.update((id(module), pause.entry) for module, _ in walk(build.module))

    def _drop_stale(self, stack: list[Build]) -> None:
        """Forget what only looked like a construction: `__init__` was looked up, not called."""
        while stack and stack[-1].caller.f_lasti != stack[-1].instruction:
            self._end(stack[-1])

    def _switch_on(self) -> None:
        with self._lock:
            self._building_threads += 1
            if self._building_threads == 1:
                self._patches.install()
        if self._mode not in modes():  # a construction that was none may have left it there
            torch._C._push_on_torch_function_stack(self._mode)

    def _switch_off(self) -> None:
        remove_mode(self._mode)
        with self._lock:
            self._building_threads -= 1
            if self._building_threads == 0:
                self._patches.remove()

    def _harvest(self, root: nn.Module) -> None:
        session = self._session
        built, session.built = session.built, []
        try:
            with self._lock:
                harvest(root, built, session.lineage, session.natives)
            self.ledger.add_root(ref(root))
        finally:
            session.lineage.clear()
            session.natives.clear()
        self.watchers.built(self.ledger)

    # Calls ---------------------------------------------------------------------------------------

    def observe(
        self,
        function: object,
        args: _Arguments,
        kwargs: _Keywords,
        result: object,
        frame: FrameType,
    ) -> None:
        """Note a call that the mode has seen."""
        try:
            act = self.acts.get(function) or self._learn(function)
            if act is Act.CONSTRUCT:
                self._construction(self._functions[function], args, kwargs, result, frame)
            else:
                self._session.lineage.observe(act, args, kwargs, result)
        except Exception:  # noqa: BLE001 - the program must not notice
            self._fault()

    def _learn(self, function: object) -> Act:
        act = Act.CONSTRUCT if function in self._functions else act_of(function)
        self.acts[function] = act
        return act

    def _made(
        self, row: Constructor, args: _Arguments, kwargs: _Keywords, value: object, frame: FrameType
    ) -> None:
        """Note a call that a patch has seen."""
        if not self._session.stack:
            return  # another thread builds a module, this one does not
        try:
            with torch._C.DisableTorchFunction():
                self._construction(row, args, kwargs, value, frame)
        except Exception:  # noqa: BLE001 - the program must not notice
            self._fault()

    def _construction(
        self, row: Constructor, args: _Arguments, kwargs: _Keywords, value: object, frame: FrameType
    ) -> None:
        session = self._session
        stack = session.stack
        self._drop_stale(stack)
        if not stack:
            return
        context = default_device()
        while frame.f_code is _INJECTS and frame.f_back is not None:
            # A `with torch.device()` inside the construction lies above our mode, and has put its
            # device into the keywords.
            context = str(kwargs.get("device") or context)
            kwargs = {key: value for key, value in kwargs.items() if key != "device"}
            frame = frame.f_back
        user, inner = self._positions.users(frame)
        within, made_for, native = stack, None, None
        if inner is not None:
            # Seen from inside PyTorch, the innermost module of the user's is under construction.
            for depth, build in enumerate(stack):
                if build.caller is user:
                    within, made_for, native = stack[:depth] or stack[:1], build.module, build
                    break
        named = catalogue.how_named(row, args, kwargs)
        owner = within[-1]
        key = (
            id(user.f_code), user.f_lasti, row.name, named, getattr(value, "device", None), context,
            type(made_for), type(owner.module), id(owner.caller.f_code), owner.instruction,
        )  # fmt: skip
        with self._lock:
            entry = self.ledger.entries.get(key)
            if entry is None:
                name, kind = self._what(row, made_for, inner)
                entry = Entry(
                    key,
                    self._positions.place(user.f_code, user.f_lasti),
                    name,
                    kind,
                    named,
                    device_of(value),
                    context,
                    _is_empty(value),
                    tuple(self._building(one) for one in within),
                    positions.chain(user, owner.caller),
                    (user.f_code, owner.caller.f_code),
                )
                self.ledger.entries[key] = entry
                self.watchers.seen(entry)
            entry.count += 1
            entry.empty = entry.empty and _is_empty(value)
        if native is not None and type(native.module) in self._names and not modes():
            session.pausable = native, entry
        if isinstance(value, torch.Tensor):
            session.lineage.track(value, (entry,))
            if named is Named.FOLLOWS:
                session.lineage.observe(Act.DERIVE, args, kwargs, value)
        else:
            session.lineage.hold(value, entry)

    def _what(
        self, row: Constructor, made_for: nn.Module | None, inner: FrameType | None
    ) -> tuple[str, str]:
        """Name what was called, from where the user stands."""
        if inner is None:
            return row.name, row.kind.value
        written_in_python = self._codes.get(inner.f_code)
        if written_in_python is not None:
            return written_in_python.name, written_in_python.kind.value
        if made_for is not None:
            cls = type(made_for)
            return self._names.get(cls, _class_name(cls)), Kind.MODULE.value
        module = inner.f_globals.get("__name__", "torch")
        return f"{module}.{inner.f_code.co_qualname}", INTERNAL

    def _building(self, build: Build) -> Building:
        user, _ = self._positions.users(build.caller)
        instruction = build.instruction if user is build.caller else user.f_lasti
        return Building(
            _class_name(type(build.module)), self._positions.place(user.f_code, instruction)
        )

    def _fault(self) -> None:
        self.ledger.fault(traceback.format_exc(limit=-4))


class _Mode(TorchFunctionMode):  # type: ignore[misc]
    """Shows the recorder every call of a torch function, after the fact."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._observe = recorder.observe
        self._acts = recorder.acts
        self._pause = recorder.pause

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: _Arguments = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        if kwargs is None:
            kwargs = {}
        result = func(*args, **kwargs)
        if self._acts.get(func) is not Act.IGNORE:
            with torch._C.DisableTorchFunction():
                self._observe(func, args, kwargs, result, sys._getframe(1))
            self._pause()
        return result


def _is_empty(value: object) -> bool:
    """Tell a tensor without elements."""
    return isinstance(value, torch.Tensor) and value.numel() == 0


def _class_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}".removeprefix("__main__.")
