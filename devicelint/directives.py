"""Judge the suppression comments of a file: the findings of DVL100, and their fixes.

In: a file's text, its suppressions, the findings of every rule, the statements looked at.  Out:
findings, in order.  Never here: what a directive silences (see `suppression`), other tools' codes,
a bare `noqa`.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from devicelint.lines import LineIndex
from devicelint.model import Applicability, Edit, Finding, Fix, Severity, Sink
from devicelint.option_values import nearest
from devicelint.rules import RULES, RULES_BY_CODE
from devicelint.suppression import (
    PLACEHOLDER,
    Directive,
    DirectiveKind,
    Suppressions,
    directives_about,
    stands_for,
    unused,
)

RULE = RULES_BY_CODE["DVL100"]

Statement = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Scope:
    """What is known of a file's statements.

    `looked` are those that rules looked at; with `whole`, no other file could add to them.
    `blanket`: report directives without codes, too.
    """

    looked: frozenset[Statement]
    whole: bool
    blanket: bool


@dataclass(frozen=True, slots=True)
class _Fault:
    """What is wrong with a directive, and its codes that are to go (None: the whole of it)."""

    directive: Directive
    message: str
    reason: str
    advice: str
    codes: tuple[str, ...] | None = None
    severity: Severity = RULE.severity
    #: why nothing is edited: the title of a fix for people
    by_hand: str = ""


def judge_directives(
    text: str, suppressions: Suppressions, findings: Sequence[Finding], scope: Scope
) -> tuple[Finding, ...]:
    """Report the directives that silence nothing.  `findings` are those of every rule."""
    faults = _faults(suppressions, findings, scope)
    lines = _Lines(text)
    seen: Counter[str] = Counter()
    found: list[Finding] = []
    for fault in sorted(faults, key=lambda fault: fault.directive.start):
        if _is_meant(fault.directive, suppressions):
            continue
        line = " ".join(lines.text_of(fault.directive.start.line).split())
        seen[line] += 1
        found.append(_finding(fault, lines, f"{line}\0{seen[line]}"))
    return tuple(found)


def _is_meant(directive: Directive, suppressions: Suppressions) -> bool:
    """Say whether a directive names DVL100 itself: an idle code or prefix must not hide itself."""
    place = directive.start.line
    return any(
        code in (RULE.code, RULE.name.upper())
        for other in suppressions.directives
        if suppressions.touches(other, (place, place))
        for code in other.codes or ()
    )


# What is wrong -----------------------------------------------------------------------------------


def _faults(
    suppressions: Suppressions, findings: Sequence[Finding], scope: Scope
) -> Iterator[_Fault]:
    if suppressions.skips_file:
        return
    for directive in suppressions.directives:
        if directive.kind is DirectiveKind.SKIP_FILE:
            yield _misplaced_skip(directive)
    for directive in unused(findings, suppressions):
        yield from _idle(directive, suppressions, scope)
    if scope.blanket:
        about = {one for finding in findings for one in directives_about(finding, suppressions)}
        for directive in suppressions.directives:
            is_blanket = directive.kind is DirectiveKind.IGNORE and directive.codes is None
            if is_blanket and directive in about:
                yield _blanket(directive)


def _idle(directive: Directive, suppressions: Suppressions, scope: Scope) -> Iterator[_Fault]:
    """Say what is wrong with a directive of which only the idle codes are left."""
    if directive.codes == ():
        yield _Fault(
            directive,
            "The comment names no rule between its brackets, so it silences nothing.",
            "a directive without codes in its brackets",
            "Name the codes, or leave the brackets out.",
            by_hand="Write the codes between the brackets",
        )
        return
    unknown = [code for code in directive.codes or () if not _is_known(code)]
    for code in unknown:
        yield _unknown(directive, code)
    idle = tuple(code for code in directive.codes or () if code not in unknown)
    if directive.codes is not None and not idle:
        return
    touched = any(suppressions.touches(directive, statement) for statement in scope.looked)
    if not touched and not scope.whole:
        return  # a caller in a file that was not given may well lead here
    named = " and ".join(f"`{code}`" for code in idle) if idle else "any rule"
    if touched:
        message = f"The comment silences nothing: there is no finding of {named} here."
        reason = "an idle suppression hides the next fault"
    else:
        message = (
            f"The comment silences nothing: no rule looks at this statement, so {named} cannot be "
            "found here."
        )
        reason = "a suppression away from code that builds a module"
    yield _Fault(directive, message, reason, "Remove it.", idle or None)


def _is_known(code: str) -> bool:
    return any(stands_for(code, rule.code, rule.name) for rule in RULES)


def _unknown(directive: Directive, code: str) -> _Fault:
    known = [*(rule.code for rule in RULES), *(rule.name.upper() for rule in RULES)]
    near = nearest(code, known)
    written = near.partition('"')[2].partition('"')[0]
    return _Fault(
        directive,
        f"The comment names `{code}`, which no rule is called{near.removesuffix('?') or ''}"
        f"{'?' if near else ': it silences nothing.'}",
        "a code that no rule has",
        f"Write `{written}`." if written else "Remove it.",
        (code,),
        by_hand=f"Write `{written}` in place of `{code}`" if written else "",
    )


def _misplaced_skip(directive: Directive) -> _Fault:
    return _Fault(
        directive,
        "`skip-file` counts only on a line of its own, not indented: the file is checked.",
        "a directive for the file, in the midst of it",
        "Move it to the top of the file, or use `# devicelint: ignore` for this statement.",
        by_hand="Move it to a line of its own at the top of the file",
    )


def _blanket(directive: Directive) -> _Fault:
    return _Fault(
        directive,
        "The comment silences every rule: name the codes that are meant.",
        "a suppression without codes hides other faults, too",
        "Add the codes in brackets.",
        severity=Severity.NOTE,
        by_hand="Add the codes in brackets",
    )


# Findings ----------------------------------------------------------------------------------------


class _Lines:
    """The lines of a text, in bytes."""

    def __init__(self, text: str) -> None:
        self.utf8 = text.encode()
        self._index = LineIndex(self.utf8)

    def span(self, line: int) -> tuple[int, int, int]:
        """Give the offsets of a line's start, of its end, and of the start of the next one."""
        start = self._index.line_offset(line)
        return start, start + len(self.text_of(line).encode()), self._index.line_offset(line + 1)

    def text_of(self, line: int) -> str:
        """Give a line without its ending."""
        return self._index.lines(line, line)[0]

    def cut(self, start: int, end: int) -> Edit:
        """Take a span of bytes away."""
        return Edit(self._index.location(start), self._index.location(end), "")


