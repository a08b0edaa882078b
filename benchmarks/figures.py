"""What a run of `speed.py` yields, and how it is laid out.

In: samples, counts, digests.  Out: figures as frozen data, Markdown tables, JSON.  Never here: a
command, a file, or a verdict on a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import TypeAlias

from processes import Sample

BEGIN = "<!-- speed: begin -->\n"
END = "\n<!-- speed: end -->"


@dataclass(frozen=True, slots=True)
class Pair:
    """A run of devicelint and what it was run against, in turn; `least` to `most` are ratios."""

    name: str
    seconds: float
    peak_mb: float
    against: str
    other_seconds: float
    other_peak_mb: float
    ratio: float
    least: float
    most: float
    runs: int
    stages: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Growth:
    """Seconds for one package and for several; `ratio` is 1 where time grows as bytes do."""

    small: str
    small_bytes: int
    small_seconds: float
    large: str
    large_bytes: int
    large_seconds: float
    large_peak_mb: float
    ratio: float


@dataclass(frozen=True, slots=True)
class Count:
    """Instructions of a command, and how many times those of another they are."""

    name: str
    instructions: int
    against: str
    other_instructions: int
    ratio: float


@dataclass(frozen=True, slots=True)
class Agreement:
    """The ways to run that were compared on a package, and those that reported anything else."""

    name: str
    ways: tuple[str, ...]
    differing: tuple[str, ...]


Figure: TypeAlias = Pair | Growth | Count | Agreement


# From samples to figures -------------------------------------------------------------------------


def paired(name: str, mine: Sequence[Sample], against: str, theirs: Sequence[Sample]) -> Pair:
    """Put the samples of two commands that ran in turn side by side."""
    ratios = _ratios(mine, theirs)
    return Pair(
        name=name,
        seconds=median(one.seconds for one in mine),
        peak_mb=max(one.peak_mb for one in mine),
        against=against,
        other_seconds=median(one.seconds for one in theirs),
        other_peak_mb=max(one.peak_mb for one in theirs),
        ratio=median(ratios),
        least=min(ratios),
        most=max(ratios),
        runs=len(ratios),
        stages={
            stage: median(one.stages.get(stage, 0.0) for one in mine)
            for stage in _ordered(one.stages for one in mine)
        },
    )


def grown(
    small: tuple[str, int, Sequence[Sample]], large: tuple[str, int, Sequence[Sample]]
) -> Growth:
    """Compare time with bytes: for each tree its name, its bytes, its samples."""
    (name, size, samples), (large_name, large_size, large_samples) = small, large
    return Growth(
        name,
        size,
        median(one.seconds for one in samples),
        large_name,
        large_size,
        median(one.seconds for one in large_samples),
        median(one.peak_mb for one in large_samples),
        median(_ratios(large_samples, samples)) / (large_size / size),
    )


def agreed(name: str, digests: Mapping[str, str]) -> Agreement:
    """Compare the digests of reports with the first one, by the way they were made."""
    first = next(iter(digests.values()))
    differing = (way for way, digest in digests.items() if digest != first)
    return Agreement(name, tuple(digests), tuple(differing))


def _ratios(mine: Sequence[Sample], theirs: Sequence[Sample]) -> list[float]:
    return [a.seconds / b.seconds for a, b in zip(mine, theirs, strict=True)]


def _ordered(names: Iterable[Iterable[str]]) -> list[str]:
    """List names in the order of their first appearance."""
    return list(dict.fromkeys(name for some in names for name in some))


# From figures to text ----------------------------------------------------------------------------


def as_json(figures: Sequence[Figure], machine: Mapping[str, str]) -> dict[str, object]:
    """Give everything as plain data; `ratios` is what a later run is compared with."""
    kinds: dict[str, type[Figure]] = {
        "pairs": Pair,
        "growth": Growth,
        "instructions": Count,
        "reports": Agreement,
    }
    listed = {
        key: [asdict(one) for one in figures if isinstance(one, kind)]
        for key, kind in kinds.items()
    }
    return {"version": 1, "machine": dict(machine), "ratios": ratios_of(figures), **listed}


def ratios_of(figures: Iterable[Figure]) -> dict[str, float]:
    """Name the ratios of a run: what can be compared between runs on a machine that drifts."""
    named: dict[str, float] = {}
    for one in figures:
        match one:
            case Pair() | Count():
                kind = "instructions" if isinstance(one, Count) else "time"
                named[f"{kind}: {one.name} / {one.against}"] = one.ratio
            case Growth():
                named[f"time for bytes: {one.large} / {one.small}"] = one.ratio
    return named


def tables(figures: Sequence[Figure], machine: Mapping[str, str]) -> str:
    """Lay out all figures as Markdown."""
    parts = [
        "Measured on: " + ", ".join(f"{key} {value}" for key, value in machine.items()) + ".",
        pair_table([one for one in figures if isinstance(one, Pair)]),
        stage_table([one for one in figures if isinstance(one, Pair) and one.stages]),
        growth_table([one for one in figures if isinstance(one, Growth)]),
        count_table([one for one in figures if isinstance(one, Count)]),
        agreement_table([one for one in figures if isinstance(one, Agreement)]),
    ]
    return "\n\n".join(part for part in parts if part)


def pair_table(pairs: Iterable[Pair]) -> str:
    """Lay out seconds, memory and ratios; the ratio is the median of the pairs' own."""
    return _table(
        ("run", "seconds", "peak MB", "against", "seconds", "peak MB", "ratio", "from to", "runs"),
        (
            (
                one.name,
                _seconds(one.seconds),
                f"{one.peak_mb:.0f}",
                one.against,
                _seconds(one.other_seconds),
                f"{one.other_peak_mb:.0f}",
                f"{one.ratio:.2f}",
                f"{one.least:.2f} {one.most:.2f}",
                str(one.runs),
            )
            for one in pairs
        ),
    )


