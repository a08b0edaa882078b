"""Find the constructions that must get the same device, because their values meet.

In: the summaries of the functions reached, and the call sites chosen there.  Out: groups of call
sites.  Never here: which device that is, text, rules.

Values meet in an expression (`torch.outer(torch.arange(n), freqs)`), in a list that is joined, or
in a value that several statements build; a helper's result stands for the constructions that it
returns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Set

from devicelint.callees import Callee
from devicelint.construction import CallKey, Construction
from devicelint.flow import MOVE
from devicelint.ir import Event, FunctionFacts, Value
from devicelint.project import Key, ProjectIndex

#: What an attribute stands for: see `Event`.
_KEPT = frozenset({"attribute", "buffer"})

#: instead of a call's number: what the function returns
_RETURNED = -1


class _Groups:
    """Disjoint sets of nodes."""

    def __init__(self) -> None:
        self._parents: dict[CallKey, CallKey] = {}

    def find(self, node: CallKey) -> CallKey:
        """Give the node that stands for a node's set."""
        root = node
        self._parents.setdefault(node, node)
        while (parent := self._parents.get(root, root)) != root:
            root = parent
        self._parents[node] = root
        return root

    def nodes(self) -> list[CallKey]:
        """Give every node that was ever joined."""
        return list(self._parents)

    def join(self, nodes: Iterable[CallKey]) -> None:
        """Put nodes into one set."""
        roots = [self.find(node) for node in nodes]
        for root in roots[1:]:
            self._parents[root] = roots[0]


class _Contents:
    """What is in the nodes that stand for others: what functions return, what attributes keep."""

    def __init__(self) -> None:
        self._held: dict[CallKey, set[CallKey]] = defaultdict(set)
        self._foreign: set[CallKey] = set()

    def put(self, node: CallKey, inside: Iterable[CallKey], *, is_all: bool) -> None:
        """Note what may be in a node; `is_all` says that no tensor made elsewhere may be, too."""
        self._held[node].update(inside)
        if not is_all:
            self._foreign.add(node)

    def within(self, nodes: Iterable[CallKey]) -> Set[CallKey]:
        """Add to nodes what is in them, through however many helpers it is handed on."""
        found: set[CallKey] = set(nodes)
        pending = list(found)
        while pending:
            more = self._held.get(pending.pop(), set()) - found
            found |= more
            pending += more
        return found

    def is_known(self, node: CallKey) -> bool:
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
    roots: dict[Key, str] = {}
    meets: list[list[CallKey]] = []
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
            node = _holder(index, roots, function, summary, event)
            if node is not None and numbers:
                groups.join([node, *((function, number) for number in numbers)])
                inside = [one for item in numbers for one in _nodes(construction, function, item)]
                contents.put(node, inside, is_all=not _is_from_elsewhere(summary, event.value))
    for nodes in meets:
        # all that may be in them, whereas of the helpers that a name may stand for just one builds
        # the value: what they return meets nothing by itself
        groups.join(sorted(contents.within(nodes)))
    for site in sites:
        # a name that stands for a constructor or a helper: either builds the value
        groups.join(_nodes(construction, *site))
    members: dict[CallKey, set[CallKey]] = defaultdict(set)
    for node in groups.nodes():
        root, leaders = groups.find(node), _leaders(index, roots, node)
        goes_along = leaders and all(
            groups.find(leader) == root and _is_of(construction, contents, sites, leader)
            for leader in leaders
        )
        if node[1] != _RETURNED and not goes_along:
            members[root].add(node)
    return {
        site: frozenset(members[groups.find(site)])
        for site in sites
        if len(members[groups.find(site)]) > 1
    }


def _nodes(construction: Construction, function: Key, number: int) -> list[CallKey]:
    """A call stands for itself, and for what the project functions that it runs return."""
    called = construction.calls.of(function, number)
    inner = [(callee.key, _RETURNED) for callee in called if isinstance(callee, Callee)]
    return [(function, number), *inner]


def _leaders(index: ProjectIndex, roots: dict[Key, str], node: CallKey) -> list[CallKey]:
    """Give what a call's device is taken from (`device=x.device`), nothing if it is no such one."""
    function, number = node
    summary = index.summary(function)
    if summary is None or number == _RETURNED:
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
    construction: Construction, contents: _Contents, sites: Collection[CallKey], node: CallKey
) -> bool:
    """Tell whether a node stands for call sites and helpers alone: nothing made elsewhere."""
    if node[1] != _RETURNED:
        inside = contents.within(_nodes(construction, *node))
    else:
        inside = contents.within([node])
    for item in inside - set(sites):
        called = () if item[1] == _RETURNED else construction.calls.of(*item)
        is_helper = called and all(isinstance(callee, Callee) for callee in called)
        if not is_helper and not contents.is_known(item):
            return False
    return True


def _attribute(
    index: ProjectIndex,
    roots: dict[Key, str],
    function: Key,
    summary: FunctionFacts,
    name: str,
) -> CallKey:
    """An attribute stands for what is kept in it, by a class or its bases in the same file.

    `roots` are those bases as known so far.
    """
    path = function[0]
    owner = (path, summary.owner)
    root = roots.get(owner)
    if root is None:
        bases = index.ancestry(owner).classes if summary.owner else ()
        root = next((key[1] for key in reversed(bases) if key[0] == path), summary.owner)
        roots[owner] = root
    return (path, f"{root}.self.{name}"), _RETURNED


def _holder(
    index: ProjectIndex, roots: dict[Key, str], function: Key, summary: FunctionFacts, event: Event
) -> CallKey | None:
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
