"""The reading of option values.

In: a value as TOML or the command line has it.  Out: the value as `Settings` holds it, or `Wrong`,
which says what is wrong with it and what was probably meant.  Never here: a file, the order of
layers, or where a value came from.
"""

from __future__ import annotations

import ast
import difflib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from devicelint.model import Constructor, Kind
from devicelint.options import KINDS, ROW_KEYS, SINKS, Layer, Option, OptionType
from devicelint.rules import RULES
from devicelint.settings import compiled


class Wrong(Exception):
    """What is wrong with a value, without the place."""


def read_value(option: Option, value: object, layer: Layer) -> object:
    """Check a value of an option and return it as `Settings` holds it; raises `Wrong`."""
    return _READERS[option.type](value, layer, option)


# Values ------------------------------------------------------------------------------------------


def quote(value: object) -> str:
    """Write a value as TOML or JSON would."""
    return json.dumps(value, ensure_ascii=False, default=str)


def nearest(word: str, known: Iterable[str]) -> str:
    """Ask whether the most similar known word was meant; empty if none is similar."""
    found = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f", did you mean {quote(found[0])}?" if found else ""


def kind_of(value: object) -> str:
    """Name the type of a value for people."""
    match value:
        case bool():
            return "a boolean"
        case str():
            return "a string"
        case int() | float():
            return "a number"
        case list() | tuple():
            return "a list"
        case dict():
            return "a table"
    return f"a {type(value).__name__}"


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise Wrong(f"must be a string, not {kind_of(value)}")
    return value.strip()


def _strings(value: object, layer: Layer) -> tuple[str, ...]:
    if layer.splits and isinstance(value, str):
        value = [value]
    if not isinstance(value, list | tuple):
        raise Wrong(f"must be a list of strings, not {kind_of(value)}")
    for item in value:
        if not isinstance(item, str):
            raise Wrong(f"must be a list of strings, and {quote(item)} is {kind_of(item)}")
    pieces = [part for item in value for part in (item.split(",") if layer.splits else [item])]
    stripped = [piece.strip() for piece in pieces]
    if not layer.splits and "" in stripped:
        raise Wrong("holds an empty string")
    return tuple(dict.fromkeys(piece for piece in stripped if piece))


def _flag(value: object, layer: Layer, option: Option) -> bool:
    if not isinstance(value, bool):
        raise Wrong(f"must be true or false, not {kind_of(value)}")
    return value


def _choice(value: object, layer: Layer, option: Option) -> str:
    return _word(value, option.choices)


def _word(value: object, choices: Iterable[str], place: str = "") -> str:
    if not isinstance(value, str):
        raise Wrong(f"{place}must be a string, not {kind_of(value)}")
    word = value.strip().lower()
    if word not in choices:
        listed = ", ".join(quote(choice) for choice in choices)
        raise Wrong(f"{place}must be one of {listed}, not {quote(value)}{nearest(word, choices)}")
    return word


_NAMES: Final = {rule.name: rule.code for rule in RULES}


def _code(entry: str) -> str:
    upper = entry.strip().upper()
    if upper == "ALL" or (
        upper.startswith("DVL") and any(rule.code.startswith(upper) for rule in RULES)
    ):
        return upper
    name = entry.strip().lower()
    if name in _NAMES:
        return _NAMES[name]
    known = [rule.code for rule in RULES]
    near = nearest(upper, [*known, "DVL", "ALL"]) or nearest(name, _NAMES)
    near = near or ", see `devicelint rules`"
    raise Wrong(f"no rule is called {quote(entry)}{near}")


def _codes(value: object, layer: Layer, option: Option) -> tuple[str, ...]:
    entries = _strings(value, layer)
    if layer.splits and option.key == "select" and not entries:
        # A shell variable that is not set, mostly: a check of nothing would be green for ever.
        raise Wrong("names no rule; name some, or leave it out")
    return tuple(dict.fromkeys(map(_code, entries)))


def _codes_by_pattern(value: object, layer: Layer, option: Option) -> Mapping[str, tuple[str, ...]]:
    if not isinstance(value, Mapping):
        raise Wrong(f"must be a table of lists, not {kind_of(value)}")
    found: dict[str, tuple[str, ...]] = {}
    for pattern, entries in value.items():
        _require_pattern(str(pattern).removeprefix("!"))
        try:
            found[str(pattern)] = _codes(entries, layer, option)
        except Wrong as wrong:
            raise Wrong(f"{quote(pattern)}: {wrong}") from wrong
    return found


def _patterns(value: object, layer: Layer, option: Option) -> tuple[str, ...]:
    patterns = _strings(value, layer)
    for pattern in patterns:
        _require_pattern(pattern)
    return patterns


def _require_pattern(pattern: str) -> None:
    try:
        compiled(pattern)
    except (ValueError, re.error) as error:
        raise Wrong(f"{quote(pattern)} is not a pattern") from error


