"""The JSON schema of the configuration, for editors.

In: the option table.  Out: a schema (draft 2020-12) as text.  Never here: a key or a choice that
the table does not have.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from devicelint.model import Kind
from devicelint.options import KINDS, OPTIONS, ROW_KEYS, SINKS, Option, OptionType
from devicelint.rules import RULES

Json: TypeAlias = "str | int | bool | list[Json] | dict[str, Json]"

_DOTTED = r"^[^\W\d]\w*(\.[^\W\d]\w*)*$"


def render_schema() -> str:
    """Write the schema of `[tool.devicelint]`, which is that of `devicelint.toml`, too."""
    schema: dict[str, Json] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "devicelint",
        "type": "object",
        "additionalProperties": False,
        "properties": {key: _property(option) for key, option in OPTIONS.items()},
    }
    return json.dumps(schema, indent=2) + "\n"


def _property(option: Option) -> dict[str, Json]:
    described: dict[str, Json] = {"description": option.doc, **_TYPES[option.type](option)}
    default = option.default
    if isinstance(default, tuple):
        described["default"] = [str(item) for item in default]
    elif isinstance(default, Mapping):
        described["default"] = {}
    elif isinstance(default, bool | str):
        described["default"] = default
    return described


def _list_of(items: dict[str, Json]) -> dict[str, Json]:
    return {"type": "array", "items": items}


def _text(option: Option) -> dict[str, Json]:
    return {"type": "string"}


def _texts(option: Option) -> dict[str, Json]:
    return _list_of({"type": "string", "minLength": 1})


def _flag(option: Option) -> dict[str, Json]:
    return {"type": "boolean"}


def _choice(option: Option) -> dict[str, Json]:
    return {"enum": [str(choice) for choice in option.choices]}


def _codes(option: Option) -> dict[str, Json]:
    # Listed for completion; a prefix, another case or blanks are as good.
    known: list[Json] = [
        "ALL",
        "DVL",
        *(rule.code for rule in RULES),
        *(rule.name for rule in RULES),
    ]
    return _list_of({"anyOf": [{"enum": known}, {"type": "string", "minLength": 1}]})


def _codes_by_pattern(option: Option) -> dict[str, Json]:
    return {"type": "object", "additionalProperties": _codes(option)}


def _names(option: Option) -> dict[str, Json]:
    return _list_of({"type": "string", "pattern": _DOTTED})


def _table_of(row: Json) -> dict[str, Json]:
    return {
        "type": "object",
        "propertyNames": {"pattern": _DOTTED},
        "additionalProperties": row,
    }


_ROW: Final[Mapping[str, Json]] = {
    "kind": {"enum": [str(kind) for kind in KINDS], "default": str(Kind.TENSOR)},
    "keyword": {"type": "string", "default": "device", "description": "The device's keyword."},
    "position": {"type": "integer", "minimum": 0, "description": "Its position, from 0."},
    "honours-context": {
        "type": "boolean",
        "description": "Whether `with torch.device(...)` places the result.",
    },
    "random": {"type": "boolean", "default": False, "description": "Whether values are drawn."},
}


def _constructors(option: Option) -> dict[str, Json]:
    row: dict[str, Json] = {
        "type": "object",
        "additionalProperties": False,
        "properties": {key: _ROW[key] for key in ROW_KEYS},
    }
    return _table_of({"anyOf": [row, _ROW["kind"]]})


def _sinks(option: Option) -> dict[str, Json]:
    return _table_of({"enum": list(SINKS)})


_TYPES: Final[Mapping[OptionType, Callable[[Option], dict[str, Json]]]] = {
    OptionType.FLAG: _flag,
    OptionType.CHOICE: _choice,
    OptionType.CODES: _codes,
    OptionType.CODES_BY_PATTERN: _codes_by_pattern,
    OptionType.PATTERNS: _texts,
    OptionType.NAMES: _names,
    OptionType.FILE: _text,
    OptionType.FOLDERS: _texts,
    OptionType.EXPRESSION: _text,
    OptionType.IMPORT: _text,
    OptionType.CONSTRUCTORS: _constructors,
    OptionType.SINKS: _sinks,
}
