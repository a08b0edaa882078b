"""What a stream can show: how wide it is, whether it has colours and links, which characters.

In: a stream, the user's choice, the environment.  Out: a `Layout`'s width, colour and links, text
that the stream can take.  Never here: writing.
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


#: What terminals that follow links set: a variable, and what its value is or begins with.
_LINKING = (
    ("TERM_PROGRAM", ("iTerm.app", "WezTerm", "vscode", "ghostty", "Hyper", "Tabby", "rio")),
    ("TERM", ("xterm-kitty", "xterm-ghostty", "alacritty", "foot")),
    ("WT_SESSION", ("",)),
    ("KITTY_WINDOW_ID", ("",)),
    ("KONSOLE_VERSION", ("",)),
)
#: The first release of the VTE library (GNOME Terminal and its kin) that does.
_VTE = 5000


def follows_links(stream: TextIO) -> bool:
    """Decide on links: FORCE_HYPERLINK, else a terminal that is known to follow them."""
    forced = os.environ.get("FORCE_HYPERLINK")
    if forced is not None:
        return forced not in ("", "0")
    # Inside tmux and screen the variables are those of the terminal outside, or old.
    if not stream.isatty() or os.environ.get("TERM", "").startswith(("screen", "tmux", "dumb")):
        return False
    version = os.environ.get("VTE_VERSION", "")
    if version.isdigit() and int(version) >= _VTE:
        return True
    return any(
        name in os.environ and os.environ[name].startswith(starts) for name, starts in _LINKING
    )


def encodable(text: str, stream: TextIO) -> str:
    """Escape what the stream's encoding cannot express: a name in Chinese on a Latin-1 terminal."""
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)
