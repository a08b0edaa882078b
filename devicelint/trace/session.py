"""What is going on in one thread: the modules under construction, and the values so far.

In: nothing.  Out: the state that a recorder works on.  Never here: what is done with it.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from types import FrameType
from typing import NamedTuple
from weakref import ReferenceType

import torch
from torch import nn
from torch.utils._device import DeviceContext

from devicelint.trace.ledger import Entry
from devicelint.trace.lineage import Lineage


class Pause(NamedTuple):
    """No torch function modes until a module of PyTorch's own stands."""

    guard: torch._C.DisableTorchFunction
    entry: Entry


@dataclass(eq=False, slots=True)
class Build:
    """A module whose `__init__` is running, and where it was called from."""

    module: nn.Module
    caller: FrameType
    instruction: int
    #: set while PyTorch builds one of its own modules: it need not be watched call by call
    pause: Pause | None = None


class Session(threading.local):
    """One thread's state."""

    def __init__(self) -> None:
        self.stack: list[Build] = []
        self.lineage = Lineage()
        self.built: list[ReferenceType[object]] = []
        #: modules of PyTorch's own, by identity, and what made their tensors
        self.natives: dict[int, Entry] = {}
        #: one of them that is being built, about which all is known that its calls can tell
        self.pausable: tuple[Build, Entry] | None = None


def modes() -> list[object]:
    """Give the torch function modes of this thread, the outermost first."""
    count = torch._C._len_torch_function_stack()
    return [torch._C._get_function_stack_at(index) for index in range(count)]


def default_device() -> str:
    """Name the default device in force in this thread, "" for none."""
    for mode in reversed(modes()):
        if isinstance(mode, DeviceContext):
            return str(mode.device)
    return ""


def remove_mode(unwanted: object) -> None:
    """Take a mode away; what the program has pushed meanwhile, and left there, stays.

    Called from inside the mode, it is not on the stack, and PyTorch puts it back afterwards.
    """
    stack = [torch._C._pop_torch_function_stack() for _ in modes()]
    for mode in reversed(stack):
        if mode is not unwanted:
            torch._C._push_on_torch_function_stack(mode)
