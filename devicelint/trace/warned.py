"""Warnings that PyTorch gives from under the recorder, shown where they belong.

In: warnings whose place is a line of the recorder, which called the function for the user.  Out:
the same warnings with the user's line, as often as they would have been shown.  Never here: a
warning that did not come through the recorder.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from types import FrameType
from typing import TextIO

_Show = Callable[[Warning | str, type[Warning], str, int, TextIO | None, str | None], None]


def install(folder: str) -> None:
    """Correct the warnings that are given for a line of a file in this folder."""
    following: _Show = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if filename.startswith(folder):
            ours, users = _around(sys._getframe(1), folder)
            if ours is not None and users is not None:
                if _is_repeated(message, category, ours, users):
                    return
                filename, lineno = users.f_code.co_filename, users.f_lineno
        following(message, category, filename, lineno, file, line)

    warnings.showwarning = show


def _around(frame: FrameType | None, folder: str) -> tuple[FrameType | None, FrameType | None]:
    """Find the innermost frame in the folder, and the first one outside that called it."""
    while frame is not None and not frame.f_code.co_filename.startswith(folder):
        frame = frame.f_back
    ours = frame
    while frame is not None and frame.f_code.co_filename.startswith(folder):
        frame = frame.f_back
    return ours, frame


def _is_repeated(
    message: Warning | str, category: type[Warning], ours: FrameType, users: FrameType
) -> bool:
    """Keep the register of what was shown where, which Python has kept for the wrong place."""
    wrong = ours.f_globals.get("__warningregistry__", {})
    if wrong.pop((str(message), category, ours.f_lineno), None) is None:
        return False  # a filter shows it always
    register = users.f_globals.setdefault("__warningregistry__", {})
    key = (str(message), category, users.f_lineno)
    if key in register:
        return True
    register[key] = True
    return False
