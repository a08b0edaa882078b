"""How a report is laid out, and the few text helpers every report shares.

In: nothing but strings and the model.  Out: the `Layout` a reporter is given, and text that is
safe to print.  Never here: rich, a terminal, the environment.
"""

from __future__ import annotations

from dataclasses import dataclass

from devicelint.model import Diagnostic

# Control characters become their pictures (ESC in a source line must not reach the terminal);
# the bidirectional overrides of "Trojan Source" become U+FFFD.  Tabs are expanded before this.
_UNSAFE = (
    {code: 0x2400 + code for code in range(0x20)}
    | {0x7F: 0x2421}
    | dict.fromkeys([*range(0x80, 0xA0), 0x061C, 0x200E, 0x200F, 0x2028, 0x2029], 0xFFFD)
    | dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A)], 0xFFFD)
)


@dataclass(frozen=True, slots=True)
class Layout:
    """The room a report has, and how much it says."""

    #: columns of the terminal; None: not a terminal, so a location is never broken over lines
    width: int | None = None
    color: bool = False
    #: counts per rule in place of the single findings
    statistics: bool = False
    #: the closing summary
    summary: bool = True
    #: tracebacks of diagnostics, how many findings are suppressed
    details: bool = False
    #: the terminal follows links
    links: bool = False
    #: the working directory and the root of its repository, absolute, forward slashes; "" for a
    #: root: paths stay as they are
    cwd: str = ""
    root: str = ""
    #: where the repository's files are on the web, "" if nowhere: a path is appended to it
    web: str = ""


def printable(text: str) -> str:
    """Replace what a terminal would act upon instead of showing it."""
    return text.translate(_UNSAFE)


def plural(count: int, noun: str) -> str:
    """Give a count with its noun: `1 file`, `2 files`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def place(path: str, line: int, column: int) -> str:
    """Give `path:line:column` as editors and terminals link it; `path` alone for line 0."""
    return f"{printable(path)}:{line}:{max(column, 1)}" if line else printable(path)


def complaint(diagnostic: Diagnostic) -> str:
    """Give a diagnostic on one line."""
    where = place(diagnostic.path, diagnostic.line, diagnostic.column)
    return f"{where}: {printable(trouble(diagnostic))}"


def trouble(diagnostic: Diagnostic) -> str:
    """Say what could not be done, and why."""
    return diagnostic.message if diagnostic.is_checked else f"cannot check: {diagnostic.message}"