def _names(value: object, layer: Layer, option: Option) -> tuple[str, ...]:
    names = _strings(value, layer)
    for name in names:
        if not _is_dotted(name):
            raise Wrong(f"{quote(name)} is not a dotted name")
    return names


def _is_dotted(name: str) -> bool:
    return all(part.isidentifier() for part in name.split("."))


def _folders(value: object, layer: Layer, option: Option) -> tuple[str, ...]:
    paths = (layer.folder / os.path.expanduser(name) for name in _strings(value, layer))
    return tuple(os.path.abspath(path) for path in paths)


def _expression(value: object, layer: Layer, option: Option) -> str:
    """Take what can stand after `device=` in a call, on one line."""
    text = _string(value)
    try:
        call = ast.parse(f"f(device={text})", mode="eval").body
    except (SyntaxError, ValueError) as error:
        raise Wrong(f"{quote(text)} is not a Python expression") from error
    alone = isinstance(call, ast.Call) and len(call.keywords) == 1 and not call.args
    if not alone or "\n" in text or "\r" in text:
        raise Wrong(f"{quote(text)} is not one expression on one line")
    if text == "None":
        raise Wrong("must name a device, and None names none")
    return text


def _import(value: object, layer: Layer, option: Option) -> str:
    text = _string(value)
    try:
        statements = ast.parse(text).body
    except (SyntaxError, ValueError) as error:
        raise Wrong(f"{quote(text)} is not an import statement") from error
    imports = [one for one in statements if isinstance(one, ast.Import | ast.ImportFrom)]
    if text and (len(statements) != 1 or len(imports) != 1 or "\n" in text or "\r" in text):
        raise Wrong(f"{quote(text)} is not one import statement on one line")
    if any(alias.name == "*" for one in imports for alias in one.names):
        raise Wrong("must name what it imports, not *")
    return text


def _path(value: object, layer: Layer, option: Option) -> str:
    text = _string(value)
    return os.path.abspath(layer.folder / os.path.expanduser(text)) if text else ""


# Tables ------------------------------------------------------------------------------------------


def _constructors(value: object, layer: Layer, option: Option) -> Mapping[str, Constructor]:
    found: dict[str, Constructor] = {}
    for name, row in _rows(value, "a table of constructors"):
        if "." not in name:
            raise Wrong(f"{quote(name)} must be a dotted name, with the module that defines it")
        try:
            found[name] = _constructor(name, {"kind": row} if isinstance(row, str) else row)
        except Wrong as wrong:
            raise Wrong(f"{quote(name)}: {wrong}") from wrong
    return found


def _rows(value: object, expected: str) -> Iterable[tuple[str, object]]:
    if not isinstance(value, Mapping):
        raise Wrong(f"must be {expected}, not {kind_of(value)}")
    for name, row in value.items():
        if not _is_dotted(str(name)):
            raise Wrong(f"{quote(name)} is not a dotted name")
        yield str(name), row


def _constructor(name: str, row: object) -> Constructor:
    if not isinstance(row, Mapping):
        raise Wrong(f"must be a table, not {kind_of(row)}")
    for key in row:
        if key not in ROW_KEYS:
            raise Wrong(f"unknown key {quote(key)}{nearest(str(key), ROW_KEYS)}")
    kind = Kind(_word(row.get("kind", str(Kind.TENSOR)), KINDS, "kind: "))
    keyword = _string(row.get("keyword", "device"))
    if not keyword.isidentifier():
        raise Wrong(f"keyword: {quote(keyword)} is not a name")
    position = row.get("position")
    if position is not None and (type(position) is not int or position < 0):
        raise Wrong(f"position: must be a number from 0, not {quote(position)}")
    for key in ("honours-context", "random"):
        if not isinstance(row.get(key, False), bool):
            raise Wrong(f"{key}: must be true or false, not {kind_of(row[key])}")
    return Constructor(
        name,
        kind,
        takes_device=kind is not Kind.HOST_MEMORY,
        device_index=position,
        honours_context=row.get("honours-context", kind is Kind.TENSOR) is True,
        random=row.get("random", False) is True,
        device_keyword=keyword,
    )


def _sinks(value: object, layer: Layer, option: Option) -> Mapping[str, str]:
    return {
        name: _word(sink, SINKS, f"{quote(name)}: ")
        for name, sink in _rows(value, "a table of sinks")
    }


_READERS: Final[Mapping[OptionType, Callable[[object, Layer, Option], object]]] = {
    OptionType.FLAG: _flag,
    OptionType.CHOICE: _choice,
    OptionType.CODES: _codes,
    OptionType.CODES_BY_PATTERN: _codes_by_pattern,
    OptionType.PATTERNS: _patterns,
    OptionType.NAMES: _names,
    OptionType.FILE: _path,
    OptionType.FOLDERS: _folders,
    OptionType.EXPRESSION: _expression,
    OptionType.IMPORT: _import,
    OptionType.CONSTRUCTORS: _constructors,
    OptionType.SINKS: _sinks,
}
