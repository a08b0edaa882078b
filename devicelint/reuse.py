"""Tell whether an edit leaves what a file says, and move what was found to its new lines.

In: the facts of a file before and after an edit, and what a run chose to look at in it.  Out: the
same with the positions of now, or None.  Never here: reading, the cache, findings.

An edit of a comment, of a docstring, or of code that no constructor runs changes the positions in
a file's facts and nothing else.  Then no other file is concerned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from devicelint.ir import CallFact, ClassFacts, FunctionFacts, GroupCall, ModuleFacts, Point
from devicelint.model import Candidate, FileTargets, Looked

_Span = tuple[int, int]


class Moves:
    """Where calls and statements have moved."""

    def __init__(self, before: ModuleFacts, after: ModuleFacts) -> None:
        """Pair the calls of two files whose facts are alike (see `says_the_same`)."""
        self._places: dict[tuple[Point, Point], tuple[Point, Point, _Span]] = {}
        #: what was one statement may be two now
        self._statements: dict[_Span, set[_Span]] = {}
        now = {item.qualname: item for item in after.summaries}
        for summary in before.summaries:
            for old, new in zip(summary.calls, now[summary.qualname].calls, strict=True):
                self._pair(old, new)
        for one, other in zip(before.process_groups, after.process_groups, strict=True):
            self._pair(one, other)

    def _pair(self, old: CallFact | GroupCall, new: CallFact | GroupCall) -> None:
        self._places[old.start, old.end] = (new.start, new.end, new.statement)
        self._statements.setdefault(old.statement, set()).add(new.statement)

    def targets(self, targets: FileTargets) -> FileTargets:
        """Give what to look at where it is now; raises KeyError if it is none of the calls."""
        return FileTargets(tuple(self._candidate(item) for item in targets.candidates))

    def _candidate(self, candidate: Candidate) -> Candidate:
        start, end, statement = self._places[candidate.start, candidate.end]
        return replace(candidate, start=start, end=end, statement=statement)

    def looked(self, looked: Looked) -> Looked:
        """Give the statements looked at where they are now."""
        return Looked(self._now(looked.own), self._now(looked.all))

    def _now(self, spans: Iterable[_Span]) -> frozenset[_Span]:
        return frozenset(now for span in spans for now in self._statements[span])


def says_the_same(before: ModuleFacts, after: ModuleFacts) -> bool:
    """Tell whether facts differ in positions only; `after` may know more functions.

    A body that called nothing has no summary: where there is one now, it says something new.
    """
    now = {item.qualname: item for item in after.summaries}
    if any(item.qualname not in now for item in before.summaries) or _bodies(before) != _bodies(
        after
    ):
        return False
    names = set(before.functions)
    return _plain(before, {item.qualname: item for item in before.summaries}, names) == _plain(
        after, {item.qualname: now[item.qualname] for item in before.summaries}, names
    )


def _bodies(facts: ModuleFacts) -> set[str]:
    return {item.qualname for item in facts.summaries if item.kind == "body"}


def _plain(
    facts: ModuleFacts, summaries: Mapping[str, FunctionFacts], names: set[str]
) -> tuple[object, ...]:
    """Write facts down without positions, and without an order that reading has."""
    return (
        facts.imports,
        facts.stars,
        {item.qualname: _class(item) for item in facts.classes},
        # a nested function is known once the one around it has been read
        {name for name in facts.functions if ".<locals>." not in name or name in names},
        facts.bindings,
        {name: _function(item) for name, item in summaries.items()},
        facts.shadowing,
        tuple(
            item._replace(start=(0, 0), end=(0, 0), statement=(0, 0))
            for item in facts.process_groups
        ),
    )


def _class(facts: ClassFacts) -> ClassFacts:
    return facts._replace(line=0)


def _function(facts: FunctionFacts) -> FunctionFacts:
    return facts._replace(
        line=0,
        calls=tuple(call._replace(place=0) for call in facts.calls),
    )
