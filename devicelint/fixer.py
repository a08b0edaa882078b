"""Fixes: text edits applied to a file's bytes, under a net that refuses any side effect.

In: UTF-8 bytes without byte order mark, and findings whose fixes hold edits in byte offsets.  Out:
the bytes after, which fixes were applied, and a diff.  Never here: a file read or written, a
syntax tree turned back into text, or a fix made up.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from devicelint.model import Applicability, Edit, Finding

#: Fixes can bring about findings with fixes of their own; more rounds than this are a fault.
MAX_PASSES = 10

#: Says why a change of a text is refused, None if it is not: `verify`, or what remembers it.
Net = Callable[[bytes, bytes, Sequence[Finding]], str | None]

#: The only keywords that a fix may add to a call.
_INSERTABLE = frozenset({"device", "device_id", "dtype"})


@dataclass(frozen=True, slots=True)
class FixResult:
    """What became of a file.

    `applied` holds the findings that were fixed, pass by pass; `left` those that remain in
    `after`.  With a `problem`, in plain words, nothing was applied and `after` is the text before.
    """

    after: bytes
    applied: tuple[Finding, ...] = ()
    left: tuple[Finding, ...] = ()
    problem: str = ""


# Edits -------------------------------------------------------------------------------------------


def _span(edit: Edit) -> tuple[int, int]:
    return edit.start.offset, edit.end.offset


def _in_order(edits: Iterable[Edit]) -> list[Edit]:
    """Sort edits by place, identical ones merged, those at one place in the order given."""
    return sorted(dict.fromkeys(edits), key=_span)


def apply_edits(utf8: bytes, edits: Iterable[Edit]) -> bytes:
    """Apply edits that do not overlap, else raise `ValueError`; identical ones count once."""
    pieces: list[bytes] = []
    position = 0
    for edit in _in_order(edits):
        start, end = _span(edit)
        if not position <= start <= end <= len(utf8):
            raise ValueError(f"edit at byte {start} overlaps another one or the end of the file")
        pieces += (utf8[position:start], edit.content.encode("utf-8"))
        position = end
    return b"".join((*pieces, utf8[position:]))


def _collide(one: Edit, other: Edit) -> bool:
    """Say whether two edits cannot both be applied; two insertions at one place count as such."""
    if one == other:
        return False
    (start, end), (other_start, other_end) = _span(one), _span(other)
    return start == other_start or (start < other_end and other_start < end)


def select_edits(findings: Iterable[Finding], *, unsafe: bool) -> tuple[Finding, ...]:
    """Choose the findings whose fixes may be applied together, in the order of the file."""
    allowed = {Applicability.SAFE, *([Applicability.UNSAFE] if unsafe else [])}
    chosen: list[Finding] = []
    taken: list[Edit] = []
    ordered = sorted(findings, key=lambda finding: (finding.start, finding.end))
    present = Counter(finding.group for finding in ordered)
    for finding in ordered:
        fix = finding.fix
        if finding.group and present[finding.group] < finding.group_size:
            continue  # one of those it meets is silenced: a half-done fix is a new bug
        if fix is None or not fix.edits or fix.applicability not in allowed:
            continue
        if not any(_collide(edit, other) for edit in fix.edits for other in taken):
            chosen.append(finding)
            taken.extend(fix.edits)
    return tuple(chosen)


# The net -----------------------------------------------------------------------------------------


class _Refusal(Exception):
    """Why a fix is refused."""


@dataclass(frozen=True, slots=True)
class _Text:
    """One side of a change: its tree, and the byte offset at which each line starts."""

    tree: ast.Module
    starts: tuple[int, ...]
    utf8: bytes

    def written(self, node: ast.stmt) -> bytes:
        """Return a statement as it is written."""
        start, end = self.span(node)
        return self.utf8[start:end]

    def span(self, node: ast.expr | ast.stmt | ast.keyword) -> tuple[int, int]:
        """Return the bytes of a node: columns of `ast` count bytes of UTF-8."""
        end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or 0
        return (
            self.starts[node.lineno - 1] + node.col_offset,
            self.starts[end_line - 1] + end_column,
        )


@dataclass(frozen=True, slots=True)
class _Change:
    """What may differ: calls by their span before, spans replaced before and written after."""

    before: _Text
    after: _Text
    calls: frozenset[tuple[int, int]]
    replaced: tuple[tuple[int, int], ...]
    written: tuple[tuple[int, int], ...]

    def is_written(self, node: ast.keyword | ast.stmt | ast.expr) -> bool:
        """Say whether a node of the text after comes from one edit alone."""
        start, end = self.after.span(node)
        return any(first <= start and end <= last for first, last in self.written)

    def is_replaced(self, node: ast.expr) -> bool:
        """Say whether an edit took away part of a node of the text before."""
        start, end = self.before.span(node)
        return any(first < end and start < last for first, last in self.replaced)


def verify(before: bytes, after: bytes, fixed: Sequence[Finding]) -> str | None:
    """Check that `after` is `before` with the fixes of `fixed` and nothing else; say why not.

    Compared are the bytes outside the edits, and the syntax trees: they may differ by keywords
    added to the calls found, by the name of a call that an edit replaced, and by added imports.
    """
    edits = _in_order(edit for finding in fixed if finding.fix for edit in finding.fix.edits)
    try:
        written = _written(before, after, edits)
        change = _Change(
            _parsed(before, "the text does not parse before the fix"),
            _parsed(after, "the text would no longer parse"),
            frozenset((finding.start.offset, finding.end.offset) for finding in fixed),
            tuple(span for span in map(_span, edits) if span[0] < span[1]),
            written,
        )
        _require_effect(fixed, _compare(change))
    except _Refusal as refusal:
        return str(refusal)
    return None


def _written(before: bytes, after: bytes, edits: Iterable[Edit]) -> tuple[tuple[int, int], ...]:
    """Return where the edits' contents stand in `after`, whose other bytes must be the same."""
    written: list[tuple[int, int]] = []
    position = place = 0
    for edit in edits:
        start, end = _span(edit)
        content = edit.content.encode("utf-8")
        expected = before[position:start] + content
        if start < position or after[place : place + len(expected)] != expected:
            raise _Refusal("text outside the fixes would change")
        place += len(expected)
        written.append((place - len(content), place))
        position = end
    if before[position:] != after[place:]:
        raise _Refusal("text outside the fixes would change")
    return tuple(written)


