"""The text of a finding's lines, and columns counted in bytes.

In: a `Finding`, locations on its lines.  Out: text, numbers.  Never here: reading a file.
"""

from __future__ import annotations

from devicelint.model import Finding, Location


def text_of(finding: Finding) -> str:
    """Give the call as it is written, with line feeds between its lines."""
    return text_between(finding, finding.start, finding.end)


def text_between(finding: Finding, start: Location, end: Location) -> str:
    """Give the text between two places on the finding's lines."""
    first, last = start.line - finding.start.line, end.line - finding.start.line
    lines = [*finding.excerpt[first : last + 1]]
    if not lines:
        return ""
    lines[-1] = lines[-1][: end.column - 1]
    lines[0] = lines[0][start.column - 1 :]
    return "\n".join(lines)


def byte_column(finding: Finding, place: Location) -> int:
    """Count the column of a place on the finding's lines in bytes of UTF-8, from 1."""
    index = place.line - finding.start.line
    before = finding.excerpt[index][: place.column - 1] if index < len(finding.excerpt) else ""
    return len(before.encode("utf-8", "surrogatepass")) + 1
