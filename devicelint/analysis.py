"""Look at the text of each candidate call, ask the rules, and put their verdicts in place.

In: a file's UTF-8 text and its `FileTargets`.  Out: findings with edits.  Never here: other files,
a decision about reachability or flow, I/O.  This is the only module that imports libcst, which
parses just the calls in question: whatever comments and layout they have, the place where an
argument goes is exact.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

import libcst as cst

from devicelint.model import (
    Applicability,
    Argument,
    CallSite,
    Candidate,
    FileTargets,
    Finding,
    Fix,
    InsertionPoint,
    Location,
    Policy,
    Rule,
    Violation,
)

_NEWLINE = re.compile(rb"\r\n|\r|\n")


class LineIndex:
    """Maps positions of a text between lines, columns and byte offsets."""

    def __init__(self, utf8: bytes) -> None:
        self._utf8 = utf8
        self._starts = [0, *(match.end() for match in _NEWLINE.finditer(utf8))]
        first = _NEWLINE.search(utf8)
        self.newline = first.group().decode() if first else "\n"

    def offset(self, line: int, column: int) -> int:
        """Give the byte offset of a line (from 1) and UTF-8 byte column (from 0)."""
        return self._starts[line - 1] + column

    def location(self, offset: int) -> Location:
        """Give line and column (code points, from 1) of a byte offset."""
        line = bisect_right(self._starts, offset)
        before = self._utf8[self._starts[line - 1] : offset]
        return Location(offset, line, len(before.decode(errors="replace")) + 1)

    def lines(self, first: int, last: int) -> tuple[str, ...]:
        """Give the lines `first` to `last` (from 1, inclusive) without their line endings."""
        result = []
        for line in range(first, min(last, len(self._starts)) + 1):
            end = self._starts[line] if line < len(self._starts) else len(self._utf8)
            text = self._utf8[self._starts[line - 1] : end].decode(errors="replace")
            result.append(text.rstrip("\r\n"))
        return tuple(result)

    def line_offset(self, line: int) -> int:
        """Give the offset where a line starts; the end of the text for a line behind it."""
        return self._starts[line - 1] if line <= len(self._starts) else len(self._utf8)


def judge(
    utf8: bytes, targets: FileTargets, policy: Policy, rules: Sequence[Rule]
) -> tuple[Finding, ...]:
    """Give the findings of one file, in order of position."""
    index = LineIndex(utf8)
    verdicts: list[tuple[CallSite, Candidate, Rule, Violation]] = []
    for candidate in targets.candidates:
        site = call_site(utf8, index, candidate, targets)
        if site is None:
            continue
        for rule in rules:
            violation = rule.check(site, policy)
            if violation is not None:
                verdicts.append((site, candidate, rule, violation))
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
    for site, candidate, rule, violation in verdicts:
        statement = " ".join(" ".join(index.lines(*candidate.statement)).split())
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


def call_site(
    utf8: bytes, index: LineIndex, candidate: Candidate, targets: FileTargets
) -> CallSite | None:
    """Parse one candidate's call and describe it; None if there is no call at that place."""
    start = index.offset(*candidate.start)
    end = index.offset(*candidate.end)
    text = utf8[start:end].decode()
    parsed = _parse_call(text)
    arguments: tuple[Argument, ...] = ()
    insertion: InsertionPoint | None = None
    callee_length = 0
    if parsed is not None:
        module, call = parsed
        callee_length = len(module.code_for_node(call.func).encode())
        arguments = tuple(_argument(module, argument) for argument in call.args)
        insertion = _insertion_point(module, call, start, index)
    return CallSite(
        constructor=candidate.constructor,
        callable=candidate.callable,
        sink=candidate.sink,
        symbol=candidate.symbol,
        reached_via=candidate.reached_via,
        start=index.location(start),
        end=index.location(end),
        callee_end=index.location(start + callee_length),
        text=text,
        arguments=arguments,
        insertion=insertion,
        device_in_scope=candidate.device_in_scope,
        torch_name=_torch_name(candidate, targets),
        import_point=_import_point(utf8, index, targets.import_line),
        in_context=candidate.in_context,
        fix_obstacle=candidate.fix_obstacle,
        target=candidate.target,
        also=candidate.also,
        import_time=candidate.import_time,
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
    module: cst.Module, call: cst.Call, start: int, index: LineIndex
) -> InsertionPoint | None:
    """Find the place right after the last argument, and what a new one needs around it."""

    def code(node: cst.CSTNode) -> str:
        return module.code_for_node(node)

    head = code(call.func) + code(call.whitespace_after_func) + "("
    if not call.args:
        return InsertionPoint(index.location(start + len(head.encode())), "", "")
    first = call.args[0]
    if len(call.args) == 1 and isinstance(first.value, cst.GeneratorExp) and not first.value.lpar:
        return None  # `f(x for x in y)`: a second argument needs parentheses around the first
    before_last = code(call.whitespace_before_args)
    space = before_last
    for argument in call.args[:-1]:
        written = code(argument)
        before_last += written
        space = _space_after(module, argument)
    last = call.args[-1]
    bare = last.with_changes(
        comma=cst.MaybeSentinel.DEFAULT, whitespace_after_arg=cst.SimpleWhitespace("")
    )
    prefix = head + before_last + code(bare)
    if "\n" not in space and "\r" not in space:
        return InsertionPoint(index.location(start + len(prefix.encode())), ", ", "")
    indent = re.split(r"[\r\n]", space)[-1]
    if isinstance(last.comma, cst.Comma):
        tail = _space_after(module, last)
        comment = re.match(r"[ \t]*#[^\r\n]*", tail)
        if comment is not None:
            # a comment behind the last comma belongs to the last argument: go below it
            whole = head + before_last + code(last)
            place = len(whole.encode()) - len(tail.encode()) + len(comment.group().encode())
            return InsertionPoint(index.location(start + place), index.newline + indent, ",")
    return InsertionPoint(
        index.location(start + len(prefix.encode())), "," + index.newline + indent, ""
    )


def _space_after(module: cst.Module, argument: cst.Arg) -> str:
    """Give what stands between an argument's comma and whatever follows."""
    text = module.code_for_node(argument.whitespace_after_arg)
    if isinstance(argument.comma, cst.Comma):
        text = module.code_for_node(argument.comma.whitespace_after) + text
    return text


def _torch_name(candidate: Candidate, targets: FileTargets) -> str | None:
    """Give the name that torch has where the call stands: its own root tells most surely."""
    root, _, rest = candidate.callee.partition(".")
    if rest and f"torch.{rest}" == candidate.callable:
        return root
    return targets.torch_name or None


def _import_point(utf8: bytes, index: LineIndex, line: int) -> InsertionPoint:
    offset = index.line_offset(line)
    before = ""
    if offset and not utf8[:offset].endswith((b"\n", b"\r")):
        before = index.newline
    return InsertionPoint(index.location(offset), before, index.newline)
