"""Settings: what the user wants, from files and the command line, checked word by word.

In: a folder to start from, `--config` values, command line overrides.  Out: `Settings`, or a
`ConfigError` that says in one line where, which key, what is wrong, and what was probably meant.
Never here: a default that depends on the machine, or the reading of a file that is checked.
"""

from __future__ import annotations

import ast
import builtins
import difflib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from devicelint.model import Construction, Policy, Severity
from devicelint.rules import RULES

if TYPE_CHECKING:
    import pathspec

#: Where a value may come from besides a file.
COMMAND_LINE: Final = "command line"
DEFAULT: Final = "default"


class ConfigError(Exception):
    """A setting that cannot be used; the message is one line."""


class OptionType(StrEnum):
    """What values an option takes, in the words of the documentation."""

    FLAG = "true or false"
    CHOICE = "a word"
    CODES = "list of rules"
    CODES_BY_PATTERN = "table of rules by pattern"
    PATTERNS = "list of patterns"
    NAMES = "list of dotted names"
    FOLDERS = "list of folders"
    EXPRESSION = "Python expression"
    IMPORT = "import statement"


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings in force.  Patterns are relative to `root`; `search_paths` are absolute."""

    select: tuple[str, ...] = ("DVL",)
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    extend_exclude: tuple[str, ...] = ()
    force_exclude: bool = False
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    extra_bases: tuple[str, ...] = ()
    managed_calls: tuple[str, ...] = ("add_state",)
    construction: Construction = Construction.DEFAULT
    device_expression: str = Policy().device_expression
    device_import: str = ""
    min_severity: Severity = Severity.NOTE
    #: "heuristic", "never" or "always"
    unknown_bases: str = "heuristic"
    search_paths: tuple[str, ...] = ()
    root: Path = Path()
    #: where the value of each key came from
    sources: Mapping[str, str] = field(default_factory=dict)

    def policy(self) -> Policy:
        """Return the settings that rules may know."""
        return Policy(self.construction, self.device_expression, self.device_import)

    def is_selected(self, code: str) -> bool:
        """Say whether a rule is on: the most specific entry decides, `ignore` on equal terms."""
        wanted = _specificity(code, (*self.select, *self.extend_select))
        return wanted > _specificity(code, self.ignore)

    def ignored_in(self, path: str | Path) -> tuple[str, ...]:
        """Return the entries of `per-file-ignores` for a file, absolute or relative to `root`.

        A pattern after `!` holds for the files that do not match it.
        """
        if not self.per_file_ignores:
            return ()
        absolute, root = (Path(os.path.abspath(one)) for one in (self.root / path, self.root))
        relative = absolute.relative_to(root) if absolute.is_relative_to(root) else absolute
        name = relative.as_posix().lstrip("/")
        codes: set[str] = set()
        for pattern, entries in self.per_file_ignores.items():
            if _compiled(pattern.removeprefix("!")).match_file(name) != pattern.startswith("!"):
                codes.update(entries)
        return tuple(sorted(codes))

    def is_selected_in(self, code: str, path: str | Path) -> bool:
        """Say whether a rule is on in one file."""
        return self.is_selected(code) and _specificity(code, self.ignored_in(path)) < 0


_DEFAULTS: Final = Settings()


@dataclass(frozen=True, slots=True)
class Option:
    """One key of the configuration."""

    key: str
    type: OptionType
    doc: str
    choices: tuple[str, ...] = ()

    @property
    def default(self) -> object:
        """The value where nothing is configured."""
        return self.value(_DEFAULTS)

    def value(self, settings: Settings) -> object:
        """Return the value in force."""
        value: object = getattr(settings, self.key.replace("-", "_"))
        return value


_OPTIONS = (
    Option("select", OptionType.CODES, "Rules to check: codes, prefixes, names, or `ALL`."),
    Option("ignore", OptionType.CODES, "Rules to leave out; a more specific `select` wins."),
    Option("extend-select", OptionType.CODES, "Rules to check besides those of `select`."),
    Option("exclude", OptionType.PATTERNS, "What not to check, as in .gitignore."),
    Option("extend-exclude", OptionType.PATTERNS, "What not to check besides `exclude`."),
    Option("force-exclude", OptionType.FLAG, "Exclude even files named on the command line."),
    Option("per-file-ignores", OptionType.CODES_BY_PATTERN, "Rules to leave out in some files."),
    Option("extra-bases", OptionType.NAMES, "Classes elsewhere that are an `nn.Module`."),
    Option("managed-calls", OptionType.NAMES, "Calls whose tensors a framework places itself."),
    Option(
        "construction",
        OptionType.CHOICE,
        "How modules are built: on the default device, in a device context, or on meta.",
        tuple(Construction),
    ),
    Option("device-expression", OptionType.EXPRESSION, "The device that a fix inserts."),
    Option("device-import", OptionType.IMPORT, "The import that `device-expression` needs."),
    Option("min-severity", OptionType.CHOICE, "The lowest severity to report.", tuple(Severity)),
    Option(
        "unknown-bases",
        OptionType.CHOICE,
        "Whether a class with unknown bases is a module: if it looks so, never, or always.",
        ("heuristic", "never", "always"),
    ),
    Option("search-paths", OptionType.FOLDERS, "Folders with the sources of other packages."),
)

#: Every key, in the order of the documentation.
OPTIONS: Final[Mapping[str, Option]] = {option.key: option for option in _OPTIONS}


# Selection ---------------------------------------------------------------------------------------

_NAMES: Final = {rule.name: rule.code for rule in RULES}


def _is_covered(entry: str, by: str) -> bool:
    return by == "ALL" or (entry != "ALL" and entry.startswith(by))


def _specificity(code: str, entries: Iterable[str]) -> int:
    """Return the length of the longest entry that covers a code, -1 for none; `ALL` has none."""
    lengths = (0 if entry == "ALL" else len(entry) for entry in entries if _is_covered(code, entry))
    return max(lengths, default=-1)


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
    near = _nearest(upper, [*known, "DVL", "ALL"]) or _nearest(name, _NAMES)
    near = near or ", see `devicelint rules`"
    raise _Wrong(f"no rule is called {_quote(entry)}{near}")


# Values ------------------------------------------------------------------------------------------


class _Wrong(Exception):
    """What is wrong with a value, without the place."""


@dataclass(frozen=True, slots=True)
class _Layer:
    """Values from one place, not yet checked.  Only on the command line do commas separate."""

    source: str
    values: Mapping[str, object]
    folder: Path

    @property
    def splits(self) -> bool:
        return self.source == COMMAND_LINE


def _quote(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _nearest(word: str, known: Iterable[str]) -> str:
    found = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f", did you mean {_quote(found[0])}?" if found else ""


def _kind(value: object) -> str:
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
        raise _Wrong(f"must be a string, not {_kind(value)}")
    return value.strip()


def _strings(value: object, layer: _Layer) -> tuple[str, ...]:
    if layer.splits and isinstance(value, str):
        value = [value]
    if not isinstance(value, list | tuple):
        raise _Wrong(f"must be a list of strings, not {_kind(value)}")
    for item in value:
        if not isinstance(item, str):
            raise _Wrong(f"must be a list of strings, and {_quote(item)} is {_kind(item)}")
    pieces = [part for item in value for part in (item.split(",") if layer.splits else [item])]
    stripped = [piece.strip() for piece in pieces]
    if not layer.splits and "" in stripped:
        raise _Wrong("holds an empty string")
    return tuple(dict.fromkeys(piece for piece in stripped if piece))


def _flag(value: object, layer: _Layer, option: Option) -> bool:
    if not isinstance(value, bool):
        raise _Wrong(f"must be true or false, not {_kind(value)}")
    return value


def _choice(value: object, layer: _Layer, option: Option) -> str:
    word = _string(value).lower()
    if word not in option.choices:
        choices = ", ".join(_quote(choice) for choice in option.choices)
        near = _nearest(word, option.choices)
        raise _Wrong(f"must be one of {choices}, not {_quote(value)}{near}")
    return word


def _codes(value: object, layer: _Layer, option: Option) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_code(entry) for entry in _strings(value, layer)))


def _codes_by_pattern(
    value: object, layer: _Layer, option: Option
) -> Mapping[str, tuple[str, ...]]:
    if not isinstance(value, Mapping):
        raise _Wrong(f"must be a table of lists, not {_kind(value)}")
    found: dict[str, tuple[str, ...]] = {}
    for pattern, entries in value.items():
        _require_pattern(str(pattern).removeprefix("!"))
        try:
            found[str(pattern)] = _codes(entries, layer, option)
        except _Wrong as wrong:
            raise _Wrong(f"{_quote(pattern)}: {wrong}") from wrong
    return found


def _patterns(value: object, layer: _Layer, option: Option) -> tuple[str, ...]:
    patterns = _strings(value, layer)
    for pattern in patterns:
        _require_pattern(pattern)
    return patterns


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> pathspec.GitIgnoreSpec:
    # Imported late: 35 ms, and most configurations have no pattern.
    import pathspec

    return pathspec.GitIgnoreSpec.from_lines([pattern])


def _require_pattern(pattern: str) -> None:
    try:
        _compiled(pattern)
    except (ValueError, re.error) as error:
        raise _Wrong(f"{_quote(pattern)} is not a pattern") from error


def _names(value: object, layer: _Layer, option: Option) -> tuple[str, ...]:
    names = _strings(value, layer)
    for name in names:
        if not all(part.isidentifier() for part in name.split(".")):
            raise _Wrong(f"{_quote(name)} is not a dotted name")
    return names


def _folders(value: object, layer: _Layer, option: Option) -> tuple[str, ...]:
    paths = (layer.folder / os.path.expanduser(name) for name in _strings(value, layer))
    return tuple(os.path.abspath(path) for path in paths)


def _expression(value: object, layer: _Layer, option: Option) -> str:
    """Take what can stand after `device=` in a call, on one line."""
    text = _string(value)
    try:
        call = ast.parse(f"f(device={text})", mode="eval").body
    except (SyntaxError, ValueError) as error:
        raise _Wrong(f"{_quote(text)} is not a Python expression") from error
    alone = isinstance(call, ast.Call) and len(call.keywords) == 1 and not call.args
    if not alone or "\n" in text or "\r" in text:
        raise _Wrong(f"{_quote(text)} is not one expression on one line")
    if text == "None":
        raise _Wrong("must name a device, and None names none")
    return text


def _import(value: object, layer: _Layer, option: Option) -> str:
    text = _string(value)
    try:
        statements = ast.parse(text).body
    except (SyntaxError, ValueError) as error:
        raise _Wrong(f"{_quote(text)} is not an import statement") from error
    imports = [one for one in statements if isinstance(one, ast.Import | ast.ImportFrom)]
    if text and (len(statements) != 1 or len(imports) != 1 or "\n" in text or "\r" in text):
        raise _Wrong(f"{_quote(text)} is not one import statement on one line")
    if any(alias.name == "*" for one in imports for alias in one.names):
        raise _Wrong("must name what it imports, not *")
    return text


_READERS: Final[Mapping[OptionType, Callable[[object, _Layer, Option], object]]] = {
    OptionType.FLAG: _flag,
    OptionType.CHOICE: _choice,
    OptionType.CODES: _codes,
    OptionType.CODES_BY_PATTERN: _codes_by_pattern,
    OptionType.PATTERNS: _patterns,
    OptionType.NAMES: _names,
    OptionType.FOLDERS: _folders,
    OptionType.EXPRESSION: _expression,
    OptionType.IMPORT: _import,
}


def _checked(layer: _Layer) -> dict[str, object]:
    checked: dict[str, object] = {}
    for key, value in layer.values.items():
        option = OPTIONS.get(key)
        if option is None:
            near = _nearest(key, OPTIONS) or ", see `devicelint config`"
            raise ConfigError(f"{layer.source}: unknown key {_quote(key)}{near}")
        try:
            checked[key] = _READERS[option.type](value, layer, option)
        except _Wrong as wrong:
            raise ConfigError(f"{layer.source}: {key}: {wrong}") from wrong
    return checked


# Loading -----------------------------------------------------------------------------------------


def load_settings(
    start: Path,
    *,
    config: Sequence[str] = (),
    isolated: bool = False,
    overrides: Mapping[str, object] | None = None,
) -> Settings:
    """Settle the settings for a folder (or the folder of a file).

    `config` holds files, which take the place of the one that would be found, and lines of TOML
    such as `select = ["DVL001"]`.  `isolated` looks for no file.  `overrides` wins over both; its
    keys may be written with `_`, and None or an empty list there means "not given".
    """
    folder = Path(os.path.abspath(start))
    folder = folder if folder.is_dir() else folder.parent
    given = [_given_layer(text) for text in config]
    is_found = not isolated and all(isinstance(layer.values, _Line) for layer in given)
    found = [*_found_layer(folder)] if is_found else []
    values: dict[str, object] = {}
    sources: dict[str, str] = {}
    for layer in [*found, *given, _command_line(overrides or {})]:
        _merge(values, sources, _checked(layer), layer.source)
    settings = _settings(values, found[0].folder if found else folder, sources)
    _require_imported(settings)
    return settings


class _Line(dict[str, object]):
    """The values of a `--config 'key = value'`."""


def _command_line(overrides: Mapping[str, object]) -> _Layer:
    values = {
        key.replace("_", "-"): value
        for key, value in overrides.items()
        if value is not None and value not in ((), [])
    }
    return _Layer(COMMAND_LINE, values, Path.cwd())


def _given_layer(text: str) -> _Layer:
    path = Path(text)
    source = "--config '" + " ".join(text.split()) + "'"
    if path.is_file():
        table = _table(path, text)
        if table is None:
            raise ConfigError(f"{text}: has no table [tool.devicelint]")
        return _Layer(text, table, Path(os.path.abspath(path)).parent)
    if "=" not in text:
        raise ConfigError(f"{source}: neither a file nor key = value")
    return _Layer(source, _Line(_toml(text, source)), Path.cwd())


def _found_layer(folder: Path) -> Iterator[_Layer]:
    """Yield the nearest file that configures this tool, upwards from a folder; or nothing."""
    for place in (folder, *folder.parents):
        for name in ("devicelint.toml", "pyproject.toml"):
            path = place / name
            shown = name if place == folder else str(path)
            table = _table(path, shown) if path.is_file() else None
            if table is not None:
                yield _Layer(shown, table, place)
                return


def _table(path: Path, shown: str) -> Mapping[str, object] | None:
    """Read this tool's table from a file, None if it has none."""
    try:
        data = path.read_bytes()
        is_shared = path.name == "pyproject.toml"
        if is_shared and b"devicelint" not in data:
            return None
        content = _toml(data.decode("utf-8-sig"), shown)
    except OSError as error:
        raise ConfigError(f"{shown}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{shown}: not utf-8") from error
    if not is_shared and "tool" not in content:
        return content
    tool = content.get("tool")
    table = tool.get("devicelint") if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        raise ConfigError(f"{shown}: tool.devicelint must be a table, not {_kind(table)}")
    return table


