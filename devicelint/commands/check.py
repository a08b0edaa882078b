"""`devicelint check`: report what is found.

In: options.  Out: reports on stdout or in files, an exit code.  Never here: analysis, or the look
of a report.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from devicelint.collector import collector_off
from devicelint.commands.options import (
    COMMON,
    Options,
    options_of,
    request_of,
    settings_of,
    settings_text,
    start_of,
    usable_baseline,
    with_options,
)
from devicelint.commands.output import complain, print_text
from devicelint.commands.outputs import (
    Output,
    complete_outputs,
    outputs_of,
    read_outputs,
    report,
)
from devicelint.commands.progress import progress_on
from devicelint.commands.remarks import remark_on_cache, settled
from devicelint.commands.verdict import verdict
from devicelint.reporters import FORMATS
from devicelint.reporters.layout import Layout, plural
from devicelint.suppression import PLACEHOLDER

if TYPE_CHECKING:
    from devicelint.model import RunReport


@click.command()
@with_options(COMMON)
@click.option(
    "--output-format",
    "outputs",
    multiple=True,
    default=("text",),
    show_default=True,
    metavar="FORMAT[=FILE]",
    callback=read_outputs,
    shell_complete=complete_outputs,
    help=f"How to report, and where if not on stdout: {', '.join(FORMATS)}. Repeatable.",
)
@click.option(
    "-o", "--output-file", metavar="FILE", type=click.Path(), help="Where to report; else stdout."
)
@click.option("--statistics", is_flag=True, help="Count findings by rule instead.")
@click.option(
    "--write-baseline", metavar="FILE", help="Write what is found to FILE, as known from now on."
)
@click.option(
    "--add-ignores", is_flag=True, help="Write comments into the files that silence what is found."
)
@click.option(
    "--reason", metavar="TEXT", default=PLACEHOLDER, help="What --add-ignores gives as the reason."
)
@click.option(
    "--trace",
    metavar="FILE",
    type=click.Path(exists=True),
    help="What a run has shown (a log, report or folder of `devicelint trace`): confirmed first.",
)
@click.option("--watch", "is_watching", is_flag=True, help="Check again after every change.")
@click.pass_context
def check(
    context: click.Context,
    /,
    outputs: tuple[Output, ...],
    output_file: str | None,
    statistics: bool,
    write_baseline: str | None,
    add_ignores: bool,
    reason: str,
    trace: str | None,
    is_watching: bool,
    **_: object,
) -> int:
    """Report what modules build without a device.

    PATHS are files and folders, by default the current one; `-` reads stdin.
    Exits with 1 if anything is found, with 2 if a file could not be checked.
    """
    options = options_of(context)
    if options.show_settings:
        return print_text(settings_text(settings_of(options)))
    places = outputs_of(outputs, output_file)
    layout = Layout(statistics=statistics, summary=not options.quiet, details=options.verbose)
    writing = {
        "--write-baseline": write_baseline is not None,
        "--add-ignores": add_ignores,
        "--watch": is_watching,
    }
    if sum(writing.values()) > 1:
        first, second, *_rest = (name for name, given in writing.items() if given)
        raise click.UsageError(f"{first} and {second} exclude each other")
    if write_baseline is not None:
        return _write_baseline(options, write_baseline, places, layout)
    if add_ignores:
        return _add_ignores(options, reason, places, layout)
    if is_watching:
        _watch(options, places, layout)
    with collector_off():
        code = _check(options, places, layout, trace)
        # Nor is it searched for cycles at the end: a check of 50 MB leaves 740,000 objects, and to
        # search them took 0.3 s of 4 s.
        gc.freeze()
    return code


def _check(
    options: Options, outputs: Sequence[Output], layout: Layout, trace: str | None = None
) -> int:
    """Check once."""
    settings = settled(options)
    from devicelint import runner

    request = request_of(options)
    with usable_baseline(), progress_on(sys.stderr) as tell:
        run = runner.check(request, settings, tell)
    if trace is not None:
        return _conclude(run, options, outputs, layout, _judged(run, trace))
    return _conclude(run, options, outputs, layout)


def _judged(run: RunReport, file: str) -> Callable[[str, RunReport, Layout], str]:
    """Read a trace and give the rendering that tells what it says of each finding."""
    from devicelint.trace import logfile, merge

    logs = logfile.read(Path(file))
    if logs.problems or not logs.logs:
        raise click.ClickException("; ".join(logs.problems) or f"{file}: no logs of a trace")
    judged = merge.judge(run, logs.logs, str(Path.cwd()))
    return lambda name, _, layout: merge.render(FORMATS[name], name, judged, layout)


def _write_baseline(options: Options, file: str, outputs: Sequence[Output], layout: Layout) -> int:
    """Check once, and let what is found be known."""
    settings = settled(options)
    from devicelint import runner

    request = request_of(options)
    with usable_baseline(), progress_on(sys.stderr) as tell:
        recorded = runner.record(request, settings, file, tell)
    complain(
        f"wrote {plural(recorded.total, 'finding')} to {file} "
        f"({recorded.new:,} new, {recorded.dropped:,} dropped)"
    )
    return _conclude(recorded.run, options, outputs, layout)


def _add_ignores(options: Options, reason: str, outputs: Sequence[Output], layout: Layout) -> int:
    """Silence what is found by comments."""
    if "-" in options.paths:
        raise click.UsageError("--add-ignores and '-' exclude each other: it writes into files")
    if not reason.isprintable() or "#" in reason:
        raise click.UsageError("--reason must be one line without '#'")
    settings = settled(options)
    from devicelint import runner
    from devicelint.silencing import silence

    request = request_of(options)
    with usable_baseline():
        done = runner.write(silence(request, settings, reason), request.cwd)
    count = sum(len(one.applied) for one in done.fixes)
    complain(f"silenced {plural(count, 'finding')} in {plural(len(done.fixes), 'file')}")
    return _conclude(done.left, options, outputs, layout)


def _conclude(
    run: RunReport,
    options: Options,
    outputs: Sequence[Output],
    layout: Layout,
    *render: Callable[[str, RunReport, Layout], str],
) -> int:
    """Report a run, as `render` says if it is given, and give its exit code."""
    report(run, outputs, options.color, layout, *render)
    remark_on_cache(run, options)
    if options.verbose:
        complain(", ".join(f"{stage} {seconds:.2f} s" for stage, seconds in run.timings))
        known, new = run.remembered
        if known or new:
            complain(f"cache: asked about {plural(known + new, 'file')}, knew {known:,}")
    return 0 if options.exit_zero else verdict(run)


def _watch(options: Options, outputs: Sequence[Output], layout: Layout) -> None:
    """Check again and again; a wrong setting is a complaint, and mended by the next change."""
    if "-" in options.paths:
        raise click.UsageError("--watch and '-' exclude each other: stdin is read once")
    from devicelint.commands.watch import watch

    def check_again() -> None:
        if sys.stdout.isatty():
            click.clear()
        try:
            _check(options, outputs, layout)
        except click.ClickException as error:
            complain(error.format_message())
        complain("watching for changes, Ctrl-C ends")

    watch(partial(_watched, options), check_again)


def _watched(options: Options) -> Iterator[str]:
    """Give the files whose change matters: those to be checked, and the configuration's."""
    from devicelint import runner

    for folder in (start_of(options), *start_of(options).parents):
        yield from (str(folder / name) for name in ("devicelint.toml", "pyproject.toml"))
    try:
        settings = settings_of(options)
    except click.UsageError:  # said when it came up
        return
    request = request_of(options)
    yield from (str(request.cwd / path) for path in runner.discover_files(request, settings).files)
