"""The folder of the cache: what devicelint puts into it, and what `clean` takes out again.

In: folders with a cache, and with what is dear to their owners.  Out: tests.  Never here: what a
database holds.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from devicelint import cache, cli
from devicelint.cache_folder import MARKS, contents_of

FOUND = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.a = torch.zeros(n)
"""
CACHE = ".devicelint_cache"
DATABASE = f"{cache.VERSION.replace(':', '-')}.db"


def run(*args: str, **env: str) -> tuple[int, str, str]:
    """Run a command line in this process: its exit code, stdout and stderr."""
    with CliRunner().isolation(env={"DEVICELINT_CACHE_DIR": None, **env}) as streams:
        code = cli.main([*args])
        out, err = (stream.getvalue().decode() for stream in streams[:2])
    return code, out, err


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with one finding."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    put("a.py", FOUND)
    return work


def put(name: str | Path, text: str = "precious") -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def a_cache(name: str | Path, database: str = DATABASE) -> Path:
    """Make what a cache looked like to earlier releases: marked, whatever else is there."""
    path = Path(name)
    put(path / database, "x")
    for mark, text in MARKS.items():
        if not (path / mark).exists():
            put(path / mark, text)
    return path


def names(path: str | Path = ".") -> set[str]:
    """Give all files and folders below a folder."""
    return {item.relative_to(path).as_posix() for item in Path(path).rglob("*")}


# Cleaning ----------------------------------------------------------------------------------------


def test_clean_removes_the_cache_and_says_so() -> None:
    assert run("check")[0] == 1
    assert names(CACHE) == {DATABASE, *MARKS}
    assert run("clean") == (0, f"Removed {CACHE}.\n", "")
    assert names() == {"a.py"}
    assert run("clean") == (0, f"Nothing to remove: there is no {CACHE}.\n", "")


def test_clean_of_the_repository_keeps_the_repository() -> None:
    subprocess.run(["git", "init", "-q"], check=True)
    put("sub/notes.txt")
    before = names()
    for marked in (False, True):
        run("check", "--cache-dir", ".")
        if marked:
            a_cache(".")
        code, out, err = run("clean", "--cache-dir", ".")
        assert (code, err) == (0, "")
        assert out.startswith("Removed the cache from . and left what is not devicelint's: .git, ")
        assert names() == before


@pytest.mark.parametrize("database", [DATABASE, "1-0.1.0-3.11.db", "12-2.10.3rc1-3.14.db"])
def test_clean_takes_databases_of_any_version_with_what_sqlite_adds(database: str) -> None:
    a_cache("shared", database)
    for end in ("-journal", "-wal", "-shm"):
        put(f"shared/{database}{end}")
    assert run("clean", DEVICELINT_CACHE_DIR="shared") == (0, "Removed shared.\n", "")
    assert not Path("shared").exists()


OTHERS = (
    "notes.txt",
    "data.db",
    "2024-06-01.12.db",
    "backup-0.1.0-3.11.db",
    "5-0.1.0-3.11.db.bak",
    "5-0.1.0-3.11.db-copy",
    "x5-0.1.0-3.11.db",
    "sub/5-0.1.0-3.11.db",
    "99-0.1.0-3.11.db/inside.txt",
)


@pytest.mark.parametrize("other", OTHERS)
def test_clean_leaves_what_is_not_its_own(other: str) -> None:
    a_cache("shared")
    put(f"shared/{other}")
    top = other.partition("/")[0]
    said = f"Removed the cache from shared and left what is not devicelint's: {top}.\n"
    assert run("clean", "--cache-dir", "shared") == (0, said, "")
    assert names("shared") == {top, other}


def test_clean_names_some_of_what_it_leaves() -> None:
    a_cache("shared")
    for number in range(1200):
        put(f"shared/{number:04}")
    assert run("clean", "--cache-dir", "shared")[1].endswith(
        "devicelint's: 0000, 0001, 0002 and 1,197 more.\n"
    )


def test_clean_leaves_marks_that_somebody_else_wrote() -> None:
    put("shared/.gitignore", "*\n")
    put("shared/CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55\n# Of another tool\n")
    put(f"shared/{DATABASE}")
    run("clean", "--cache-dir", "shared")
    # what has the name of a database but neither the tag beside it nor our number in it stays, too
    assert names("shared") == {*MARKS, DATABASE}
    # A `*` alone says nothing of who wrote it.
    put("own/.gitignore", "*\n")
    run("clean", "--cache-dir", "own")
    assert names("own") == {".gitignore"}
    # Lines of one's own may stand below.
    a_cache("grown")
    put("grown/.gitignore", "*\n!keep.txt\n")
    run("clean", "--cache-dir", "grown")
    assert names("grown") == {".gitignore"}


