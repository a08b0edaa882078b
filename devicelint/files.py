"""Files: their bytes and text, and the way changed bytes get back on disk.

In: paths.  Out: bytes and decoded text; what is wrong with a file's content as `SourceError`.
Never here: an import or run of the code that is read, a write that could be left half done, or
knowledge of findings.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import signal
import stat
import threading
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from devicelint.model import Diagnostic


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

    def told_of(self, path: str) -> Diagnostic:
        """Give what to tell of the file at `path`."""
        return Diagnostic(path, self.line, self.column, self.message)


class ChangedOnDisk(Exception):
    """A file that somebody else changed between reading and writing."""


@dataclass(frozen=True, slots=True)
class OnDisk:
    """A file that is read whenever its bytes are asked for, so that nobody has to keep them.

    `place` is its absolute path.  The times are in nanoseconds since the epoch.
    """

    place: str
    size: int
    modified: int
    changed: int
    inode: int

    def read(self) -> bytes:
        """Read the file, or raise `SourceError`; also if it is not what it was any more."""
        data = read(self.place)
        if len(data) != self.size or on_disk(self.place) != self:
            raise SourceError("was changed while it was being checked: check it again")
        return data


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file's path as users see it (see `shown_path`), and its bytes, or where these are."""

    path: str
    content: bytes | OnDisk

    @property
    def data(self) -> bytes:
        """Give the bytes, or raise `SourceError`."""
        return self.content if isinstance(self.content, bytes) else self.content.read()

    @property
    def size(self) -> int:
        """Give the number of bytes."""
        return len(self.content) if isinstance(self.content, bytes) else self.content.size


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


# Content -----------------------------------------------------------------------------------------


def read(path: str | Path) -> bytes:
    """Read a file, or raise `SourceError`."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.readall()
    except OSError as error:
        raise SourceError(f"cannot be read: {error.strerror or error}") from error


def on_disk(place: str) -> OnDisk:
    """Say what a file is like without reading it, or raise `SourceError`."""
    status = _status(place)
    return OnDisk(place, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def content_of(place: str) -> bytes | OnDisk:
    """Say what a file is like if it can be read again later, else read it; raises `SourceError`.

    A pipe gives its bytes once, and the files of `/proc` are told to be empty.
    """
    status = _status(place)
    return on_disk(place) if stat.S_ISREG(status.st_mode) and status.st_size else read(place)


def _status(place: str) -> os.stat_result:
    try:
        return os.stat(place)
    except OSError as error:
        raise SourceError(f"cannot be read: {error.strerror or error}") from error


#: The first two lines, in which the cookie of PEP 263 must be.
_HEAD = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n|\Z)")

_NOT_ASCII = re.compile(rb"[\x80-\xff]")


def decode(data: bytes) -> Decoded:
    """Decode a file by its byte order mark and PEP 263 cookie; newlines stay as they are."""
    first = _HEAD.match(data)
    second = _HEAD.match(data, first.end()) if first else None
    # What else is in the line of a cookie is in the encoding that it names, not yet in UTF-8.
    lines = [match.group() for match in (first, second) if match]
    mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    plain = [_NOT_ASCII.sub(b"?", line) for line in (lines[0][len(mark) :], *lines[1:])]
    head = iter([mark + plain[0], *plain[1:]])
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


def save_atomic(path: str | Path, data: bytes) -> None:
    """Write a file of this tool's own in one step, whether it is there already or not."""
    target = os.path.realpath(path)
    if os.path.exists(target):
        with open(target, "rb") as file:
            before = file.read()
        write_atomic(target, data, expected=before)
        return
    temporary = f"{target}.{os.getpid()}-{os.urandom(4).hex()}.tmp"
    with _signals_put_off():
        try:
            with open(temporary, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
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
