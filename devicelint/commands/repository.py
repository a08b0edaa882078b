"""What is around a run: the repository, and the service that runs it.

In: the working directory, the environment.  Out: a `Layout` that knows them, a job summary in the
file that GitHub names.  Never here: git, the network.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from devicelint.model import RunReport
    from devicelint.reporters.layout import Layout


def located(layout: Layout) -> Layout:
    """Say where the repository is, on disk and on the web."""
    cwd = Path.cwd()
    return replace(layout, cwd=cwd.as_posix(), root=_root(cwd).as_posix(), web=_web())


def _root(folder: Path) -> Path:
    """Find the root of the repository that a folder is in; the folder itself if there is none."""
    # A submodule or a second work tree has a file `.git`.
    return next((place for place in (folder, *folder.parents) if (place / ".git").exists()), folder)


def _web() -> str:
    """Give the address below which GitHub shows the files of the commit that is checked."""
    server, name, commit = (
        os.environ.get(f"GITHUB_{word}", "") for word in ("SERVER_URL", "REPOSITORY", "SHA")
    )
    return f"{server}/{name}/blob/{commit}/" if server and name and commit else ""


def append_job_summary(run: RunReport, layout: Layout) -> None:
    """Add to the summary of the GitHub job, if this is one."""
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        return
    from devicelint.reporters import job_summary

    try:
        with open(path, "ab") as file:
            file.write(job_summary.render(run, layout).encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror or error}") from error
