"""Discovery, decoding, the byte prefilter and the atomic write.

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
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devicelint import files
from devicelint.files import (
    ChangedOnDisk,
    SourceError,
    decode,
    discover,
    encode,
    may_hold_candidate,
    read,
    shown_path,
    write_atomic,
)
from devicelint.torch_api import FACTORY_TOKENS

BOM = b"\xef\xbb\xbf"


def grow(root: Path, *paths: str) -> None:
    """Make empty files; text after a `=` is their content."""
    for path in paths:
        name, _, content = path.partition("=")
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")


def git(root: Path, *arguments: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@t", *arguments],
        cwd=root,
        check=True,
        capture_output=True,
    )


def found(
    root: Path,
    *paths: str,
    exclude: Sequence[str] = (),
    force_exclude: bool = False,
    base: Path | None = None,
) -> list[str]:
    result = discover(
        paths or ["."], exclude=exclude, force_exclude=force_exclude, cwd=root, root=base
    )
    assert result.diagnostics == ()
    return list(result.files)


@pytest.fixture(params=["plain", "git", "no git"])
def tree(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder: outside git, in a work tree, and in one where git cannot be run."""
    if request.param != "plain":
        git(tmp_path, "init", "-q")
    if request.param == "no git":
        monkeypatch.setattr(files, "_git", lambda *_: None)
    return tmp_path


def test_finds_python_files_sorted(tree: Path) -> None:
    grow(tree, "b.py", "a.py", "pkg/z.py", "pkg/__init__.py", "note.txt", "x.pyi", "ab.py.bak")
    assert found(tree) == ["a.py", "b.py", "pkg/__init__.py", "pkg/z.py"]


def test_an_empty_tree_is_fine(tree: Path) -> None:
    assert found(tree) == []
    assert discover([], cwd=tree).files == ()


def test_skips_environments_caches_and_code_of_others(tree: Path) -> None:
    grow(
        tree,
        *(f"{name}/x.py" for name in files.SKIPPED_FOLDERS - {".git"}),
        "deep/third_party/x.py",
        "env/pyvenv.cfg",
        "env/lib/x.py",
        "build/lib/x.py",
        "src/build/__init__.py",
        "src/build/x.py",
        "vendor.py",
        "src/vendors/x.py",
    )
    assert found(tree) == [
        "src/build/__init__.py",
        "src/build/x.py",
        "src/vendors/x.py",
        "vendor.py",
    ]


def test_a_skipped_folder_named_by_the_user_is_walked(tree: Path) -> None:
    grow(tree, "third_party/x.py", "third_party/vendor/y.py")
    assert found(tree, "third_party") == ["third_party/x.py"]


def test_a_negated_pattern_opens_a_skipped_folder(tree: Path) -> None:
    grow(tree, "vendor/x.py", "third_party/y.py")
    assert found(tree, exclude=["!vendor"]) == ["vendor/x.py"]


@pytest.mark.parametrize(
    ("pattern", "left"),
    [
        ("tests", ["a.py", "pkg/gen_x.py"]),
        ("tests/", ["a.py", "pkg/gen_x.py"]),
        ("/tests", ["a.py", "pkg/gen_x.py", "pkg/tests/u.py"]),
        ("gen_*.py", ["a.py", "pkg/tests/u.py", "tests/t.py"]),
        ("pkg/**", ["a.py", "tests/t.py"]),
        ("*.py", []),
    ],
)
def test_exclude_patterns_read_like_gitignore(tree: Path, pattern: str, left: list[str]) -> None:
    grow(tree, "a.py", "tests/t.py", "pkg/gen_x.py", "pkg/tests/u.py")
    assert found(tree, exclude=[pattern]) == left


def test_patterns_are_relative_to_the_root_not_to_the_working_directory(tree: Path) -> None:
    grow(tree, "pkg/sub/a.py", "pkg/sub/b.py")
    inside = tree / "pkg"
    assert found(inside, exclude=["/pkg/sub/a.py"], base=tree) == ["sub/b.py"]
    assert found(inside, exclude=["/sub/a.py"], base=tree) == ["sub/a.py", "sub/b.py"]


def test_what_the_user_names_is_taken_unless_exclusion_is_forced(tree: Path) -> None:
    grow(tree, "tests/t.py", "tests/data/d.py", "vendor/v.py", "script")
    given = ["tests/t.py", "vendor/v.py", "script"]
    assert found(tree, *given, exclude=["tests"]) == ["script", "tests/t.py", "vendor/v.py"]
    assert found(tree, *given, exclude=["tests"], force_exclude=True) == ["script"]
    assert found(tree, "tests", exclude=["tests"]) == ["tests/data/d.py", "tests/t.py"]
    assert found(tree, "tests", exclude=["tests", "data"]) == ["tests/t.py"]
    assert found(tree, "tests", exclude=["tests"], force_exclude=True) == []
    assert found(tree, "tests/data", exclude=["tests"], force_exclude=True) == []


def test_honours_gitignore_in_every_folder(tree: Path) -> None:
    grow(
        tree,
        ".gitignore=/out/\n*_pb2.py\n# comment\n!keep_pb2.py\n",
        "out/x.py",
        "src/out/x.py",
        "src/a_pb2.py",
        "src/keep_pb2.py",
        "src/.gitignore=local.py\n",
        "src/local.py",
        "src/deep/local.py",
        "src/deep/.gitignore=!local.py\n",
        "local.py",
    )
    expected = ["local.py", "src/deep/local.py", "src/keep_pb2.py", "src/out/x.py"]
    assert found(tree) == expected
    # From below, the files above still hold.
    assert found(tree / "src", base=tree) == [
        path.removeprefix("src/") for path in expected if path.startswith("src/")
    ]


