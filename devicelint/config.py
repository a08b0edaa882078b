"""Configuration: the files and the command line, layered into `Settings`.

In: a folder to start from, `--config` values, command line overrides.  Out: `Settings`, or a
`ConfigError` that says in one line where, which key, what is wrong, and what was probably meant.
Never here: what values an option takes, or the reading of a file that is checked.
"""

from __future__ import annotations

import ast
import builtins
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from devicelint.model import Construction, Severity
from devicelint.option_values import Wrong, kind_of, nearest, quote, read_value
from devicelint.options import COMMAND_LINE, DEFAULT, OPTIONS, Layer
from devicelint.settings import Settings, is_covered


class ConfigError(Exception):
    """A setting that cannot be used; the message is one line."""


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
        for each in _with_extended(layer, ()):
            _merge(values, sources, _checked(each), each.source)
    # Without a file there is no project, and patterns are relative to where the user stands.
    root = found[0].folder if found else Path.cwd()
    settings = _settings(values, root, sources)
    _require_imported(settings)
    return settings


def _with_extended(layer: Layer, above: tuple[str, ...]) -> Iterator[Layer]:
    """Yield a layer after the files that it extends, which it wins over."""
    named = {key: value for key, value in layer.values.items() if key == "extend"}
    path = str(_checked(replace(layer, values=named)).get("extend", ""))
    if path in above:
        raise ConfigError(f"{layer.source}: extend: {quote(path)} extends itself")
    if path:
        yield from _with_extended(_extended(layer, path), (*above, path))
    yield layer


def _extended(layer: Layer, path: str) -> Layer:
    file = Path(path)
    if not file.is_file():
        near = nearest(file.name, (one.name for one in file.parent.glob("*.toml")))
        raise ConfigError(f"{layer.source}: extend: no file {quote(path)}{near}")
    shown = os.path.relpath(path) if file.is_relative_to(Path.cwd()) else path
    table = _table(file, shown)
    if table is None:
        raise ConfigError(f"{layer.source}: extend: {shown} has no table [tool.devicelint]")
    return Layer(shown, table, file.parent)


class _Line(dict[str, object]):
    """The values of a `--config 'key = value'`."""


def _command_line(overrides: Mapping[str, object]) -> Layer:
    values = {
        key.replace("_", "-"): value
        for key, value in overrides.items()
        if value is not None and value not in ((), [])
    }
    return Layer(COMMAND_LINE, values, Path.cwd())


def _given_layer(text: str) -> Layer:
    path = Path(text)
    source = "--config '" + " ".join(text.split()) + "'"
    if path.is_file():
        table = _table(path, text)
        if table is None:
            raise ConfigError(f"{text}: has no table [tool.devicelint]")
        return Layer(text, table, Path(os.path.abspath(path)).parent)
    if "=" not in text:
        raise ConfigError(f"{source}: neither a file nor key = value")
    return Layer(source, _Line(_toml(text, source)), Path.cwd())


def _found_layer(folder: Path) -> Iterator[Layer]:
    """Yield the nearest file that configures this tool, upwards from a folder; or nothing."""
    for place in (folder, *folder.parents):
        for name in ("devicelint.toml", "pyproject.toml"):
            path = place / name
            shown = name if place == folder else str(path)
            table = _table(path, shown) if path.is_file() else None
            if table is not None:
                yield Layer(shown, table, place)
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
        raise ConfigError(f"{shown}: tool.devicelint must be a table, not {kind_of(table)}")
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
                if not any(is_covered(entry, by) for by in entries)
            )


def _settings(values: Mapping[str, object], root: Path, sources: Mapping[str, str]) -> Settings:
    def entries(key: str) -> tuple[str, ...]:
        return _entries(values, key) if key in values else _entries({"": OPTIONS[key].default}, "")

    def word(key: str) -> str:
        return str(values.get(key, OPTIONS[key].default))

    tables = [values.get(key) for key in ("per-file-ignores", "extra-constructors", "extra-sinks")]
    ignores, constructors, sinks = (one if isinstance(one, dict) else {} for one in tables)
    return Settings(
        extend=word("extend"),
        select=entries("select"),
        ignore=entries("ignore"),
        extend_select=entries("extend-select"),
        exclude=entries("exclude"),
        extend_exclude=entries("extend-exclude"),
        force_exclude=values.get("force-exclude") is True,
        per_file_ignores=ignores,
        baseline=word("baseline"),
        extra_bases=entries("extra-bases"),
        extra_constructors=constructors,
        extra_sinks=sinks,
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
            f"{source}: device-expression: {quote(missing[0])} is not imported by device-import"
        )


def _checked(layer: Layer) -> dict[str, object]:
    checked: dict[str, object] = {}
    for key, value in layer.values.items():
        option = OPTIONS.get(key)
        if option is None:
            near = nearest(key, OPTIONS) or ", see `devicelint config`"
            raise ConfigError(f"{layer.source}: unknown key {quote(key)}{near}")
        try:
            checked[key] = read_value(option, value, layer)
        except Wrong as wrong:
            raise ConfigError(f"{layer.source}: {key}: {wrong}") from wrong
    return checked
