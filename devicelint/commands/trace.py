"""`devicelint trace`: run a program and tell where what its modules build has landed.

In: a command line, or a folder of logs.  Out: the program's own exit code, and a report on stderr
or in a file: stdout is the program's.  Never here: PyTorch.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import click

from devicelint.commands.output import complain, print_text, save
from devicelint.commands.verdict import WRONG

_REPORT = "report"
_FORMATS = ("text", "json", "sarif")


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    short_help="Run a program and tell where its modules' tensors land.",
)
@click.option(
    "--output-format",
    type=click.Choice(_FORMATS),
    default="text",
    show_default=True,
    help="How to report.",
)
@click.option(
    "-o", "--output-file", metavar="FILE", type=click.Path(), help="Where to report; else stderr."
)
@click.option(
    "--log-dir",
    metavar="FOLDER",
    type=click.Path(),
    help="Where the logs go; else they are temporary.",
)
@click.option(
    "--device", metavar="DEVICE", default="", help="The default device to build on: meta or cpu."
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, required=True)
def trace(
    output_format: str,
    output_file: str | None,
    log_dir: str | None,
    device: str,
    command: tuple[str, ...],
) -> int:
    """Run COMMAND and tell where its modules' tensors land.

    COMMAND is a Python file with its arguments, or any command: `-- python -m package`. Its exit
    code is this one's, and stdout is its own: the report goes to stderr. `report FOLDER` in its
    place reports logs that are there, those of all ranks together, on stdout.
    """
    if command[0] == _REPORT:
        return _report(command[1:], output_format, output_file)
    return _run(command, output_format, output_file, log_dir, device)


def _report(words: tuple[str, ...], output_format: str, output_file: str | None) -> int:
    from devicelint.trace import logfile, report, summary

    paths, output_format, output_file = _after(words, output_format, output_file)
    if len(paths) != 1:
        raise click.UsageError("`trace report` takes one folder or file of logs")
    if not os.path.exists(paths[0]):
        raise click.UsageError(f"{paths[0]} does not exist")
    logs = logfile.read(Path(paths[0]))
    text = report.FORMATS[output_format](summary.summarise(logs.logs, logs.problems))
    if output_file is None:
        print_text(text)
    else:
        save(output_file, text)
    return WRONG if logs.problems or not logs.logs else 0


def _after(
    words: tuple[str, ...], output_format: str, output_file: str | None
) -> tuple[list[str], str, str | None]:
    """Read the options that stand behind `report`, where people put them too."""
    paths: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if name not in ("--output-format", "--output-file", "-o"):
            paths.append(word)
            continue
        if not equals:
            if not rest:
                raise click.UsageError(f"{name} needs a value")
            value = rest.pop(0)
        if name == "--output-format":
            output_format = value
        else:
            output_file = value
    if output_format not in _FORMATS:
        raise click.UsageError(f"{output_format!r} is not one of {', '.join(_FORMATS)}")
    return paths, output_format, output_file


def _run(
    command: tuple[str, ...],
    output_format: str,
    output_file: str | None,
    log_dir: str | None,
    device: str,
) -> int:
    from devicelint.trace import launch

    is_rank = "RANK" in os.environ
    if is_rank and output_file is not None:
        raise click.UsageError(
            "each rank would write -o; use --log-dir, and `devicelint trace report` afterwards"
        )
    folder = Path(log_dir or tempfile.mkdtemp(prefix="devicelint-trace-"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        complain(f"{folder}: {error.strerror or error}; running without a log")
    try:
        code = launch.run(
            launch.command_of(command), launch.environment(str(folder), device, os.environ)
        )
    except OSError as error:
        raise click.ClickException(f"{command[0]}: {error.strerror or error}") from error
    _tell(folder, output_format, output_file, is_quiet=is_rank)
    if log_dir is None and not is_rank:
        _drop(folder)
    elif is_rank and log_dir is None:
        complain(f"logs are in {folder}")
    sys.stdout.flush()
    sys.stderr.flush()
    return launch.end_like(code)


def _tell(folder: Path, output_format: str, output_file: str | None, *, is_quiet: bool) -> None:
    """Report; whatever goes wrong here is not the program's fault, nor its exit code."""
    if is_quiet:
        return  # eight ranks, eight reports: `trace report` makes one of them
    from devicelint.trace import logfile, report, summary

    logs = logfile.read(folder)
    text = report.FORMATS[output_format](summary.summarise(logs.logs, logs.problems))
    try:
        if output_file is None:
            print_text(text, stream=sys.stderr)
        else:
            save(output_file, text)
    except (OSError, click.ClickException) as error:
        complain(f"the report is lost: {error}")


def _drop(folder: Path) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
