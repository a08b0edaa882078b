"""The baseline: findings that are known, so that only new ones are reported.

In: the bytes of a baseline file; what a run found in each file.  Out: findings parted into new and
known, entries whose findings are gone, the bytes of the next baseline.  Never here: a file opened,
a path resolved, a selection of rules.

A finding is known if rule, file, symbol, callee, normalised statement and occurrence agree: all but
the file are in its fingerprint.  No line number counts, so an edit elsewhere never shifts an entry.
A renamed file is followed where it is new, the old one is gone, and the fingerprints are the same.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from devicelint.model import BaselineEntry, Finding

#: Grows when an old entry would mean something else.
VERSION = 1

_HEADER = "devicelint-baseline"
_KEYS = ("path", "code", "symbol", "callable", "fingerprint")


class BaselineError(Exception):
    """A baseline file that cannot be used; the message is one line."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a run saw of one file.

    `findings` are those to report; `hidden` those that are there, but not selected.  `judged` says
    of a code whether its findings would be among either; a file with a syntax error has none.
    """

    findings: tuple[Finding, ...]
    hidden: tuple[Finding, ...]
    judged: Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Matched:
    """Findings by file, parted; the entries that hold on, under their present paths, and not."""

    new: Mapping[str, tuple[Finding, ...]]
    known: Mapping[str, tuple[Finding, ...]]
    kept: tuple[BaselineEntry, ...]
    stale: tuple[BaselineEntry, ...]


# The file ----------------------------------------------------------------------------------------


def parse(data: bytes) -> tuple[BaselineEntry, ...]:
    """Read a baseline file, or raise `BaselineError` with the line that is wrong."""
    try:
        lines = [line for line in data.decode("utf-8").splitlines() if line.strip()]
    except UnicodeDecodeError as error:
        raise BaselineError("not a baseline: not utf-8") from error
    header = _object(lines[0], 1) if lines else {}
    if _HEADER not in header:
        raise BaselineError("not a baseline: the first line must be its header")
    if header[_HEADER] != VERSION:
        raise BaselineError(
            f"a baseline of version {header[_HEADER]}, not {VERSION}: write it again"
        )
    return tuple(_entry(line, number) for number, line in enumerate(lines[1:], start=2))


def _object(line: str, number: int) -> dict[str, object]:
    try:
        value = json.loads(line)
    except ValueError as error:
        conflict = line.startswith(("<<<<<<<", "=======", ">>>>>>>"))
        what = "a merge conflict: keep the lines of both sides" if conflict else "not JSON"
        raise BaselineError(f"line {number}: {what}") from error
    if not isinstance(value, dict):
        raise BaselineError(f"line {number}: not an object")
    return value


def _entry(line: str, number: int) -> BaselineEntry:
    value = _object(line, number)
    words = [value.get(key) for key in _KEYS]
    texts = [word for word in words if isinstance(word, str)]
    if len(texts) < len(_KEYS):
        raise BaselineError(f"line {number}: an entry needs {', '.join(_KEYS)}")
    return BaselineEntry(*texts)


def render(entries: Iterable[BaselineEntry]) -> bytes:
    """Write a baseline file: sorted, one line an entry, so that two branches merge by line."""
    lines = [json.dumps({_HEADER: VERSION})]
    for entry in sorted(entries):
        lines.append(json.dumps({key: getattr(entry, key) for key in _KEYS}))
    # ASCII: a path that is not valid UTF-8 survives.
    return "".join(f"{line}\n" for line in lines).encode("ascii")


def entry_of(path: str, finding: Finding) -> BaselineEntry:
    """Give the entry under which a finding is known."""
    return BaselineEntry(path, finding.code, finding.symbol, finding.callable, finding.fingerprint)


# Matching ----------------------------------------------------------------------------------------


def match(
    entries: Sequence[BaselineEntry],
    seen: Mapping[str, Seen],
    exists: Callable[[str], bool],
) -> Matched:
    """Part what was seen into new and known.  `exists` says whether an entry's file is there."""
    followed = _followed(entries, seen, exists)
    left: dict[str, dict[str, list[BaselineEntry]]] = defaultdict(lambda: defaultdict(list))
    for entry in sorted(entries):
        now = replace(entry, path=followed.get(entry.path, entry.path))
        left[now.path][now.fingerprint].append(now)
    new: dict[str, tuple[Finding, ...]] = {}
    known: dict[str, tuple[Finding, ...]] = {}
    kept: list[BaselineEntry] = []
    for path, file in seen.items():
        mine = left.get(path, {})
        matched = {id(one) for one in (*file.findings, *file.hidden) if _take(mine, one, kept)}
        new[path] = tuple(one for one in file.findings if id(one) not in matched)
        known[path] = tuple(one for one in file.findings if id(one) in matched)
    stale: list[BaselineEntry] = []
    for path, by_fingerprint in left.items():
        for entry in (one for group in by_fingerprint.values() for one in group):
            is_gone = seen[path].judged(entry.code) if path in seen else not exists(path)
            (stale if is_gone else kept).append(entry)
    return Matched(new, known, tuple(sorted(kept)), tuple(sorted(stale)))


def _take(
    left: Mapping[str, list[BaselineEntry]], finding: Finding, kept: list[BaselineEntry]
) -> bool:
    """Use up the entry that knows a finding, if there is one."""
    group = left.get(finding.fingerprint)
    if not group:
        return False
    kept.append(group.pop())
    return True


def _followed(
    entries: Iterable[BaselineEntry], seen: Mapping[str, Seen], exists: Callable[[str], bool]
) -> dict[str, str]:
    """Map the old path of each renamed file to its new one."""
    before: dict[str, Counter[str]] = defaultdict(Counter)
    for entry in entries:
        before[entry.path][entry.fingerprint] += 1
    gone = sorted(path for path in before if path not in seen and not exists(path))
    if not gone:
        return {}
    now: dict[str, Counter[str]] = {
        path: Counter(one.fingerprint for one in (*file.findings, *file.hidden))
        for path, file in sorted(seen.items())
        if path not in before
    }
    followed: dict[str, str] = {}
    # A file that only moved keeps its name: those first, so that twins are not mixed up.
    for by_name in (True, False):
        for old in gone:
            if old in followed:
                continue
            for path, fingerprints in now.items():
                same_name = path.rpartition("/")[2] == old.rpartition("/")[2]
                if fingerprints == before[old] and (same_name or not by_name):
                    followed[old] = path
                    del now[path]
                    break
    return followed
