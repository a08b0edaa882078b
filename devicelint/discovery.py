"""Discovery: which files a run is about.

In: paths and patterns.  Out: sorted paths as users see them, and what led nowhere as diagnostics.
Never here: the content of a Python file, or a write.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from devicelint.model import Diagnostic

if TYPE_CHECKING:
    import pathspec

#: Folders that a walk does not enter, by name: version control, environments, caches, and code of
#: others.  A negated pattern in `exclude` (`!vendor`) opens one again.
SKIPPED_FOLDERS: Final = frozenset(
    [
        *(".git", ".hg", ".svn", ".bzr", ".jj"),
        *(".venv", "venv", ".direnv", ".tox", ".nox", ".eggs", "site-packages", "node_modules"),
        *("__pycache__", "__pypackages__", ".cache", ".hypothesis", ".ipynb_checkpoints"),
        *(".mypy_cache", ".pytest_cache", ".pytype", ".ruff_cache", ".devicelint_cache"),
        *("_build", "buck-out", ".pants.d"),
        *("_vendor", "vendor", "vendored", "third_party"),
    ]
)

#: Build output, unless it is a package: `build/` with an `__init__.py` is somebody's source.
_BUILD_FOLDERS = frozenset({"build", "dist"})


@dataclass(frozen=True, slots=True)
class Discovery:
    """The files to check, sorted, as `shown_path` writes them; and the paths that led nowhere."""

    files: tuple[str, ...]
    diagnostics: tuple[Diagnostic, ...] = ()


def shown_path(path: str | Path, cwd: Path) -> str:
    """Write a path as users see it: relative to `cwd` when below it, forward slashes."""
    return _shown(os.path.abspath(cwd / path), os.path.abspath(cwd))


def _shown(absolute: str, base: str) -> str:
    below = os.path.join(base, "")
    shown = absolute.removeprefix(below) if absolute != base else "."
    return shown.replace(os.sep, "/") if os.sep != "/" else shown


def discover(
    paths: Sequence[str],
    *,
    exclude: Sequence[str] = (),
    force_exclude: bool = False,
    cwd: Path,
    root: Path | None = None,
) -> Discovery:
    """Find the Python files that `paths` stand for.

    A folder is walked, a file taken whatever its name; both even if excluded, unless
    `force_exclude`.  `exclude` holds patterns in the syntax of .gitignore, relative to `root`
    (by default `cwd`).  Links to folders are not followed, so no link can make a cycle.
    """
    base = os.path.abspath(root or cwd)
    patterns = _compile(exclude) if exclude else None
    found: list[str] = []
    problems: list[Diagnostic] = []
    for path in paths:
        absolute = os.path.abspath(cwd / path)
        shown = shown_path(path, cwd)
        if force_exclude and _Filter(base, patterns).excludes_given(absolute):
            continue
        if os.path.isdir(absolute):
            inside = _Filter(base, patterns).for_given(absolute)
            for item in _files_below(absolute, inside):
                if isinstance(item, OSError):
                    place = shown_path(str(item.filename or absolute), cwd)
                    problems.append(_unlisted(place, item))
                else:
                    found.append(item)
        elif os.path.exists(absolute):
            found.append(absolute)
        else:
            problems.append(Diagnostic(shown, 0, 0, "no such file or folder"))
    top = os.path.abspath(cwd)
    files = sorted(_shown(path, top) for path in _without_aliases(found))
    return Discovery(tuple(files), tuple(sorted(set(problems), key=lambda item: item.path)))


def _unlisted(path: str, error: OSError) -> Diagnostic:
    return Diagnostic(path, 0, 0, f"folder cannot be listed: {error.strerror or error}")


def _compile(lines: Iterable[str]) -> pathspec.GitIgnoreSpec:
    # Imported late: 35 ms, and most runs have no pattern (git itself answers for .gitignore).
    import pathspec

    return pathspec.GitIgnoreSpec.from_lines(lines)


def _below(path: str, folder: str) -> str | None:
    """Return `path` relative to `folder` with forward slashes, None where it is not below it."""
    prefix = folder if folder.endswith(os.sep) else folder + os.sep
    return path[len(prefix) :].replace(os.sep, "/") if path.startswith(prefix) else None


def _is_skipped_by_nature(folder: str) -> bool:
    name = os.path.basename(folder)
    if name in SKIPPED_FOLDERS:
        return True
    if name in _BUILD_FOLDERS:
        return not os.path.exists(os.path.join(folder, "__init__.py"))
    return os.path.exists(os.path.join(folder, "pyvenv.cfg"))


@dataclass(frozen=True, slots=True)
class _Filter:
    """Decides what the `exclude` patterns and the nature of a folder keep out.

    Patterns are relative to `root`; what is not below it is matched relative to `given`, the
    folder being walked.
    """

    root: str
    patterns: pathspec.GitIgnoreSpec | None
    given: str = ""
    known: dict[str, bool] = field(default_factory=dict)

    def for_given(self, folder: str) -> _Filter:
        """Make the filter for a folder that the user named: what excludes itself is void in it."""
        relative = _below(folder, self.root)
        patterns = self.patterns
        if patterns is not None and relative is not None:
            kept = [one for one in patterns.patterns if one.match_file(relative + "/") is None]
            patterns = type(patterns)(kept)
        return _Filter(self.root, patterns, folder)

    def excludes_given(self, path: str) -> bool:
        """Say whether a path named by the user, or a folder it is in, is excluded."""
        if os.path.isdir(path):
            return self.excludes_folder(path, top=self.root)
        return self.excludes_file(path, top=self.root)

    def excludes_file(self, path: str, *, top: str) -> bool:
        """Say whether a file, or a folder between it and `top`, is excluded."""
        return self.excludes_folder(os.path.dirname(path), top=top) or bool(self._verdict(path))

    def excludes_folder(self, folder: str, *, top: str) -> bool:
        """Say whether a folder, or one between it and `top`, is excluded."""
        if _below(folder, top) is None:
            return False
        if folder not in self.known:
            above = self.excludes_folder(os.path.dirname(folder), top=top)
            self.known[folder] = above or self._excludes_itself(folder)
        return self.known[folder]

    def _excludes_itself(self, folder: str) -> bool:
        verdict = self._verdict(folder, "/")
        return _is_skipped_by_nature(folder) if verdict is None else verdict

    def _verdict(self, path: str, suffix: str = "") -> bool | None:
        if self.patterns is None:
            return None
        relative = _below(path, self.root) or _below(path, self.given) or os.path.basename(path)
        return self.patterns.check_file(relative + suffix).include


def _files_below(folder: str, keep: _Filter) -> Iterator[str | OSError]:
    """Yield the Python files below a folder, and the errors of folders that cannot be listed."""
    top = _git_top(folder)
    listed = _git_files(folder) if top else None
    if listed is not None and not listed and _git_ignores(folder):
        # The user named a folder that git ignores: then .gitignore is no guide to its content.
        yield from _walk(folder, keep, [])
    elif listed is None:
        yield from _walk(folder, keep, _ignore_files_above(folder, top or keep.root))
    else:
        has_submodules = os.path.exists(os.path.join(top or "", ".gitmodules"))
        for name in listed:
            yield from _listed_by_git(folder, name, keep, has_submodules)


def _listed_by_git(
    folder: str, name: str, keep: _Filter, has_submodules: bool
) -> Iterator[str | OSError]:
    path = os.path.join(folder, *name.split("/")) if os.sep != "/" else f"{folder}/{name}"
    if name.endswith(".py"):
        # The index also lists what has been deleted from the work tree.
        if not keep.excludes_file(path, top=folder) and os.path.isfile(path):
            yield path
    elif name.endswith("/") or (has_submodules and os.path.isdir(path)):
        # A repository of its own inside this one: git lists its folder, not its files.
        nested = path.rstrip("/\\")
        if not os.path.islink(nested) and not keep.excludes_folder(nested, top=folder):
            yield from _files_below(nested, keep)


def _walk(
    folder: str, keep: _Filter, ignores: list[tuple[str, pathspec.GitIgnoreSpec]]
) -> Iterator[str | OSError]:
    try:
        with os.scandir(folder) as scan:
            entries = sorted(scan, key=lambda entry: entry.name)
    except OSError as error:
        yield error
        return
    ignores = [*ignores, *_ignore_file(folder)]
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            if not (
                keep.excludes_folder(entry.path, top=folder)
                or _is_ignored(entry.path, "/", ignores)
            ):
                yield from _walk(entry.path, keep, ignores)
        elif (
            entry.name.endswith(".py")
            # of a link that leads to itself only `os.path` says that it is no file
            and (os.path.isfile(entry.path) if entry.is_symlink() else entry.is_file())
            and not keep.excludes_file(entry.path, top=folder)
            and not _is_ignored(entry.path, "", ignores)
        ):
            yield entry.path


def _is_ignored(path: str, suffix: str, ignores: list[tuple[str, pathspec.GitIgnoreSpec]]) -> bool:
    """Ask the .gitignore files that hold for `path`; the nearest that has a say decides."""
    for folder, patterns in reversed(ignores):
        verdict = patterns.check_file((_below(path, folder) or "") + suffix).include
        if verdict is not None:
            return verdict
    return False


def _ignore_file(folder: str) -> list[tuple[str, pathspec.GitIgnoreSpec]]:
    try:
        with open(os.path.join(folder, ".gitignore"), encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return []
    try:
        return [(folder, _compile(lines))]
    except (ValueError, re.error):
        # Git takes a line such as `[z-a]`, which matches nothing; pathspec refuses it.
        return [(folder, _compile(line for line in lines if _is_pattern(line)))]


def _is_pattern(line: str) -> bool:
    try:
        _compile([line])
    except (ValueError, re.error):
        return False
    return True


def _ignore_files_above(folder: str, top: str) -> list[tuple[str, pathspec.GitIgnoreSpec]]:
    relative = _below(folder, top)
    if relative is None:
        return []
    parts = relative.split("/")
    folders = [os.path.join(top, *parts[:count]) for count in range(len(parts))]
    ignores = [found for one in folders for found in _ignore_file(one)]
    return [] if _is_ignored(folder, "/", ignores) else ignores


def _git_top(folder: str) -> str | None:
    while not os.path.exists(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent
    return folder


def _git(folder: str, *arguments: str) -> subprocess.CompletedProcess[bytes] | None:
    # A hook runs us with GIT_DIR and GIT_INDEX_FILE set, which may point to another repository.
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    # A file system monitor is a command named by the repository: reading must not run it.
    command = ["git", "-c", "core.fsmonitor=false", *arguments]
    try:
        return subprocess.run(
            command, cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
    except OSError:
        return None


def _git_files(folder: str) -> list[str] | None:
    """List what git knows or would add below `folder`; None where git has no answer."""
    done = _git(folder, "ls-files", "-z", "-c", "-o", "--exclude-standard")
    if done is None or done.returncode != 0:
        return None
    return sorted({os.fsdecode(name) for name in done.stdout.split(b"\0") if name})


def _git_ignores(folder: str) -> bool:
    done = _git(folder, "check-ignore", "-q", folder)
    return done is not None and done.returncode == 0


def _without_aliases(paths: Iterable[str]) -> list[str]:
    """Drop second names of one file: fixing both would find the second changed on disk."""
    real_folder = lru_cache(maxsize=None)(os.path.realpath)
    names: dict[str, str] = {}
    for path in sorted(set(paths), key=lambda path: (len(path), path)):
        folder, name = os.path.split(path)
        is_link = os.path.islink(path)
        real = os.path.realpath(path) if is_link else os.path.join(real_folder(folder), name)
        # The file's own name is the best, then the shortest.
        names[real] = path if path == real else names.get(real, path)
    return list(names.values())
