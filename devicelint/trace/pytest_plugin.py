"""The pytest fixture `device_trace`: what the modules that a test builds are built of.

In: a test that asks for it.  Out: a `Log`, filled while the test runs.  Never here: an import of
PyTorch unless a test asks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from devicelint.trace import record

if TYPE_CHECKING:
    from devicelint.trace.log import Log


@pytest.fixture
def device_trace() -> Iterator[Log]:
    """Record what is constructed while modules are built in this test."""
    with record() as log:
        yield log
