"""The options that commands share, and what they mean: a request and settings.

In: decorators' names, click's parameters.  Out: `Options`, a `Request`, `Settings`; a wrong word is
a `click.UsageError`.  Never here: output, or an option of a single command.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from devicelint.runner import Request
    from devicelint.settings import Settings

_Command = TypeVar("_Command", bound=Callable[..., object])

CACHE = ".devicelint_cache"


@dataclass(frozen=True, slots=True)
class Options:
    """What `check` and `fix` have in common; the names are those of the parameters."""

    paths: tuple[str, ...]
    select: tuple[str, ...]
    ignore: tuple[str, ...]
    extend_select: tuple[str, ...]
    exclude: tuple[str, ...]
    extend_exclude: tuple[str, ...]
    force_exclude: bool | None
    min_severity: str | None
    baseline: str | None
    stdin_filename: str | None
    config: tuple[str, ...]
    isolated: bool
    no_cache: bool
    cache_dir: str | None
    jobs: int | None
    exit_zero: bool
    show_settings: bool
    color: str
    quiet: bool
    verbose: bool

    @property
    def overrides(self) -> Mapping[str, object]:
        """The options that are settings."""
        return {
            "select": self.select,
            "ignore": self.ignore,
            "extend_select": self.extend_select,
            "exclude": self.exclude,
            "extend_exclude": self.extend_exclude,
            "force_exclude": self.force_exclude,
            "min_severity": self.min_severity,
            "baseline": self.baseline,
        }


def options_of(context: click.Context) -> Options:
    """Gather the shared options of a command."""
    return Options(**{field.name: context.params[field.name] for field in fields(Options)})


# Decorators --------------------------------------------------------------------------------------


CONFIG = (
    click.option(
        "--config",
        multiple=True,
        metavar="FILE|KEY=VALUE",
        help="A configuration file, or one setting in TOML; wins over files. Repeatable.",
    ),
    click.option("--isolated", is_flag=True, help="Read no configuration file."),
)
COLOR = click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="auto: on a terminal; NO_COLOR and FORCE_COLOR are heeded.",
)


def _codes(name: str, meaning: str) -> Callable[[_Command], _Command]:
    return click.option(name, multiple=True, metavar="CODES", help=meaning)


def _patterns(name: str, meaning: str) -> Callable[[_Command], _Command]:
    return click.option(name, multiple=True, metavar="PATTERNS", help=meaning)


COMMON = (
    click.argument("paths", nargs=-1, metavar="[PATHS]...", type=click.Path()),
    _codes("--select", "Rules to check: codes, prefixes, names or ALL; commas separate."),
    _codes("--ignore", "Rules to leave out."),
    _codes("--extend-select", "Rules to check besides those selected."),
    _patterns("--exclude", "Files and folders to skip, as in .gitignore."),
    _patterns("--extend-exclude", "Files and folders to skip besides --exclude."),
    click.option(
        "--force-exclude", is_flag=True, default=None, help="Skip excluded paths even if named."
    ),
    click.option(
        "--min-severity", metavar="LEVEL", help="The lowest to report: error, warning or note."
    ),
    click.option(
        "--baseline", metavar="FILE", help="A file of known findings, which are not reported."
    ),
    click.option("--stdin-filename", metavar="FILE", help="The name of what `-` reads from stdin."),
    *CONFIG,
    click.option("--no-cache", is_flag=True, help="Neither read nor write the cache."),
    click.option(
        "--cache-dir",
        metavar="FOLDER",
        envvar="DEVICELINT_CACHE_DIR",
        help="Where the cache is; by default .devicelint_cache.",
    ),
    click.option(
        "-j", "--jobs", type=click.IntRange(min=1), help="Processes; by default one per core."
    ),
    click.option(
        "--exit-zero", is_flag=True, help="Exit with 0 whatever is found or cannot be checked."
    ),
    click.option("--show-settings", is_flag=True, help="Print the settings in force and stop."),
    COLOR,
    click.option("-q", "--quiet", is_flag=True, help="No summary, no warnings."),
    click.option(
        "-v",
        "--verbose",
        is_flag=True,
        help="Tracebacks, how many findings comments silence, times, use of the cache.",
    ),
)


def with_options(
    options: Iterable[Callable[[_Command], _Command]],
) -> Callable[[_Command], _Command]:
    """Join decorators of options into one, in the order of the help page."""

    def decorate(command: _Command) -> _Command:
        for option in reversed([*options]):
            command = option(command)
        return command

    return decorate


# From options to what the program works with -----------------------------------------------------


def request_of(options: Options) -> Request:
    """Say what is to be checked; stdin is read here."""
    from devicelint.runner import STDIN_NAME, Request

    if "" in options.paths:
        raise click.UsageError("an empty path names nothing; `.` is this folder")
    has_stdin = "-" in options.paths
    if has_stdin and options.paths != ("-",):
        raise click.UsageError("'-' cannot be combined with other paths")
    if options.stdin_filename is not None and not has_stdin:
        raise click.UsageError("--stdin-filename needs '-' as the path")
    return Request(
        cwd=Path.cwd(),
        paths=options.paths or (".",),
        jobs=options.jobs or _cores(),
        stdin=sys.stdin.buffer.read() if has_stdin else None,
        stdin_name=options.stdin_filename or STDIN_NAME,
        cache=None if options.no_cache else Path(options.cache_dir or CACHE).absolute(),
    )


def _cores() -> int:
    # In a container or under taskset fewer may be ours than there are.
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def settings_of(options: Options) -> Settings:
    """Load the settings of the folder that all paths have in common."""
    return load(start_of(options), options.config, options.isolated, options.overrides)


def start_of(options: Options) -> Path:
    """Give the place from which a configuration is looked for, upwards."""
    paths = options.paths or (".",)
    if paths == ("-",):
        paths = (os.path.dirname(options.stdin_filename or "") or ".",)
    try:
        return Path(os.path.commonpath([os.path.abspath(path) for path in paths]))
    except ValueError:  # different drives of Windows
        return Path()


def load(
    start: Path, config: tuple[str, ...], isolated: bool, overrides: Mapping[str, object]
) -> Settings:
    """Load the settings in force for a path."""
    from devicelint.config import ConfigError, load_settings

    try:
        return load_settings(start, config=config, isolated=isolated, overrides=overrides)
    except ConfigError as error:
        raise click.UsageError(str(error)) from error


@contextlib.contextmanager
def usable_baseline() -> Iterator[None]:
    """Turn a baseline that cannot be used into a wrong option."""
    from devicelint.baseline import BaselineError

    try:
        yield
    except BaselineError as error:
        raise click.UsageError(f"baseline: {error}") from error


def settings_text(settings: Settings) -> str:
    """Spell settings, each with where it came from."""
    from devicelint.options import OPTIONS
    from devicelint.reporters.settings import render_settings

    rows = (
        (key, option.spelled(settings), settings.sources.get(key, "default"))
        for key, option in OPTIONS.items()
    )
    return render_settings(rows, str(settings.root))