def stage_table(pairs: Sequence[Pair]) -> str:
    """Lay out the seconds of the stages."""
    # a run may be in the list more than once, against several others
    runs = {one.name: one for one in reversed(pairs)}
    stages = _ordered(one.stages for one in pairs)
    return _table(
        ("seconds by stage", *stages),
        (
            (name, *(f"{runs[name].stages.get(stage, 0.0):.2f}" for stage in stages))
            for name in _ordered([one.name] for one in pairs)
        ),
    )


def growth_table(growths: Iterable[Growth]) -> str:
    """Lay out how time grows with bytes."""
    return _table(
        ("growth", "MB", "seconds", "peak MB", "of", "MB", "seconds", "of what bytes predict"),
        (
            (
                one.large,
                f"{one.large_bytes / 1e6:.0f}",
                _seconds(one.large_seconds),
                f"{one.large_peak_mb:.0f}",
                one.small,
                f"{one.small_bytes / 1e6:.0f}",
                _seconds(one.small_seconds),
                f"{one.ratio:.2f}",
            )
            for one in growths
        ),
    )


def count_table(counts: Iterable[Count]) -> str:
    """Lay out instructions."""
    return _table(
        ("instructions", "million", "against", "million", "ratio"),
        (
            (
                one.name,
                f"{one.instructions / 1e6:.0f}",
                one.against,
                f"{one.other_instructions / 1e6:.0f}",
                f"{one.ratio:.2f}",
            )
            for one in counts
        ),
    )


def agreement_table(agreements: Iterable[Agreement]) -> str:
    """Lay out whether reports are the same."""
    return _table(
        ("reports of", "made with", "are"),
        (
            (
                one.name,
                "; ".join(one.ways),
                f"different: {'; '.join(one.differing)}" if one.differing else "same",
            )
            for one in agreements
        ),
    )


def comparison(old: Mapping[str, float], new: Mapping[str, float]) -> str:
    """Lay out the ratios of this run beside those of an earlier one."""
    return _table(
        ("ratio", "old", "new", "new / old"),
        (
            (
                name,
                f"{old[name]:.2f}" if name in old else "-",
                f"{ratio:.2f}",
                f"{ratio / old[name]:.2f}" if name in old else "-",
            )
            for name, ratio in new.items()
        ),
    )


def with_tables(document: str, text: str) -> str:
    """Put a text between the markers of a document."""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"no {BEGIN.strip()} and {END.strip()}")
    return f"{before}{BEGIN}{text}{END}{after}"


def _seconds(number: float) -> str:
    """Write seconds, with milliseconds where these are what counts."""
    return f"{number:.2f}" if number >= 1 else f"{number:.3f}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Lay out a Markdown table; nothing if it has no rows."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    if not lines:
        return ""
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *lines])
