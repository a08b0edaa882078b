"""Look at the text of each candidate call, ask the rules, and put their verdicts in place.

In: a file's UTF-8 text and its `FileTargets`.  Out: findings with edits.  Never here: other files,
a decision about reachability or flow, I/O.  This is the only module that imports libcst, which
parses just the calls in question: whatever comments and layout they have, the place where an
argument goes is exact.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import libcst as cst

from devicelint.bindings import is_free, respell, standing_of, text_around, torch_name
from devicelint.lines import LineIndex, normalised
from devicelint.model import (
    Applicability,
    Argument,
    CallSite,
    Candidate,
    Edit,
    FileTargets,
    Finding,
    Fix,
    InsertionPoint,
    Location,
    Policy,
    Rule,
    Violation,
)
from devicelint.scopes import Names, Span, read_names

#: the start of an f-string, or of what looks like one
_FSTRING = re.compile(r"\b(?:[fF][rR]?|[rR][fF])['\"]")

#: `torch` as the root of a dotted name in the configured expression
_NEEDS_TORCH = re.compile(r"(?<![\w.\"'])torch(?=\s*\.)")


@dataclass(frozen=True, slots=True)
class _Look:
    """A call site, the policy as its file can spell it, and what its fix must mind."""

    site: CallSite
    policy: Policy
    #: where a comma goes that a comment parts from the new argument
    comma: Location | None = None
    #: quotation marks that are in use around the call, which is part of an f-string
    quotes: frozenset[str] = frozenset()


def judge(
    utf8: bytes, targets: FileTargets, policy: Policy, rules: Sequence[Rule]
) -> tuple[Finding, ...]:
    """Give the findings of one file, in order of position."""
    index = LineIndex(utf8)
    names = _names_if_needed(utf8, index, targets, policy)
    verdicts: list[tuple[CallSite, Candidate, Rule, Violation]] = []
    for candidate in targets.candidates:
        look = _look(utf8, index, candidate, policy)
        if names is not None:
            look = _look_around(utf8, index, candidate, look, names)
        for rule in rules:
            violation = rule.check(look.site, look.policy)
            if violation is not None:
                fix = violation.fix and _laid_out(violation.fix, look)
                verdicts.append((look.site, candidate, rule, replace(violation, fix=fix)))
                break
    return tuple(_all_or_none(_findings(index, verdicts)))


def _all_or_none(findings: Iterable[Finding]) -> Iterable[Finding]:
    """Withhold the fix of constructions that meet one that gets none; the riskiest rules all.

    A table on one device that meets one on another is a new bug.
    """
    ordered = list(findings)
    groups: dict[str, list[Finding]] = defaultdict(list)
    for finding in ordered:
        if finding.group:
            groups[finding.group].append(finding)
    for finding in ordered:
        members = groups.get(finding.group, [finding])
        yield replace(finding, fix=_common_fix(finding, members), group_size=len(members))


def _common_fix(finding: Finding, members: Sequence[Finding]) -> Fix | None:
    fix = finding.fix
    if fix is None or not fix.edits:
        return fix
    for other in members:
        if other.fix is None or not other.fix.edits:
            return Fix(
                f"Choose the device by hand: its value meets that of `{other.callable}` in line "
                f"{other.start.line}, which gets none",
                Applicability.DISPLAY,
            )
    risky = any(other.fix and other.fix.applicability is Applicability.UNSAFE for other in members)
    return replace(fix, applicability=Applicability.UNSAFE) if risky else fix


def _findings(
    index: LineIndex, verdicts: Iterable[tuple[CallSite, Candidate, Rule, Violation]]
) -> Iterable[Finding]:
    seen: Counter[tuple[str, ...]] = Counter()
    statements: dict[tuple[int, int], str] = {}  # a table of calls is one statement
    for site, candidate, rule, violation in verdicts:
        statement = statements.get(candidate.statement)
        if statement is None:
            statement = normalised(index.lines(*candidate.statement))
            statements[candidate.statement] = statement
        identity = (rule.code, site.symbol, site.callable, statement)
        seen[identity] += 1
        text = "\0".join((*identity, str(seen[identity])))
        yield Finding(
            code=rule.code,
            name=rule.name,
            message=violation.message,
            severity=violation.severity,
            start=site.start,
            end=site.end,
            symbol=site.symbol,
            callable=site.callable,
            sink=site.sink,
            reached_via=site.reached_via,
            reason=violation.reason,
            advice=violation.advice,
            fingerprint=hashlib.sha256(text.encode()).hexdigest()[:32],
            fix=_drawn_together(violation.fix) if candidate.drawn_together else violation.fix,
            excerpt=index.lines(site.start.line, site.end.line),
            statement=candidate.statement,
            group=candidate.group,
        )


def _drawn_together(fix: Fix | None) -> Fix | None:
    """A fix is as risky as that of the random draw that its value meets."""
    if fix is None or not fix.edits:
        return fix
    return replace(fix, applicability=Applicability.UNSAFE)


def _look(utf8: bytes, index: LineIndex, candidate: Candidate, policy: Policy) -> _Look:
    """Parse one candidate's call and describe it; what does not parse takes no argument."""
    start = index.offset(*candidate.start)
    end = index.offset(*candidate.end)
    text = utf8[start:end].decode()
    written = _written(text, index.newline)
    insertion: InsertionPoint | None = None
    if written.insertion is not None:
        offset, before, after = written.insertion
        insertion = InsertionPoint(index.location(start + offset), before, after)
    comma = None if written.comma is None else index.location(start + written.comma)
    site = CallSite(
        constructor=candidate.constructor,
        callable=candidate.callable,
        sink=candidate.sink,
        symbol=candidate.symbol,
        reached_via=candidate.reached_via,
        start=index.location(start),
        end=index.location(end),
        callee_end=index.location(start + written.callee_length),
        text=text,
        arguments=written.arguments,
        insertion=insertion,
        device_in_scope=candidate.device_in_scope,
        torch_name=_own_root(candidate),
        in_context=candidate.in_context,
        fix_obstacle=candidate.fix_obstacle,
        target=candidate.target,
        also=candidate.also,
        import_time=candidate.import_time,
    )
    return _Look(site, policy, comma)


