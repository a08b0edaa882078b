"""Write a log as it happens: lines of JSON, each complete in itself.

In: entries of a ledger.  Out: one file a process.  Never here: a file that stays open (a program
that closes all descriptors would leave ours to a file of its own), or an error: when a line cannot
be written, the log ends there and the program goes on.

Lines: `run` (the header), `seen` (a new entry, at the moment it is seen), `tally` (what an entry
has come to), `done` (an outermost module stands), `end`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence

from devicelint.trace.events import (
    Construction,
    Header,
    Json,
    Stray,
    construction_json,
    destination_json,
    header_json,
    stray_json,
)
from devicelint.trace.ledger import Entry, Ledger

VERSION = 1
SUFFIX = ".trace.jsonl"


class Writer:
    """The log of one process."""

    def __init__(self, folder: str, header: Header) -> None:
        rank = "" if header.rank is None else f"rank{header.rank}-"
        self._path = os.path.join(os.path.abspath(folder), f"{rank}{header.pid}{SUFFIX}")
        self._pid = header.pid
        self._numbers: dict[Entry, int] = {}
        self._header = header
        self._begun = False
        #: False once the log is complete, or lost
        self.is_open = True

    def seen(self, entry: Entry) -> None:
        """Write a new entry."""
        number = self._numbers[entry] = len(self._numbers)
        self._write({"type": "seen", "id": number, **construction_json(entry.frozen())})

    def built(self, ledger: Ledger) -> None:
        """Write what has changed, now that an outermost module stands.

        Numbers that have not even doubled wait: a program may build modules all day.
        """
        changed = [
            entry
            for entry in ledger.entries.values()
            if entry.count >= 2 * max(entry.written, 1) or entry.written == 0
        ]
        if changed:
            self._write(
                *(self._tally(entry, entry.frozen()) for entry in changed), {"type": "done"}
            )

    def close(
        self,
        constructions: Mapping[Entry, Construction],
        strays: Sequence[Stray],
        own_device: str,
        reason: str,
        exception: str,
        faults: Iterable[str],
    ) -> None:
        """Write what there is to say at the end."""
        self._write(
            *(self._tally(entry, item) for entry, item in constructions.items()),
            {
                "type": "end",
                "strays": [stray_json(item) for item in strays],
                "own_device": own_device,
                "ended": reason,
                "exception": exception,
                "faults": list(faults),
            },
        )
        self.is_open = False

    def _tally(self, entry: Entry, item: Construction) -> dict[str, Json]:
        entry.written = entry.count
        if entry not in self._numbers:
            number = self._numbers[entry] = len(self._numbers)
            return {"type": "seen", "id": number, **construction_json(item)}
        return {
            "type": "tally",
            "id": self._numbers[entry],
            "count": item.count,
            "moved": item.moved,
            "destinations": [destination_json(one) for one in item.destinations],
        }

    def _write(self, *records: Mapping[str, Json]) -> None:
        if not self.is_open or self._pid != os.getpid():
            return
        lines = [*records]
        if not self._begun:
            lines.insert(0, {"type": "run", **header_json(self._header)})
        data = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines).encode()
        try:
            with open(self._path, "ab", buffering=0) as file:
                while data:
                    data = data[file.write(data) or 0 :]
        except OSError:
            self.is_open = False
            return
        self._begun = True
