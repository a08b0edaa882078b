"""Tell an edit that concerns nobody else: what it changes, no run has asked for.

In: the facts of a file before and after an edit, the footprint of the run before it.  Out: the
calls of each function that were put in the place of others; or None, where the edit may change what
is found elsewhere.  Never here: the cache, findings, other files' facts but by way of the index.

Such an edit adds a tensor to a constructor and keeps it in a new attribute, or adds a method that
nobody calls.  To tell for certain, every name by which others might come to what is new is compared
with the names that were ever asked for, and what is called must lie outside the project.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from devicelint.flow import MOVE
from devicelint.ir import (
    Atom,
    CallFact,
    ClassFacts,
    Event,
    Footprint,
    FunctionFacts,
    ModuleFacts,
    Value,
)
from devicelint.model import Sink
from devicelint.reuse import Block, bodies_of, by_statement, unplaced
from devicelint.values import bare_name

#: Tells a call that runs nothing of the project, whatever class it is made on.
IsOutside = Callable[[CallFact], bool]

#: Atoms in an argument that say nothing about a constructed value.
_PLAIN = frozenset(
    ("str", "none", "true", "false", "dict", "box", "tensor", "device", "ref", "attr")
)

#: What keeps a value under a name.
_KEEPING = frozenset((Sink.ATTRIBUTE, Sink.BUFFER, Sink.PARAMETER))

#: What may become of a value without anybody's notice but by the name of an attribute.
_OWN_ENDS = frozenset((*map(str, Sink), "copied", "drawn", "iterated", "moved", "probe"))


class OwnAffair(NamedTuple):
    """What an edit has changed that concerns nobody else."""

    #: the calls that were put in the place of others, by function
    blocks: Mapping[str, Block]
    #: the attributes in which these keep their results
    attributes: frozenset[str]


def unasked(
    path: str,
    before: ModuleFacts,
    after: ModuleFacts,
    footprint: Footprint,
    is_outside: IsOutside,
) -> OwnAffair | None:
    """Tell what an edit has changed, if nothing of it was asked for; None if something was, or
    might have been."""
    if not _defines_the_same(path, before, after, footprint):
        return None
    now = {item.qualname: item for item in after.summaries}
    blocks: dict[str, Block] = {}
    owned: set[str] = set()
    for old in before.summaries:
        new = now.get(old.qualname)
        if new is None:
            return None
        if unplaced(old) == unplaced(new):
            continue
        block = _block(old, new)
        if block is None or old.kind == "body":
            return None
        names = _owned(path, old, new, block, footprint, is_outside)
        if names is None or names & owned:
            return None
        owned |= names
        blocks[old.qualname] = block
    return OwnAffair(blocks, frozenset(owned))


# What a file defines


def _defines_the_same(
    path: str, before: ModuleFacts, after: ModuleFacts, footprint: Footprint
) -> bool:
    """Tell whether a file defines and imports the same, but for names that nobody asked for."""
    one, other = (
        (item.stars, item.bindings, item.shadowing, bodies_of(item)) for item in (before, after)
    )
    if one != other or before.process_groups or after.process_groups:
        return False
    known = set(before.functions)
    outer = {name for name in after.functions if ".<locals>." not in name or name in known}
    names = {name for name, _ in set(before.imports) ^ set(after.imports)}
    names |= known ^ outer
    if any(".<locals>." in name for name in names) or (names and path in footprint.listed):
        return False
    classes = {item.qualname: item for item in before.classes}
    if {item.qualname for item in after.classes} != classes.keys():
        return False
    for item in after.classes:
        old = classes[item.qualname]
        if _without_methods(old) != _without_methods(item):
            return False
        kept = set(old.methods) & set(item.methods)
        if [each for each in old.methods if each in kept] != [
            each for each in item.methods if each in kept
        ]:
            return False  # of several that declare a name the first counts
        names.update(name for name, _ in set(old.methods) ^ set(item.methods))
    return not any(bare_name(name) in footprint.names for name in names)


def _without_methods(facts: ClassFacts) -> ClassFacts:
    return facts._replace(methods=(), line=0)


# What a function does


def _block(old: FunctionFacts, new: FunctionFacts) -> Block | None:
    """Find the calls that differ; None if a function differs in more than these."""
    most = min(len(old.calls), len(new.calls))
    same = {number: number for number in range(len(old.calls))}
    first = _common(range(most), old, new, same)
    offset = len(old.calls) - len(new.calls)
    moved = {
        number: number if number < first else number + offset for number in range(len(new.calls))
    }
    last = _common(range(-1, first - most - 1, -1), old, new, moved)
    block = Block(first, len(old.calls) - first - last, len(new.calls) - first - last)
    try:
        before = _rest(old, {number: same[number] for number in same if number not in block.gone()})
        after = _rest(new, {number: moved[number] for number in moved if number not in block.new()})
    except KeyError:
        return None
    return block if before == after else None


def _common(
    numbers: Iterable[int], old: FunctionFacts, new: FunctionFacts, moved: Mapping[int, int]
) -> int:
    """Count how many of the calls with these numbers are the same, up to the first that is not."""
    count = 0
    for number in numbers:
        try:
            if old.calls[number]._replace(place=0) != _call(new.calls[number], moved)._replace(
                place=0
            ):
                break
        except KeyError:
            break
        count += 1
    return count


def _rest(facts: FunctionFacts, numbers: Mapping[int, int]) -> FunctionFacts:
    """Give what a function does but for the calls that differ, with the others numbered alike.

    Raises KeyError if one of the others is given the result of one of these.
    """
    own = _owned_by(facts, numbers)
    names = {event.detail for event in own}
    events = [event for event in facts.events if event not in own]
    return facts._replace(
        calls=by_statement(
            [_call(call, numbers) for number, call in enumerate(facts.calls) if number in numbers]
        ),
        events=tuple(
            event._replace(value=_value(event.value, numbers))
            for event in events
            if not (event.kind.startswith("declared") and event.detail in names)
        ),
        meets=tuple(
            tuple(numbers[item] if isinstance(item, int) else item for item in meet)
            for meet in facts.meets
        ),
        line=0,
    )


def _owned_by(facts: FunctionFacts, others: Mapping[int, int]) -> list[Event]:
    """Give the events that tell where the results of calls go that are not among `others`."""
    return [
        event
        for event in facts.events
        if any(number not in others for atom in event.value for number in _numbers(atom))
    ]


def _call(call: CallFact, numbers: Mapping[int, int]) -> CallFact:
    return call._replace(
        callees=_value(call.callees, numbers),
        args=tuple(_value(value, numbers) for value in call.args),
        keywords=tuple((name, _value(value, numbers)) for name, value in call.keywords),
        receiver=_value(call.receiver, numbers),
    )


def _value(value: Value, numbers: Mapping[int, int]) -> Value:
    return tuple(_atom(atom, numbers) for atom in value)


def _atom(atom: Atom, numbers: Mapping[int, int]) -> Atom:
    if atom[0] in ("call", "item", "partial"):
        return (atom[0], numbers[int(atom[1])], *atom[2:])
    if atom[0] == "device_of":
        return (atom[0], *_atom(atom[1:], numbers))
    if atom[0] == "bound":
        return (*atom[:2], *_atom(atom[2:], numbers))
    return atom


def _numbers(atom: Atom) -> Iterator[int]:
    """Give the calls that an atom is about."""
    if atom[0] in ("call", "item", "partial"):
        yield int(atom[1])
    elif atom[0] in ("device_of", "bound") and len(atom) > 2:
        yield from _numbers(atom[1 if atom[0] == "device_of" else 2 :])


# The calls that differ


def _owned(
    path: str,
    old: FunctionFacts,
    new: FunctionFacts,
    block: Block,
    footprint: Footprint,
    is_outside: IsOutside,
) -> set[str] | None:
    """Give the attributes in which the calls that differ keep their results; None if these calls or
    their results may concern others."""
    followed = footprint.parameters.get(path, frozenset())
    for facts, numbers in ((old, block.gone()), (new, block.new())):
        for call in facts.calls[numbers.start : numbers.stop]:
            if not _is_told_nothing(call, facts, numbers, followed) or not (
                is_outside(call) or _is_method_of(numbers, call)
            ):
                return None
            if _hangs_on_callers(call, facts):
                return None
    before = _kept_in(old, block.gone(), followed)
    after = _kept_in(new, block.new(), followed)
    if before is None or after is None:
        return None
    taken = footprint.attributes | (footprint.kept - before)
    return None if taken & (before | after) else before | after


def _hangs_on_callers(call: CallFact, facts: FunctionFacts) -> bool:
    """Tell a call whose device in scope is a helper's parameter, which callers may leave out."""
    return not facts.qualname.endswith(".__init__") and any(
        event[:2] == ("used device", call.device_in_scope) for event in facts.events
    )


