"""The public packages that the benchmarks read: which releases, and where their sources are.

In: names of packages, a folder.  Out: folders with Python sources, one for each package.  Never
here: a change to a folder that is already there, or anything of a wheel but `*.py`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

#: Distributions that hold large numbers of modules, by the release that the numbers are for.
PINNED = {
    "vllm": "0.33.0",
    "transformers": "5.24.0",
    "diffusers": "0.42.1",
    "sglang": "0.5.23",
    "timm": "1.0.31",
}

#: Where fetched packages are kept; git ignores it.
CORPORA = Path(__file__).resolve().parent / ".corpora"

#: Wheels with compiled parts are for some platform; their Python sources are those of all.
_PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_35_x86_64", "any")


def fetch(names: Iterable[str], folder: Path = CORPORA) -> list[Path]:
    """Give the folders of pinned packages; what is not there yet is downloaded and unpacked."""
    folder.mkdir(parents=True, exist_ok=True)
    return [_fetched(f"{name}-{PINNED[name]}", folder) for name in names]


def _fetched(release: str, folder: Path) -> Path:
    target = folder / release
    if target.is_dir():
        return target
    name, _, version = release.rpartition("-")
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        platforms = [word for one in _PLATFORMS for word in ("--platform", one)]
        options = ["--only-binary=:all:", *platforms, "--dest", scratch]
        subprocess.run([*command, *options, f"{name}=={version}"], check=True)
        (wheel,) = Path(scratch).glob("*.whl")
        # renamed when it is whole: a folder that is there is never looked at again
        sources = Path(scratch) / release
        with zipfile.ZipFile(wheel) as archive:
            members = [one for one in archive.namelist() if one.endswith(".py")]
            archive.extractall(sources, members)
        sources.rename(target)
    return target


def copy_sources(folder: Path, target: Path) -> None:
    """Copy the Python sources below a folder, and their times, to where others may be already."""

    def others(parent: str, names: list[str]) -> set[str]:
        paths = {name: os.path.join(parent, name) for name in names}
        return {name for name, path in paths.items() if not _is_source(path)}

    shutil.copytree(folder, target, ignore=others, dirs_exist_ok=True)


def _is_source(path: str) -> bool:
    return path.endswith(".py") or os.path.isdir(path)


def size_of(folder: Path) -> int:
    """Add up the bytes of the Python files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*.py"))
