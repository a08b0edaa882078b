"""What `with devicelint.trace.record()` hands out: a log to ask while and after it is filled.

In: a ledger.  Out: constructions and strays.  Never here: hooks, files.
"""

from __future__ import annotations

from dataclasses import dataclass

from devicelint.trace import look
from devicelint.trace.events import Construction, Stray
from devicelint.trace.ledger import Ledger


@dataclass(eq=False, slots=True)
class Log:
    """What was recorded so far; after the `with` statement, all of it."""

    _ledger: Ledger
    _constructions: tuple[Construction, ...] | None = None
    _strays: tuple[Stray, ...] | None = None

    @property
    def constructions(self) -> tuple[Construction, ...]:
        """Everything that was made while modules were built, in the order of first sight."""
        if self._constructions is not None:
            return self._constructions
        return look.constructions(self._ledger)

    @property
    def unnamed(self) -> tuple[Construction, ...]:
        """What user code made without a device, or with None for one."""
        return tuple(item for item in self.constructions if item.is_unnamed)

    @property
    def strays(self) -> tuple[Stray, ...]:
        """The plain attributes that are on another device than their module."""
        return look.strays(self._ledger) if self._strays is None else self._strays

    @property
    def faults(self) -> tuple[str, ...]:
        """What went wrong in the recorder itself; empty is what one hopes for."""
        return tuple(self._ledger.faults)

    def close(self) -> None:
        """Take the second look now."""
        self._constructions, self._strays = self.constructions, self.strays
