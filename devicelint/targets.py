"""Decide which constructor calls of the project are worth a rule's look.

In: the index, what was reached, where values end.  Out: `FileTargets` for each file.  Never here:
source text, rules, I/O.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from devicelint.arguments import covers, has_device, parameters_of
from devicelint.construction import CallKey, Construction, Reach, is_body
from devicelint.extras import Extras
from devicelint.flow import MOVE, Flow, Outcome
from devicelint.groups import meeting
from devicelint.ir import CallFact, FunctionFacts, GroupCall
from devicelint.model import Candidate, Constructor, FileTargets, Kind, Sink
from devicelint.project import ClassTarget, Key, ProjectIndex
from devicelint.torch_api import CONSTRUCTORS, FIX_OBSTACLE_KEYWORDS


def select_targets(
    index: ProjectIndex,
    construction: Construction,
    flow: Flow,
    extras: Extras,
    chains: Mapping[Key, tuple[Key, ...]],
    given: Iterable[str],
) -> Mapping[str, FileTargets]:
    """Choose the candidates of every file, in order of position.

    `chains` lead to each function; `given` are the files whose process groups count: these need no
    module to be looked at.
    """
    chosen = constructor_calls(index, construction, flow, chains)
    grouped = _in_groups(index, construction, flow, chosen, extras)
    for function, number in construction.defaulted:
        candidate = _defaulted_call(index, flow, function, number, chains[function])
        if candidate is not None:
            grouped.setdefault((function, number), candidate)
    for where, candidate in _unforwarded(index, construction, flow):
        grouped.setdefault(where, candidate)
    found: dict[str, list[Candidate]] = defaultdict(list)
    for (function, _), candidate in grouped.items():
        found[function[0]].append(candidate)
    for path in given:
        table = index.table(path)
        for call in table.process_groups if table is not None else ():
            found[path].append(_process_group(call))
    return {path: file_targets(items) for path, items in sorted(found.items())}


def constructor_calls(
    index: ProjectIndex,
    construction: Construction,
    flow: Flow,
    chains: Mapping[Key, tuple[Key, ...]],
) -> dict[CallKey, Candidate]:
    """Choose the constructor calls that are worth a look, each by itself."""
    chosen: dict[CallKey, Candidate] = {}
    for (function, number), reach in construction.sites.items():
        chain = chains[function]
        candidate = _constructor_call(index, flow, function, number, reach, chain)
        if candidate is not None:
            chosen[function, number] = candidate
    return chosen


def _in_groups(
    index: ProjectIndex,
    construction: Construction,
    flow: Flow,
    chosen: Mapping[CallKey, Candidate],
    extras: Extras,
) -> dict[CallKey, Candidate]:
    """Mark the candidates whose values meet, and withhold the fix of what cannot move together."""
    result: dict[CallKey, Candidate] = {}
    groups = meeting(index, construction, chosen)
    for where, candidate in chosen.items():
        if where not in groups:
            result[where] = candidate
            continue
        together = [chosen[other] for other in sorted(groups[where]) if other in chosen]
        others = [other for other in groups[where] if other not in chosen]
        obstacle = candidate.fix_obstacle or _odd_one_out(candidate, together)
        if not obstacle and any(
            other in construction.sites and _is_looked_at(flow, other) for other in others
        ):
            obstacle = "its value meets one that is only looked at, and gets no device"
        if not obstacle and any(
            _has_other_device(index, other, candidate, extras) for other in others
        ):
            obstacle = "its value meets one whose device is given already"
        first = min((item[0], item[1]) for item in groups[where])
        result[where] = replace(
            candidate,
            fix_obstacle=obstacle,
            group=f"{first[0][1]}:{first[1]}" if len(together) > 1 else "",
            drawn_together=any(item.constructor.random or item.drawn_together for item in together),
        )
    return result


def _is_looked_at(flow: Flow, where: CallKey) -> bool:
    """Tell a value of which nothing is kept: it is no candidate, and stays where it is."""
    ends = flow.ends(where[0], ("call", where[1]))
    return {kind for kind, _ in ends} <= {"probe", "iterated"}


def _odd_one_out(candidate: Candidate, together: Iterable[Candidate]) -> str:
    """Say what keeps constructions that meet from getting the same device, "" if nothing does."""
    for other in together:
        if other.fix_obstacle or not other.constructor.takes_device:
            return f"its value meets that of `{other.callable}`, which gets no device"
        differs = (other.sink is Sink.HOST) != (candidate.sink is Sink.HOST)
        if differs or other.device_in_scope != candidate.device_in_scope:
            return f"its value meets that of `{other.callable}`, which would get another device"
    return ""


def _has_other_device(
    index: ProjectIndex, where: CallKey, candidate: Candidate, extras: Extras
) -> bool:
    """Tell a constructor call that names a device other than the one in scope at `candidate`."""
    summary = index.summary(where[0])
    call = summary.calls[where[1]] if summary is not None else None
    if call is not None and call.callees == MOVE:
        return call.args[1] != (("param", candidate.device_in_scope or ""),)
    if call is None or not any(
        atom[0] == "ref" and str(atom[1]) in extras.constructors for atom in call.callees
    ):
        return False
    devices = [value for name, value in call.keywords if name == "device"]
    if not devices:
        return call.spread == "device"
    return devices[0] != (("param", candidate.device_in_scope or ""),)


def _process_group(call: GroupCall) -> Candidate:
    return Candidate(
        constructor=Constructor(call.name, Kind.PROCESS_GROUP, device_keyword="device_id"),
        callable=call.name,
        callee=call.text,
        sink=Sink.LOCAL,
        symbol=call.symbol,
        reached_via=(call.symbol,),
        start=call.start,
        end=call.end,
        statement=call.statement,
        device_in_scope=call.device_in_scope or None,
        in_context=False,
        fix_obstacle="",
        target="",
        also=(),
        import_time=False,
    )


def file_targets(items: Iterable[Candidate]) -> FileTargets:
    """Put the candidates of a file in order of position, each place once; number its groups."""
    unique = {(item.start, item.end): item for item in items}
    ordered = sorted(unique.values(), key=lambda item: (item.start, item.end))
    numbers = {"": ""}
    for item in ordered:
        numbers.setdefault(item.group, str(len(numbers)))
    return FileTargets(tuple(replace(item, group=numbers[item.group]) for item in ordered))


def _constructor_call(
    index: ProjectIndex,
    flow: Flow,
    function: Key,
    number: int,
    reach: Reach,
    chain: tuple[Key, ...],
) -> Candidate | None:
    summary = index.summary(function)
    assert summary is not None, function
    call = summary.calls[number]
    constructor = reach.constructor
    if call.twin or covers(constructor, reach.context):
        return None
    if constructor.follows_tensor and follows_a_tensor(summary, call):
        return None
    outcome = flow.outcome(function, number, constructor.kind)
    if outcome.harmless:
        return None
    if outcome.sink in (Sink.PARAMETER, Sink.BUFFER) and _moves_itself(summary):
        return None
    import_time = is_body(chain[0])
    if import_time and not _matters_at_import(index, function, summary, number):
        return None
    on_host = outcome.sink is Sink.HOST
    unfilled = "" if on_host else _unfilled(flow, function, summary, call)
    candidate = _candidate(
        function,
        summary,
        call,
        constructor,
        reach.callable,
        outcome,
        chain,
        in_context=bool(reach.context),
        import_time=import_time,
        obstacle=unfilled,
        risky=outcome.drawn or outcome.fed,
    )
    return replace(candidate, device_in_scope=None) if unfilled else candidate


def _unfilled(flow: Flow, function: Key, summary: FunctionFacts, call: CallFact) -> str:
    """Say that the device in scope is a parameter that nobody fills in, "" if it is none such.

    Passing that on would change nothing, and silence the finding.
    """
    name = call.device_in_scope
    is_as_given = any(event[:2] == ("used device", name) for event in summary.events)
    if is_as_given and not flow.may_be_given(function, name):
        return f"no caller passes the `{name}` that would be passed on"
    return ""


def _moves_itself(summary: FunctionFacts) -> bool:
    """Tell a constructor that ends in `self.to(device)`: what follows the module is moved."""
    return any(call.text in ("self.to", "self.cuda") for call in summary.calls)


def _matters_at_import(
    index: ProjectIndex, function: Key, summary: FunctionFacts, number: int
) -> bool:
    """Tell whether what a body builds at import belongs to a module class."""
    if not is_body(function):
        return True
    if function[1] != "<module>":
        return index.is_module((function[0], summary.owner))
    for event in summary.events:
        if ("call", number) not in event.value:
            continue
        if event.kind == "used":
            for target in index.resolve(function[0], f"~.{event.detail}"):
                if isinstance(target, ClassTarget) and index.is_module(target.key):
                    return True
        elif event.kind == "default":
            owner = event.detail.rpartition(":")[0].rpartition(".")[0]
            if owner and index.is_module((function[0], owner)):
                return True
    return False


def _defaulted_call(
    index: ProjectIndex, flow: Flow, function: Key, number: int, chain: tuple[Key, ...]
) -> Candidate | None:
    """A helper's `device` parameter is left to a fixed default, and the result is kept."""
    summary = index.summary(function)
    assert summary is not None, function
    call = summary.calls[number]
    outcome = flow.outcome(function, number, Kind.TENSOR)
    if outcome.harmless or outcome.sink is not Sink.ATTRIBUTE:
        return None
    name = call.text
    return _candidate(
        function,
        summary,
        call,
        Constructor(name, Kind.TENSOR),
        name,
        outcome,
        chain,
        obstacle="the helper's own default decides the device here",
    )


