"""Where the documentation is on the web.

In: a rule's code and name.  Out: addresses.  Never here: asking whether they exist.
"""

from __future__ import annotations

#: The one place that names the address of the repository.
HOME = "https://example.org/devicelint"


def rule_page(code: str) -> str:
    """Give the address of a rule's page."""
    return f"{HOME}/blob/main/docs/rules/{code}.md"
