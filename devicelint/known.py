"""The baseline of a run: read from disk, held against what was selected, written back.

In: a baseline file's path, the selected findings of each file.  Out: reports with the known
findings set apart, the entries that hold on and those that are stale.  Never here: how a finding is
recognised (see `baseline`), output.

A baseline file names paths relative to its own folder, so that it may be used from anywhere.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from devicelint import baseline
from devicelint.baseline import BaselineError, Seen
from devicelint.directives import RULE as UNUSED
from devicelint.discovery import shown_path
from devicelint.files import save_atomic
from devicelint.model import BaselineEntry, FileReport
from devicelint.selection import Selected
from devicelint.settings import Settings


@dataclass(frozen=True, slots=True)
class Parted:
    """The reports of a run by path, and the baseline's entries."""

    reports: Mapping[str, FileReport]
    kept: tuple[BaselineEntry, ...] = ()
    stale: tuple[BaselineEntry, ...] = ()

    def entries(self) -> tuple[BaselineEntry, ...]:
        """Give the entries of the next baseline: those that hold on, and the new findings."""
        new = (
            baseline.entry_of(path, finding)
            for path, report in self.reports.items()
            for finding in report.findings
        )
        return tuple(sorted((*self.kept, *new)))


def load(file: str, cwd: Path) -> tuple[BaselineEntry, ...]:
    """Read a baseline, with paths as reports have them; raises `BaselineError`."""
    try:
        data = Path(file).read_bytes()
    except FileNotFoundError as error:
        raise BaselineError(f"{file}: no such baseline, `--write-baseline` makes one") from error
    except OSError as error:
        raise BaselineError(f"{file}: cannot be read: {error.strerror or error}") from error
    try:
        entries = baseline.parse(data)
    except BaselineError as error:
        raise BaselineError(f"{file}: {error}") from error
    folder = os.path.dirname(os.path.abspath(file))
    return tuple(
        replace(entry, path=shown_path(os.path.join(folder, entry.path), cwd)) for entry in entries
    )


def save(file: str, cwd: Path, entries: Iterable[BaselineEntry]) -> None:
    """Write a baseline; raises `BaselineError` where that is not possible."""
    folder = os.path.dirname(os.path.abspath(file))
    named = (
        replace(entry, path=_relative(os.path.join(cwd, entry.path), folder)) for entry in entries
    )
    try:
        save_atomic(file, baseline.render(named))
    except OSError as error:
        raise BaselineError(f"{file}: cannot be written: {error.strerror or error}") from error


def _relative(path: str, folder: str) -> str:
    try:
        return Path(os.path.relpath(path, folder)).as_posix()
    except ValueError:  # another drive of Windows
        return Path(path).as_posix()


def part(
    chosen: Mapping[str, Selected],
    entries: tuple[BaselineEntry, ...],
    settings: Settings,
    cwd: Path,
) -> Parted:
    """Set the known findings apart."""
    if not entries:
        return Parted({path: one.report for path, one in chosen.items()})
    seen = {
        path: Seen(one.report.findings, one.hidden, _judged(path, one, settings, cwd))
        for path, one in chosen.items()
    }
    matched = baseline.match(entries, seen, lambda path: os.path.exists(cwd / path))
    reports = {
        path: replace(one.report, findings=matched.new[path], baselined=matched.known[path])
        for path, one in chosen.items()
    }
    return Parted(reports, matched.kept, matched.stale)


def _judged(path: str, one: Selected, settings: Settings, cwd: Path) -> Callable[[str], bool]:
    """Say of which codes a file's findings are known: of none if it could not be checked."""
    if one.report.diagnostics:
        return lambda code: False
    return partial(_is_judged, one, settings, cwd / path)


def _is_judged(one: Selected, settings: Settings, path: Path, code: str) -> bool:
    # Comments are judged in part where only some files of a package are checked.
    if code == UNUSED.code and not one.whole:
        return False
    return settings.is_selected_in(code, path)