def _unforwarded(
    index: ProjectIndex, construction: Construction, flow: Flow
) -> Iterable[tuple[CallKey, Candidate]]:
    """Submodules that accept a device, built without it where a device parameter is at hand."""
    for function, classes in construction.reached.items():
        summary = index.summary(function)
        if (
            summary is None
            or summary.kind != "method"
            or not any(on is not None and index.is_module(on) for on in classes)
        ):
            continue
        if "device" not in summary.params and "factory_kwargs" not in summary.params:
            continue
        for number, call in enumerate(summary.calls):
            if not call.device_in_scope or call.twin:
                continue
            constructor = _accepting_class(index, construction, function, number, call)
            if constructor is None or has_device(call, constructor) or call.context:
                continue
            if _moves_itself(summary) or ("moved", "") in flow.ends(function, ("call", number)):
                continue
            outcome = Outcome(Sink.PARAMETER, "", (), False)
            yield (
                (function, number),
                _candidate(
                    function,
                    summary,
                    call,
                    constructor,
                    constructor.name,
                    outcome,
                    (function,),
                    obstacle=_unfilled(flow, function, summary, call),
                ),
            )


def _accepting_class(
    index: ProjectIndex, construction: Construction, function: Key, number: int, call: CallFact
) -> Constructor | None:
    """Give the constructor row of a module class that has a `device` parameter."""
    for atom in call.callees:
        if atom[0] != "ref":
            return None
        row = CONSTRUCTORS.get(str(atom[1]))
        if row is not None and row.kind is Kind.MODULE:
            return row
    for target in [
        target for atom in call.callees for target in index.resolve(function[0], str(atom[1]))
    ]:
        if not isinstance(target, ClassTarget) or not index.is_module(target.key):
            return None
        inits = index.methods(target.key, "__init__")
        facts = index.summary(inits[0][0]) if inits else None
        if facts is None or "device" not in facts.params:
            return None
        if any(name == "device" for name, _ in parameters_of(call, facts, True)):
            return None
        if all(name != "device" for name, _ in facts.defaults):
            return None
        position = facts.params.index("device") - 1
        index_ = position if position < facts.positional - 1 else None
        return Constructor(call.text, Kind.MODULE, device_index=index_)
    return None


