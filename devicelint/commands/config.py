"""`devicelint config`: the settings in force, or the schema of what can be set.

In: a path.  Out: TOML or JSON on stdout.  Never here: reading a configuration file.
"""

from __future__ import annotations

from pathlib import Path

import click

from devicelint.commands.options import CONFIG, load, settings_text, with_options
from devicelint.commands.output import print_text


@click.command()
@click.argument("path", default=".")
@with_options(CONFIG)
@click.option("--schema", is_flag=True, help="Print the JSON schema of [tool.devicelint] instead.")
def config(path: str, config: tuple[str, ...], isolated: bool, schema: bool) -> int:
    """Print the settings in force for PATH, and where each comes from."""
    if schema:
        from devicelint.schema import render_schema

        return print_text(render_schema())
    return print_text(settings_text(load(Path(path), config, isolated, {})))
