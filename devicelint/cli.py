"""The command line: words in, output and an exit code out.

In: `sys.argv`, the environment, stdin.  Out: text on stdout, complaints on stderr; 0 nothing found,
1 findings, 2 a wrong option or setting or a file that could not be checked, 130 interrupted,
141 nobody reads stdout any more.  Never here: a command, which is a module of `commands/` that is
imported on demand.  Whatever is heavier than click is imported by the command that needs it.
"""

from __future__ import annotations

import click

from devicelint import __version__
from devicelint.commands import COMMANDS
from devicelint.commands.output import complain
from devicelint.commands.verdict import INTERRUPTED, WRONG


def main(argv: list[str] | None = None) -> int:
    """Run a command line and return its exit code."""
    try:
        code = program.main(argv, prog_name="devicelint", standalone_mode=False)
    except click.Abort:
        return INTERRUPTED
    except click.ClickException as error:
        complain(" ".join(error.format_message().split()))
        return WRONG
    except Exception:  # noqa: BLE001 - else Python would exit with 1, which means findings
        import traceback

        complain("internal error, please report it:\n" + traceback.format_exc())
        return WRONG
    return code if isinstance(code, int) else 0


class _Program(click.Group):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Give the names in the order of the help page."""
        return [*COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        return COMMANDS[cmd_name]() if cmd_name in COMMANDS else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is named first, or say which one may be meant."""
        word = args[0]
        # Click has its own words for an option, and only completion may go on without a command.
        if word in COMMANDS or word.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        import difflib

        near = difflib.get_close_matches(word.lower(), COMMANDS, n=1)
        hint = f"did you mean `{near[0]}`?" if near else "see `devicelint --help`"
        raise click.UsageError(f"no command is called {word!r}, {hint}", ctx)


@click.command(
    cls=_Program,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, message="devicelint %(version)s")
@click.pass_context
def program(context: click.Context) -> int | None:
    """Find what a PyTorch module builds without saying on which device."""
    if context.invoked_subcommand is not None:
        return None
    click.echo(context.get_help(), err=True)
    return WRONG
