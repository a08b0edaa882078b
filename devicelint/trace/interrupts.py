"""Hand an exception on that arrived where none can leave.

In: an exception that a signal handler raised while a finaliser of ours was running: Python would
print and drop it there.  Out: the same kind of exception, raised in that thread a moment later.
Never here: anything else.
"""

from __future__ import annotations

import ctypes
import threading
import time


def raise_later(error: BaseException) -> None:
    """Raise an exception of the same class in this thread, once our code has been left."""
    thread = threading.get_ident()

    def deliver() -> None:
        time.sleep(0.002)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread), ctypes.py_object(type(error))
        )

    threading.Thread(target=deliver, daemon=True).start()
