"""Find the constructions that must get the same device, because their values meet.

In: the summaries of the functions reached, and the call sites chosen there.  Out: groups of call
sites.  Never here: which device that is, text, rules.

Values meet in an expression (`torch.outer(torch.arange(n), freqs)`), in a list that is joined, or
in a value that several statements build; a helper's result stands for the constructions that it
returns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeGuard

from devicelint.callees import Callee
from devicelint.construction import CallKey, Construction
from devicelint.ir import FunctionFacts
from devicelint.project import Key, ProjectIndex

#: What an attribute stands for: see `Event`.
_KEPT = frozenset({"attribute", "buffer"})

#: instead of a call's number: what the function returns
_RETURNED = -1

#: a call, what a function returns, or by its name an attribute of a class
_Node = tuple[Key, int | str]


class _Groups:
    """Disjoint sets of nodes."""

    def __init__(self) -> None:
        self._parents: dict[_Node, _Node] = {}

    def find(self, node: _Node) -> _Node:
        """Give the node that stands for a node's set."""
        root = node
        self._parents.setdefault(node, node)
        while (parent := self._parents.get(root, root)) != root:
            root = parent
        self._parents[node] = root
        return root

    def nodes(self) -> Collection[_Node]:
        """Give every node that was ever joined with another one."""
        return [*self._parents]

    def join(self, nodes: Sequence[_Node]) -> None:
        """Put nodes into one set."""
        if len(nodes) == 1:
            return
        roots = [self.find(node) for node in nodes]
        for root in roots[1:]:
            self._parents[root] = roots[0]


def meeting(
    index: ProjectIndex, construction: Construction, sites: Iterable[CallKey]
) -> Mapping[CallKey, frozenset[CallKey]]:
    """Give each call site that meets others, or calls with a device, with all it meets.

    The sets hold calls of constructors and of helpers alike.
    """
    groups = _Groups()
    roots: dict[Key, Key] = {}
    for function in construction.reached:
        summary = index.summary(function)
        if summary is None:
            continue
        for meet in summary.meets:
            groups.join(
                [
                    node
                    for item in meet
                    for node in (
                        _nodes(construction, function, item)
                        if isinstance(item, int)
                        else [_attribute(index, roots, function, summary, item)]
                    )
                ]
            )
        for name, numbers in _kept(summary):
            attribute = _attribute(index, roots, function, summary, name)
            groups.join([attribute, *((function, number) for number in numbers)])
        for number in _returned(summary):
            groups.join([(function, _RETURNED), (function, number)])
    for site in sites:
        # a name that stands for a constructor or a helper: either builds the value
        groups.join(_nodes(construction, *site))
    of_site = {site: groups.find(site) for site in sites}
    members: dict[_Node, set[CallKey]] = {root: set() for root in of_site.values()}
    for node in groups.nodes():
        met = members.get(groups.find(node))
        if met is not None and _is_call(node):
            met.add(node)
    return {
        site: frozenset(members[root]) for site, root in of_site.items() if len(members[root]) > 1
    }


def _is_call(node: _Node) -> TypeGuard[CallKey]:
    return isinstance(node[1], int) and node[1] != _RETURNED


def _nodes(construction: Construction, function: Key, number: int) -> list[_Node]:
    """A call stands for itself, and for what the project functions that it runs return."""
    called = construction.calls.of(function, number)
    inner: list[_Node] = [
        (callee.key, _RETURNED) for callee in called if isinstance(callee, Callee)
    ]
    return [(function, number), *inner]


def _attribute(
    index: ProjectIndex,
    roots: dict[Key, Key],
    function: Key,
    summary: FunctionFacts,
    name: str,
) -> _Node:
    """An attribute stands for what is kept in it, by a class or its bases in the same file.

    `roots` are those bases as known so far.
    """
    path = function[0]
    owner = (path, summary.owner)
    root = roots.get(owner)
    if root is None:
        bases = index.ancestry(owner).classes if summary.owner else ()
        root = next((key for key in reversed(bases) if key[0] == path), owner)
        roots[owner] = root
    return root, name


def _kept(summary: FunctionFacts) -> Iterator[tuple[str, list[int]]]:
    """Give the attributes in which results of calls are kept, with these calls."""
    for event in summary.events:
        # the members of a list are each on their own
        if event.kind in _KEPT and event.detail and ("box",) not in event.value:
            numbers = {int(a[1]) for a in event.value if a[0] in ("call", "item")}
            if numbers:
                yield event.detail, sorted(numbers)


def _returned(summary: FunctionFacts) -> set[int]:
    return {
        int(atom[1])
        for event in summary.events
        if event.kind == "returned"
        for atom in event.value
        if atom[0] in ("call", "item")
    }
