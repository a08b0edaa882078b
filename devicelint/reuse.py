"""Tell whether an edit leaves what a file says, and move what was found to its new lines.

In: the facts of a file before and after an edit, and what a run chose to look at in it.  Out: the
same with the positions of now, or None.  Never here: reading, the cache, findings.

An edit of a comment, of a docstring, or of code that no constructor runs changes the positions in
a file's facts and nothing else.  Then no other file is concerned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from devicelint.ir import CallFact, ClassFacts, FunctionFacts, GroupCall, ModuleFacts, Point
from devicelint.model import Candidate, FileTargets, Looked

_Span = tuple[int, int]


class Block(NamedTuple):
    """Calls of a function that stand in the place of others, from number `first` on."""

    first: int
    before: int
    after: int

    def gone(self) -> range:
        """Give the numbers of the calls that were there before."""
        return range(self.first, self.first + self.before)

    def new(self) -> range:
        """Give the numbers of the calls that are there now."""
        return range(self.first, self.first + self.after)


class Moves:
    """Where calls and statements have moved."""

    def __init__(
        self, before: ModuleFacts, after: ModuleFacts, blocks: Mapping[str, Block]
    ) -> None:
        """Pair the calls of two files whose facts are alike (see `says_the_same`), but for the
        `blocks` of some functions."""
        self._places: dict[tuple[Point, Point], tuple[Point, Point, _Span]] = {}
        #: calls that are no more
        self._gone: set[tuple[Point, Point]] = set()
        #: what was one statement may be two now
        self._statements: dict[_Span, set[_Span]] = {}
        now = {item.qualname: item for item in after.summaries}
        for summary in before.summaries:
            block = blocks.get(summary.qualname, _NO_BLOCK)
            self._gone.update(
                (call.start, call.end) for call in _within(summary.calls, block.gone())
            )
            for old, new in zip(
                _without(summary.calls, block.gone()),
                _without(now[summary.qualname].calls, block.new()),
                strict=True,
            ):
                self._pair(old, new)
        for one, other in zip(before.process_groups, after.process_groups, strict=True):
            self._pair(one, other)

    def _pair(self, old: CallFact | GroupCall, new: CallFact | GroupCall) -> None:
        self._places[old.start, old.end] = (new.start, new.end, new.statement)
        self._statements.setdefault(old.statement, set()).add(new.statement)

    def targets(self, targets: FileTargets) -> FileTargets:
        """Give what to look at where it is now; raises KeyError if it is none of the calls."""
        return FileTargets(
            tuple(
                self._candidate(item)
                for item in targets.candidates
                if (item.start, item.end) not in self._gone
            )
        )

    def _candidate(self, candidate: Candidate) -> Candidate:
        start, end, statement = self._places[candidate.start, candidate.end]
        return replace(candidate, start=start, end=end, statement=statement)

    def looked(self, looked: Looked) -> Looked:
        """Give the statements looked at where they are now."""
        return Looked(self._now(looked.own), self._now(looked.all))

    def _now(self, spans: Iterable[_Span]) -> frozenset[_Span]:
        return frozenset(now for span in spans for now in self._statements[span])


_NO_BLOCK = Block(0, 0, 0)


def _within(calls: tuple[CallFact, ...], numbers: range) -> tuple[CallFact, ...]:
    return calls[numbers.start : numbers.stop]


def _without(calls: tuple[CallFact, ...], numbers: range) -> tuple[CallFact, ...]:
    return (*calls[: numbers.start], *calls[numbers.stop :])


def says_the_same(before: ModuleFacts, after: ModuleFacts) -> bool:
    """Tell whether facts differ in positions only; `after` may know more functions.

    A body that called nothing has no summary: where there is one now, it says something new.
    """
    now = {item.qualname: item for item in after.summaries}
    if any(item.qualname not in now for item in before.summaries) or bodies_of(before) != bodies_of(
        after
    ):
        return False
    names = set(before.functions)
    return _plain(before, {item.qualname: item for item in before.summaries}, names) == _plain(
        after, {item.qualname: now[item.qualname] for item in before.summaries}, names
    )


def bodies_of(facts: ModuleFacts) -> set[str]:
    """Give the bodies that call something."""
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
        {name: unplaced(item) for name, item in summaries.items()},
        facts.shadowing,
        tuple(
            item._replace(start=(0, 0), end=(0, 0), statement=(0, 0))
            for item in facts.process_groups
        ),
    )


def _class(facts: ClassFacts) -> ClassFacts:
    return facts._replace(line=0)


def unplaced(facts: FunctionFacts) -> FunctionFacts:
    """Give what a function does without where it does it."""
    return facts._replace(
        line=0,
        calls=by_statement(facts.calls),
    )


def by_statement(calls: Sequence[CallFact]) -> tuple[CallFact, ...]:
    """Give calls with the number of their statement for a place: which of them share one counts."""
    numbers: dict[_Span, int] = {}
    return tuple(
        call._replace(place=numbers.setdefault(call.statement, len(numbers))) for call in calls
    )
