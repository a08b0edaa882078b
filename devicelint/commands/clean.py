"""`devicelint clean`: drop the cache.

In: a folder's name.  Out: the folder gone.  Never here: what is in the cache.
"""

from __future__ import annotations

import os
from pathlib import Path

import click

from devicelint.commands.options import CACHE
from devicelint.commands.output import print_text

_TAG = "CACHEDIR.TAG"


@click.command()
@click.option(
    "--cache-dir",
    metavar="FOLDER",
    envvar="DEVICELINT_CACHE_DIR",
    default=CACHE,
    help="Where the cache is.",
)
def clean(cache_dir: str) -> int:
    """Drop the cache."""
    import shutil

    folder = Path(cache_dir)
    if not os.path.lexists(folder):
        return 0
    # A wrong --cache-dir must not cost anybody a folder.
    if folder.name != CACHE and not (folder / _TAG).is_file():
        raise click.UsageError(f"{cache_dir} does not look like a cache")
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise click.ClickException(f"{cache_dir}: {error.strerror or error}") from error
    return print_text(f"Removed {cache_dir}.\n")
