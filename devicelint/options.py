"""The table of options: every key of the configuration, what it takes and what it means.

In: nothing.  Out: `OPTIONS`, which the reader, the documents, the JSON schema and the tests share.
Never here: the reading of a value, a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from devicelint.model import Construction, Constructor, Kind, Severity, Sink
from devicelint.settings import Settings

#: Where a value may come from besides a file.
COMMAND_LINE: Final = "command line"
DEFAULT: Final = "default"


class OptionType(StrEnum):
    """What values an option takes, in the words of the documentation."""

    FLAG = "true or false"
    CHOICE = "a word"
    CODES = "list of rules"
    CODES_BY_PATTERN = "table of rules by pattern"
    PATTERNS = "list of patterns"
    NAMES = "list of dotted names"
    FILE = "a path"
    FOLDERS = "list of folders"
    EXPRESSION = "Python expression"
    IMPORT = "import statement"
    CONSTRUCTORS = "table of constructors by dotted name"
    SINKS = "table of sinks by name"


@dataclass(frozen=True, slots=True)
class Layer:
    """Values from one place, not yet checked.  Only on the command line do commas separate."""

    source: str
    values: Mapping[str, object]
    folder: Path

    @property
    def splits(self) -> bool:
        """Say whether one string may hold several values."""
        return self.source == COMMAND_LINE


# The table ---------------------------------------------------------------------------------------

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

    def spelled(self, settings: Settings) -> object:
        """Return the value in force as a configuration file would have it."""
        value = self.value(settings)
        if self.type is OptionType.CONSTRUCTORS and isinstance(value, Mapping):
            return {name: _row(constructor) for name, constructor in value.items()}
        return value


#: What becomes of a value that is handed to a call named in `extra-sinks`.
SINKS: Final = (
    *(str(sink) for sink in (Sink.PARAMETER, Sink.BUFFER, Sink.ATTRIBUTE)),
    "managed",
    str(Sink.HOST),
)

#: Keys of a row of `extra-constructors`.
ROW_KEYS: Final = ("kind", "keyword", "position", "honours-context", "random")

#: What a constructor named in `extra-constructors` may make.
KINDS: Final = (Kind.TENSOR, Kind.STREAM, Kind.GENERATOR, Kind.HOST_MEMORY)

_OPTIONS = (
    Option("extend", OptionType.FILE, "A TOML file whose settings hold where this one is silent."),
    Option("select", OptionType.CODES, "Rules to check: codes, prefixes, names, or `ALL`."),
    Option("ignore", OptionType.CODES, "Rules to leave out; a more specific `select` wins."),
    Option("extend-select", OptionType.CODES, "Rules to check besides those of `select`."),
    Option("exclude", OptionType.PATTERNS, "What not to check, as in .gitignore."),
    Option("extend-exclude", OptionType.PATTERNS, "What not to check besides `exclude`."),
    Option("force-exclude", OptionType.FLAG, "Exclude even files named on the command line."),
    Option("per-file-ignores", OptionType.CODES_BY_PATTERN, "Rules to leave out in some files."),
    Option("baseline", OptionType.FILE, "A file of known findings, which are not reported."),
    Option("extra-bases", OptionType.NAMES, "Classes elsewhere that are an `nn.Module`."),
    Option(
        "extra-constructors",
        OptionType.CONSTRUCTORS,
        "Factories of your own that are called with a device, and where it goes.",
    ),
    Option("extra-sinks", OptionType.SINKS, "What calls of your own do with a tensor."),
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


def _row(constructor: Constructor) -> dict[str, object]:
    """Spell a constructor as its row in the configuration."""
    position = constructor.device_index
    return {
        "kind": str(constructor.kind),
        "keyword": constructor.device_keyword,
        **({} if position is None else {"position": position}),
        "honours-context": constructor.honours_context,
        "random": constructor.random,
    }
