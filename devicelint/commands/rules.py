"""`devicelint rules` and `devicelint explain`: the rules, and what one of them is about.

In: a code or a name.  Out: text on stdout.  Never here: findings.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from devicelint.commands.options import COLOR
from devicelint.commands.output import layout_for, print_text

if TYPE_CHECKING:
    from devicelint.model import Rule


@click.command()
@COLOR
def rules(color: str) -> int:
    """List the rules."""
    from devicelint.reporters import manual
    from devicelint.rules import RULES

    layout = layout_for(color, sys.stdout)
    return print_text(manual.render_rules(RULES, layout), color=layout.color)


def _complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from devicelint.rules import RULES

    words = (word for rule in RULES for word in (rule.code, rule.name))
    return [word for word in words if word.lower().startswith(incomplete.lower())]


@click.command()
@click.argument("rule", metavar="CODE|NAME", shell_complete=_complete)
@COLOR
def explain(rule: str, color: str) -> int:
    """Print the documentation of a rule."""
    from devicelint.reporters import manual

    layout = layout_for(color, sys.stdout)
    return print_text(manual.render_rule(_rule(rule), layout), color=layout.color)


def _rule(word: str) -> Rule:
    from devicelint.rules import RULES

    known = {name: rule for rule in RULES for name in (rule.code.lower(), rule.name)}
    if word.lower() in known:
        return known[word.lower()]
    import difflib

    near = difflib.get_close_matches(word.lower(), known, n=1, cutoff=0.4)
    hint = f", did you mean {known[near[0]].code} ({known[near[0]].name})?" if near else ""
    raise click.UsageError(f"no rule is called {word!r}{hint or ', see `devicelint rules`'}")
