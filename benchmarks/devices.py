"""A default device for a while.

In: the name of a device.  Out: a context.  Never here: what is built in it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def default_device(name: str) -> Iterator[None]:
    """Set the default device for a while."""
    torch.set_default_device(name)
    try:
        yield
    finally:
        torch.set_default_device(None)
