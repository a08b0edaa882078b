"""The one recorder of a process, and the ledgers that take turns in it.

In: `start` and `stop` around a stretch of the program.  Out: a `Log` for each.  Never here: what a
recorder does.

Recordings nest (a test's `device_trace` under `devicelint trace`): the inner one has a ledger of
its own, which the outer one takes over when it ends.
"""

from __future__ import annotations

from devicelint.trace.ledger import Ledger
from devicelint.trace.log import Log
from devicelint.trace.recorder import Recorder, Watchers

#: the recorder, if there is one
_installed: list[Recorder] = []
_outer: list[Ledger] = []


def install(watchers: Watchers | None = None) -> Recorder:
    """Record from now on."""
    recorder = Recorder(watchers)
    recorder.install()
    _installed.append(recorder)
    return recorder


def start() -> Log:
    """Begin a recording."""
    if _installed:
        recorder = _installed[0]
        _outer.append(recorder.ledger)
        recorder.ledger = Ledger()
    else:
        recorder = install()
    return Log(recorder.ledger)


def stop(log: Log) -> None:
    """End the innermost recording."""
    recorder = _installed[0]
    log.close()
    if not _outer:
        recorder.remove()
        _installed.clear()
        return
    inner, recorder.ledger = recorder.ledger, _outer.pop()
    recorder.ledger.absorb(inner.entries.values())
    recorder.ledger.roots.extend(inner.roots)
