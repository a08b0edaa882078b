"""The settings in force, as a configuration file would spell them.

In: keys with values and sources.  Out: TOML with comments.  Never here: reading a configuration.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping


def render_settings(rows: Iterable[tuple[str, object, str]], root: str) -> str:
    """Render each key with its value and, as a comment, where that came from."""
    lines = [f"{key} = {_toml(value)}  # {source}\n" for key, value, source in rows]
    return f"# patterns are relative to {root}\n{''.join(lines)}"


def _toml(value: object) -> str:
    """Spell a value in TOML, whose strings, lists and booleans are those of JSON."""
    if isinstance(value, Mapping):
        items = (f"{json.dumps(str(key))} = {_toml(item)}" for key, item in value.items())
        return f"{{ {', '.join(items)} }}" if value else "{}"
    return json.dumps(value, ensure_ascii=False)
