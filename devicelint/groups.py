"""Find the constructions that must get the same device, because their values meet.

In: the summaries of the functions reached, and the call sites chosen there.  Out: groups of call
sites.  Never here: which device that is, text, rules.

Values meet in an expression (`torch.outer(torch.arange(n), freqs)`), in a list that is joined, or
in a value that several statements build; a helper's result stands for the constructions that it
returns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from typing import TypeGuard

from devicelint.callees import Callee
from devicelint.construction import CallKey, Construction
from devicelint.flow import MOVE
from devicelint.ir import Event, FunctionFacts, Value
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
        parents = self._parents
        root = parents.get(node)
        if root is None:
            parents[node] = node
            return node
        while (parent := parents.get(root, root)) != root:
            root = parent
        parents[node] = root
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


class _Contents:
    """What is in the nodes that stand for others: what functions return, what attributes keep."""

    def __init__(self) -> None:
        self._held: dict[_Node, tuple[_Node, ...]] = {}
        self._foreign: set[_Node] = set()

    def put(self, node: _Node, inside: Iterable[_Node], *, is_all: bool) -> None:
        """Note what may be in a node; `is_all` says that no tensor made elsewhere may be, too."""
        self._held[node] = (*self._held.get(node, ()), *inside)
        if not is_all:
            self._foreign.add(node)

    def within(self, nodes: Iterable[_Node]) -> Set[_Node]:
        """Add to nodes what is in them, through however many helpers it is handed on."""
        found: set[_Node] = set(nodes)
        pending = list(found)
        while pending:
            more = set(self._held.get(pending.pop(), ())) - found
            found |= more
            pending += more
        return found

    def is_known(self, node: _Node) -> bool:
        """Tell whether nothing but results of calls is in a node."""
        return node in self._held and node not in self._foreign


def meeting(
    index: ProjectIndex, construction: Construction, sites: Collection[CallKey]
) -> Mapping[CallKey, frozenset[CallKey]]:
    """Give each call site that meets others, or calls with a device, with all it meets.

    The sets hold calls of constructors and of helpers alike, but for those whose device is that of
    what they meet (`torch.arange(n, device=inv_freq.device)`): they go along.
    """
    groups, contents = _Groups(), _Contents()
    roots: dict[Key, Key] = {}
    meets: list[list[_Node]] = []
    for function in construction.reached:
        summary = index.summary(function)
        if summary is None:
            continue
        meets += [
            [
                node
                for item in meet
                for node in (
                    _nodes(construction, function, item)
                    if isinstance(item, int)
                    else [_attribute(index, roots, function, summary, item)]
                )
            ]
            for meet in summary.meets
        ]
        for event in summary.events:
            numbers = _results(event.value)
            node = _holder(index, roots, function, summary, event) if numbers else None
            if node is not None:
                calls = [(function, number) for number in numbers]
                groups.join([node, *calls])
                inside = [one for call in calls for one in _run_by(construction, call)]
                is_all = not _is_from_elsewhere(summary, event.value)
                contents.put(node, (*calls, *inside), is_all=is_all)
    for nodes in meets:
        # all that may be in them, whereas of the helpers that a name may stand for just one builds
        # the value: what they return meets nothing by itself
        groups.join([*contents.within(nodes)])
    for site in sites:
        # a name that stands for a constructor or a helper: either builds the value
        groups.join(_nodes(construction, *site))
    of_site = {site: groups.find(site) for site in sites}
    members: dict[_Node, set[CallKey]] = {root: set() for root in of_site.values()}
    for node in groups.nodes():
        root = groups.find(node)
        if root not in members or not _is_call(node):
            continue
        leaders = _leaders(index, roots, node)
        goes_along = leaders and all(
            groups.find(leader) == root and _is_of(construction, contents, of_site, leader)
            for leader in leaders
        )
        if not goes_along:
            members[root].add(node)
    # one set for all sites in it: their number may be large
    sets = {root: frozenset(nodes) for root, nodes in members.items() if len(nodes) > 1}
    return {site: sets[root] for site, root in of_site.items() if root in sets}


def _is_call(node: _Node) -> TypeGuard[CallKey]:
    return isinstance(node[1], int) and node[1] != _RETURNED


def _nodes(construction: Construction, function: Key, number: int) -> list[_Node]:
    """A call stands for itself, and for what the project functions that it runs return."""
    return [(function, number), *_run_by(construction, (function, number))]


def _run_by(construction: Construction, call: CallKey) -> Iterator[_Node]:
    for callee in construction.calls.of(*call):
        if isinstance(callee, Callee):
            yield callee.key, _RETURNED


def _leaders(index: ProjectIndex, roots: dict[Key, Key], node: CallKey) -> list[_Node]:
    """Give what a call's device is taken from (`device=x.device`), nothing if it is no such one."""
    function, number = node
    summary = index.summary(function)
    if summary is None:
        return []
    call = summary.calls[number]
    device = call.args[1] if call.callees == MOVE else dict(call.keywords).get("device", ())
    if any(atom[0] != "device_of" or atom[1] == "param" for atom in device):
        return []
    return [
        _attribute(index, roots, function, summary, str(atom[2]))
        if atom[1] == "attr"
        else (function, int(atom[2]))
        for atom in device
    ]


def _is_of(
    construction: Construction, contents: _Contents, sites: Mapping[CallKey, _Node], node: _Node
) -> bool:
    """Tell whether a node stands for call sites and helpers alone: nothing made elsewhere."""
    nodes = _nodes(construction, *node) if _is_call(node) else [node]
    for item in contents.within(nodes) - sites.keys():
        called = construction.calls.of(*item) if _is_call(item) else ()
        is_helper = called and all(isinstance(callee, Callee) for callee in called)
        if not is_helper and not contents.is_known(item):
            return False
    return True


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


def _holder(
    index: ProjectIndex, roots: dict[Key, Key], function: Key, summary: FunctionFacts, event: Event
) -> _Node | None:
    """Give the node of what a function returns or keeps in an attribute, None of anything else."""
    if event.kind == "returned":
        return function, _RETURNED
    # the members of a list are each on their own
    if event.kind in _KEPT and event.detail and ("box",) not in event.value:
        return _attribute(index, roots, function, summary, event.detail)
    return None


def _is_from_elsewhere(summary: FunctionFacts, value: Value) -> bool:
    """Tell a value that may be a tensor which was not made here."""
    return any(
        atom[0] == "tensor" or (atom[0] == "param" and atom[1] in summary.tensor_params)
        for atom in value
    )


def _results(value: Value) -> list[int]:
    return sorted({int(atom[1]) for atom in value if atom[0] in ("call", "item")})
