"""What the arguments of a recorded call say: whether it has a device, which parameter gets what.

In: `CallFact`s and `FunctionFacts`.  Out: truth values, pairs of parameter and value.  Never here:
other files, or what a name means.
"""

from __future__ import annotations

from collections.abc import Iterator

from devicelint.ir import STREAM_CONTEXT, TENSOR_CONTEXT, CallFact, FunctionFacts, Value
from devicelint.model import Constructor, Kind


def parameters_of(call: CallFact, facts: FunctionFacts, bound: bool) -> Iterator[tuple[str, Value]]:
    """Pair the arguments of a call with the parameters of the function it runs.

    `bound` says that the function's first parameter is filled already.
    """
    offset = 1 if bound and facts.kind in ("method", "class", "setter") else 0
    for index, value in enumerate(call.args):
        if call.star >= 0 and index >= call.star:
            # behind `*args` every further parameter may get the value
            for name in facts.params[index + offset : facts.positional]:
                yield name, value
            if facts.vararg:
                yield facts.vararg, value
        elif index + offset < facts.positional:
            yield facts.params[index + offset], value
        elif facts.vararg:
            yield facts.vararg, value
    for name, value in call.keywords:
        if name in facts.params:
            yield name, value
        elif facts.kwarg:
            yield facts.kwarg, value


def has_device(call: CallFact, constructor: Constructor) -> bool:
    """Tell whether a call says where its result goes: by keyword, position, `**` or `out=`.

    A literal `device=None` says nothing: PyTorch treats it as if it were not there (run on torch
    2.13.0, with and without a device context).
    """
    for name, value in call.keywords:
        if name == constructor.device_keyword:
            return value != (("none",),)
        if name in constructor.settled_by:
            return True
    if call.spread in ("open", "device"):
        return True
    position = constructor.device_index
    if position is not None and len(call.args) > position and call.star < 0:
        return call.args[position] != (("none",),)
    return False


def leaves_device_to_default(call: CallFact, facts: FunctionFacts, bound: bool) -> bool:
    """Tell a call that leaves a helper's `device` parameter to a default that is a fixed device."""
    default = dict(facts.defaults).get("device")
    if default is None or call.spread:
        return False
    fixed = any(atom[0] in ("str", "device") for atom in default)
    return fixed and all(name != "device" for name, _ in parameters_of(call, facts, bound))


def covers(constructor: Constructor, context: int) -> bool:
    """Tell whether surrounding device contexts settle where a constructor's result goes."""
    if constructor.kind is Kind.STREAM:
        return bool(context & STREAM_CONTEXT)
    return constructor.honours_context and bool(context & TENSOR_CONTEXT)


def is_pinned(call: CallFact) -> bool:
    """Tell a call that asks for pinned memory, which exists on the CPU only."""
    return any(
        name == "pin_memory" and value not in ((("false",),), (("none",),))
        for name, value in call.keywords
    )


def kept_calls(summary: FunctionFacts) -> frozenset[int]:
    """Give the calls whose results are kept, returned or handed on, not merely used."""
    values: list[Value] = [
        event.value
        for event in summary.events
        if event.kind in ("attribute", "returned", "argument")
    ]
    for call in summary.calls:
        values += [*call.args, *(given for _, given in call.keywords)]
    return frozenset(int(atom[1]) for value in values for atom in value if atom[0] == "call")
