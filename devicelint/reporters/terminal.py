"""What a stream can show: how wide it is, whether it has colours, which characters it knows.

In: a stream, the user's choice, the environment.  Out: a `Layout`'s width and colour, text that
the stream can take.  Never here: writing.
"""

from __future__ import annotations

import os
import shutil
from typing import TextIO


def width_of(stream: TextIO) -> int | None:
    """Give the columns of a terminal, None for anything else."""
    return shutil.get_terminal_size().columns if stream.isatty() else None


def is_coloured(choice: str, stream: TextIO | None) -> bool:
    """Decide on colours: `auto`, `always` or `never`; a file (None) has them only on demand."""
    if choice != "auto" or stream is None:
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def encodable(text: str, stream: TextIO) -> str:
    """Escape what the stream's encoding cannot express: a name in Chinese on a Latin-1 terminal."""
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)
