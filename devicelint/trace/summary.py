"""Put the logs of all processes together: by place, by rank.

In: `ProcessLog`s.  Out: what a report tells, sorted.  Never here: the look of a report.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from devicelint.trace.events import Construction, Named, Place, ProcessLog, Stray

#: The order of a report: what `.to()` never moves first.
SINKS = (
    "stream", "generator", "attribute", "host", "buffer", "parameter", "existing", "elsewhere",
    "gone",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Seen:
    """A construction, and the process that saw it."""

    process: str
    own_device: str
    item: Construction


@dataclass(frozen=True, slots=True)
class Site:
    """A place that constructs without a device, over all processes."""

    place: Place
    callable: str
    sink: str
    count: int
    seen: tuple[Seen, ...]

    @property
    def devices(self) -> tuple[str, ...]:
        """Where its values have landed."""
        return tuple(sorted({one.item.device for one in self.seen}))

    @property
    def processes(self) -> tuple[str, ...]:
        """Who saw it."""
        return tuple(dict.fromkeys(one.process for one in self.seen))

    @property
    def example(self) -> Construction:
        """One of them, for what is said once."""
        return self.seen[0].item


@dataclass(frozen=True, slots=True)
class Left:
    """Stray attributes of one kind, over all processes."""

    stray: Stray
    processes: tuple[str, ...]
    count: int


@dataclass(frozen=True, slots=True)
class Difference:
    """A place at which ranks do not agree, and what each says."""

    place: Place
    callable: str
    by_process: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Summary:
    """Everything a report tells."""

    logs: tuple[ProcessLog, ...]
    left: tuple[Left, ...]
    unnamed: tuple[Site, ...]
    #: built on an accelerator that belongs to another rank
    misplaced: tuple[Site, ...]
    differences: tuple[Difference, ...]
    #: constructions of any kind, and those to which a device was given
    total: int
    named: int
    problems: tuple[str, ...] = ()


def label(log: ProcessLog) -> str:
    """Name a process as people do."""
    rank = log.header.rank
    return f"process {log.header.pid}" if rank is None else f"rank {rank}"


def summarise(logs: Sequence[ProcessLog], problems: Iterable[str] = ()) -> Summary:
    """Put logs together."""
    seen = [Seen(label(log), log.own_device, item) for log in logs for item in log.constructions]
    return Summary(
        tuple(logs),
        _left(logs),
        _sites(one for one in seen if one.item.is_unnamed),
        _sites(one for one in seen if _is_misplaced(one)),
        _differences(logs),
        sum(one.item.count for one in seen),
        sum(one.item.count for one in seen if one.item.named is Named.YES),
        tuple(problems),
    )


def _sites(seen: Iterable[Seen]) -> tuple[Site, ...]:
    grouped: dict[tuple[Place, str], list[Seen]] = {}
    for one in seen:
        grouped.setdefault((one.item.place, one.item.callable), []).append(one)
    sites = [
        Site(
            place,
            name,
            min((one.item.sink for one in group), key=SINKS.index),
            sum(one.item.count for one in group),
            tuple(group),
        )
        for (place, name), group in grouped.items()
    ]
    return tuple(sorted(sites, key=lambda site: (SINKS.index(site.sink), site.place)))


def _is_misplaced(one: Seen) -> bool:
    kind, _, index = one.own_device.partition(":")
    return bool(index) and one.item.device.startswith(kind) and one.item.device != one.own_device


def _left(logs: Sequence[ProcessLog]) -> tuple[Left, ...]:
    grouped: dict[tuple[object, ...], list[tuple[str, Stray]]] = {}
    for log in logs:
        for stray in log.strays:
            key = (
                stray.place or stray.path,
                stray.module,
                _relative(stray.device, log),
                _relative(stray.module_device, log),
            )
            grouped.setdefault(key, []).append((label(log), stray))
    left = [
        Left(
            group[0][1],
            tuple(dict.fromkeys(name for name, _ in group)),
            sum(stray.count for _, stray in group),
        )
        for group in grouped.values()
    ]
    return tuple(sorted(left, key=lambda one: (one.stray.kind, one.stray.path)))


def _differences(logs: Sequence[ProcessLog]) -> tuple[Difference, ...]:
    """Compare ranks; processes without a rank do different things by design."""
    ranks = [log for log in logs if log.header.rank is not None]
    if len({log.header.rank for log in ranks}) < 2:
        return ()
    table: dict[tuple[Place, str], dict[str, set[str]]] = {}
    for log in ranks:
        for item in log.constructions:
            devices = table.setdefault((item.place, item.callable), {}).setdefault(
                label(log), set()
            )
            devices.add(_relative(item.device, log))
    names = list(dict.fromkeys(label(log) for log in ranks))
    found = []
    for (place, name), devices_of in table.items():
        told = [(one, ", ".join(sorted(devices_of.get(one, ())))) for one in names]
        if len({devices for _, devices in told}) > 1:
            found.append(
                Difference(place, name, tuple((one, what or "not built") for one, what in told))
            )
    return tuple(sorted(found, key=lambda one: (one.place, one.callable)))


def _relative(device: str, log: ProcessLog) -> str:
    """Name a rank's own accelerator alike on every rank."""
    return "its own device" if device == log.own_device and ":" in device else device
