"""Decoding, the byte prefilter and the atomic write.

In: small trees made on the spot.  Out: tests.  Never here: findings.
"""

from __future__ import annotations

import os
import pickle
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devicelint.files import (
    ChangedOnDisk,
    SourceError,
    decode,
    encode,
    read,
    write_atomic,
)
from devicelint.gate import may_hold_candidate
from devicelint.torch_api import FACTORY_TOKENS

BOM = b"\xef\xbb\xbf"


# Content -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("token", FACTORY_TOKENS)
def test_prefilter_lets_every_constructor_pass(token: bytes) -> None:
    for spelled in (b"torch.%s(3)", b"from torch import %s", b"getattr(torch, '%s')"):
        assert may_hold_candidate(b"import torch\n" + spelled % token)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"import numpy\nx = numpy.zeros(3)\n",
        b"import torch\nx = torch.relu(y)\n",
        b"import torch\nx = torch.zeros_like(y)\n",
        b"import torch\nclass M(torch.nn.Module):\n    x = torch.nn.Linear(4, 4)\n",
    ],
)
def test_prefilter_stops_what_holds_no_constructor(data: bytes) -> None:
    assert not may_hold_candidate(data)


def test_prefilter_lets_submodules_pass_where_there_is_a_device() -> None:
    source = b"from torch import nn\ndef f(device):\n    return nn.Linear(4, 4)\n"
    assert may_hold_candidate(source)


def test_prefilter_is_linear() -> None:
    data = b"torch " + b"x = some_name.zeros_like(other)\n" * 100_000
    start = time.perf_counter()
    assert not may_hold_candidate(data)
    assert time.perf_counter() - start < 1.0


def test_read(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x\r\n", encoding="utf-8")
    assert read(tmp_path / "a.py") == (tmp_path / "a.py").read_bytes()
    with pytest.raises(SourceError, match="cannot be read: No such file"):
        read(tmp_path / "b.py")
    with pytest.raises(SourceError, match="cannot be read"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("data", "encoding", "bom", "text"),
    [
        (b"", "utf-8", False, ""),
        (b"x = 1", "utf-8", False, "x = 1"),
        (b"a\r\nb\rc\n", "utf-8", False, "a\r\nb\rc\n"),
        (BOM + b"x\n", "utf-8", True, "x\n"),
        (BOM, "utf-8", True, ""),
        (BOM + b"# coding: utf-8\nx\n", "utf-8", True, "# coding: utf-8\nx\n"),
        ("# é ☃\n".encode(), "utf-8", False, "# é ☃\n"),
        (b"# -*- coding: latin-1 -*-\n# \xe9\n", "iso-8859-1", False, None),
        (b"#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\n# \x80\n", "cp1252", False, None),
        (b"# \xe9 coding: latin-1 \xe9\n", "iso-8859-1", False, None),
        (b"# coding: shift_jis\nx = '\x83\x65'\n", "shift_jis", False, None),
        # Here the first line ends at a lone carriage return: the cookie is on the third.
        (b"#\r#\rx = 'coding: latin-1'\r", "utf-8", False, "#\r#\rx = 'coding: latin-1'\r"),
    ],
)
def test_decode_and_back(data: bytes, encoding: str, bom: bool, text: str | None) -> None:
    decoded = decode(data)
    assert (decoded.encoding, decoded.bom) == (encoding, bom)
    assert text is None or decoded.text == text
    assert decoded.utf8 == decoded.text.encode()
    assert decoded.exact
    assert encode(decoded, decoded.utf8) == data
    if text is None:
        # Python itself reads it the same way.
        compile(data, "x", "exec", dont_inherit=True)


@pytest.mark.parametrize(
    ("data", "message", "line", "column"),
    [
        (b"x = 1\ny = '\xe9'\n", "not utf-8: byte 0xe9", 2, 6),
        (b"\xe9", "not utf-8: byte 0xe9", 1, 1),
        ("é\r\né\r".encode() + b"  \xff", "not utf-8: byte 0xff", 3, 3),
        (BOM + b"\xff", "not utf-8: byte 0xff", 1, 1),
        (b"# coding: ascii\n#\xe9", "not ascii: byte 0xe9", 2, 2),
        (b"a\nb\0", "null byte in the file", 2, 2),
        (b"# coding: latin-1\n\0", "null byte in the file", 2, 1),
        (b"# coding: klingon\n", "unknown encoding: klingon", 1, 1),
        (BOM + b"# coding: latin-1\n", "encoding problem: utf-8", 1, 1),
        (b"# coding: hex\n00\n", "not text in 'hex'", 1, 1),
        ("import torch\n".encode("utf-16"), "not utf-8: byte 0xff", 1, 1),
    ],
)
def test_what_cannot_be_decoded_has_a_place(
    data: bytes, message: str, line: int, column: int
) -> None:
    with pytest.raises(SourceError, match=message) as raised:
        decode(data)
    assert (raised.value.line, raised.value.column) == (line, column)


@given(st.binary(max_size=60))
def test_decode_fails_only_with_source_error(data: bytes) -> None:
    for head in (b"", BOM, b"# coding: latin-1\n", b"# coding: utf-7\n"):
        try:
            decoded = decode(head + data)
            assert not decoded.exact or encode(decoded, decoded.utf8) == head + data
        except SourceError:
            pass


def test_a_lossy_encoding_is_read_but_not_written() -> None:
    decoded = decode(b"# coding: utf-7\n# +AGE-\n")
    assert "# a" in decoded.text
    with pytest.raises(SourceError, match="cannot be rewritten"):
        encode(decoded, decoded.utf8)


def test_text_that_the_encoding_lacks_is_not_written() -> None:
    decoded = decode(b"# coding: latin-1\n")
    with pytest.raises(SourceError, match="cannot be written"):
        encode(decoded, decoded.utf8 + "# ☃".encode())


def test_source_error_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(SourceError("no", 3, 4)))
    assert (str(error), error.line, error.column) == ("no", 3, 4)


