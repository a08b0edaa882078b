"""The exit codes, and which one a run deserves.

In: a `RunReport`.  Out: a number.  Never here: ending the process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from devicelint.model import RunReport

FOUND, WRONG, INTERRUPTED, UNREAD = 1, 2, 130, 141


def verdict(run: RunReport) -> int:
    """Give the exit code of a run: a file that could not be checked outweighs findings."""
    if run.diagnostics:
        return WRONG
    return FOUND if run.findings else 0
