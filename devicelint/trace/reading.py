"""Read what `events` writes: JSON back into the dataclasses.

In: parsed JSON.  Out: the values; `MalformedError` for anything that is none.  Never here: files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from devicelint.trace.events import (
    Building,
    Construction,
    Destination,
    Fate,
    Header,
    Json,
    Named,
    Place,
    ProcessLog,
    Stray,
)

_Member = TypeVar("_Member", Fate, Named)


class MalformedError(Exception):
    """This is not what a trace writes."""


def _of(value: Json | None, kind: type) -> Json:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise MalformedError(f"expected {kind.__name__}, not {value!r:.60}")
    return value


def text(data: Mapping[str, Json], key: str) -> str:
    """Get a string."""
    return str(_of(data.get(key), str))


def number(data: Mapping[str, Json], key: str) -> int:
    """Get a number."""
    value = _of(data.get(key), int)
    assert isinstance(value, int)
    return value


def flag(data: Mapping[str, Json], key: str) -> bool:
    """Get a truth value."""
    return bool(_of(data.get(key), bool))


def items(data: Mapping[str, Json], key: str) -> list[Json]:
    """Get a list."""
    value = _of(data.get(key), list)
    assert isinstance(value, list)
    return value


def mapping(value: Json | None) -> dict[str, Json]:
    """Take a value as an object."""
    value = _of(value, dict)
    assert isinstance(value, dict)
    return value


def _optional(data: Mapping[str, Json], key: str) -> int | None:
    return None if data.get(key) is None else number(data, key)


def place(value: Json | None) -> Place:
    """Read a place."""
    match value:
        case [str(path), int(line), int(column), int(end_line), int(end_column)]:
            return Place(path, line, column, end_line, end_column)
    raise MalformedError(f"expected a place, not {value!r:.60}")


def _building(value: Json) -> Building:
    match value:
        case [str(name), where]:
            return Building(name, place(where))
    raise MalformedError(f"expected a module, not {value!r:.60}")


def destination(value: Json) -> Destination:
    """Read a destination."""
    data = mapping(value)
    return Destination(
        _enum(Fate, text(data, "fate")),
        text(data, "module"),
        text(data, "name"),
        text(data, "example"),
        flag(data, "persistent"),
        text(data, "device"),
        text(data, "final_device"),
        number(data, "count"),
    )


def _enum(kind: type[_Member], value: str) -> _Member:
    try:
        return kind(value)
    except ValueError:
        raise MalformedError(f"{value!r} is no {kind.__name__.lower()}") from None


def construction(value: Json) -> Construction:
    """Read a construction."""
    data = mapping(value)
    return Construction(
        place(data.get("place")),
        text(data, "callable"),
        text(data, "kind"),
        _enum(Named, text(data, "named")),
        text(data, "device"),
        text(data, "context"),
        flag(data, "moved"),
        flag(data, "empty"),
        number(data, "count"),
        tuple(_building(item) for item in items(data, "building")),
        tuple(str(item) for item in items(data, "chain")),
        tuple(destination(item) for item in items(data, "destinations")),
    )


def stray(value: Json) -> Stray:
    """Read a stray attribute."""
    data = mapping(value)
    where = data.get("place")
    return Stray(
        text(data, "path"),
        text(data, "module"),
        text(data, "kind"),
        text(data, "device"),
        text(data, "module_device"),
        None if where is None else place(where),
        number(data, "count"),
    )


def header(value: Json) -> Header:
    """Read a header."""
    data = mapping(value)
    return Header(
        number(data, "version"),
        number(data, "pid"),
        number(data, "parent"),
        tuple(str(item) for item in items(data, "command")),
        text(data, "cwd"),
        text(data, "python"),
        text(data, "torch"),
        _optional(data, "rank"),
        _optional(data, "local_rank"),
        _optional(data, "world_size"),
        text(data, "forced"),
    )


def log(value: Json) -> ProcessLog:
    """Read a whole log."""
    data = mapping(value)
    return ProcessLog(
        header(data.get("header")),
        tuple(construction(item) for item in items(data, "constructions")),
        tuple(stray(item) for item in items(data, "strays")),
        text(data, "own_device"),
        text(data, "ended"),
        text(data, "exception"),
        tuple(str(item) for item in items(data, "unfinished")),
        tuple(str(item) for item in items(data, "faults")),
    )