def test_clean_knows_a_database_without_a_tag_by_its_number() -> None:
    put("shared/notes.txt")
    put("shared/12-1.0-3.11.db")
    put("shared/01-12.2023-3.30.db")
    run("check", "--cache-dir", "shared", "a.py")
    assert DATABASE in names("shared")
    run("clean", "--cache-dir", "shared")
    assert names("shared") == {"notes.txt", "12-1.0-3.11.db", "01-12.2023-3.30.db"}


@pytest.mark.parametrize("is_there", [False, True])
def test_a_database_that_is_a_link_is_not_opened(is_there: bool, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere.db"
    if is_there:
        target.write_bytes(b"")
    folder = Path(CACHE)
    folder.mkdir()
    (folder / DATABASE).symlink_to(target)
    code, _, err = run("check", "--cache-dir", CACHE, "a.py")
    assert code == 1
    assert "its database is a link" in err
    assert target.exists() is is_there
    assert not is_there or target.read_bytes() == b""


def test_a_locked_database_is_left_to_who_is_at_it() -> None:
    run("check", "--cache-dir", CACHE, "a.py")
    file = Path(CACHE, DATABASE)
    other = sqlite3.connect(file)
    other.execute("begin exclusive")
    assert run("check", "--cache-dir", CACHE, "a.py")[0] == 1
    assert file.exists()
    other.close()


@pytest.mark.parametrize("name", ["shared", ".", "..", "~", "empty"])
def test_clean_of_a_folder_without_a_cache_removes_nothing(name: str, tmp_path: Path) -> None:
    Path("empty").mkdir()
    put("shared/notes.txt")
    before = names(tmp_path)
    path = os.path.expanduser(name)
    said = f"Nothing to remove: no cache of devicelint is in {path}.\n"
    assert run("clean", "--cache-dir", path) == (0, said, "")
    assert names(tmp_path) == before


def test_clean_leaves_folders_that_are_lived_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_cache(tmp_path / "home")
    assert run("clean", "--cache-dir", str(tmp_path / "home"))[0] == 0
    assert names(tmp_path / "home") == set()
    here = a_cache(tmp_path / "here")
    monkeypatch.chdir(here)
    for place in (".", str(here)):
        a_cache(here)
        assert run("clean", "--cache-dir", place) == (0, f"Removed the cache from {place}.\n", "")
        assert names(here) == set()


@pytest.mark.parametrize("end", ["", "/", "/."])
def test_clean_follows_no_link_to_a_folder(end: str) -> None:
    a_cache("elsewhere")
    before = names("elsewhere")
    os.symlink("elsewhere", CACHE)
    code, out, err = run("clean", "--cache-dir", CACHE + end)
    assert (code, out) == (2, "")
    assert f"{CACHE} is a link" in err and os.path.abspath("elsewhere") in err
    assert names("elsewhere") == before and Path(CACHE).is_symlink()


@pytest.mark.parametrize("name", [DATABASE, f"{DATABASE}-wal", *MARKS])
def test_clean_follows_no_link_in_the_folder(name: str) -> None:
    a_cache("shared")
    text = MARKS.get(name, "precious")
    put("target", text)
    (Path("shared") / name).unlink(missing_ok=True)
    os.symlink("../target", Path("shared") / name)
    assert run("clean", "--cache-dir", "shared")[0] == 0
    assert Path("target").read_text(encoding="utf-8") == text
    assert name in names("shared")


def test_clean_of_a_file_is_a_wrong_option() -> None:
    put("notes.txt")
    code, out, err = run("clean", "--cache-dir", "notes.txt")
    assert (code, out) == (2, "")
    assert "notes.txt is a file" in err
    assert Path("notes.txt").read_text(encoding="utf-8") == "precious"


def test_clean_without_a_name_takes_the_default() -> None:
    a_cache(CACHE)
    a_cache(".")
    assert run("clean", "--cache-dir", "") == (0, f"Removed {CACHE}.\n", "")
    assert names() == {"a.py", DATABASE, *MARKS}


def test_clean_that_fails_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    a_cache(CACHE)

    def refuse(self: Path, missing_ok: bool = False) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "unlink", refuse)
    code, out, err = run("clean")
    assert (code, out) == (2, "")
    assert err == f"devicelint: cannot clean {CACHE}/{DATABASE}: Permission denied\n"


def test_clean_keeps_a_folder_that_cannot_be_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    a_cache(CACHE)

    def refuse(self: Path) -> None:
        raise OSError(16, "Device or resource busy", str(self))

    monkeypatch.setattr(Path, "rmdir", refuse)
    said = f"Removed the cache from {CACHE}; the folder stays: Device or resource busy.\n"
    assert run("clean") == (0, said, "")


