"""The command line: words in, output and an exit code out.

In: `sys.argv`, the environment, stdin.  Out: text on stdout, complaints on stderr; 0 nothing found,
1 findings, 2 a wrong option or setting or a file that could not be checked, 130 interrupted,
141 nobody reads stdout any more.  Never here: analysis, or the look of a report.  Whatever is
heavier than click is imported by the command that needs it.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, TypeVar

import click

from devicelint import __version__
from devicelint.reporters import FORMATS
from devicelint.reporters.layout import Layout
from devicelint.reporters.terminal import encodable, is_coloured, width_of

if TYPE_CHECKING:
    from devicelint.config import Settings
    from devicelint.model import Rule, RunReport
    from devicelint.runner import FixReport, Request

_FOUND, _WRONG, _INTERRUPTED, _UNREAD = 1, 2, 130, 141
_CACHE = ".devicelint_cache"
_TAG = "CACHEDIR.TAG"

_Command = TypeVar("_Command", bound=Callable[..., object])


def main(argv: list[str] | None = None) -> int:
    """Run a command line and return its exit code."""
    try:
        code = program.main(argv, prog_name="devicelint", standalone_mode=False)
    except click.Abort:
        return _INTERRUPTED
    except click.ClickException as error:
        _complain(" ".join(error.format_message().split()))
        return _WRONG
    except Exception:  # noqa: BLE001 - else Python would exit with 1, which means findings
        import traceback

        _complain("internal error, please report it:\n" + traceback.format_exc())
        return _WRONG
    return code if isinstance(code, int) else 0


def _complain(message: str) -> None:
    click.echo(f"devicelint: {message}", err=True)


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="devicelint %(version)s")
@click.pass_context
def program(context: click.Context) -> int | None:
    """Find what a PyTorch module builds without saying on which device."""
    if context.invoked_subcommand is not None:
        return None
    click.echo(context.get_help(), err=True)
    return _WRONG


# Options -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Options:
    """What `check` and `fix` have in common; the names are those of the parameters."""

    paths: tuple[str, ...]
    select: tuple[str, ...]
    ignore: tuple[str, ...]
    extend_select: tuple[str, ...]
    exclude: tuple[str, ...]
    extend_exclude: tuple[str, ...]
    force_exclude: bool | None
    min_severity: str | None
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
        }


def _options_of(context: click.Context) -> _Options:
    return _Options(**{field.name: context.params[field.name] for field in fields(_Options)})


_CONFIG = (
    click.option(
        "--config",
        multiple=True,
        metavar="FILE|KEY=VALUE",
        help="A configuration file, or one setting in TOML; wins over files. Repeatable.",
    ),
    click.option("--isolated", is_flag=True, help="Read no configuration file."),
)
_COLOR = click.option(
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


_COMMON = (
    click.argument("paths", nargs=-1, metavar="[PATHS]..."),
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
    click.option("--stdin-filename", metavar="FILE", help="The name of what `-` reads from stdin."),
    *_CONFIG,
    click.option("--no-cache", is_flag=True, help="Neither read nor write the cache."),
    click.option("--cache-dir", metavar="FOLDER", help="Where the cache is."),
    click.option(
        "-j", "--jobs", type=click.IntRange(min=1), help="Processes; by default one per core."
    ),
    click.option("--exit-zero", is_flag=True, help="Exit with 0 whatever is found."),
    click.option("--show-settings", is_flag=True, help="Print the settings in force and stop."),
    _COLOR,
    click.option("-q", "--quiet", is_flag=True, help="No summary."),
    click.option("-v", "--verbose", is_flag=True, help="Tracebacks, suppressed findings, times."),
)


def _with(options: Iterable[Callable[[_Command], _Command]]) -> Callable[[_Command], _Command]:
    """Join decorators of options into one, in the order of the help page."""

    def decorate(command: _Command) -> _Command:
        for option in reversed([*options]):
            command = option(command)
        return command

    return decorate


# Commands ----------------------------------------------------------------------------------------


@program.command()
@_with(_COMMON)
@click.option(
    "--output-format",
    type=click.Choice([*FORMATS]),
    default="text",
    show_default=True,
    help="How to report.",
)
@click.option("-o", "--output-file", metavar="FILE", help="Where to report; else stdout.")
@click.option("--statistics", is_flag=True, help="Count findings by rule instead.")
@click.pass_context
def check(
    context: click.Context,
    /,
    output_format: str,
    output_file: str | None,
    statistics: bool,
    **_: object,
) -> int:
    """Report what modules build without a device.

    PATHS are files and folders, by default the current one; `-` reads stdin.
    Exits with 1 if anything is found, with 2 if a file could not be checked.
    """
    options = _options_of(context)
    settings = _settings(options)
    if options.show_settings:
        return _print(_settings_text(settings))
    from devicelint import runner

    run = runner.check(_request(options), settings)
    layout = replace(
        _layout(options.color, None if output_file else sys.stdout),
        statistics=statistics,
        summary=not options.quiet,
        details=options.verbose,
    )
    report = FORMATS[output_format](run, layout)
    if output_file is None:
        _print(report, color=layout.color)
    else:
        _save(output_file, report)
    if options.verbose:
        _complain(", ".join(f"{stage} {seconds:.2f} s" for stage, seconds in run.timings))
    return 0 if options.exit_zero else _verdict(run)


@program.command()
@_with(_COMMON)
@click.option("--write", is_flag=True, help="Change the files; else only the diff is shown.")
@click.option("--unsafe-fixes", is_flag=True, help="Also fixes that may change what is computed.")
@click.option("--diff", is_flag=True, help="Show the diff, also with --write or for `-`.")
@click.pass_context
def fix(context: click.Context, /, write: bool, unsafe_fixes: bool, diff: bool, **_: object) -> int:
    """Show or apply what mends the findings.

    Without --write the diff goes to stdout and nothing is changed; `-` reads stdin and puts the
    fixed source on stdout.  Exits with 1 if anything is left or would change.
    """
    options = _options_of(context)
    settings = _settings(options)
    if options.show_settings:
        return _print(_settings_text(settings))
    from devicelint import runner

    if write and "-" in options.paths:
        raise click.UsageError("--write and '-' exclude each other: the source goes to stdout")
    request = _request(options)
    is_done = write or (request.stdin is not None and not diff)
    report = runner.fix(request, settings, unsafe=unsafe_fixes)
    if write:
        report = runner.write(report, request.cwd)
    if diff or not is_done:
        _print_diff(report, options.color)
    elif request.stdin is not None:
        _print_bytes(report.fixes[0].after if report.fixes else request.stdin)
    # What is on stdout beside this may be a source or go to `git apply`.
    stream = sys.stdout if write and not diff else sys.stderr
    _say_fixes(report, options, is_done=is_done, stream=stream)
    if options.exit_zero:
        return 0
    would_change = bool(report.fixes) and not is_done
    return _verdict(report.left) or (_FOUND if would_change else 0)


@program.command()
@_COLOR
def rules(color: str) -> int:
    """List the rules."""
    from devicelint.reporters import manual
    from devicelint.rules import RULES

    layout = _layout(color, sys.stdout)
    return _print(manual.render_rules(RULES, layout), color=layout.color)


@program.command()
@click.argument("rule", metavar="CODE|NAME")
@_COLOR
def explain(rule: str, color: str) -> int:
    """Print the documentation of a rule."""
    from devicelint.reporters import manual

    layout = _layout(color, sys.stdout)
    return _print(manual.render_rule(_rule(rule), layout), color=layout.color)


@program.command()
@click.argument("path", default=".")
@_with(_CONFIG)
def config(path: str, config: tuple[str, ...], isolated: bool) -> int:
    """Print the settings in force for PATH, and where each comes from."""
    return _print(_settings_text(_load(Path(path), config, isolated, {})))


@program.command()
@click.option("--cache-dir", metavar="FOLDER", default=_CACHE, help="Where the cache is.")
def clean(cache_dir: str) -> int:
    """Drop the cache."""
    import shutil

    folder = Path(cache_dir)
    if not os.path.lexists(folder):
        return 0
    # A wrong --cache-dir must not cost anybody a folder.
    if folder.name != _CACHE and not (folder / _TAG).is_file():
        raise click.UsageError(f"{cache_dir} does not look like a cache")
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise click.ClickException(f"{cache_dir}: {error.strerror or error}") from error
    return _print(f"Removed {cache_dir}.\n")


# From options to what the program works with -----------------------------------------------------


def _request(options: _Options) -> Request:
    from devicelint.runner import STDIN_NAME, Request

    has_stdin = "-" in options.paths
    if has_stdin and options.paths != ("-",):
        raise click.UsageError("'-' cannot be combined with other paths")
    if options.stdin_filename is not None and not has_stdin:
        raise click.UsageError("--stdin-filename needs '-' as the path")
    return Request(
        cwd=Path.cwd(),
        paths=options.paths or (".",),
        jobs=options.jobs or _cores(),
        stdin=click.get_binary_stream("stdin").read() if has_stdin else None,
        stdin_name=options.stdin_filename or STDIN_NAME,
    )


def _cores() -> int:
    # In a container or under taskset fewer may be ours than there are.
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _settings(options: _Options) -> Settings:
    """Load the settings of the folder that all paths have in common."""
    paths = options.paths or (".",)
    if paths == ("-",):
        paths = (os.path.dirname(options.stdin_filename or "") or ".",)
    try:
        start = os.path.commonpath([os.path.abspath(path) for path in paths])
    except ValueError:  # different drives of Windows
        start = "."
    return _load(Path(start), options.config, options.isolated, options.overrides)


def _load(
    start: Path, config: tuple[str, ...], isolated: bool, overrides: Mapping[str, object]
) -> Settings:
    from devicelint.config import ConfigError, load_settings

    try:
        return load_settings(start, config=config, isolated=isolated, overrides=overrides)
    except ConfigError as error:
        raise click.UsageError(str(error)) from error


def _settings_text(settings: Settings) -> str:
    from devicelint.config import OPTIONS
    from devicelint.reporters.settings import render_settings

    rows = (
        (key, option.value(settings), settings.sources.get(key, "default"))
        for key, option in OPTIONS.items()
    )
    return render_settings(rows, str(settings.root))


def _rule(word: str) -> Rule:
    from devicelint.rules import RULES

    known = {name: rule for rule in RULES for name in (rule.code.lower(), rule.name)}
    if word.lower() in known:
        return known[word.lower()]
    import difflib

    near = difflib.get_close_matches(word.lower(), known, n=1, cutoff=0.4)
    hint = f", did you mean {known[near[0]].code} ({known[near[0]].name})?" if near else ""
    raise click.UsageError(f"no rule is called {word!r}{hint or ', see `devicelint rules`'}")


def _verdict(run: RunReport) -> int:
    if run.diagnostics:
        return _WRONG
    return _FOUND if run.findings else 0


# Output ------------------------------------------------------------------------------------------


def _layout(color: str, stream: TextIO | None) -> Layout:
    """Lay out for a stream; None is a file."""
    return Layout(width_of(stream) if stream else None, is_coloured(color, stream))


def _print(text: str, *, color: bool = False, stream: TextIO | None = None) -> int:
    """Print to stdout, with what its encoding cannot express escaped."""
    stream = stream or sys.stdout
    with _reader_may_leave():
        click.echo(encodable(text, stream), file=stream, nl=False, color=color)
    return 0


def _print_bytes(data: bytes) -> None:
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
        raise click.exceptions.Exit(_UNREAD) from None


def _save(path: str, text: str) -> None:
    try:
        Path(path).write_bytes(text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror or error}") from error


def _print_diff(report: FixReport, color: str) -> None:
    from devicelint.fixer import unified_diff

    patch = b"".join(unified_diff(one.path, one.before, one.after) for one in report.fixes)
    if not patch:
        return
    layout = _layout(color, sys.stdout)
    if layout.color or layout.width:
        from devicelint.reporters.fixes import render_diff

        _print(render_diff(patch, layout), color=layout.color)
    else:
        _print_bytes(patch)  # as it is, for `git apply`


def _say_fixes(report: FixReport, options: _Options, *, is_done: bool, stream: TextIO) -> None:
    """Say what was fixed, or would be."""
    from devicelint.reporters import fixes

    layout = replace(
        _layout(options.color, stream), summary=not options.quiet, details=options.verbose
    )
    render = fixes.render_done if is_done else fixes.render_preview
    text = render({one.path: one.applied for one in report.fixes}, report.left, layout)
    _print(text, color=layout.color, stream=stream)
