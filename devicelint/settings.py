"""The settings in force, and what they say of a rule and a file.

In: values that have been checked.  Out: the frozen `Settings`, the same for every module.  Never
here: a configuration file, a message to the user, or a default that depends on the machine.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from devicelint.model import Construction, Constructor, Policy, Severity

if TYPE_CHECKING:
    import pathspec

#: Entries of a selection that stand for every rule, both equally unspecific.
EVERYTHING: Final = frozenset({"ALL", "DVL"})


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings in force.  Patterns are relative to `root`; other paths are absolute."""

    extend: str = ""
    select: tuple[str, ...] = ("DVL",)
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    extend_exclude: tuple[str, ...] = ()
    force_exclude: bool = False
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    baseline: str = ""
    extra_bases: tuple[str, ...] = ()
    extra_constructors: Mapping[str, Constructor] = field(default_factory=dict)
    extra_sinks: Mapping[str, str] = field(default_factory=dict)
    managed_calls: tuple[str, ...] = ("add_state",)
    construction: Construction = Construction.DEFAULT
    device_expression: str = Policy().device_expression
    device_import: str = ""
    min_severity: Severity = Severity.NOTE
    #: "heuristic", "never" or "always"
    unknown_bases: str = "heuristic"
    search_paths: tuple[str, ...] = ()
    root: Path = Path()
    #: where the value of each key came from
    sources: Mapping[str, str] = field(default_factory=dict)

    def policy(self) -> Policy:
        """Return the settings that rules may know."""
        return Policy(self.construction, self.device_expression, self.device_import)

    def is_selected(self, code: str) -> bool:
        """Say whether a rule is on: the most specific entry decides, `ignore` on equal terms."""
        wanted = _specificity(code, (*self.select, *self.extend_select))
        return wanted > _specificity(code, self.ignore)

    def is_asked_for(self, code: str) -> bool:
        """Say whether a rule is selected by its own code, and not among others."""
        return code in (*self.select, *self.extend_select)

    def ignored_in(self, path: str | Path) -> tuple[str, ...]:
        """Return the entries of `per-file-ignores` for a file, absolute or relative to `root`.

        A pattern after `!` holds for the files that do not match it.
        """
        if not self.per_file_ignores:
            return ()
        absolute, root = (Path(os.path.abspath(one)) for one in (self.root / path, self.root))
        relative = absolute.relative_to(root) if absolute.is_relative_to(root) else absolute
        name = relative.as_posix().lstrip("/")
        codes: set[str] = set()
        for pattern, entries in self.per_file_ignores.items():
            if compiled(pattern.removeprefix("!")).match_file(name) != pattern.startswith("!"):
                codes.update(entries)
        return tuple(sorted(codes))

    def is_selected_in(self, code: str, path: str | Path) -> bool:
        """Say whether a rule is on in one file."""
        return self.is_selected(code) and _specificity(code, self.ignored_in(path)) < 0


@lru_cache(maxsize=256)
def compiled(pattern: str) -> pathspec.GitIgnoreSpec:
    """Compile one pattern in the syntax of .gitignore; raises ValueError or `re.error`."""
    # Imported late: 35 ms, and most configurations have no pattern.
    import pathspec

    return pathspec.GitIgnoreSpec.from_lines([pattern])


def is_covered(entry: str, by: str) -> bool:
    """Say whether an entry of a selection (a code, a prefix, `ALL`) is part of another one."""
    return by in EVERYTHING or (entry not in EVERYTHING and entry.startswith(by))


def _specificity(code: str, entries: Iterable[str]) -> int:
    """Return the length of the longest entry that covers a code, -1 for none."""
    lengths = (
        0 if entry in EVERYTHING else len(entry) for entry in entries if is_covered(code, entry)
    )
    return max(lengths, default=-1)