def _is_method_of(block: range, call: CallFact) -> bool:
    """Tell a method of what one of these calls gives, or a move of it to where no caller says."""
    if call.callees == MOVE:
        return all(atom[0] in _PLAIN for atom in call.args[1])
    return bool(call.callees) and all(
        atom[0] == "bound" and atom[2:3] == ("call",) and int(atom[3]) in block
        for atom in call.callees
    )


def _is_told_nothing(
    call: CallFact, facts: FunctionFacts, block: range, followed: frozenset[str]
) -> bool:
    """Tell whether no value that was followed, and none of another call, goes into a call."""
    values = (*call.args, *(value for _, value in call.keywords), call.receiver)
    return all(_is_unfollowed(atom, facts, block, followed) for value in values for atom in value)


def _is_unfollowed(
    atom: Atom, facts: FunctionFacts, block: range, followed: frozenset[str]
) -> bool:
    if atom[0] == "device_of":
        return _is_unfollowed(atom[1:], facts, block, followed)
    if atom[0] == "param":
        return f"{facts.qualname}:{atom[1]}" not in followed
    if atom[0] in ("call", "item"):
        return int(atom[1]) in block
    return atom[0] in _PLAIN


def _kept_in(facts: FunctionFacts, block: range, followed: frozenset[str]) -> set[str] | None:
    """Give the attributes in which results of calls are kept, each by itself; None where more
    becomes of them that others may see, or of what others have handed in together with them."""
    others = {number: number for number in range(len(facts.calls)) if number not in block}
    own = _owned_by(facts, others)
    kept: dict[str, set[int]] = {}
    for event in own:
        if event.kind not in _OWN_ENDS or not all(
            _is_unfollowed(atom, facts, block, followed) for atom in event.value
        ):
            return None
        # `nn.Parameter(...)` has no name, `register_parameter` gives one
        if event.kind in _KEEPING and (event.detail or event.kind != Sink.PARAMETER):
            numbers = {number for atom in event.value for number in _numbers(atom)}
            kept.setdefault(event.detail, set()).update(numbers)
    names = {event.detail for event in facts.events if event not in own and not _declares(event)}
    if any(len(numbers) > 1 or name in names or not name for name, numbers in kept.items()):
        return None
    return set(kept)


def _declares(event: Event) -> bool:
    return event.kind.startswith("declared")
