"""How long the stages of a run take, and whom to tell how far it is.

In: laps.  Out: seconds per stage, and how much was remembered.  Never here: output.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import TypeAlias

#: What is told how far a run is: the stage, how many files of it are done, of how many (0 of 0: a
#: stage without parts).
Tell: TypeAlias = Callable[[str, int, int], None]


class Stopwatch:
    """Adds up seconds per stage, and counts the files whose results or facts were remembered.

    `unremembered` says why nothing can be, if so.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.remembered = 0
        self.new = 0
        self.unremembered = ""
        self._since = perf_counter()

    def lap(self, stage: str) -> None:
        """Count the time since the last lap towards a stage."""
        now = perf_counter()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - self._since
        self._since = now