def _parsed(utf8: bytes, complaint: str) -> _Text:
    try:
        # As text: in bytes a coding cookie would be obeyed, and these are UTF-8 whatever it says.
        tree = ast.parse(utf8.decode("utf-8"))
    except SyntaxError as error:
        raise _Refusal(f"{complaint}: line {error.lineno or 0}: {error.msg}") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise _Refusal(f"{complaint}: {str(error) or 'nested too deeply'}") from error
    starts = (0, *(line_end.end() for line_end in re.finditer(rb"\r\n|\r|\n", utf8)))
    return _Text(tree, starts, utf8)


#: Two things that must be equal, each a node, a list or a plain value, and the line they are on.
_Pair = tuple[object, object, int]


def _compare(change: _Change) -> set[tuple[int, int]]:
    """Walk both trees side by side; return the calls that were changed as allowed.

    Without recursion: a chain of a thousand operators is a tree as deep.  A statement that is
    written alike on both sides is alike: walking them all takes as long as parsing both texts.
    """
    changed: set[tuple[int, int]] = set()
    todo: list[_Pair] = [(change.before.tree, change.after.tree, 1)]
    while todo:
        old, new, line = todo.pop()
        if type(old) is not type(new):
            raise _Refusal(f"line {line}: more than the call would change")
        if _is_same_statement(old, new, change):
            continue
        if isinstance(old, ast.Module) and isinstance(new, ast.Module):
            todo.append((old.body, _body_as_before(old, new, change), 1))
        elif (
            isinstance(old, ast.Call)
            and isinstance(new, ast.Call)
            and (span := change.before.span(old)) in change.calls
        ):
            pairs = list(_call_pairs(old, new, change))
            # Nothing was left out of the comparison: it is the call as it was.
            if len(pairs) < len(old._fields) or len(new.keywords) > len(old.keywords):
                changed.add(span)
            todo.extend(pairs)
        elif isinstance(old, ast.AST):
            line = getattr(old, "lineno", line)
            todo.extend(
                (getattr(old, name, None), getattr(new, name, None), line) for name in old._fields
            )
        else:
            todo.extend(_parts(old, new, line))
    return changed


def _parts(old: object, new: object, line: int) -> Iterator[_Pair]:
    """Yield the pairs of two lists, or refuse two plain values that differ."""
    if not isinstance(old, list) or not isinstance(new, list):
        if old != new:
            raise _Refusal(f"line {line}: more than the call would change")
        return
    if len(old) != len(new):
        raise _Refusal(f"line {line}: more than the call would change")
    yield from ((one, other, line) for one, other in zip(old, new, strict=True))


def _is_same_statement(old: object, new: object, change: _Change) -> bool:
    # The span of a function or class leaves its decorators out.
    return (
        isinstance(old, ast.stmt)
        and isinstance(new, ast.stmt)
        and not getattr(old, "decorator_list", ())
        and not getattr(new, "decorator_list", ())
        and change.before.written(old) == change.after.written(new)
    )


def _body_as_before(old: ast.Module, new: ast.Module, change: _Change) -> list[ast.stmt]:
    """Return the module's statements after the fix without the imports that it added."""
    added = [
        index
        for index, statement in enumerate(new.body)
        if isinstance(statement, ast.Import | ast.ImportFrom) and change.is_written(statement)
    ]
    for index, statement in enumerate(new.body):
        is_future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        if is_future and added and added[0] < index:
            raise _Refusal("an added import would stand before a __future__ import")
    if added[:1] == [0] and ast.get_docstring(old, clean=False) is not None:
        raise _Refusal("an added import would stand before the module's docstring")
    return [statement for index, statement in enumerate(new.body) if index not in added]


