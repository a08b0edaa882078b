"""A bar for a run that takes long, where somebody is looking.

In: a stream, how far a stage is.  Out: a bar on the stream that is gone when the run is over.
Never here: a thread, or anything at all in the first second or off a terminal.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from time import monotonic
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from devicelint.stopwatch import Tell

#: seconds before a bar is worth its flicker, and between two pictures of it
_PATIENCE = 1.0
_PAUSE = 0.1


@contextmanager
def progress_on(stream: TextIO, *, patience: float = _PATIENCE) -> Iterator[Tell | None]:
    """Show what is told in the block; None where nobody would see it."""
    if not stream.isatty() or os.environ.get("TERM") == "dumb":
        yield None
        return
    with ExitStack() as stack:
        yield _bar(stream, monotonic() + patience, stack)


def _bar(stream: TextIO, due: float, stack: ExitStack) -> Tell:
    show: Tell | None = None

    def tell(stage: str, done: int, total: int) -> None:
        nonlocal due, show
        # The end of a stage is shown, or it would seem to stand still before that.
        is_worth_it = show is not None and done == total
        if monotonic() < due and not is_worth_it:
            return
        if show is None:
            show = _started(stream, stack)
        show(stage, done, total)
        due = monotonic() + _PAUSE

    return tell


def _started(stream: TextIO, stack: ExitStack) -> Tell:
    # 60 ms, which only a run of more than a second pays
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    progress = Progress(
        BarColumn(),
        TextColumn("{task.description}"),
        console=Console(file=stream, no_color=True),
        transient=True,
        # No thread: workers are forked meanwhile.
        auto_refresh=False,
    )
    stack.enter_context(progress)
    task = progress.add_task("", visible=False)

    def show(stage: str, done: int, total: int) -> None:
        """Show a stage; one without a total has no parts to count."""
        words = f"{stage} {done:,}/{total:,}" if total else stage
        progress.update(task, description=words, completed=done, total=total or 1, visible=True)
        progress.refresh()

    return show
