"""The commands, each in a module of its own that is imported when the command is asked for.

In: a command's name.  Out: the command.  Never here: options, output.  A new command is one module
and one line in `COMMANDS`, whose order is that of the help page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import click


def _check() -> click.Command:
    from devicelint.commands.check import check

    return check


def _fix() -> click.Command:
    from devicelint.commands.fix import fix

    return fix


def _trace() -> click.Command:
    from devicelint.commands.trace import trace

    return trace


def _rules() -> click.Command:
    from devicelint.commands.rules import rules

    return rules


def _explain() -> click.Command:
    from devicelint.commands.rules import explain

    return explain


def _config() -> click.Command:
    from devicelint.commands.config import config

    return config


def _clean() -> click.Command:
    from devicelint.commands.clean import clean

    return clean


def _completion() -> click.Command:
    from devicelint.commands.completion import completion

    return completion


COMMANDS: Mapping[str, Callable[[], click.Command]] = MappingProxyType(
    {
        "check": _check,
        "fix": _fix,
        "trace": _trace,
        "rules": _rules,
        "explain": _explain,
        "config": _config,
        "clean": _clean,
        "completion": _completion,
    }
)