def test_the_databases_of_this_version_are_its_own() -> None:
    a_cache("shared")
    assert contents_of(Path("shared")).own == (DATABASE, ".gitignore", "CACHEDIR.TAG")


# Marking -----------------------------------------------------------------------------------------


def test_a_folder_with_other_files_is_not_marked() -> None:
    put("shared/b.py", FOUND)
    for place in (".", "shared"):
        for _ in range(2):
            code, out, _ = run("check", "--cache-dir", place, "--output-format", "concise")
            assert (code, out.count("DVL001")) == (1, 2)
        assert names(place) & {DATABASE, *MARKS} == {DATABASE}


@pytest.mark.parametrize("already", [[], ["CACHEDIR.TAG"], [DATABASE, "CACHEDIR.TAG"]])
@pytest.mark.parametrize("place", ["c", "deep/er/c"])
def test_a_folder_of_its_own_is_marked(place: str, already: list[str]) -> None:
    if already:
        run("check", "--cache-dir", place)
        for name in names(place) - set(already):
            (Path(place) / name).unlink()
    run("check", "--cache-dir", place)
    assert names(place) == {DATABASE, *MARKS}
    for name, text in MARKS.items():
        assert (Path(place) / name).read_text(encoding="utf-8") == text


def test_an_empty_folder_is_marked() -> None:
    Path("c").mkdir()
    run("check", "--cache-dir", "c")
    assert names("c") == {DATABASE, *MARKS}


def test_an_empty_folder_that_is_lived_in_is_not_marked(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    for place in (here, tmp_path / "home"):
        run("check", "--cache-dir", str(place), str(folder))
        assert names(place) == {DATABASE}


def test_marks_are_not_written_through_links() -> None:
    Path("c").mkdir()
    os.symlink("../target", "c/.gitignore")
    assert run("check", "--cache-dir", "c")[0] == 1
    assert not Path("target").exists()


def test_a_marked_cache_keeps_working() -> None:
    put("c/notes.txt")
    a_cache("c")
    Path("c", DATABASE).unlink()
    for known in (0, 1):
        err = run("check", "--cache-dir", "c", "--verbose")[2]
        assert f"cache: asked about 1 file, knew {known}\n" in err
    assert names("c") == {DATABASE, *MARKS, "notes.txt"}


# A cache that cannot be used ---------------------------------------------------------------------

ADVICE = "; name another folder with --cache-dir, or say --no-cache\n"


def remark(place: str, why: str) -> str:
    return f"devicelint: nothing new is remembered in {place}: {why}{ADVICE}"


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_named_cache_that_is_no_folder_is_told(place: str) -> None:
    put("file")
    said = remark(place, "it is not a folder")
    for command, code in (("check", 1), ("fix", 1)):
        got, out, err = run(command, "--cache-dir", place)
        assert (got, "DVL001" in out + err) == (code, True)
        assert err.endswith(said) and err.count("remembered") == 1
        assert run(command, DEVICELINT_CACHE_DIR=place)[2].endswith(said)
        assert "remembered" not in run(command, "--cache-dir", place, "--quiet")[2]
        assert "remembered" not in run(command, "--cache-dir", place, "--no-cache")[2]
        assert said in run(command, "--cache-dir", place, "--quiet", "--verbose")[2]
    assert Path("file").read_text(encoding="utf-8") == "precious"


def test_the_default_cache_that_cannot_be_used_is_told_only_on_demand() -> None:
    put(CACHE)
    assert run("check") == (1, run("check", "--no-cache")[1], "")
    assert remark(CACHE, "it is not a folder") in run("check", "--verbose")[2]


def test_a_cache_that_cannot_be_opened_is_told() -> None:
    put(f"c/{DATABASE}/inside")
    said = remark("c", "unable to open database file")
    assert run("check", "--cache-dir", "c")[2] == said


def test_a_cache_that_cannot_be_written_is_told() -> None:
    run("check", "--cache-dir", "c")
    with sqlite3.connect(Path("c", DATABASE)) as database:
        database.execute(
            "create trigger full before insert on runs "
            "begin select raise(abort, 'disk is full'); end"
        )
    database.close()
    put("a.py", FOUND + "\n")
    assert run("check", "--cache-dir", "c")[2] == remark("c", "disk is full")


def test_a_cache_that_another_run_writes_is_no_news() -> None:
    run("check", "--cache-dir", "c")
    put("a.py", FOUND + "\n")
    database = sqlite3.connect(Path("c", DATABASE), isolation_level=None)
    database.execute("begin immediate")
    assert run("check", "--cache-dir", "c")[2] == ""
    database.close()


def test_a_torn_cache_is_no_news() -> None:
    run("check", "--cache-dir", "c")
    put(f"c/{DATABASE}", "no database at all" * 100)
    assert run("check", "--cache-dir", "c")[2] == ""
