"""Take a first look at a file: all that its bytes tell without being parsed.

In: the bytes of a file.  Out: a `Glance`.  Never here: parsing, another file, a decision.
"""

from __future__ import annotations

from typing import NamedTuple

from devicelint.gate import sets_up_process_group
from devicelint.headers import FileHeaders, read_headers
from devicelint.suppression import may_hold_directive


class Glance(NamedTuple):
    """What a file's bytes tell."""

    headers: FileHeaders
    #: a suppression of this tool's own may be there
    holds_directive: bool
    sets_up_group: bool


def glance_at(data: bytes) -> Glance:
    """Look at a file."""
    return Glance(read_headers(data), may_hold_directive(data), sets_up_process_group(data))
