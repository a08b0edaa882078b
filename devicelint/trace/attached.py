"""The recorder of a traced process, with the log that it fills.

In: the folder for logs.  Out: a file there, complete up to the last construction at any time.
Never here: output of any other kind, or an exception that the program could see.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from types import TracebackType

import torch

from devicelint.trace import active, look, warned
from devicelint.trace.events import Header
from devicelint.trace.ledger import Entry, Ledger
from devicelint.trace.positions import HERE
from devicelint.trace.recorder import Recorder, Watchers
from devicelint.trace.writer import VERSION, Writer


class Attached:
    """A recorder and its writer, from PyTorch's import to the end of the process."""

    def __init__(self, folder: str, forced: str) -> None:
        self._folder = folder
        self._forced = forced
        self._writer = Writer(folder, self._header())
        self._recorder: Recorder | None = None
        self._exception = ""
        self._awaits_the_end_of = 0

    def start(self) -> None:
        """Record from now on."""
        if self._forced:
            torch.set_default_device(self._forced)
        self._recorder = active.install(Watchers(self._seen, self._built))
        warned.install(HERE)

    def died(self, error: BaseException) -> None:
        """Note the exception that ends the program, and take our lines out of its traceback."""
        self._exception = f"{type(error).__name__}: {error}"[:500]
        building = list(dict.fromkeys(_built_in(error.__traceback__)))
        if building:
            self._exception += f" (while {' > '.join(building)} was being built)"
        _clean(error, set())

    def finish(self, reason: str) -> None:
        """Take the second look, write the rest, and write no more."""
        recorder = self._recorder
        if recorder is None or not self._writer.is_open:
            return
        try:
            with torch._C.DisableTorchFunction():
                items, strays = look.constructions(recorder.ledger), look.strays(recorder.ledger)
                self._writer.close(
                    dict(zip(recorder.ledger.entries.values(), items, strict=True)),
                    strays,
                    look.own_device(),
                    reason,
                    self._exception,
                    recorder.ledger.faults,
                )
        except Exception:  # noqa: BLE001 - at the end of the program nothing may go wrong
            recorder.ledger.fault("the second look failed")

    def after_fork(self) -> None:
        """Begin a log of its own in a child; what was built before belongs to the parent's."""
        self._writer = Writer(self._folder, self._header())
        if self._recorder is not None:
            self._recorder.forget()

    def _seen(self, entry: Entry) -> None:
        self._await_end()
        self._writer.seen(entry)

    def _built(self, ledger: Ledger) -> None:
        self._writer.built(ledger)

    def _await_end(self) -> None:
        """Be called at the end of a `multiprocessing` child, which runs no `atexit`."""
        util = sys.modules.get("multiprocessing.util")
        if util is not None and self._awaits_the_end_of != os.getpid():
            # Not earlier: what is registered before the child's work begins is dropped.
            self._awaits_the_end_of = os.getpid()
            util.Finalize(None, self.finish, args=("exit",), exitpriority=-1)

    def _header(self) -> Header:
        return Header(
            VERSION,
            os.getpid(),
            os.getppid(),
            tuple(sys.orig_argv),
            os.getcwd(),
            platform.python_version(),
            str(torch.__version__),
            _number("RANK"),
            _number("LOCAL_RANK"),
            _number("WORLD_SIZE"),
            self._forced,
        )


def _number(name: str) -> int | None:
    value = os.environ.get(name, "")
    return int(value) if value.isdecimal() else None


def _built_in(entry: TracebackType | None) -> Iterator[str]:
    """Name the modules whose `__init__` an exception has passed, outermost first."""
    while entry is not None:
        code = entry.tb_frame.f_code
        if code.co_name == "__init__" and code.co_argcount:
            module = entry.tb_frame.f_locals.get(code.co_varnames[0])
            if isinstance(module, torch.nn.Module):
                yield type(module).__qualname__
        entry = entry.tb_next


def _clean(error: BaseException | None, seen: set[int]) -> None:
    """Take our own lines out of a traceback and those it is chained to."""
    if error is None or id(error) in seen:
        return
    seen.add(id(error))
    entry: TracebackType | None = error.__traceback__
    while entry is not None:
        following = entry.tb_next
        while following is not None and following.tb_frame.f_code.co_filename.startswith(HERE):
            following = following.tb_next
        entry.tb_next = following
        entry = following
    _clean(error.__cause__, seen)
    _clean(error.__context__, seen)
