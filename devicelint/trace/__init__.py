"""See where tensors land while modules are built.

In: a `with record() as log:` around code that builds modules.  Out: a `Log` to ask.  Never here: an
import of PyTorch before `record()` is called.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from devicelint.trace.events import Construction, Named, ProcessLog

if TYPE_CHECKING:
    from devicelint.trace.log import Log

__all__ = ["Construction", "Named", "ProcessLog", "record"]


@contextmanager
def record() -> Iterator[Log]:
    """Record every construction inside modules built within the `with` statement, in any thread.

    The hooks are removed afterwards.  The second look at where the values are happens when the
    statement ends, so a `.to()` belongs inside it.
    """
    from devicelint.trace.active import start, stop  # needs PyTorch, which takes seconds

    log = start()
    try:
        yield log
    finally:
        stop(log)