# Names -------------------------------------------------------------------------------------------


def _names_if_needed(
    utf8: bytes, index: LineIndex, targets: FileTargets, policy: Policy
) -> Names | None:
    """Read the names of the file, unless the calls themselves show all that a fix has to know.

    Most do: `torch.zeros(3)` is called by the name that torch has there.
    """
    if not policy.device_import and not any(
        _own_root(candidate) is None or _may_be_in_text(index, candidate)
        for candidate in targets.candidates
    ):
        return None
    # As text: in bytes a coding cookie would be obeyed, and these are UTF-8 whatever it says.
    return read_names(ast.parse(utf8.decode()))


def _own_root(candidate: Candidate) -> str | None:
    """Give the name of torch that the call itself uses: `th` in `th.zeros(3)`."""
    root, _, rest = candidate.callee.partition(".")
    return root if rest and f"torch.{rest}" == candidate.callable else None


def _may_be_in_text(index: LineIndex, candidate: Candidate) -> bool:
    return any(_FSTRING.search(line) for line in index.lines(*candidate.statement))


def _look_around(
    utf8: bytes, index: LineIndex, candidate: Candidate, look: _Look, names: Names
) -> _Look:
    """Say what torch and the configured expression are called where the call stands."""
    place = candidate.start
    policy = look.policy
    name = look.site.torch_name or torch_name(names, place)
    point: InsertionPoint | None = _import_point(utf8, index, names.import_line)
    if name is None and _NEEDS_TORCH.search(policy.device_expression):
        point = point if is_free(names, "torch", place) else None
    if policy.device_import:
        standing = standing_of(names, policy.device_import, place)
        point = None if standing.taken else point
        policy = replace(
            policy,
            device_expression=respell(policy.device_expression, standing.renamed),
            device_import=policy.device_import if standing.is_needed or standing.taken else "",
        )
    return replace(
        look,
        site=replace(look.site, torch_name=name, import_point=point),
        policy=policy,
        quotes=_quotes(utf8, index, text_around(names, place)),
    )


def _quotes(utf8: bytes, index: LineIndex, text: Span | None) -> frozenset[str]:
    if text is None:
        return frozenset()
    written = utf8[index.offset(*text[0]) : index.offset(*text[1])]
    return frozenset(mark for mark in ("'", '"') if mark.encode() in written)


def _import_point(utf8: bytes, index: LineIndex, line: int) -> InsertionPoint:
    offset = index.line_offset(line)
    before = ""
    if offset and not utf8[:offset].endswith((b"\n", b"\r")):
        before = index.newline
    return InsertionPoint(index.location(offset), before, index.newline)


# Layout ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Written:
    """How a call is written; places are offsets in bytes into its text.

    `insertion` is where a new last argument goes, and what must stand before and after it; `comma`
    is where a comma goes that cannot stand right before it.
    """

    callee_length: int = 0
    arguments: tuple[Argument, ...] = ()
    insertion: tuple[int, str, str] | None = None
    comma: int | None = None


