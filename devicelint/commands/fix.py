"""`devicelint fix`: show or apply what mends the findings.

In: options.  Out: a diff or a source on stdout, files written, an exit code.  Never here: how a fix
is made.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, TextIO

import click

from devicelint.commands.options import (
    COMMON,
    Options,
    options_of,
    request_of,
    settings_of,
    settings_text,
    usable_baseline,
    with_options,
)
from devicelint.commands.output import layout_for, print_bytes, print_text
from devicelint.commands.remarks import remark_on_cache, settled
from devicelint.commands.verdict import FOUND, verdict

if TYPE_CHECKING:
    from devicelint.runner import FixReport


@click.command()
@with_options(COMMON)
@click.option("--write", is_flag=True, help="Change the files; else only the diff is shown.")
@click.option("--unsafe-fixes", is_flag=True, help="Also fixes that may change what is computed.")
@click.option("--diff", is_flag=True, help="Show the diff, also with --write or for `-`.")
@click.pass_context
def fix(context: click.Context, /, write: bool, unsafe_fixes: bool, diff: bool, **_: object) -> int:
    """Show or apply what mends the findings.

    Without --write the diff goes to stdout and nothing is changed; `-` reads stdin and puts the
    fixed source on stdout, or with --diff the diff.  Exits with 1 if anything is left, or would
    change where only the diff is shown; with 2 if a file could not be checked or written.
    """
    options = options_of(context)
    if options.show_settings:
        return print_text(settings_text(settings_of(options)))
    from devicelint import runner

    if write and "-" in options.paths:
        raise click.UsageError("--write and '-' exclude each other: the source goes to stdout")
    settings = settled(options)
    request = request_of(options)
    is_done = write or (request.stdin is not None and not diff)
    with usable_baseline():
        report = runner.fix(request, settings, unsafe=unsafe_fixes)
    if write:
        report = runner.write(report, request.cwd)
    if diff or not is_done:
        _print_diff(report, options.color)
    elif request.stdin is not None:
        print_bytes(report.fixes[0].after if report.fixes else request.stdin)
    # What is on stdout beside this may be a source or go to `git apply`.
    stream = sys.stdout if write and not diff else sys.stderr
    _say_fixes(report, options, is_done=is_done, stream=stream)
    remark_on_cache(report.left, options)
    if options.exit_zero:
        return 0
    would_change = bool(report.fixes) and not is_done
    return verdict(report.left) or (FOUND if would_change else 0)


def _print_diff(report: FixReport, color: str) -> None:
    from devicelint.fixer import unified_diff

    patch = b"".join(unified_diff(one.path, one.before, one.after) for one in report.fixes)
    if not patch:
        return
    layout = layout_for(color, sys.stdout)
    if layout.color or layout.width:
        from devicelint.reporters.fixes import render_diff

        print_text(render_diff(patch, layout), color=layout.color)
    else:
        print_bytes(patch)  # as it is, for `git apply`


def _say_fixes(report: FixReport, options: Options, *, is_done: bool, stream: TextIO) -> None:
    """Say what was fixed, or would be."""
    from devicelint.reporters import fixes

    layout = replace(
        layout_for(options.color, stream), summary=not options.quiet, details=options.verbose
    )
    render = fixes.render_done if is_done else fixes.render_preview
    text = render({one.path: one.applied for one in report.fixes}, report.left, layout)
    print_text(text, color=layout.color, stream=stream)
