"""`devicelint completion`: what makes a shell complete the words of a command line.

In: a shell's name.  Out: a script on stdout.  Never here: a change of the user's start-up files.
"""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from devicelint.commands.output import print_text


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> int:
    """Print the script that makes a shell complete devicelint's commands and options.

    \b
    bash: eval "$(devicelint completion bash)"       in ~/.bashrc
    zsh:  eval "$(devicelint completion zsh)"        in ~/.zshrc
    fish: devicelint completion fish | source        in ~/.config/fish/config.fish
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"click knows no completion for {shell}")
    root = context.find_root()
    return print_text(kind(root.command, {}, "devicelint", "_DEVICELINT_COMPLETE").source())
