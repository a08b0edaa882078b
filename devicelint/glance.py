"""Take a first look at a file: all that its bytes tell without being parsed.

In: the bytes of a file.  Out: a `Glance`.  Never here: parsing, another file, a decision.
"""

from __future__ import annotations

from devicelint.gate import sets_up_process_group
from devicelint.headers import read_headers
from devicelint.ir import Glance
from devicelint.suppression import may_hold_directive


def glance_at(data: bytes) -> Glance:
    """Look at a file."""
    return Glance(read_headers(data), may_hold_directive(data), sets_up_process_group(data))