def _toml(text: str, source: str) -> dict[str, object]:
    # Imported late: 15 ms, and many runs have no configuration.
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source}: not TOML: {error}") from error


def _merge(
    values: dict[str, object], sources: dict[str, str], layer: Mapping[str, object], source: str
) -> None:
    """Put a layer over those below it; what it selects or ignores wins over what they do."""
    if "select" in layer:
        for key in ("ignore", "extend-select"):
            values.pop(key, None)
            sources.pop(key, None)
    _withdraw(values, ("select", "extend-select"), _entries(layer, "ignore"))
    _withdraw(values, ("ignore",), _entries(layer, "extend-select"))
    for key, value in layer.items():
        below = _entries(values, key) if key in _ADDED_UP else ()
        values[key] = tuple(dict.fromkeys((*below, *_entries(layer, key)))) if below else value
        sources[key] = f"{sources[key]}, {source}" if below else source


#: Lists of which each layer adds its part.
_ADDED_UP = frozenset({"ignore", "extend-select", "extend-exclude"})


def _entries(values: Mapping[str, object], key: str) -> tuple[str, ...]:
    value = values.get(key, ())
    return value if isinstance(value, tuple) else ()


def _withdraw(values: dict[str, object], keys: Iterable[str], entries: Iterable[str]) -> None:
    """Take back what a lower layer said more specifically than these entries of a higher one."""
    for key in keys:
        if key in values:
            values[key] = tuple(
                entry
                for entry in _entries(values, key)
                if not any(_is_covered(entry, by) for by in entries)
            )