def _call_pairs(old: ast.Call, new: ast.Call, change: _Change) -> Iterator[_Pair]:
    """Yield what must be equal in a call that a fix changes."""
    given = {keyword.arg for keyword in old.keywords}
    kept = [
        keyword
        for keyword in new.keywords
        if keyword.arg not in _INSERTABLE or not change.is_written(keyword)
    ]
    added = [keyword.arg for keyword in new.keywords if keyword not in kept]
    if given.intersection(added) or len(set(added)) < len(added):
        # The parser takes it, the compiler does not.
        raise _Refusal(f"line {old.lineno}: a keyword would be given twice")
    is_renamed = change.is_replaced(old.func) and _is_dotted(old.func) and _is_dotted(new.func)
    if not is_renamed:
        yield old.func, new.func, old.lineno
    yield old.args, new.args, old.lineno
    yield old.keywords, kept, old.lineno


def _is_dotted(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def _require_effect(fixed: Iterable[Finding], changed: set[tuple[int, int]]) -> None:
    """Refuse a fix that wrote something into its call without changing it: into a comment, say."""
    for finding in fixed:
        first, last = finding.start.offset, finding.end.offset
        edits = finding.fix.edits if finding.fix else ()
        writes = any(edit.content.strip() and first <= edit.start.offset <= last for edit in edits)
        if writes and (first, last) not in changed:
            raise _Refusal(f"line {finding.start.line}: the fix would not reach the call")


# The loop ----------------------------------------------------------------------------------------


def fix_text(
    utf8: bytes,
    analyse: Callable[[bytes], tuple[Finding, ...]],
    *,
    unsafe: bool,
    check: Net | None = None,
) -> FixResult:
    """Apply fixes until none is left to apply, or refuse them all.

    All: a fix that cannot be trusted may belong together with others of the same file, and a value
    built half on one device and half on another is worse than a finding.  `check` stands in for
    `verify` where its verdicts are known from an earlier try.
    """
    findings = left = analyse(utf8)
    applied: list[Finding] = []
    current = utf8
    for _ in range(MAX_PASSES):
        chosen = select_edits(left, unsafe=unsafe)
        if not chosen:
            return FixResult(current, tuple(applied), left)
        after, problem = _fix_once(current, chosen, check or verify)
        if problem:
            return FixResult(utf8, (), findings, problem)
        applied.extend(chosen)
        current, left = after, analyse(after)
    if select_edits(left, unsafe=unsafe):
        return FixResult(utf8, (), findings, f"fixes do not settle within {MAX_PASSES} passes")
    return FixResult(current, tuple(applied), left)


def _fix_once(utf8: bytes, chosen: Sequence[Finding], check: Net) -> tuple[bytes, str]:
    edits = [edit for finding in chosen if finding.fix for edit in finding.fix.edits]
    try:
        after = apply_edits(utf8, edits)
    except ValueError as error:
        return utf8, str(error)
    return after, check(utf8, after, chosen) or ""


# The diff ----------------------------------------------------------------------------------------


def unified_diff(path: str, before: bytes, after: bytes) -> bytes:
    """Write a patch that `git apply` and `patch -p1` take; empty if nothing changed.

    Bytes, for a file may be in any encoding, and a line of it may end in a carriage return.
    """
    if before == after:
        return b""
    # Imported late: only `fix` and `--diff` show one.
    import difflib

    # Not `splitlines`, which ends a line at a lone carriage return: patch tools do not.
    old, new = (re.findall(rb"[^\n]*\n|[^\n]+", text) for text in (before, after))
    relative = path.lstrip("/")
    pieces = [b"--- " + _patch_name(f"a/{relative}"), b"+++ " + _patch_name(f"b/{relative}")]
    matcher = difflib.SequenceMatcher(None, old, new)
    for group in matcher.get_grouped_opcodes(3):
        first, last = group[0], group[-1]
        spans = (_patch_range(first[1], last[2]), _patch_range(first[3], last[4]))
        pieces.append(f"@@ -{spans[0]} +{spans[1]} @@\n".encode())
        for tag, old_start, old_end, new_start, new_end in group:
            if tag == "equal":
                pieces += _patch_lines(b" ", old[old_start:old_end])
            else:
                pieces += _patch_lines(b"-", old[old_start:old_end])
                pieces += _patch_lines(b"+", new[new_start:new_end])
    return b"".join(pieces)


def _patch_name(name: str) -> bytes:
    """Write a file name as git does: quoted if odd, ended by a tab if it holds a space."""
    raw = name.encode("utf-8", "surrogateescape")
    if re.search(rb'[\x00-\x1f"\\\x7f]', raw):
        escaped = re.sub(rb'[\x00-\x1f"\\\x7f]', lambda odd: b"\\%03o" % odd.group()[0], raw)
        return b'"' + escaped + b'"\n'
    return raw + (b"\t\n" if b" " in raw else b"\n")


def _patch_range(start: int, end: int) -> str:
    """Write a range of lines: counted from 1, an empty one by the line before it."""
    length = end - start
    return f"{start + 1 if length else start},{length}"


def _patch_lines(mark: bytes, lines: Iterable[bytes]) -> Iterator[bytes]:
    for line in lines:
        yield mark + line
        if not line.endswith(b"\n"):
            yield b"\n\\ No newline at end of file\n"
