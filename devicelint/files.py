"""Files: which to check, their bytes and text, and the way changed bytes get back on disk.

In: paths and patterns.  Out: sorted paths, bytes, decoded text; problems with single paths as
diagnostics, with one file's content as `SourceError`.  Never here: an import or run of the code
that is read, a write other than `write_atomic`, or knowledge of findings.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import signal
import stat
import subprocess
import threading
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

from devicelint.model import Diagnostic, Kind
from devicelint.torch_api import CONSTRUCTORS, FACTORY_TOKENS

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


class SourceError(Exception):
    """A file whose text cannot be had; `line` and `column` count from 1, 0 for the whole file."""

    def __init__(self, message: str, line: int = 0, column: int = 0) -> None:
        # All three go to `args`, so that the error survives pickling by a process pool.
        super().__init__(message, line, column)
        self.message = message
        self.line = line
        self.column = column

    def __str__(self) -> str:
        return self.message


class ChangedOnDisk(Exception):
    """A file that somebody else changed between reading and writing."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file's bytes, and its path as users see it (see `shown_path`)."""

    path: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Discovery:
    """The files to check, sorted, as `shown_path` writes them; and the paths that led nowhere."""

    files: tuple[str, ...]
    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True)
class Decoded:
    """A file's text, and what it takes to turn changed text back into bytes.

    `utf8` is `text` as UTF-8; neither holds the byte order mark.  `exact` is False for the rare
    encodings in which the text would not come back as the same bytes (UTF-7).
    """

    text: str
    utf8: bytes
    encoding: str = "utf-8"
    bom: bool = False
    exact: bool = True


# Discovery ---------------------------------------------------------------------------------------


def shown_path(path: str | Path, cwd: Path) -> str:
    """Write a path as users see it: relative to `cwd` when below it, forward slashes."""
    absolute = Path(os.path.abspath(cwd / path))
    base = Path(os.path.abspath(cwd))
    return (absolute.relative_to(base) if absolute.is_relative_to(base) else absolute).as_posix()


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
    files = sorted(shown_path(path, cwd) for path in _without_aliases(found))
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
            and os.path.isfile(entry.path)
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


# Content -----------------------------------------------------------------------------------------


def _one_of(names: Iterable[bytes]) -> re.Pattern[bytes]:
    return re.compile(rb"\b(?:" + b"|".join(sorted(names)) + rb")\b")


_FACTORY = _one_of(FACTORY_TOKENS)
_SUBMODULE = _one_of(
    {
        name.rpartition(".")[2].encode()
        for name, constructor in CONSTRUCTORS.items()
        if constructor.kind is Kind.MODULE
    }
)


def may_hold_candidate(data: bytes) -> bool:
    """Say False only of a file that cannot hold a call that any rule looks at.

    Measured: 0.15 s for 3,231 files of 50 MB, after which 1,807 of 37 MB are left.
    """
    if b"torch" not in data:
        return False
    # A submodule counts only where there is a device to forward to it.
    return bool(_FACTORY.search(data) or (b"device" in data and _SUBMODULE.search(data)))