def _settings(values: Mapping[str, object], root: Path, sources: Mapping[str, str]) -> Settings:
    def entries(key: str) -> tuple[str, ...]:
        return _entries(values, key) if key in values else _entries({"": OPTIONS[key].default}, "")

    def word(key: str) -> str:
        return str(values.get(key, OPTIONS[key].default))

    ignores = values.get("per-file-ignores")
    return Settings(
        select=entries("select"),
        ignore=entries("ignore"),
        extend_select=entries("extend-select"),
        exclude=entries("exclude"),
        extend_exclude=entries("extend-exclude"),
        force_exclude=values.get("force-exclude") is True,
        per_file_ignores=ignores if isinstance(ignores, dict) else {},
        extra_bases=entries("extra-bases"),
        managed_calls=entries("managed-calls"),
        construction=Construction(word("construction")),
        device_expression=word("device-expression"),
        device_import=word("device-import"),
        min_severity=Severity(word("min-severity")),
        unknown_bases=word("unknown-bases"),
        search_paths=entries("search-paths"),
        root=root,
        sources={key: sources.get(key, DEFAULT) for key in OPTIONS},
    )


def _require_imported(settings: Settings) -> None:
    """Refuse a device expression that would be a NameError in the files it is put into."""
    tree = ast.parse(settings.device_expression, mode="eval")
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    bound = {
        (alias.asname or alias.name).partition(".")[0]
        for node in ast.walk(ast.parse(settings.device_import))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    # `torch` is imported by the fix itself, under the name that the file has for it.
    missing = sorted(names - bound - {"torch"} - set(dir(builtins)))
    if missing:
        source = settings.sources["device-expression"]
        raise ConfigError(
            f"{source}: device-expression: {_quote(missing[0])} is not imported by device-import"
        )
