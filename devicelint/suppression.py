"""Comments that silence findings: `# devicelint: ignore[...]`, `# noqa`, `# devicelint: skip-file`.

In: a file's text; its findings.  Out: the directives that stand in its comments, the findings that
they silence, and the directives that silence none.  Never here: a directive read from anything but
a comment token (a string may well hold `# noqa`), or a change of the text.
"""

from __future__ import annotations

import io
import re
import tokenize
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import accumulate

from devicelint.model import Finding, Location

#: What `--add-ignores` writes where the reason belongs.  Nobody misses it when the code goes.
PLACEHOLDER = "reason: TODO"


class DirectiveKind(StrEnum):
    """Which grammar a directive is written in."""

    IGNORE = "ignore"
    NOQA = "noqa"
    SKIP_FILE = "skip-file"


@dataclass(frozen=True, slots=True)
class Directive:
    """One directive; a comment may hold several.

    `start` is its `#`, `end` where its codes end.  `codes` are as written, in upper case, other
    tools' left out of a `noqa`; None silences every code, an empty tuple (`ignore[]`, or a bracket
    never closed) none.
    """

    kind: DirectiveKind
    start: Location
    end: Location
    codes: tuple[str, ...] | None = None
    reason: str = ""
    #: columns from the line's start to the comment
    indent: int = 0


@dataclass(frozen=True, slots=True)
class Suppressions:
    """The directives of a file in order, and the lines that hold nothing but a comment."""

    directives: tuple[Directive, ...] = ()
    comment_lines: frozenset[int] = frozenset()

    @property
    def skips_file(self) -> bool:
        """Say whether the file asks not to be checked at all."""
        return any(self.is_file_level(directive) for directive in self.directives)

    def is_file_level(self, directive: Directive) -> bool:
        """Say whether it is a `skip-file` where one counts: on a line of its own, not indented.

        At the end of a statement it was most likely meant for that statement.
        """
        return (
            directive.kind is DirectiveKind.SKIP_FILE
            and directive.start.line in self.comment_lines
            and directive.indent == 0
        )

    def touches(self, directive: Directive, statement: tuple[int, int]) -> bool:
        """Say whether a directive speaks of a statement: on one of its lines or right above."""
        return directive.start.line in _reach(statement, self)


_NONE = Suppressions()

#: The least that the bytes of a file with a directive of ours hold; a bare `noqa` is not ours.
_MAY_HOLD_OURS = re.compile(rb"devicelint[ \t]*[^\n\r]{0,9}:|noqa[^\n\r]*DVL", re.IGNORECASE)


def may_hold_directive(data: bytes) -> bool:
    """Say False only of a file in which no directive is this tool's own."""
    # For 69 MB the plain searches take 0.3 s, the pattern 1.4 s.
    lower = data.lower()
    likely = b"devicelint" in lower or (b"noqa" in lower and b"dvl" in lower)
    return likely and _MAY_HOLD_OURS.search(data) is not None


#: What a file must hold to be worth tokenising, at 0.25 s per MB.  A noqa with other tools'
#: codes alone is the common case, and silences nothing here.
_MAY_HOLD_DIRECTIVE = re.compile(
    r"#\s*(?:devicelint\s*:|noqa(?![\w-])(?![ \t]*:)|noqa\s*:[^\n]*DVL)", re.IGNORECASE
)

#: A reason may name an issue (`#123`); a `#` before a word starts another tool's directive.
_OURS = re.compile(
    r"""\#\s*devicelint\s*:\s*(?P<verb>ignore|skip-file)(?![\w-])
    (?:\s*(?P<bracket>\[)(?P<codes>[^\]\#]*)(?P<closed>\])?)?
    (?P<reason>(?:[^\#]|\#(?!\s*[A-Za-z]))*)""",
    re.IGNORECASE | re.VERBOSE,
)

#: As ruff reads it: a colon without a code after it makes no directive.
_NOQA = re.compile(
    r"#\s*noqa(?![\w-])(?:(?P<colon>\s*:)\s*(?P<codes>[A-Z]+\d+(?:[,\s]*[A-Z]+\d+)*)?)?",
    re.IGNORECASE,
)

_CODE = re.compile(r"[A-Z]+\d+", re.IGNORECASE)

#: Codes after a bare `ignore`: whoever forgets the brackets does not mean every code.
_UNBRACKETED = re.compile(r"[\s:(]*(?P<codes>DVL\d+(?:[\s,]+DVL\d+)*)", re.IGNORECASE)


def parse_suppressions(text: str) -> Suppressions:
    """Read the directives of a file.  Text that cannot be tokenised yields those found so far."""
    if not _MAY_HOLD_DIRECTIVE.search(text):
        return _NONE
    starts = [0, *(end.end() for end in re.finditer(r"\r\n|\r|\n", text))]
    directives: list[Directive] = []
    comment_lines: set[int] = set()
    for line, column, comment in _comments(text):
        begin = starts[line - 1] + column
        if not text[starts[line - 1] : begin].strip():
            comment_lines.add(line)
        for directive, start, end in _directives(comment):
            places = [
                Location(len(text[: begin + at].encode()), line, column + at + 1)
                for at in (start, end)
            ]
            directives.append(replace(directive, start=places[0], end=places[1], indent=column))
    return Suppressions(tuple(directives), frozenset(comment_lines))


