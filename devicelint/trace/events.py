"""What a trace tells, as plain data, and its JSON.

In: nothing but the standard library.  Out: frozen dataclasses, each with a JSON form that reads
back as the same value.  Never here: PyTorch, frames, files.

A *construction* is one place in the source that made something living on a device, together with
everything seen of it: how often, where it landed, what became of the values.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"

#: The kind of what other code of PyTorch has made for the user: an initialiser, a distribution.
INTERNAL = "internal"


class Named(StrEnum):
    """How a call came by its device."""

    __hash__ = str.__hash__  # an enum's own is written in Python, and these are keys

    #: nothing was said
    NO = "no"
    #: `device=None`: literally, or whoever passed it on got none
    NONE = "none"
    #: a device was given
    YES = "yes"
    #: an argument decides: `out=`, a tensor that is followed
    FOLLOWS = "follows"


class Fate(StrEnum):
    """What became of a value, the most telling first."""

    __hash__ = str.__hash__

    PARAMETER = "parameter"
    BUFFER = "buffer"
    ATTRIBUTE = "attribute"
    #: read on the host: `.item()`, `int()`, a loop
    HOST = "host"
    #: copied into a tensor that existed
    EXISTING = "existing"
    #: alive when construction ended, but not found in any module
    ELSEWHERE = "elsewhere"
    GONE = "gone"


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A call in a file: lines and columns from 1, columns in code points, the end exclusive."""

    path: str
    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True)
class Building:
    """A module under construction: its class, and the call that builds it."""

    name: str
    place: Place


@dataclass(frozen=True, slots=True)
class Destination:
    """Where values of a construction ended, as far as one kind of end goes."""

    fate: Fate
    #: class of the module that holds them, "" where none does
    module: str = ""
    #: the name there, `edges[0]`
    name: str = ""
    #: one path from the outermost module, as an example
    example: str = ""
    #: False: a buffer that is not in the state dict
    persistent: bool = True
    #: where it was when construction ended, and at the second look ("": not looked at)
    device: str = ""
    final_device: str = ""
    count: int = 1


@dataclass(frozen=True, slots=True)
class Construction:
    """A place that constructs, and what was seen of it."""

    place: Place
    callable: str
    #: tensor, stream, generator, legacy, host-memory, or module: PyTorch's own code made it for
    #: a module of PyTorch that is built at `place`, or INTERNAL
    kind: str
    named: Named
    #: the device that it landed on
    device: str
    #: the default device in force (`with torch.device`, `set_default_device`), "" for none
    context: str = ""
    #: a `.to()`, `.cuda()` or `.cpu()` was called on the value
    moved: bool = False
    #: no elements: a placeholder, or a probe
    empty: bool = False
    count: int = 1
    #: the modules under construction, outermost first
    building: tuple[Building, ...] = ()
    #: the functions from the innermost module's `__init__` to the call
    chain: tuple[str, ...] = ()
    destinations: tuple[Destination, ...] = ()

    @property
    def is_unnamed(self) -> bool:
        """Tell whether user code made it, and nobody named a device."""
        return (
            self.named in (Named.NO, Named.NONE)
            and not self.moved
            and self.kind not in ("module", INTERNAL)
        )

    @property
    def fates(self) -> frozenset[Fate]:
        """Every kind of end."""
        return frozenset(item.fate for item in self.destinations)

    @property
    def sink(self) -> str:
        """What became of it, in the words of the static findings where they have one."""
        if self.kind in ("stream", "generator"):
            return self.kind
        return next((fate.value for fate in Fate if fate in self.fates), Fate.GONE.value)


@dataclass(frozen=True, slots=True)
class Stray:
    """A plain attribute on another device than its module, at the second look."""

    #: path from the outermost module, and its class
    path: str
    module: str
    #: tensor, stream or generator
    kind: str
    device: str
    module_device: str
    #: where it was constructed, if that was seen
    place: Place | None = None
    count: int = 1


@dataclass(frozen=True, slots=True)
class Header:
    """The process that a log is of."""

    version: int
    pid: int
    parent: int
    command: tuple[str, ...]
    cwd: str
    python: str
    torch: str
    #: of the process group, None outside one
    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None
    #: the default device that the trace itself has set (`--device`), "" for none
    forced: str = ""


@dataclass(frozen=True, slots=True)
class ProcessLog:
    """Everything one process told."""

    header: Header
    constructions: tuple[Construction, ...] = ()
    strays: tuple[Stray, ...] = ()
    #: the device the process works on, as far as it is known without touching one
    own_device: str = ""
    #: "exit"; "" if the log ends without one: killed, `os._exit`, or a full disk
    ended: str = ""
    #: the exception that ended the program, "" for none
    exception: str = ""
    #: modules whose construction had begun and not ended when the log stops
    unfinished: tuple[str, ...] = ()
    #: what went wrong in the trace itself
    faults: tuple[str, ...] = field(default=())


# JSON ---------------------------------------------------------------------------------------------


def place_json(place: Place) -> Json:
    """Give a place as a list, which is how logs stay small."""
    return [place.path, place.line, place.column, place.end_line, place.end_column]


def construction_json(item: Construction) -> dict[str, Json]:
    """Give a construction with everything in it."""
    return {
        "place": place_json(item.place),
        "callable": item.callable,
        "kind": item.kind,
        "named": item.named.value,
        "device": item.device,
        "context": item.context,
        "moved": item.moved,
        "empty": item.empty,
        "count": item.count,
        "building": [[one.name, place_json(one.place)] for one in item.building],
        "chain": list(item.chain),
        "destinations": [destination_json(one) for one in item.destinations],
    }


def destination_json(item: Destination) -> Json:
    """Give a destination."""
    return {
        "fate": item.fate.value,
        "module": item.module,
        "name": item.name,
        "example": item.example,
        "persistent": item.persistent,
        "device": item.device,
        "final_device": item.final_device,
        "count": item.count,
    }


def stray_json(item: Stray) -> dict[str, Json]:
    """Give a stray attribute."""
    return {
        "path": item.path,
        "module": item.module,
        "kind": item.kind,
        "device": item.device,
        "module_device": item.module_device,
        "place": None if item.place is None else place_json(item.place),
        "count": item.count,
    }


def header_json(item: Header) -> dict[str, Json]:
    """Give a header."""
    return {
        "version": item.version,
        "pid": item.pid,
        "parent": item.parent,
        "command": list(item.command),
        "cwd": item.cwd,
        "python": item.python,
        "torch": item.torch,
        "rank": item.rank,
        "local_rank": item.local_rank,
        "world_size": item.world_size,
        "forced": item.forced,
    }


def log_json(log: ProcessLog) -> dict[str, Json]:
    """Give a whole log."""
    return {
        "header": header_json(log.header),
        "constructions": [construction_json(item) for item in log.constructions],
        "strays": [stray_json(item) for item in log.strays],
        "own_device": log.own_device,
        "ended": log.ended,
        "exception": log.exception,
        "unfinished": list(log.unfinished),
        "faults": list(log.faults),
    }
