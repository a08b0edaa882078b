"""`devicelint clean`: drop the cache.

In: a folder's name.  Out: the cache's files gone, and the folder if nothing else was in it.  Never
here: what is in the cache, the removal of anything that devicelint did not write.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import click

from devicelint.cache_folder import contents_of, is_lived_in
from devicelint.commands.options import CACHE
from devicelint.commands.output import print_text
from devicelint.reporters.layout import printable

#: So many names of what is left are told.
_NAMED = 3


@click.command()
@click.option(
    "--cache-dir",
    metavar="FOLDER",
    envvar="DEVICELINT_CACHE_DIR",
    default=CACHE,
    help="Where the cache is.",
)
def clean(cache_dir: str) -> int:
    """Drop the cache.

    Removes what devicelint wrote into the folder, and the folder if nothing else is in it.
    """
    folder = Path(cache_dir or CACHE)
    shown = printable(str(folder))
    if folder.is_symlink():
        target = printable(os.path.realpath(folder))
        raise click.UsageError(
            f"{shown} is a link, which clean does not follow; `--cache-dir {target}` cleans "
            "what it leads to"
        )
    if not os.path.lexists(folder):
        return print_text(f"Nothing to remove: there is no {shown}.\n")
    if not folder.is_dir():
        raise click.UsageError(f"{shown} is a file, and a cache is a folder; nothing was removed")
    return print_text(f"{_clean(folder, shown)}\n")


def _clean(folder: Path, shown: str) -> str:
    """Remove the cache from a folder, and say what was done."""
    try:
        contents = contents_of(folder)
        for name in contents.own:
            (folder / name).unlink()
    except OSError as error:
        place = printable(str(error.filename or folder))
        raise click.ClickException(f"cannot clean {place}: {error.strerror or error}") from error
    if not contents.own and (contents.others or folder.name != CACHE):
        return f"Nothing to remove: no cache of devicelint is in {shown}."
    done = f"Removed the cache from {shown}"
    if contents.others:
        return f"{done} and left what is not devicelint's: {_named(contents.others)}."
    if is_lived_in(folder):
        return f"{done}."
    try:
        folder.rmdir()
    except OSError as error:  # a mount point, or somebody has just put something into it
        return f"{done}; the folder stays: {error.strerror or error}."
    return f"Removed {shown}."


def _named(names: Sequence[str]) -> str:
    named = ", ".join(map(printable, names[:_NAMED]))
    rest = len(names) - _NAMED
    return f"{named} and {rest:,} more" if rest > 0 else named
