"""Discovery: what is found, skipped and excluded.

In: small trees made on the spot.  Out: tests.  Never here: the content of a file.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from devicelint import discovery
from devicelint.discovery import discover, shown_path


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
        monkeypatch.setattr(discovery, "_git", lambda *_: None)
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
        *(f"{name}/x.py" for name in discovery.SKIPPED_FOLDERS - {".git"}),
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
