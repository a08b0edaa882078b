"""Note what a run has asked of the files by name, and how it came to each function.

In: the index, what was reached, where values went.  Out: a `Footprint`, by which the next run can
tell an edit that concerns nobody.  Never here: the cache, the next run.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from devicelint.construction import Construction
from devicelint.flow import Flow
from devicelint.ir import Footprint, Way
from devicelint.project import Key, ProjectIndex


def footprint_of(
    index: ProjectIndex,
    construction: Construction,
    flow: Flow,
    chains: Mapping[Key, tuple[Key, ...]],
) -> Footprint:
    """Note what was asked for."""
    asked = set(construction.attributes)
    kept: Counter[str] = Counter()
    for function in construction.reached:
        summary = index.summary(function)
        if summary is not None:
            asked.update(item for meet in summary.meets for item in meet if isinstance(item, str))
            kept.update({event.detail for event in summary.events})
    asked.update(index.setters())
    asked.update(name for name, count in kept.items() if count > 1)
    return Footprint(
        names=index.asked(),
        listed=frozenset(index.listed),
        attributes=frozenset(asked),
        kept=frozenset(kept),
        parameters=_followed(flow),
        ways=_ways(construction, chains),
    )


def _followed(flow: Flow) -> Mapping[str, frozenset[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for place in flow.followed():
        if place.atom[0] == "param":
            path, qualname = place.function
            found[path].add(f"{qualname}:{place.atom[1]}")
    return {path: frozenset(names) for path, names in found.items()}


def _ways(
    construction: Construction, chains: Mapping[Key, tuple[Key, ...]]
) -> Mapping[str, Mapping[str, Way]]:
    contexts: dict[Key, int] = {}
    for where in construction.visits:
        contexts[where.key] = contexts.get(where.key, where.context) & where.context
    ways: dict[str, dict[str, Way]] = defaultdict(dict)
    for (path, qualname), context in contexts.items():
        chain = chains.get((path, qualname))
        if chain is not None:
            ways[path][qualname] = Way(context, tuple(name for _, name in chain))
    return ways
