"""`check --watch`: check again whenever a file changes.

In: the files to look at, what to do.  Out: calls, until Ctrl-C.  Never here: what a check is.
Times of change are polled: that works on every file system and needs nothing installed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import NoReturn

#: seconds between two looks, and how much longer than a look that pause must be at least
_PAUSE = 0.3
_FACTOR = 9


def watch(files: Callable[[], Iterable[str]], work: Callable[[], object]) -> NoReturn:
    """Do the work now, and again after every change of the files."""
    before: Mapping[str, object] | None = None
    while True:
        since = time.monotonic()
        # Looked at before the work, so that a change during it is not missed.
        now = _stamps(files())
        if now != before:
            before = now
            work()
        else:
            time.sleep(max(_PAUSE, _FACTOR * (time.monotonic() - since)))


def _stamps(files: Iterable[str]) -> dict[str, tuple[int, int]]:
    stamps = {}
    for file in files:
        try:
            status = os.stat(file)
        except OSError:  # gone: its absence is the change
            continue
        stamps[file] = (status.st_mtime_ns, status.st_size)
    return stamps
