"""What commands write, and where: stdout, stderr, files.

In: text, a stream or a path.  Out: bytes written; a reader that has gone and a file that cannot be
written become click's exceptions.  Never here: the look of a report.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import click

from devicelint.commands.verdict import UNREAD
from devicelint.reporters.layout import Layout
from devicelint.reporters.terminal import encodable, follows_links, is_coloured, width_of

#: So many characters are printed at once.
_AT_ONCE = 1 << 18


def complain(message: str) -> None:
    """Print a remark of the program's own to stderr."""
    click.echo(f"devicelint: {message}", err=True)


def layout_for(color: str, stream: TextIO | None) -> Layout:
    """Lay out for a stream; None is a file."""
    if stream is None:
        return Layout(color=is_coloured(color, None))
    return Layout(width_of(stream), is_coloured(color, stream), links=follows_links(stream))


def print_text(text: str, *, color: bool = False, stream: TextIO | None = None) -> int:
    """Print to stdout, with what its encoding cannot express escaped."""
    stream = stream or sys.stdout
    with _reader_may_leave():
        # in parts: each is copied several times on its way
        for start in range(0, len(text), _AT_ONCE):
            part = encodable(text[start : start + _AT_ONCE], stream)
            click.echo(part, file=stream, nl=False, color=color)
    return 0


def print_bytes(data: bytes) -> None:
    """Print to stdout what must stay as it is."""
    with _reader_may_leave():
        click.echo(data, nl=False)


@contextlib.contextmanager
def _reader_may_leave() -> Iterator[None]:
    """End quietly when the other end of the pipe (`| head`) has gone."""
    try:
        yield
    except BrokenPipeError:
        # Python flushes stdout once more at exit, and would complain then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise click.exceptions.Exit(UNREAD) from None
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise click.ClickException(f"cannot write to stdout: {error.strerror or error}") from None


def save(path: str, text: str) -> None:
    """Write a report to a file."""
    try:
        Path(path).write_bytes(text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror or error}") from error
