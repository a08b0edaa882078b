"""`fix` on files: what is on the disk afterwards, whatever happens in between.

In: small trees made on the spot, and the command in its own process.  Out: tests.  Never here: what
a fix looks like.
"""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
FIX = [sys.executable, "-m", "devicelint", "fix", "--isolated", "--no-cache", "--jobs", "1"]

BEFORE = b"""\
import torch
from torch import nn


class M(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.a = torch.zeros(n)
"""
AFTER = BEFORE.replace(b"zeros(n", b"zeros(n, device=torch.cuda.current_device()")
#: long enough to be cut off by a limit
LONG = b"# " + b"a long text " * 2000 + b"\n"


def run(
    *arguments: str, cwd: Path, stdin: bytes = b"", before: str = ""
) -> subprocess.CompletedProcess[bytes]:
    """Run `fix`, perhaps with something done to the process first."""
    command = [*FIX, *arguments]
    if before:
        script = f"{before}\nimport sys\nfrom devicelint.cli import main\nsys.exit(main())\n"
        command = [sys.executable, "-c", script, *command[3:]]
    return subprocess.run(
        command, cwd=cwd, input=stdin, env=ENVIRONMENT, capture_output=True, check=False
    )


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_mode_and_links_are_kept(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    file = tmp_path / "real" / "script"
    file.write_bytes(BEFORE)
    file.chmod(0o755)
    (tmp_path / "link.py").symlink_to("real/script")
    done = run("--write", "link.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "link.py").is_symlink()
    assert file.read_bytes() == AFTER
    assert stat.S_IMODE(file.stat().st_mode) == 0o755
    assert names(tmp_path / "real") == ["script"]


def test_a_file_with_nothing_to_fix_is_not_touched(tmp_path: Path) -> None:
    for name, data in {"a.py": BEFORE, "b.py": AFTER, "c.py": b"x = 1"}.items():
        (tmp_path / name).write_bytes(data)
    before = {name: (tmp_path / name).stat() for name in ("b.py", "c.py")}
    run("--write", cwd=tmp_path)
    assert (tmp_path / "a.py").read_bytes() == AFTER
    for name, old in before.items():
        new = (tmp_path / name).stat()
        assert (new.st_ino, new.st_mtime_ns) == (old.st_ino, old.st_mtime_ns)


# A full disk -------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="resource limits")
def test_a_file_beyond_the_limit_stays_and_the_others_are_fixed(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(BEFORE)
    (tmp_path / "b.py").write_bytes(BEFORE + LONG)
    (tmp_path / "c.py").write_bytes(BEFORE)
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))"
    done = run("--write", cwd=tmp_path, before=limit)
    told = done.stdout + done.stderr
    assert done.returncode == 2, told
    assert b"b.py" in told
    assert b"not fixed" in told
    assert b"Traceback" not in told
    assert (tmp_path / "a.py").read_bytes() == AFTER
    assert (tmp_path / "b.py").read_bytes() == BEFORE + LONG
    assert (tmp_path / "c.py").read_bytes() == AFTER
    assert names(tmp_path) == ["a.py", "b.py", "c.py"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount, umount = shutil.which("mount"), shutil.which("umount")
    if mount is None or umount is None:
        pytest.skip("no mount")
    command = [mount, "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting is not allowed")
    try:
        yield folder
    finally:
        subprocess.run([umount, str(folder)], check=True)


def test_a_full_disk(small_disk: Path) -> None:
    file = small_disk / "a.py"
    file.write_bytes(BEFORE + LONG)
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as stream, pytest.raises(OSError, match="No space"):
        while True:
            stream.write(bytes(4096))
    done = run("--write", cwd=small_disk)
    assert done.returncode == 2
    assert b"No space left" in done.stdout + done.stderr
    assert file.read_bytes() == BEFORE + LONG
    assert names(small_disk) == ["a.py", "filler"]
    filler.unlink()
    assert run("--write", cwd=small_disk).returncode == 0
    assert file.read_bytes() == AFTER + LONG


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write all")
def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(BEFORE)
    tmp_path.chmod(0o555)
    try:
        done = run("--write", cwd=tmp_path)
    finally:
        tmp_path.chmod(0o755)
    assert done.returncode == 2
    assert (tmp_path / "a.py").read_bytes() == BEFORE


# Changed meanwhile -------------------------------------------------------------------------------

#: another program writes `b.py` after it was read
OTHERS = """
from devicelint import runner
fix = runner.fix
def slow(*arguments, **options):
    report = fix(*arguments, **options)
    {change}
    return report
runner.fix = slow
"""


@pytest.mark.parametrize(
    ("change", "left"),
    [
        ("open('b.py', 'w').write('theirs')", b"theirs"),
        ("import os; os.unlink('b.py')", None),
        ("import os; os.unlink('b.py'); os.mkdir('b.py')", None),
    ],
    ids=["changed", "gone", "a folder now"],
)
def test_a_file_changed_meanwhile_is_left_alone(
    tmp_path: Path, change: str, left: bytes | None
) -> None:
    for name in ("a.py", "b.py", "c.py"):
        (tmp_path / name).write_bytes(BEFORE)
    done = run("--write", cwd=tmp_path, before=OTHERS.format(change=change))
    told = done.stdout + done.stderr
    assert done.returncode == 2, told
    assert b"Traceback" not in told
    assert b"not fixed" in told
    assert (tmp_path / "a.py").read_bytes() == AFTER
    assert (tmp_path / "c.py").read_bytes() == AFTER
    if left is not None:
        assert (tmp_path / "b.py").read_bytes() == left


# Signals -----------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_among_many_writes(tmp_path: Path, number: int) -> None:
    count = 60
    for index in range(count):
        (tmp_path / f"m{index:02}.py").write_bytes(BEFORE)
    # Slow enough to be caught in the middle.
    slow = (
        "import os, sys, time\nsync = os.fsync\n"
        "def fsync(handle):\n    time.sleep(0.02)\n    sync(handle)\n"
        "os.fsync = fsync\n"
    )
    script = f"{slow}from devicelint.cli import main\nsys.exit(main())\n"
    process = subprocess.Popen(
        [sys.executable, "-c", script, *FIX[3:], "--write"],
        cwd=tmp_path,
        env=ENVIRONMENT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 60
    while (tmp_path / "m02.py").read_bytes() == BEFORE and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(number)
    assert process.wait(60) != 0
    found = [(tmp_path / f"m{index:02}.py").read_bytes() for index in range(count)]
    assert set(found) == {BEFORE, AFTER}
    assert len(names(tmp_path)) == count


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_kill_leaves_the_old_or_the_new_file(tmp_path: Path) -> None:
    """Nothing can be put off then: a temporary file may stay, but no file is cut off."""
    (tmp_path / "a.py").write_bytes(BEFORE)
    kill = "import os, signal\nos.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)"
    done = run("--write", cwd=tmp_path, before=kill)
    assert done.returncode == -signal.SIGKILL
    assert (tmp_path / "a.py").read_bytes() == BEFORE
    (leftover,) = [name for name in names(tmp_path) if name != "a.py"]
    assert leftover.startswith(".a.py.")
    assert leftover.endswith(".tmp")


# stdin and patches -------------------------------------------------------------------------------

CRLF, CRLF_AFTER = (text.replace(b"\n", b"\r\n") for text in (BEFORE, AFTER))
TEXTS = {
    "plain": (BEFORE, AFTER),
    "CRLF": (CRLF, CRLF_AFTER),
    "CR": (BEFORE.replace(b"\n", b"\r"), AFTER.replace(b"\n", b"\r")),
    "BOM": (b"\xef\xbb\xbf" + BEFORE, b"\xef\xbb\xbf" + AFTER),
    "BOM, CRLF": (b"\xef\xbb\xbf" + CRLF, b"\xef\xbb\xbf" + CRLF_AFTER),
    "no final newline": (BEFORE[:-1], AFTER[:-1]),
    "CRLF, no final newline": (CRLF[:-2], CRLF_AFTER[:-2]),
    "latin-1": (b"# coding: latin-1 \xe9\n" + BEFORE, b"# coding: latin-1 \xe9\n" + AFTER),
    "mixed": (BEFORE + b"x = 1\r\ny = 2\r\n", AFTER + b"x = 1\r\ny = 2\r\n"),
}


@pytest.mark.parametrize("case", TEXTS)
def test_stdin_gives_the_fixed_source_alone(case: str, tmp_path: Path) -> None:
    before, after = TEXTS[case]
    done = run("-", cwd=tmp_path, stdin=before)
    assert (done.stdout, done.returncode) == (after, 0)
    assert run("-", cwd=tmp_path, stdin=after).stdout == after


def test_stdin_that_does_not_parse_comes_back(tmp_path: Path) -> None:
    done = run("-", cwd=tmp_path, stdin=BEFORE + b"x = (\n")
    assert (done.stdout, done.returncode) == (BEFORE + b"x = (\n", 2)


TOOLS = [
    pytest.param(("git", "-c", "core.autocrlf=false", "apply", "-"), id="git"),
    pytest.param(
        ("patch", "-p1", "--binary", "--no-backup-if-mismatch"),
        id="patch",
        marks=pytest.mark.skipif(shutil.which("patch") is None, reason="no patch"),
    ),
]


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("arguments", [(), ("--diff",)], ids=["preview", "diff"])
def test_patch_tools_make_what_write_makes(
    tool: tuple[str, ...], arguments: tuple[str, ...], tmp_path: Path
) -> None:
    places = {case: f"pkg/{case.replace(',', '')}.py" for case in TEXTS}
    (tmp_path / "pkg").mkdir()
    for case, place in places.items():
        (tmp_path / place).write_bytes(TEXTS[case][0])
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == 1
    for case, place in places.items():
        assert (tmp_path / place).read_bytes() == TEXTS[case][0]
    applied = subprocess.run(
        tool, cwd=tmp_path, input=done.stdout, capture_output=True, check=False
    )
    assert applied.returncode == 0, applied.stdout + applied.stderr
    for case, place in places.items():
        assert (tmp_path / place).read_bytes() == TEXTS[case][1], case


def test_a_patch_from_stdin(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(CRLF)
    done = run("--diff", "--stdin-filename", "a.py", "-", cwd=tmp_path, stdin=CRLF)
    assert done.returncode == 1
    subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=done.stdout, check=True)
    assert (tmp_path / "a.py").read_bytes() == CRLF_AFTER