def read(path: str | Path) -> bytes:
    """Read a file, or raise `SourceError`."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise SourceError(f"cannot be read: {error.strerror or error}") from error


#: The first two lines, in which the cookie of PEP 263 must be.
_HEAD = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n|\Z)")


def decode(data: bytes) -> Decoded:
    """Decode a file by its byte order mark and PEP 263 cookie; newlines stay as they are."""
    first = _HEAD.match(data)
    second = _HEAD.match(data, first.end()) if first else None
    head = iter([match.group() for match in (first, second) if match])
    try:
        encoding, _ = tokenize.detect_encoding(lambda: next(head, b""))
    except SyntaxError as error:
        raise _not_decodable(data, error) from error
    bom = encoding == "utf-8-sig"
    encoding = "utf-8" if bom else encoding
    body = data.removeprefix(codecs.BOM_UTF8)
    try:
        text = body.decode(encoding)
        utf8 = body if encoding == "utf-8" else text.encode("utf-8")
    except UnicodeDecodeError as error:
        raise SourceError(
            f"not {encoding}: byte 0x{body[error.start]:02x}", *_position(body, error.start)
        ) from error
    except (UnicodeError, LookupError) as error:
        raise SourceError(f"not text in {encoding!r}: {error}", 1, 1) from error
    if "\0" in text:
        raise SourceError("null byte in the file", *_position(utf8, utf8.index(b"\0")))
    return Decoded(
        text, utf8, encoding, bom, exact=utf8 is body or _encodes_to(text, encoding, body)
    )


def _encodes_to(text: str, encoding: str, data: bytes) -> bool:
    try:
        return text.encode(encoding) == data
    except UnicodeError:
        return False


def _not_decodable(data: bytes, error: SyntaxError) -> SourceError:
    """Say why no encoding was found: most often the file is simply not UTF-8."""
    if "unknown encoding" not in str(error) and "encoding problem" not in str(error):
        body = data.removeprefix(codecs.BOM_UTF8)
        try:
            body.decode("utf-8")
        except UnicodeDecodeError as wrong:
            byte = body[wrong.start]
            return SourceError(f"not utf-8: byte 0x{byte:02x}", *_position(body, wrong.start))
    return SourceError(str(error), 1, 1)


def _position(data: bytes, offset: int) -> tuple[int, int]:
    """Return line and column of a byte, counted from 1; what precedes it is nearly UTF-8."""
    before = data[:offset].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    line = before[before.rfind(b"\n") + 1 :]
    return before.count(b"\n") + 1, len(line.decode("utf-8", "replace")) + 1


def encode(decoded: Decoded, utf8: bytes) -> bytes:
    """Turn changed text back into the file's own encoding, mark included."""
    if decoded.encoding == "utf-8":
        return codecs.BOM_UTF8 + utf8 if decoded.bom else utf8
    if not decoded.exact:
        raise SourceError(f"cannot be rewritten without loss in {decoded.encoding!r}")
    try:
        return utf8.decode("utf-8").encode(decoded.encoding)
    except UnicodeEncodeError as error:
        raise SourceError(f"cannot be written in {decoded.encoding!r}: {error.reason}") from error


# Writing -----------------------------------------------------------------------------------------


def write_atomic(path: str | Path, data: bytes, *, expected: bytes) -> None:
    """Replace a file's content in one step; its mode stays, and a link stays a link.

    Raises `ChangedOnDisk` if the file no longer holds `expected`.  Other hard links to it keep the
    old content.
    """
    target = os.path.realpath(path)
    _require_content(target, expected)
    if data == expected:
        return
    if not os.access(target, os.W_OK):
        # The rename would succeed: it asks for the folder's permission, not the file's.
        raise PermissionError(13, "file is read-only", str(path))
    folder, name = os.path.split(target)
    temporary = os.path.join(folder, f".{name[:100]}.{os.getpid()}-{os.urandom(4).hex()}.tmp")
    with _signals_put_off():
        try:
            _write_like(temporary, data, os.stat(target))
            _require_content(target, expected)
            os.replace(temporary, target)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise


def _require_content(path: str, expected: bytes) -> None:
    try:
        with open(path, "rb") as file:
            same = file.read() == expected
    except FileNotFoundError as error:
        raise ChangedOnDisk("the file is gone") from error
    if not same:
        raise ChangedOnDisk("the file was changed meanwhile")


def _write_like(path: str, data: bytes, model: os.stat_result) -> None:
    """Write a new file with the owner and mode of another one, down to the disk."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    with open(os.open(path, flags, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        if hasattr(os, "fchown"):
            # First the owner: changing it clears set-id bits.  Only root may give a file away.
            with contextlib.suppress(PermissionError):
                os.fchown(file.fileno(), model.st_uid, model.st_gid)
        os.chmod(path, stat.S_IMODE(model.st_mode))
        os.fsync(file.fileno())


@contextlib.contextmanager
def _signals_put_off() -> Iterator[None]:
    """Hold back what would end the process until the block is done, so that no rubbish stays.

    Python runs handlers in the main thread alone: in another one there is nothing to hold back.
    """
    arrived: list[int] = []

    def remember(number: int, frame: FrameType | None) -> None:
        arrived.append(number)

    kinds = [getattr(signal, name, None) for name in ("SIGINT", "SIGTERM", "SIGHUP")]
    before = {}
    if threading.current_thread() is threading.main_thread():
        for kind in kinds:
            # None: a handler that C code installed, which Python could not put back.
            if kind is not None and signal.getsignal(kind) is not None:
                before[kind] = signal.signal(kind, remember)
    try:
        yield
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)
        for number in arrived:
            signal.raise_signal(number)