def _finding(fault: _Fault, lines: _Lines, identity: str) -> Finding:
    directive = fault.directive
    line = directive.start.line
    text = f"{RULE.code}\0{fault.codes}\0{identity}"
    return Finding(
        code=RULE.code,
        name=RULE.name,
        message=fault.message,
        severity=fault.severity,
        start=directive.start,
        end=directive.end,
        symbol="",
        callable="",
        sink=Sink.LOCAL,
        reached_via=(),
        reason=fault.reason,
        advice=fault.advice,
        fingerprint=hashlib.sha256(text.encode()).hexdigest()[:32],
        fix=_fix(fault, lines),
        excerpt=(lines.text_of(line),),
        statement=(line, line),
    )


def _fix(fault: _Fault, lines: _Lines) -> Fix:
    if fault.by_hand:
        return Fix(fault.by_hand, Applicability.DISPLAY)
    codes = _removed_codes(fault, lines)
    edits = _without_directive(fault.directive, lines) if codes is None else codes
    named = ", ".join(f"`{code}`" for code in fault.codes or ()) if codes is not None else ""
    return Fix(f"Remove {named or 'the directive'}", Applicability.SAFE, tuple(edits))


_TOKEN = re.compile(rb"[^\s,\[\]()]+")


def _removed_codes(fault: _Fault, lines: _Lines) -> list[Edit] | None:
    """Take the idle codes out of a list that keeps others; None if none would be left."""
    directive = fault.directive
    if fault.codes is None:
        return None
    start, end = directive.start.offset, directive.end.offset
    written = lines.utf8[start:end]
    mark = rb"\bignore\b" if directive.kind is DirectiveKind.IGNORE else rb"\bnoqa\b\s*:"
    head = re.search(mark, written, re.IGNORECASE)
    pattern = _TOKEN if directive.kind is DirectiveKind.IGNORE else re.compile(rb"[A-Za-z]+\d+")
    tokens = [*pattern.finditer(written, head.end())] if head else []
    tokens = [token for token in tokens if token.group() != b":"]
    idle = [token.group().decode().upper() in fault.codes for token in tokens]
    if all(idle):
        return None
    edits: list[Edit] = []
    kept_before = False
    for index, token in enumerate(tokens):
        if not idle[index]:
            kept_before = True
        elif kept_before:
            previous = tokens[index - 1].end()
            edits.append(lines.cut(start + previous, start + token.end()))
        else:
            following = tokens[index + 1].start()
            edits.append(lines.cut(start + token.start(), start + following))
    return edits


def _without_directive(directive: Directive, lines: _Lines) -> list[Edit]:
    """Take a directive away; what else the comment says stays, and so does the layout."""
    line, start = directive.start.line, directive.start.offset
    first, last, following = lines.span(line)
    rest = lines.utf8[directive.end.offset : last]
    said = rest.strip()
    if said and said != PLACEHOLDER.encode():
        beginning = directive.end.offset + len(rest) - len(rest.lstrip())
        if said.startswith(b"#"):
            return [lines.cut(start, beginning)]
        # The reason stays, behind the `#` that is there.
        sign = re.match(rb"#\s*", lines.utf8[start:last])
        return [lines.cut(start + (sign.end() if sign else 1), beginning)]
    before = lines.utf8[first:start]
    if not before.strip():
        return [lines.cut(first, following)]
    return [lines.cut(first + len(before.rstrip()), last)]