# Writing -----------------------------------------------------------------------------------------


def rest(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_write_replaces_and_keeps_the_mode(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_bytes(b"old")
    file.chmod(0o755)
    write_atomic(file, b"new\r\n", expected=b"old")
    assert file.read_bytes() == b"new\r\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o755
    assert rest(tmp_path) == ["a.py"]


def test_write_follows_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    file = tmp_path / "real" / "a.py"
    file.write_bytes(b"old")
    link = tmp_path / "link.py"
    link.symlink_to("real/a.py")
    write_atomic(str(link), b"new", expected=b"old")
    assert link.is_symlink()
    assert file.read_bytes() == b"new"
    assert rest(tmp_path) == ["link.py", "real"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root")
def test_write_keeps_the_owner(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_bytes(b"old")
    os.chown(file, 1234, 1235)
    file.chmod(0o640)
    write_atomic(file, b"new", expected=b"old")
    after = file.stat()
    assert (after.st_uid, after.st_gid, stat.S_IMODE(after.st_mode)) == (1234, 1235, 0o640)


def test_write_refuses_a_file_that_changed(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_bytes(b"theirs")
    with pytest.raises(ChangedOnDisk, match="changed meanwhile"):
        write_atomic(file, b"new", expected=b"old")
    assert file.read_bytes() == b"theirs"
    with pytest.raises(ChangedOnDisk, match="gone"):
        write_atomic(tmp_path / "b.py", b"new", expected=b"old")
    assert rest(tmp_path) == ["a.py"]


def test_write_notices_a_change_while_it_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.py"
    file.write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", lambda _: file.write_bytes(b"theirs"))
    with pytest.raises(ChangedOnDisk):
        write_atomic(file, b"new", expected=b"old")
    assert file.read_bytes() == b"theirs"
    assert rest(tmp_path) == ["a.py"]


def test_write_refuses_a_read_only_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.py"
    file.write_bytes(b"old")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(PermissionError, match="read-only"):
        write_atomic(file, b"new", expected=b"old")
    assert rest(tmp_path) == ["a.py"]


@pytest.mark.parametrize("error", [OSError(28, "disk full"), KeyboardInterrupt(), SystemExit(1)])
@pytest.mark.parametrize("stage", ["fsync", "replace", "chmod"])
def test_a_failed_write_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, stage: str
) -> None:
    def fail(*_: object) -> None:
        raise error

    file = tmp_path / "a.py"
    file.write_bytes(b"old")
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(os, stage, fail)
    with pytest.raises(type(error)):
        write_atomic(file, b"new", expected=b"old")
    assert file.read_bytes() == b"old"
    assert rest(tmp_path) == ["a.py"]
    assert signal.getsignal(signal.SIGTERM) == before


def test_nothing_to_write_touches_nothing(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_bytes(b"old")
    before = file.stat()
    write_atomic(file, b"old", expected=b"old")
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_waits_for_the_write(tmp_path: Path, number: int) -> None:
    file = tmp_path / "a.py"
    file.write_bytes(b"old")
    script = (
        "import os, sys\n"
        "from devicelint.files import write_atomic\n"
        f"os.fsync = lambda _: os.kill(os.getpid(), {int(number)})\n"
        f"write_atomic({str(file)!r}, b'new', expected=b'old')\n"
        "print('went on')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=Path(__file__).resolve().parent.parent,
        capture_output=True,
        check=False,
    )
    assert done.returncode in (-number, 1)
    assert b"went on" not in done.stdout
    assert file.read_bytes() == b"new"
    assert rest(tmp_path) == ["a.py"]