@lru_cache(4096)
def _written(text: str, newline: str) -> _Written:
    """Describe a call by its text; what does not parse takes no argument.

    A project writes the same calls again and again: 2,546 of transformers 5.24.0 have 541 texts.
    """
    parsed = _parse_call(text)
    if parsed is None:
        return _Written()
    module, call = parsed
    insertion, comma = _insertion_point(module, call, newline)
    return _Written(
        len(module.code_for_node(call.func).encode()),
        tuple(_argument(module, argument) for argument in call.args),
        insertion,
        comma,
    )


def _parse_call(text: str) -> tuple[cst.Module, cst.Call] | None:
    try:
        # in parentheses, since a chain of methods may span lines
        module = cst.parse_module(f"({text})")
    except cst.ParserSyntaxError:
        return None
    match module.body:
        case [cst.SimpleStatementLine(body=[cst.Expr(value=cst.Call() as call)])]:
            return module, call
    return None


def _argument(module: cst.Module, argument: cst.Arg) -> Argument:
    keyword = argument.keyword.value if argument.keyword is not None else None
    return Argument(module.code_for_node(argument.value), keyword, argument.star)


def _insertion_point(
    module: cst.Module, call: cst.Call, newline: str
) -> tuple[tuple[int, str, str] | None, int | None]:
    """Find where a new last argument goes, and where a comma that is not right before it.

    Right behind the last one, on a line of its own if that has one; below a comment that ends the
    last one's line, for the comment belongs to it.
    """
    head = len(_code(module, call.func, call.whitespace_after_func).encode()) + len("(")
    if not call.args:
        return (head, "", ""), None
    first, last = call.args[0], call.args[-1]
    if len(call.args) == 1 and isinstance(first.value, cst.GeneratorExp) and not first.value.lpar:
        return None, None  # `f(x for x in y)`: the first argument would need parentheses
    before_last = _code(module, call.whitespace_before_args, *call.args[:-1])
    space = before_last if len(call.args) == 1 else _space_after(module, call.args[-2])
    bare = last.with_changes(
        comma=cst.MaybeSentinel.DEFAULT, whitespace_after_arg=cst.SimpleWhitespace("")
    )
    end = head + len(before_last.encode()) + len(_code(module, bare).encode())
    if "\n" not in space and "\r" not in space:
        return (end, ", ", ""), None
    own_line = newline + re.split(r"[\r\n]", space)[-1]
    # between the last argument and the closing parenthesis, its comma included
    tail = _code(module, last)[len(_code(module, bare)) :]
    comment = re.match(r"[ \t]*,?[ \t]*#[^\r\n]*", tail)
    if comment is None:
        return (end, f",{own_line}", ""), None
    below = end + len(comment.group().encode())
    if "," in comment.group().partition("#")[0]:
        return (below, own_line, ","), None
    return (below, own_line, ""), end


def _code(module: cst.Module, *nodes: cst.CSTNode) -> str:
    return "".join(module.code_for_node(node) for node in nodes)


def _space_after(module: cst.Module, argument: cst.Arg) -> str:
    """Give what stands between an argument's comma and whatever follows."""
    text = module.code_for_node(argument.whitespace_after_arg)
    if isinstance(argument.comma, cst.Comma):
        text = module.code_for_node(argument.comma.whitespace_after) + text
    return text


def _laid_out(fix: Fix, look: _Look) -> Fix:
    """Fit a fix to the text around its call: a comma before a comment, free quotation marks."""
    point = look.site.insertion
    inserts = point is not None and any(edit.start == point.location for edit in fix.edits)
    if look.comma is not None and inserts:
        fix = replace(fix, edits=(*fix.edits, Edit(look.comma, look.comma, ",")))
    if not look.quotes:
        return fix
    edits = tuple(_requoted(edit, look.quotes) for edit in fix.edits)
    if any(mark in edit.content for edit in edits for mark in look.quotes):
        return Fix(
            "Choose the device by hand: the f-string around it leaves no quotation marks for it",
            Applicability.DISPLAY,
        )
    return replace(fix, edits=edits)


def _requoted(edit: Edit, used: frozenset[str]) -> Edit:
    """Write strings with the other quotation marks where the usual ones would end the f-string."""
    if used == frozenset('"') and "'" not in edit.content:
        return replace(edit, content=edit.content.replace('"', "'"))
    return edit
