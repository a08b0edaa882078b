"""Facts and results as JSON, and back.

In: plain data types.  Out: the text of JSON; and the same types from it.  Never here: a
file.  What does not fit raises ValueError, TypeError or IndexError, for the reader to take as
"not there".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import NoReturn, TypeAlias

from devicelint.ir import (
    Basis,
    CallFact,
    ClassFacts,
    Event,
    FileHeaders,
    Footprint,
    FunctionFacts,
    Glance,
    GroupCall,
    Meaning,
    ModuleFacts,
    Unread,
    Way,
)
from devicelint.model import (
    Analysis,
    Applicability,
    Candidate,
    Constructor,
    Diagnostic,
    Edit,
    FileTargets,
    Finding,
    Fix,
    Kind,
    Location,
    Looked,
    Results,
    Severity,
    Sink,
)

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Frozen: TypeAlias = "bool | int | float | str | tuple[Frozen, ...] | None"


def frozen(text: str) -> Frozen:
    """Read JSON with tuples for lists; raises ValueError, also if there are objects in it."""
    value = json.loads(text, object_pairs_hook=_refused)
    return _tuple(value) if isinstance(value, list) else value


def _refused(pairs: object) -> NoReturn:
    raise ValueError("no objects are written")


def _tuple(value: list[Json]) -> tuple[Frozen, ...]:
    # a call for each list, not for each value in it: most are strings and numbers
    return tuple([_tuple(item) if isinstance(item, list) else item for item in value])  # type: ignore[misc]


def _pieces(entries: Iterable[Json]) -> Iterator[str]:
    """Write a list entry by entry: a whole run laid out for the encoder takes 20 MB and more."""
    mark = "["
    for entry in entries:
        yield mark
        yield json.dumps(entry, ensure_ascii=False)
        mark = ","
    yield "]" if mark == "," else "[]"


def _listed(*parts: Iterable[str]) -> str:
    """Write a list of what is given in pieces."""
    marked = (piece for part in parts for piece in (",", *part))
    return "".join(chain("[", islice(marked, 1, None), "]"))


# Facts


def facts_to(facts: ModuleFacts) -> str:
    """Write facts: they are nothing but tuples, strings and numbers."""
    return json.dumps(facts, ensure_ascii=False)


def facts_from(value: Frozen) -> ModuleFacts:
    """Give facts from what their JSON held; their insides are believed."""
    facts = ModuleFacts._make(_many(value))
    return facts._replace(
        classes=tuple(ClassFacts._make(item) for item in facts.classes),
        summaries=tuple(_function_from(item) for item in facts.summaries),
        unread=tuple(Unread._make(item) for item in facts.unread),
        process_groups=tuple(GroupCall._make(item) for item in facts.process_groups),
    )


def _function_from(value: FunctionFacts) -> FunctionFacts:
    summary = FunctionFacts._make(value)
    return summary._replace(
        calls=tuple(CallFact._make(item) for item in summary.calls),
        events=tuple(Event._make(item) for item in summary.events),
    )


def _many(value: Frozen) -> tuple[Frozen, ...]:
    if not isinstance(value, tuple):
        raise TypeError("not a list")
    return value


# Results


def results_to(results: Results) -> str:
    """Write the results of a run."""
    return _listed(
        _pieces(
            _analysis_to(path, one) for path, one in results.analyses.items() if one != Analysis()
        ),
        _pieces([path, digest] for path, digest in results.rests_on.items()),
    )


def results_from(value: Frozen) -> Results:
    """Give the results of a run; files without any are left out."""
    match value:
        case (tuple(analyses), tuple(rests_on)):
            return Results(
                dict(_analysis_from(item) for item in analyses),
                dict(_pair(item) for item in rests_on),
            )
    raise ValueError("no results")


def findings_to(findings: tuple[Finding, ...]) -> str:
    """Write findings of one file."""
    return "".join(_pieces(map(_finding_to, findings)))


def findings_from(value: Frozen) -> tuple[Finding, ...]:
    """Give findings of one file."""
    return tuple(_finding_from(item) for item in _many(value))


def _pair(value: Frozen) -> tuple[str, str]:
    match value:
        case (str(path), str(digest)):
            return path, digest
    raise ValueError("no pair")


def _spans(spans: frozenset[tuple[int, int]]) -> Json:
    return [[first, last] for first, last in sorted(spans)]


def _spans_from(value: Frozen) -> frozenset[tuple[int, int]]:
    spans: set[tuple[int, int]] = set()
    for item in _many(value):
        match item:
            case (int(first), int(last)):
                spans.add((first, last))
            case _:
                raise ValueError("no span")
    return frozenset(spans)


def _analysis_to(path: str, one: Analysis) -> Json:
    return [
        path,
        [_finding_to(item) for item in one.findings],
        [[d.path, d.line, d.column, d.message, d.detail] for d in one.diagnostics],
        None if one.looked is None else [_spans(one.looked.own), _spans(one.looked.all)],
    ]


def _analysis_from(value: Frozen) -> tuple[str, Analysis]:
    match value:
        case (str(path), tuple(findings), tuple(diagnostics), looked):
            seen = None
            if looked is not None:
                own, every = _many(looked)
                seen = Looked(_spans_from(own), _spans_from(every))
            return path, Analysis(
                tuple(_finding_from(item) for item in findings),
                tuple(_diagnostic_from(item) for item in diagnostics),
                seen,
            )
    raise ValueError("no analysis")


def _diagnostic_from(value: Frozen) -> Diagnostic:
    match value:
        case (str(path), int(line), int(column), str(message), str(detail)):
            return Diagnostic(path, line, column, message, detail)
    raise ValueError("no diagnostic")


def _location_to(location: Location) -> Json:
    return [location.offset, location.line, location.column]


def _location_from(value: Frozen) -> Location:
    match value:
        case (int(offset), int(line), int(column)):
            return Location(offset, line, column)
    raise ValueError("no location")


def _fix_to(fix: Fix | None) -> Json:
    if fix is None:
        return None
    edits: list[Json] = [
        [_location_to(edit.start), _location_to(edit.end), edit.content] for edit in fix.edits
    ]
    return [fix.title, str(fix.applicability), edits]


def _fix_from(value: Frozen) -> Fix | None:
    match value:
        case None:
            return None
        case (str(title), str(applicability), tuple(edits)):
            return Fix(title, Applicability(applicability), tuple(map(_edit_from, edits)))
    raise ValueError("no fix")


def _edit_from(value: Frozen) -> Edit:
    match value:
        case (start, end, str(content)):
            return Edit(_location_from(start), _location_from(end), content)
    raise ValueError("no edit")


def _finding_to(finding: Finding) -> Json:
    return [
        [finding.code, finding.name, finding.message, str(finding.severity), finding.symbol],
        [finding.callable, str(finding.sink), finding.reason, finding.advice],
        [finding.fingerprint, finding.group, finding.group_size],
        _location_to(finding.start),
        _location_to(finding.end),
        list(finding.reached_via),
        list(finding.excerpt),
        list(finding.statement),
        _fix_to(finding.fix),
    ]


def _finding_from(value: Frozen) -> Finding:
    match value:
        case (
            (str(code), str(name), str(message), str(severity), str(symbol)),
            (str(callable_), str(sink), str(reason), str(advice)),
            (str(fingerprint), str(group), int(group_size)),
            start,
            end,
            tuple(reached_via),
            tuple(excerpt),
            (int(first), int(last)),
            fix,
        ):
            return Finding(
                code=code,
                name=name,
                message=message,
                severity=Severity(severity),
                start=_location_from(start),
                end=_location_from(end),
                symbol=symbol,
                callable=callable_,
                sink=Sink(sink),
                reached_via=tuple(str(item) for item in reached_via),
                reason=reason,
                advice=advice,
                fingerprint=fingerprint,
                fix=_fix_from(fix),
                excerpt=tuple(str(item) for item in excerpt),
                statement=(first, last),
                group=group,
                group_size=group_size,
            )
    raise ValueError("no finding")


# What a run was


def basis_to(basis: Basis) -> str:
    """Write what a run was."""
    return _listed(
        (json.dumps(basis.run),),
        _pieces(_file_to(*item) for item in basis.files.items()),
        _pieces(_targets_to(*item) for item in basis.targets.items()),
        _pieces(sorted(basis.read)),
        _pieces(
            [path, *map(_meaning_to, names.items())] for path, names in basis.consulted.items()
        ),
        _pieces(_exports_to(*item) for item in basis.exports.items()),
    )


def basis_from(value: Frozen) -> Basis:
    """Give what a run was."""
    match value:
        case (str(run), tuple(files), tuple(targets), tuple(read), tuple(consulted), tuple(names)):
            return Basis(
                run,
                dict(_file_from(item) for item in files),
                dict(_targets_from(item) for item in targets),
                frozenset(str(item) for item in read),
                {str(path): dict(map(_meaning_from, one)) for path, *one in map(_many, consulted)},
                {str(path): _exports_from(one) for path, one in map(_many, names)},
            )
    raise ValueError("no run")


def _exports_to(path: str, names: frozenset[str] | None) -> Json:
    return [path, None if names is None else [*sorted(names)]]


def _exports_from(value: Frozen) -> frozenset[str] | None:
    return frozenset(map(str, _many(value))) if value is not None else None


def _meaning_to(named: tuple[str, Meaning]) -> Json:
    name, meaning = named
    return [name, [*meaning.imported], meaning.otherwise]


def _meaning_from(value: Frozen) -> tuple[str, Meaning]:
    match value:
        case (str(name), tuple(imported), bool(otherwise)):
            return name, Meaning(tuple(map(str, imported)), otherwise)
    raise ValueError("no meaning")


def footprint_to(footprint: Footprint) -> str:
    """Write what a run has asked for."""
    plain = (footprint.names, footprint.listed, footprint.attributes, footprint.kept)
    return _listed(
        *(_pieces(sorted(names)) for names in plain),
        _pieces([path, *sorted(one)] for path, one in footprint.parameters.items()),
        _pieces([path, *map(_way_to, one.items())] for path, one in footprint.ways.items()),
    )


def footprint_from(value: Frozen) -> Footprint:
    """Give what a run has asked for; its insides are believed."""
    match value:
        case (
            tuple(names),
            tuple(listed),
            tuple(attributes),
            tuple(kept),
            tuple(parameters),
            tuple(ways),
        ):
            return Footprint(
                frozenset(map(str, names)),
                frozenset(map(str, listed)),
                frozenset(map(str, attributes)),
                frozenset(map(str, kept)),
                {str(path): frozenset(map(str, one)) for path, *one in map(_many, parameters)},
                {str(path): dict(map(_way_from, one)) for path, *one in map(_many, ways)},
            )
    raise ValueError("no footprint")


def _way_to(named: tuple[str, Way]) -> Json:
    name, way = named
    return [name, way.context, [*way.chain]]


def _way_from(value: Frozen) -> tuple[str, Way]:
    match value:
        case (str(name), int(context), tuple(chain)):
            return name, Way(context, tuple(map(str, chain)))
    raise ValueError("no way")


def _file_to(path: str, known: tuple[str, Glance]) -> Json:
    digest, glance = known
    headers = glance.headers
    classes: list[Json] = [[name, [*bases]] for name, bases in headers.classes]
    imports: list[Json] = [[*item] for item in headers.imports]
    return [
        path,
        digest,
        [
            [classes, imports, [*headers.reassigned], headers.forwards],
            glance.holds_directive,
            glance.sets_up_group,
        ],
    ]


def _file_from(value: Frozen) -> tuple[str, tuple[str, Glance]]:
    match value:
        case (str(path), str(content), (tuple(headers), bool(directive), bool(group))):
            # as with facts, its insides are believed
            glance = Glance(FileHeaders._make(headers), directive, group)
            return path, (content, glance)
    raise ValueError("no file")


def _targets_to(path: str, targets: FileTargets) -> Json:
    return [path, [_candidate_to(item) for item in targets.candidates]]


def _targets_from(value: Frozen) -> tuple[str, FileTargets]:
    match value:
        case (str(path), tuple(candidates)):
            return path, FileTargets(tuple(_candidate_from(item) for item in candidates))
    raise ValueError("no targets")


def _candidate_to(item: Candidate) -> Json:
    row = item.constructor
    settled_by: list[Json] = [*row.settled_by]
    constructor: list[Json] = [row.name, str(row.kind), row.takes_device, row.device_index]
    constructor += [row.honours_context, row.random, settled_by]
    constructor += [row.follows_tensor, row.dtype, row.device_keyword]
    return [
        constructor,
        [item.callable, item.callee, str(item.sink), item.symbol, item.device_in_scope],
        [item.fix_obstacle, item.target, item.group],
        [item.in_context, item.import_time, item.drawn_together],
        list(item.reached_via),
        [str(sink) for sink in item.also],
        [*item.start, *item.end, *item.statement],
    ]


def _candidate_from(value: Frozen) -> Candidate:
    match value:
        case (
            constructor,
            (str(callable_), str(callee), str(sink), str(symbol), str() | None as device),
            (str(obstacle), str(target), str(group)),
            (bool(in_context), bool(import_time), bool(drawn_together)),
            tuple(reached_via),
            tuple(also),
            (int(line), int(column), int(end_line), int(end_column), int(first), int(last)),
        ):
            return Candidate(
                constructor=_constructor_from(constructor),
                callable=callable_,
                callee=callee,
                sink=Sink(sink),
                symbol=symbol,
                reached_via=tuple(str(item) for item in reached_via),
                start=(line, column),
                end=(end_line, end_column),
                statement=(first, last),
                device_in_scope=device,
                in_context=in_context,
                fix_obstacle=obstacle,
                target=target,
                also=tuple(Sink(str(item)) for item in also),
                import_time=import_time,
                group=group,
                drawn_together=drawn_together,
            )
    raise ValueError("no candidate")


def _constructor_from(value: Frozen) -> Constructor:
    match value:
        case (
            str(name),
            str(kind),
            bool(takes_device),
            int() | None as device_index,
            bool(honours_context),
            bool(random),
            tuple(settled_by),
            bool(follows_tensor),
            str() | None as dtype,
            str(device_keyword),
        ):
            return Constructor(
                name,
                Kind(kind),
                takes_device,
                device_index,
                honours_context,
                random,
                tuple(str(item) for item in settled_by),
                follows_tensor,
                dtype,
                device_keyword,
            )
    raise ValueError("no constructor")