def follows_a_tensor(summary: FunctionFacts, call: CallFact) -> bool:
    """Tell whether the first argument of `torch.tensor(x)` and its kind is a tensor itself."""
    if not call.args:
        return False
    value = call.args[-1 if "sparse" in call.text and len(call.args) > 1 else 0]
    if ("box",) in value:
        return False
    for atom in value:
        if atom[0] == "tensor":
            return True
        if atom[0] in ("call", "item"):
            inner = summary.calls[int(atom[1])]
            if inner.callees == MOVE:
                return True
            for callee in inner.callees:
                row = CONSTRUCTORS.get(str(callee[1])) if callee[0] == "ref" else None
                if row is not None and row.kind in (Kind.TENSOR, Kind.LEGACY, Kind.HOST_MEMORY):
                    return True
        elif atom[0] == "param" and atom[1] in summary.tensor_params:
            return True
    return False


def _candidate(
    function: Key,
    summary: FunctionFacts,
    call: CallFact,
    constructor: Constructor,
    name: str,
    outcome: Outcome,
    chain: tuple[Key, ...],
    *,
    in_context: bool = False,
    import_time: bool = False,
    obstacle: str = "",
    risky: bool = False,
) -> Candidate:
    return Candidate(
        constructor=constructor,
        callable=name,
        callee=call.text,
        sink=outcome.sink,
        symbol=symbol_of(function),
        reached_via=tuple(symbol_of(key) for key in chain),
        start=call.start,
        end=call.end,
        statement=call.statement,
        device_in_scope=call.device_in_scope or None,
        in_context=in_context,
        fix_obstacle=obstacle or _obstacle(call, constructor, name, import_time),
        target=outcome.target,
        also=outcome.also,
        import_time=import_time,
        drawn_together=risky,
    )


def _obstacle(call: CallFact, constructor: Constructor, name: str, import_time: bool) -> str:
    if import_time:
        return "no device is known when the module is imported"
    position = constructor.device_index
    if position is not None and call.star >= 0 and _may_reach(call, position):
        return "its device may be among the arguments after the `*`"
    if position is not None and len(call.args) > position:
        return "its device is passed by position, replace the `None`"
    if name != constructor.name:
        return "what is called here is only known through a value, which may not accept `device=`"
    if constructor.device_keyword != "device":
        return f"its device is given as `{constructor.device_keyword}=`"
    for keyword, _ in call.keywords:
        if keyword in FIX_OBSTACLE_KEYWORDS:
            return FIX_OBSTACLE_KEYWORDS[keyword]
    return ""


def _may_reach(call: CallFact, position: int) -> bool:
    """Tell whether the arguments after a `*` may go as far as a position."""
    dicts = [atom for atom in call.args[call.star] if atom[0] == "dict"]
    if dicts and all(atom[1] for atom in dicts) and call.star == len(call.args) - 1:
        # `*kwargs` instead of `**kwargs` hands over the keys
        return call.star + max(len(atom) - 2 for atom in dicts) > position
    return call.star <= position


def symbol_of(function: Key) -> str:
    """Write a function as users know it: no number of redefinition, bodies by their owner."""
    parts = [
        part if part.startswith("<lambda") else part.split("@")[0]
        for part in function[1].split(".")
        if part not in ("<locals>", "<body>")
    ]
    return ".".join("<lambda>" if part.startswith("<lambda") else part for part in parts)
