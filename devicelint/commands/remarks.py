"""What a command remarks on stderr beside its report.

In: options, a `RunReport`.  Out: lines on stderr.  Never here: a finding, an exit code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from devicelint.commands.options import CACHE, Options
from devicelint.commands.output import complain
from devicelint.reporters.layout import printable

if TYPE_CHECKING:
    from devicelint.model import RunReport


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
