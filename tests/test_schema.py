"""The JSON schema of the configuration: it says what the option table says.

In: the table, values that are right and wrong.  Out: tests.  Never here: a configuration file.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from devicelint.config import ConfigError, load_settings
from devicelint.options import KINDS, OPTIONS, SINKS
from devicelint.schema import render_schema
from devicelint.settings import Settings

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = json.loads(render_schema())
VALIDATOR = Draft202012Validator(SCHEMA)


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert (ROOT / "docs/schema.json").read_text(encoding="utf-8") == render_schema()


def test_every_key_is_described() -> None:
    assert list(SCHEMA["properties"]) == list(OPTIONS)
    for key, option in OPTIONS.items():
        assert SCHEMA["properties"][key]["description"] == option.doc
        assert "default" in SCHEMA["properties"][key]


def test_defaults_are_valid() -> None:
    defaults = {key: option.spelled(Settings()) for key, option in OPTIONS.items()}
    VALIDATOR.validate(json.loads(json.dumps(defaults)))
    VALIDATOR.validate({key: SCHEMA["properties"][key]["default"] for key in OPTIONS})


def test_the_projects_own_table_is_valid() -> None:
    table = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    VALIDATOR.validate(table["tool"]["devicelint"])


@pytest.mark.parametrize(
    "line",
    [
        *(f'extra-sinks.x = "{sink}"' for sink in SINKS),
        *(f'extra-constructors."a.b" = "{kind}"' for kind in KINDS),
        'extra-constructors."a.b" = { keyword = "d", position = 0, random = true }',
        'extra-constructors."a.b" = { honours-context = false, kind = "stream" }',
        *(f'{key} = "{word}"' for key, one in OPTIONS.items() for word in one.choices),
        'select = ["ALL", "DVL0", "dvl001", "stream-without-device"]',
        'per-file-ignores."tests/**" = ["DVL"]',
        "force-exclude = true",
        'search-paths = ["a"]',
        'baseline = "x"',
    ],
)
def test_what_the_tool_takes_is_valid(line: str) -> None:
    load_settings(ROOT, config=[line], isolated=True)
    VALIDATOR.validate(tomllib.loads(line))


@pytest.mark.parametrize(
    "line",
    [
        "selct = []",
        'select = "DVL"',
        'select = [""]',
        "force-exclude = 1",
        'construction = "metta"',
        'extra-sinks.x = "bufer"',
        'extra-sinks."a b" = "host"',
        'extra-constructors."a.b" = { keywrd = "x" }',
        'extra-constructors."a.b" = { position = -1 }',
        'extra-constructors."a.b" = "module"',
        'per-file-ignores = ["x"]',
        'extra-bases = ["a b"]',
        "baseline = 3",
    ],
)
def test_what_the_tool_refuses_is_invalid(line: str) -> None:
    with pytest.raises(ConfigError):
        load_settings(ROOT, config=[line], isolated=True)
    assert not VALIDATOR.is_valid(tomllib.loads(line))