def _comments(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield line (from 1), column (from 0) and text of every comment."""
    # The parser counts a lone carriage return as a line end, tokenize does not: translate.
    readline = io.StringIO(text, newline=None).readline
    try:
        for token in tokenize.generate_tokens(readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.start[1], token.string
    except (tokenize.TokenError, SyntaxError):
        return


_NOWHERE = Location(0, 0, 0)


def _directives(comment: str) -> Iterator[tuple[Directive, int, int]]:
    """Yield the directives of one comment, with their span in it; they have no place yet."""
    for match in _OURS.finditer(comment):
        reason = match["reason"].strip()
        end = match.start("reason")
        if match["verb"].lower() == "skip-file":
            kind, codes = DirectiveKind.SKIP_FILE, None
        else:
            kind, codes = DirectiveKind.IGNORE, _bracketed(match)
            bare = _UNBRACKETED.match(match["reason"]) if codes is None else None
            if bare:
                codes = tuple(code.upper() for code in _CODE.findall(bare["codes"]))
                reason = match["reason"][bare.end() :].strip(" )")
                end += bare.end()
        yield Directive(kind, _NOWHERE, _NOWHERE, codes, reason), match.start(), end
    for match in _NOQA.finditer(comment):
        found = tuple(code.upper() for code in _CODE.findall(match["codes"] or ""))
        ours = tuple(code for code in found if code.startswith("DVL"))
        if ours or not match["colon"]:
            kind = DirectiveKind.NOQA
            yield (
                Directive(kind, _NOWHERE, _NOWHERE, ours or None),
                match.start(),
                match.end(),
            )


def _bracketed(match: re.Match[str]) -> tuple[str, ...] | None:
    if not match["bracket"]:
        return None
    if not match["closed"]:
        return ()
    return tuple(code.upper() for code in re.split(r"[,\s]+", match["codes"]) if code)


def stands_for(written: str, code: str, name: str) -> bool:
    """Say whether a code as written stands for a rule: a code, a prefix, or the rule's name."""
    return (written.startswith("DVL") and code.startswith(written)) or written == name.upper()


def _means(code: str, finding: Finding) -> bool:
    return stands_for(code, finding.code, finding.name)


def _silences(directive: Directive, finding: Finding) -> bool:
    return directive.codes is None or any(_means(code, finding) for code in directive.codes)


def may_speak(text: str, statements: Iterable[tuple[int, int]]) -> bool:
    """Say False only of a text with no directive on these statements or in a comment above them.

    That is cheaper to say than where directives are: to tokenise a file takes 0.25 s per MB.
    """
    places = [match.start() for match in _MAY_HOLD_DIRECTIVE.finditer(text)]
    if not places:
        return False
    if "\r" in text:
        return True  # not worth counting
    lines = text.split("\n")
    ends = list(accumulate(len(line) + 1 for line in lines))
    written = {bisect_right(ends, place) + 1 for place in places}
    for first, last in statements:
        above = first
        while above > 1 and lines[above - 2].lstrip().startswith("#"):
            above -= 1
        if not written.isdisjoint(range(above, last + 1)):
            return True
    return False


def _reach(statement: tuple[int, int], suppressions: Suppressions) -> range:
    """Return the lines whose comments speak of a statement: its own, and comments above it."""
    first, last = statement
    while first - 1 in suppressions.comment_lines:
        first -= 1
    return range(first, last + 1)


def directives_about(finding: Finding, suppressions: Suppressions) -> list[Directive]:
    """Return the directives that speak of a finding's statement, whatever their codes."""
    reach = _reach(finding.statement, suppressions)
    return [
        directive
        for directive in suppressions.directives
        if directive.kind is not DirectiveKind.SKIP_FILE and directive.start.line in reach
    ]


def split(
    findings: Iterable[Finding], suppressions: Suppressions
) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """Part the findings into those that stand and those that a directive silences."""
    if not suppressions.directives:
        return tuple(findings), ()
    kept: list[Finding] = []
    silenced: list[Finding] = []
    for finding in findings:
        is_silenced = suppressions.skips_file or any(
            _silences(directive, finding) for directive in directives_about(finding, suppressions)
        )
        (silenced if is_silenced else kept).append(finding)
    return tuple(kept), tuple(silenced)


def unused(findings: Sequence[Finding], suppressions: Suppressions) -> tuple[Directive, ...]:
    """Return the directives that silence none of `findings`, each with only its idle codes.

    Pass the findings of every rule, silenced ones included.  A bare `noqa` is never returned: it
    may be there for another tool.  Nor is anything of a file that is skipped.
    """
    if suppressions.skips_file:
        return ()
    heard: dict[Directive, list[Finding]] = {}
    for finding in findings:
        for directive in directives_about(finding, suppressions):
            heard.setdefault(directive, []).append(finding)
    idle: list[Directive] = []
    for directive in suppressions.directives:
        about = heard.get(directive, [])
        if directive.codes:
            codes = tuple(
                code for code in directive.codes if not any(_means(code, one) for one in about)
            )
            if codes:
                idle.append(replace(directive, codes=codes))
        elif directive.codes == () or (directive.kind is DirectiveKind.IGNORE and not about):
            idle.append(directive)
    return tuple(idle)
