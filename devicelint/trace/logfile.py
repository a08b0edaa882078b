"""Read logs: the lines that a traced process has written, or a report that holds them.

In: a file or a folder.  Out: `ProcessLog`s, and what was wrong with a file.  Never here: a log
refused because its last line is torn: a program that is killed leaves one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from devicelint.trace import reading
from devicelint.trace.events import Construction, Json, ProcessLog
from devicelint.trace.reading import MalformedError
from devicelint.trace.writer import SUFFIX, VERSION


@dataclass(frozen=True, slots=True)
class Logs:
    """What was read, by rank and process, and the complaints about what was not."""

    logs: tuple[ProcessLog, ...]
    problems: tuple[str, ...] = ()


def read(path: Path) -> Logs:
    """Read a log, a folder of logs, or a JSON report of `devicelint trace`."""
    files = sorted(path.glob(f"*{SUFFIX}")) if path.is_dir() else [path]
    logs: list[ProcessLog] = []
    problems: list[str] = []
    for file in files:
        try:
            logs.extend(_file(file.read_text(encoding="utf-8")))
        except (MalformedError, UnicodeDecodeError) as error:
            problems.append(f"{file}: not a trace: {error}")
        except OSError as error:
            problems.append(f"{file}: {error.strerror or error}")
    if path.is_dir():
        problems.extend(_failures(path))
    return Logs(tuple(sorted(logs, key=_order)), tuple(problems))


def _order(log: ProcessLog) -> tuple[int, int]:
    rank = log.header.rank
    return (-1 if rank is None else rank), log.header.pid


def _failures(folder: Path) -> Iterator[str]:
    """Say where the recorder could not even start."""
    for file in sorted(folder.glob("failed-*.txt")):
        lines = file.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        yield f"{file.name}: tracing could not start: {lines[-1] if lines else 'no reason given'}"


def _file(text: str) -> list[ProcessLog]:
    if text.lstrip().startswith('{"type"'):
        return [_lines(text)]
    try:
        document = json.loads(text)
    except ValueError as error:
        raise MalformedError(str(error)) from None
    return [reading.log(item) for item in reading.items(reading.mapping(document), "logs")]


def _lines(text: str) -> ProcessLog:
    records = list(_records(text))
    if not records or records[0].get("type") != "run":
        raise MalformedError("it does not begin with the run that it is of")
    header = reading.header(records[0])
    if header.version > VERSION:
        raise MalformedError(f"version {header.version} is newer than this devicelint")
    seen: dict[int, Construction] = {}
    log = ProcessLog(header)
    unfinished: tuple[str, ...] = ()
    for record in records[1:]:
        match record.get("type"):
            case "seen":
                item = reading.construction(record)
                seen[reading.number(record, "id")] = item
                unfinished = tuple(one.name for one in item.building)
            case "tally":
                number = reading.number(record, "id")
                if number in seen:
                    seen[number] = _tallied(seen[number], record)
            case "done":
                unfinished = ()
            case "end":
                unfinished = ()
                log = _ended(log, record)
    return replace(log, constructions=tuple(seen.values()), unfinished=unfinished)


def _tallied(item: Construction, record: dict[str, Json]) -> Construction:
    return replace(
        item,
        count=reading.number(record, "count"),
        moved=reading.flag(record, "moved"),
        destinations=tuple(
            reading.destination(one) for one in reading.items(record, "destinations")
        ),
    )


def _ended(log: ProcessLog, record: dict[str, Json]) -> ProcessLog:
    return replace(
        log,
        strays=tuple(reading.stray(item) for item in reading.items(record, "strays")),
        own_device=reading.text(record, "own_device"),
        ended=reading.text(record, "ended"),
        exception=reading.text(record, "exception"),
        faults=tuple(str(item) for item in reading.items(record, "faults")),
    )


def _records(text: str) -> Iterator[dict[str, Json]]:
    """Parse lines, up to one that was not written to its end."""
    for line in text.split("\n"):
        if not line:
            continue
        try:
            yield reading.mapping(json.loads(line))
        except ValueError:
            return
