"""Leave Python's search for cycles out of work that makes large trees.

In: a block of work.  Out: nothing.  Never here: a decision when to collect.

Trees are large and mostly without cycles: to search them takes longer than to build them (parsing
takes three times as long).
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def collector_off() -> Iterator[None]:
    """Leave cycles alone for a while."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