def test_an_ignored_folder_named_by_the_user_is_walked(tree: Path) -> None:
    grow(tree, ".gitignore=out/\n", "out/x.py", "out/deep/y.py")
    assert found(tree) == []
    assert found(tree, "out") == ["out/deep/y.py", "out/x.py"]
    assert found(tree, "out/deep", base=tree) == ["out/deep/y.py"]


def test_a_gitignore_that_only_git_accepts_is_no_error(tree: Path) -> None:
    grow(tree, ".gitignore=[z-a]\nskip.py\n!\n", "skip.py", "a.py")
    assert found(tree) == ["a.py"]


def test_git_lists_untracked_files_and_forgets_deleted_ones(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    grow(tmp_path, "kept.py", "gone.py", "sub dir/ünï\tcode.py")
    git(tmp_path, "add", ".")
    (tmp_path / "gone.py").unlink()
    grow(tmp_path, "new.py")
    assert found(tmp_path) == ["kept.py", "new.py", "sub dir/ünï\tcode.py"]


def test_git_variables_of_a_hook_do_not_mislead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        grow(tmp_path, f"{name}/a.py", f"{name}/{name}.py")
        git(tmp_path / name, "init", "-q")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "one/.git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "one/.git/index"))
    assert found(tmp_path / "two") == ["a.py", "two.py"]


def test_no_program_named_by_the_repository_is_run(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    grow(tmp_path, "a.py", f"spy=#!/bin/sh\ntouch {tmp_path}/ran\n")
    (tmp_path / "spy").chmod(0o755)
    git(tmp_path, "config", "core.fsmonitor", str(tmp_path / "spy"))
    assert found(tmp_path) == ["a.py"]
    assert not (tmp_path / "ran").exists()


def test_repositories_inside_a_repository(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    grow(tmp_path, "a.py", "other/b.py", "other/.gitignore=c.py\n", "other/c.py")
    git(tmp_path / "other", "init", "-q")
    assert found(tmp_path) == ["a.py", "other/b.py"]
    git(tmp_path / "other", "add", ".")
    git(tmp_path / "other", "commit", "-q", "-m", "x")
    git(tmp_path, "-c", "protocol.file.allow=always", "submodule", "add", "-q", "./other", "sub")
    assert found(tmp_path) == ["a.py", "other/b.py", "sub/b.py"]
    assert found(tmp_path, exclude=["sub", "other"]) == ["a.py"]


def test_links_make_no_cycle_and_no_second_name(tree: Path) -> None:
    grow(tree, "pkg/a.py", "pkg/sub/b.py")
    (tree / "pkg/loop").symlink_to(tree / "pkg", target_is_directory=True)
    (tree / "pkg/sub/up").symlink_to("..", target_is_directory=True)
    (tree / "alias.py").symlink_to("pkg/a.py")
    (tree / "dangling.py").symlink_to("nowhere.py")
    (tree / "self.py").symlink_to("self.py")
    assert found(tree) == ["pkg/a.py", "pkg/sub/b.py"]
    assert found(tree, "alias.py") == ["alias.py"]
    assert found(tree, "alias.py", "pkg/a.py") == ["pkg/a.py"]
    assert found(tree, "pkg/loop") == ["pkg/loop/a.py", "pkg/loop/sub/b.py"]
    assert found(tree, "pkg", "pkg/loop") == ["pkg/a.py", "pkg/sub/b.py"]


def test_a_folder_called_like_a_file(tree: Path) -> None:
    grow(tree, "odd.py/a.py", "odd.py/b.txt")
    assert found(tree) == ["odd.py/a.py"]


def test_names_given_twice_count_once(tree: Path) -> None:
    grow(tree, "pkg/a.py")
    assert found(tree, "pkg", "pkg/a.py", "./pkg/../pkg/a.py", str(tree / "pkg")) == ["pkg/a.py"]


def test_a_missing_path_is_a_diagnostic(tmp_path: Path) -> None:
    grow(tmp_path, "a.py")
    result = discover(["nope.py", "a.py", "gone/"], cwd=tmp_path)
    assert result.files == ("a.py",)
    assert [(one.path, one.line, one.message) for one in result.diagnostics] == [
        ("gone", 0, "no such file or folder"),
        ("nope.py", 0, "no such file or folder"),
    ]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read all")
def test_a_closed_folder_is_a_diagnostic(tmp_path: Path) -> None:
    grow(tmp_path, "a.py", "closed/b.py")
    (tmp_path / "closed").chmod(0)
    try:
        result = discover(["."], cwd=tmp_path)
    finally:
        (tmp_path / "closed").chmod(0o755)
    assert result.files == ("a.py",)
    assert [one.path for one in result.diagnostics] == ["closed"]


def test_a_folder_that_cannot_be_listed_is_a_diagnostic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "scandir", fail)
    result = discover(["."], cwd=tmp_path)
    assert [one.message for one in result.diagnostics] == [
        "folder cannot be listed: Permission denied"
    ]


def test_shown_path(tmp_path: Path) -> None:
    assert shown_path("a/../b.py", tmp_path) == "b.py"
    assert shown_path(tmp_path / "x" / "y.py", tmp_path) == "x/y.py"
    assert shown_path("../other.py", tmp_path) == (tmp_path.parent / "other.py").as_posix()


def test_files_outside_the_working_directory_are_absolute(tmp_path: Path) -> None:
    grow(tmp_path, "here/a.py", "there/b.py")
    assert found(tmp_path / "here", ".", "../there") == sorted(
        ["a.py", (tmp_path / "there/b.py").as_posix()]
    )


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
    grow(tmp_path, "a.py=x\r\n")
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
