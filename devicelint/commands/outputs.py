"""`--output-format FORMAT[=FILE]`: which reports a run makes, and where each goes.

In: words of the command line, a `RunReport`.  Out: reports on stdout and in files.  Never here: the
look of a report.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from devicelint.commands.output import layout_for, print_text, save
from devicelint.commands.repository import append_job_summary, located
from devicelint.reporters import FORMATS
from devicelint.reporters.layout import Layout

if TYPE_CHECKING:
    from devicelint.model import RunReport


@dataclass(frozen=True, slots=True)
class Output:
    """A report: its format, and its file (None: stdout)."""

    format: str
    file: str | None = None


def read_outputs(
    context: click.Context, parameter: click.Parameter, words: tuple[str, ...]
) -> tuple[Output, ...]:
    """Read the values of the option."""
    return tuple(map(_output, words))


def _output(word: str) -> Output:
    name, equals, file = word.partition("=")
    if name not in FORMATS:
        raise click.BadParameter(f"{name!r} is not one of {', '.join(FORMATS)}")
    if equals and not file:
        raise click.BadParameter(f"{word!r} names no file")
    return Output(name, None if file in ("", "-") else file)


def complete_outputs(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Complete the name of a format."""
    return [name for name in FORMATS if name.startswith(incomplete)]


def outputs_of(outputs: Sequence[Output], output_file: str | None) -> tuple[Output, ...]:
    """Join `--output-format` and `--output-file`; files come first, stdout last."""
    if output_file is not None:
        if len(outputs) > 1 or outputs[0].file is not None:
            raise click.UsageError("--output-file takes one format, or say FORMAT=FILE for each")
        return (replace(outputs[0], file=output_file),)
    for index, output in enumerate(outputs):
        if any(_is_same_place(output, other) for other in outputs[:index]):
            place = output.file or "stdout"
            raise click.UsageError(f"two reports cannot go to {place}, say FORMAT=FILE for one")
    return tuple(sorted(outputs, key=lambda output: output.file is None))


def _is_same_place(one: Output, other: Output) -> bool:
    if one.file is None or other.file is None:
        return one.file is other.file
    return os.path.abspath(one.file) == os.path.abspath(other.file)


def _as_it_is(name: str, run: RunReport, layout: Layout) -> str:
    return FORMATS[name](run, layout)


def report(
    run: RunReport,
    outputs: Sequence[Output],
    color: str,
    layout: Layout,
    render: Callable[[str, RunReport, Layout], str] = _as_it_is,
) -> None:
    """Write every report of a run; `layout` says how much, each place how it looks there."""
    for output in outputs:
        place = layout_for(color, None if output.file else sys.stdout)
        there = located(replace(layout, width=place.width, color=place.color, links=place.links))
        text = render(output.format, run, there)
        if output.format == "github":
            append_job_summary(run, there)
        if output.file is None:
            print_text(text, color=there.color)
        else:
            save(output.file, text)
