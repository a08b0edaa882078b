"""What a command remarks on stderr beside its report.

In: options, a `RunReport`.  Out: lines on stderr.  Never here: a finding, an exit code.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from devicelint.commands.options import CACHE, Options, settings_of
from devicelint.commands.output import complain
from devicelint.options import DEFAULT
from devicelint.reporters.layout import printable

if TYPE_CHECKING:
    from devicelint.model import RunReport
    from devicelint.settings import Settings


def settled(options: Options) -> Settings:
    """Load the settings for a run, and warn of what can hardly be meant in them."""
    settings = settings_of(options)
    if not options.quiet:
        _remark_on_rules(settings)
        _remark_on_folders(settings)
    return settings


def _remark_on_rules(settings: Settings) -> None:
    if all(settings.sources.get(key, DEFAULT) == DEFAULT for key in ("select", "ignore")):
        return  # to import the rules takes a tenth of what checking one file does
    from devicelint.rules import RULES

    if not any(settings.is_selected(rule.code) for rule in RULES):
        select, ignore = (settings.sources.get(key, DEFAULT) for key in ("select", "ignore"))
        complain(
            "no rule is on, so nothing can be found: change `select` "
            f"({printable(select)}) or `ignore` ({printable(ignore)})"
        )


def _remark_on_folders(settings: Settings) -> None:
    missing = [path for path in settings.search_paths if not os.path.isdir(path)]
    if missing:
        source = settings.sources.get("search-paths", DEFAULT)
        complain(
            f"{printable(source)}: search-paths: no folder {printable(', '.join(missing))}; "
            "classes that were to be found there are unknown"
        )


def remark_on_cache(run: RunReport, options: Options) -> None:
    """Say that nothing is remembered: to a user who has named the cache, or wants to know all.

    The default folder is often one that cannot be written to, a checkout of somebody else's.
    """
    is_named = options.cache_dir is not None and not options.quiet
    if run.unremembered and (is_named or options.verbose):
        folder = printable(options.cache_dir or CACHE)
        complain(
            f"nothing new is remembered in {folder}: {printable(run.unremembered)}; name another "
            "folder with --cache-dir, or say --no-cache"
        )
