"""Settings: where they come from, which wins, and what is said of those that are wrong.

In: small configuration files made on the spot.  Out: tests.  Never here: a checked file.
"""

from __future__ import annotations

import dataclasses
import pickle
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from devicelint.config import ConfigError, load_settings
from devicelint.model import Construction, Constructor, Kind, Policy, Severity
from devicelint.options import COMMAND_LINE, DEFAULT, OPTIONS, OptionType
from devicelint.rules import RULES
from devicelint.settings import Settings


@pytest.fixture(autouse=True)
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def pyproject(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "pyproject.toml"
    file.write_text(f"[tool.devicelint]\n{text}\n", encoding="utf-8")
    return file


def settle(*config: str, **overrides: object) -> Settings:
    return load_settings(Path(), config=config, isolated=True, overrides=overrides)


def complaint(*config: str, **overrides: object) -> str:
    with pytest.raises(ConfigError) as raised:
        settle(*config, **overrides)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def selected(settings: Settings) -> list[str]:
    return [rule.code for rule in RULES if settings.is_selected(rule.code)]


# The table ---------------------------------------------------------------------------------------


def test_the_table_has_every_setting() -> None:
    names = {option.key.replace("-", "_") for option in OPTIONS.values()}
    assert names == {item.name for item in dataclasses.fields(Settings)} - {"root", "sources"}
    assert all(key == option.key for key, option in OPTIONS.items())


@pytest.mark.parametrize("option", OPTIONS.values(), ids=list(OPTIONS))
def test_options_are_described(option: object) -> None:
    assert isinstance(option, type(OPTIONS["select"]))
    assert option.doc.endswith(".")
    assert option.value(Settings()) == option.default
    assert bool(option.choices) == (option.type is OptionType.CHOICE)
    if option.choices:
        assert option.default in option.choices


def test_defaults() -> None:
    settings = settle()
    assert settings == dataclasses.replace(
        Settings(), root=Path.cwd(), sources=dict.fromkeys(OPTIONS, DEFAULT)
    )
    assert settings.policy() == Policy()
    assert selected(settings) == [rule.code for rule in RULES]
    assert pickle.loads(pickle.dumps(settings)) == settings


# Where they come from ----------------------------------------------------------------------------


def test_the_nearest_file_is_found_upwards(tmp_path: Path) -> None:
    pyproject(tmp_path, 'exclude = ["far"]')
    pyproject(tmp_path / "a", 'exclude = ["near"]')
    (tmp_path / "a/b").mkdir()
    # Configures other tools alone: is passed over.
    (tmp_path / "a/b/pyproject.toml").write_text("[tool.devicelinter]\nx = 1\n")
    (tmp_path / "a/b/c").mkdir()
    (tmp_path / "a/b/c/x.py").write_text("")
    for start in ("a/b/c", "a/b/c/x.py", "a/b"):
        settings = load_settings(tmp_path / start)
        assert settings.exclude == ("near",)
        assert settings.root == tmp_path / "a"
        assert settings.sources["exclude"] == str(tmp_path / "a/pyproject.toml")
    assert load_settings(tmp_path / "a").sources["exclude"] == "pyproject.toml"
    assert load_settings(tmp_path).exclude == ("far",)
    assert load_settings(tmp_path, isolated=True).exclude == ()


def test_without_a_file_the_working_directory_is_the_root(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/x.py").write_text("")
    for isolated in (True, False):
        assert load_settings(tmp_path / "a/x.py", isolated=isolated).root == tmp_path
    assert load_settings(tmp_path / "a", overrides={"exclude": ["b"]}).root == tmp_path


def test_own_file_comes_before_pyproject(tmp_path: Path) -> None:
    pyproject(tmp_path, 'exclude = ["shared"]')
    (tmp_path / "devicelint.toml").write_text('\ufeffexclude = ["own"]\n', encoding="utf-8")
    settings = load_settings(tmp_path)
    assert settings.exclude == ("own",)
    assert settings.sources["exclude"] == "devicelint.toml"
    assert settings.sources["select"] == DEFAULT


def test_command_line_wins_over_config_wins_over_file(tmp_path: Path) -> None:
    pyproject(tmp_path, 'construction = "meta"\nmin-severity = "error"\nexclude = ["x"]')
    settings = load_settings(
        tmp_path,
        config=['construction = "default"', 'min-severity = "warning"', 'min-severity = "note"'],
        overrides={"construction": "device-context", "exclude": None, "extend_exclude": ()},
    )
    assert settings.construction is Construction.DEVICE_CONTEXT
    assert settings.min_severity is Severity.NOTE
    assert settings.exclude == ("x",)
    assert settings.sources["construction"] == COMMAND_LINE
    assert settings.sources["min-severity"] == "--config 'min-severity = \"note\"'"
    assert settings.sources["exclude"] == "pyproject.toml"


def test_config_file_takes_the_place_of_the_one_found(tmp_path: Path) -> None:
    pyproject(tmp_path, 'exclude = ["found"]\nforce-exclude = true')
    (tmp_path / "other").mkdir()
    (tmp_path / "other/ci.toml").write_text('select = ["DVL001"]\nsearch-paths = ["site"]\n')
    for isolated in (False, True):
        settings = load_settings(tmp_path, config=["other/ci.toml"], isolated=isolated)
        assert (settings.exclude, settings.force_exclude) == ((), False)
        assert settings.select == ("DVL001",)
        assert settings.search_paths == (str(tmp_path / "other/site"),)
        assert settings.root == tmp_path
    given = pyproject(tmp_path / "other", 'exclude = ["given"]')
    assert load_settings(tmp_path, config=[str(given)]).exclude == ("given",)


def test_inline_config_is_laid_over_the_file(tmp_path: Path) -> None:
    pyproject(tmp_path, 'exclude = ["x"]\nextend-exclude = ["y"]')
    settings = load_settings(tmp_path, config=['extend-exclude = ["z"]'])
    assert (settings.exclude, settings.extend_exclude) == (("x",), ("y", "z"))
    assert settings.sources["extend-exclude"] == (
        "pyproject.toml, --config 'extend-exclude = [\"z\"]'"
    )


def test_every_key_can_be_set(tmp_path: Path) -> None:
    pyproject(
        tmp_path,
        """
        select = ["ALL"]
        ignore = ["DVL002", "buffer-without-device"]
        extend-select = ["DVL00"]
        exclude = ["!vendor", "gen_*.py"]
        extend-exclude = []
        force-exclude = true
        extra-bases = ["mylib.Base", "Other"]
        managed-calls = ["add_state", "mylib.Metric.add"]
        construction = "Meta"
        device-expression = "current.device_of('x')"
        device-import = "from mylib.platform import platform as current"
        min-severity = "warning"
        unknown-bases = "never"
        search-paths = ["lib"]
        extend = "base.toml"
        baseline = "known.jsonl"
        [tool.devicelint.per-file-ignores]
        "tests/**" = ["DVL00"]
        [tool.devicelint.extra-constructors]
        "mylib.ops.make_buffer" = { keyword = "where", position = 2, honours-context = false }
        "mylib.ops.make_stream" = "stream"
        [tool.devicelint.extra-sinks]
        "mylib.Metric.add" = "managed"
        "keep_on_host" = "host"
        """,
    )
    (tmp_path / "base.toml").write_text("")
    settings = load_settings(tmp_path)
    assert settings.extend == str(tmp_path / "base.toml")
    assert settings.baseline == str(tmp_path / "known.jsonl")
    assert settings.extra_constructors == {
        "mylib.ops.make_buffer": Constructor(
            "mylib.ops.make_buffer",
            Kind.TENSOR,
            device_index=2,
            honours_context=False,
            device_keyword="where",
        ),
        "mylib.ops.make_stream": Constructor(
            "mylib.ops.make_stream", Kind.STREAM, honours_context=False
        ),
    }
    assert settings.extra_sinks == {"mylib.Metric.add": "managed", "keep_on_host": "host"}
    assert settings.ignore == ("DVL002", "DVL003")
    assert settings.exclude == ("!vendor", "gen_*.py")
    assert settings.force_exclude is True
    assert settings.extra_bases == ("mylib.Base", "Other")
    assert settings.managed_calls == ("add_state", "mylib.Metric.add")
    assert settings.construction is Construction.META
    assert settings.policy() == Policy(
        Construction.META,
        "current.device_of('x')",
        "from mylib.platform import platform as current",
    )
    assert settings.min_severity is Severity.WARNING
    assert settings.unknown_bases == "never"
    assert settings.search_paths == (str(tmp_path / "lib"),)
    assert settings.per_file_ignores == {"tests/**": ("DVL00",)}
    assert set(settings.sources.values()) == {"pyproject.toml"}


# Extending ---------------------------------------------------------------------------------------


def test_extend_lays_a_file_below(tmp_path: Path) -> None:
    base = tmp_path / "shared"
    base.mkdir()
    (base / "base.toml").write_text(
        'extend = "deep.toml"\nconstruction = "meta"\nignore = ["DVL002"]\n'
        'search-paths = ["site"]\n'
    )
    (base / "deep.toml").write_text('construction = "default"\nmin-severity = "error"\n')
    pyproject(tmp_path, 'extend = "shared/base.toml"\nignore = ["DVL003"]')
    settings = load_settings(tmp_path)
    assert settings.construction is Construction.META
    assert settings.min_severity is Severity.ERROR
    assert settings.ignore == ("DVL002", "DVL003")
    assert settings.search_paths == (str(base / "site"),)
    assert settings.root == tmp_path
    assert settings.extend == str(base / "base.toml")
    assert settings.sources["construction"] == "shared/base.toml"
    assert settings.sources["min-severity"] == "shared/deep.toml"
    assert settings.sources["ignore"] == "shared/base.toml, pyproject.toml"
    overridden = load_settings(tmp_path, overrides={"construction": "device-context"})
    assert overridden.construction is Construction.DEVICE_CONTEXT


def test_extend_takes_a_pyproject(tmp_path: Path) -> None:
    pyproject(tmp_path / "other", 'construction = "meta"')
    (tmp_path / "devicelint.toml").write_text('extend = "other/pyproject.toml"')
    assert load_settings(tmp_path).construction is Construction.META
    (tmp_path / "other/pyproject.toml").write_text("[project]\n")
    with pytest.raises(ConfigError, match=r"other/pyproject.toml has no table \[tool.devicelint"):
        load_settings(tmp_path)


def test_wrong_extensions_are_named(tmp_path: Path) -> None:
    (tmp_path / "devicelint.toml").write_text('extend = "bace.toml"')
    (tmp_path / "base.toml").write_text('constructin = "meta"')
    with pytest.raises(ConfigError, match=r'^devicelint.toml: extend: no file .*"base.toml"\?$'):
        load_settings(tmp_path)
    (tmp_path / "devicelint.toml").write_text('extend = "base.toml"')
    with pytest.raises(ConfigError, match=r'^base.toml: unknown key .*"construction"\?$'):
        load_settings(tmp_path)
    (tmp_path / "base.toml").write_text('extend = "devicelint.toml"')
    with pytest.raises(ConfigError, match=r"extends itself"):
        load_settings(tmp_path)


# Selection ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("select", "ignore", "code", "expected"),
    [
        (["ALL"], [], "DVL001", True),
        (["DVL"], [], "DVL001", True),
        (["DVL"], ["DVL"], "DVL001", False),
        (["DVL"], ["ALL"], "DVL001", False),
        (["ALL"], ["DVL"], "DVL001", False),
        (["DVL"], ["DVL001"], "DVL001", False),
        (["DVL001"], ["DVL"], "DVL001", True),
        (["DVL001"], ["ALL"], "DVL001", True),
        (["DVL00"], ["DVL001"], "DVL002", True),
        (["DVL001"], [], "DVL002", False),
        (["ALL"], ["ALL"], "DVL001", False),
        (["DVL01"], [], "DVL010", True),
        (["DVL01"], [], "DVL001", False),
    ],
)
def test_the_most_specific_entry_decides(
    select: Sequence[str], ignore: Sequence[str], code: str, expected: bool
) -> None:
    assert settle(select=select, ignore=ignore).is_selected(code) is expected


def test_entries_may_be_names_and_any_case() -> None:
    assert settle(select=["Attribute-Without-Device", "dvl003"]).select == ("DVL001", "DVL003")
    assert settle(select="DVL001, DVL003,").select == ("DVL001", "DVL003")
    assert settle(select=["DVL001,DVL003", "DVL001"]).select == ("DVL001", "DVL003")


@pytest.mark.parametrize(
    ("file", "overrides", "expected"),
    [
        # A select of the command line is all there is.
        ('ignore = ["DVL001"]', {"select": "DVL001"}, ["DVL001"]),
        ('select = ["DVL001"]\nextend-select = ["DVL002"]', {"select": "DVL003"}, ["DVL003"]),
        # An ignore or extend-select adds to what the file says, and wins over it.
        ('select = ["DVL001", "DVL002", "DVL003"]', {"ignore": "DVL002"}, ["DVL001", "DVL003"]),
        ('select = ["DVL001", "DVL002"]', {"ignore": "ALL"}, []),
        ('select = ["DVL00"]\nextend-select = ["DVL010"]', {"ignore": "DVL00"}, ["DVL010"]),
        (
            'select = ["DVL001"]\nignore = ["DVL002"]',
            {"extend-select": "DVL002"},
            ["DVL001", "DVL002"],
        ),
        (
            'select = ["DVL001"]\nignore = ["DVL002"]',
            {"select": "DVL00", "ignore": "DVL00"},
            [],
        ),
        (
            'select = ["DVL001", "DVL002"]\nignore = ["DVL002"]',
            {"ignore": "DVL001"},
            [],
        ),
    ],
)
def test_selection_in_layers(
    tmp_path: Path, file: str, overrides: dict[str, object], expected: list[str]
) -> None:
    pyproject(tmp_path, file)
    assert selected(load_settings(tmp_path, overrides=overrides)) == expected


def test_per_file_ignores() -> None:
    table = {
        "tests/**": ["DVL001", "DVL002"],
        "conftest.py": ["DVL003"],
        "/setup.py": ["DVL004"],
        "!src/**": ["dvl005"],
    }
    settings = settle(per_file_ignores=table)
    assert settings.ignored_in("tests/a/b.py") == ("DVL001", "DVL002", "DVL005")
    assert settings.ignored_in("src/pkg/conftest.py") == ("DVL003",)
    assert settings.ignored_in("src/setup.py") == ()
    assert settings.ignored_in(Path.cwd() / "setup.py") == ("DVL004", "DVL005")
    assert settings.ignored_in("/elsewhere/conftest.py") == ("DVL003", "DVL005")
    assert settings.is_selected_in("DVL003", "tests/a.py")
    assert not settings.is_selected_in("DVL001", "tests/a.py")
    assert Settings().ignored_in("a.py") == ()


# What is wrong -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("selct = []", 'unknown key "selct", did you mean "select"?'),
        ("extend_select = []", 'unknown key "extend_select", did you mean "extend-select"?'),
        ("zzz = 1", 'unknown key "zzz", see `devicelint config`'),
        ("lint.select = []", 'unknown key "lint"'),
        ('select = ["DVL999"]', 'select: no rule is called "DVL999", did you mean "DVL009"?'),
        ('ignore = ["steam-without-device"]', 'did you mean "stream-without-device"?'),
        ('select = ["F401"]', 'no rule is called "F401", see `devicelint rules`'),
        ('select = ["D"]', 'no rule is called "D"'),
        ('select = [""]', "select: holds an empty string"),
        ('select = "DVL"', "select: must be a list of strings, not a string"),
        ('select = ["DVL", 1]', "must be a list of strings, and 1 is a number"),
        ("select = true", "must be a list of strings, not a boolean"),
        ("force-exclude = 1", "force-exclude: must be true or false, not a number"),
        ('force-exclude = "yes"', "force-exclude: must be true or false, not a string"),
        (
            'construction = "metta"',
            'construction: must be one of "default", "device-context", "meta", not "metta", '
            'did you mean "meta"?',
        ),
        ("construction = []", "construction: must be a string, not a list"),
        ('min-severity = "fatal"', 'must be one of "error", "warning", "note", not "fatal"'),
        ('unknown-bases = "allways"', 'did you mean "always"?'),
        ('exclude = ["!"]', 'exclude: "!" is not a pattern'),
        ('exclude = ["[z-a]"]', 'exclude: "[z-a]" is not a pattern'),
        ("per-file-ignores = []", "per-file-ignores: must be a table of lists, not a list"),
        ('per-file-ignores."a" = "DVL"', '"a": must be a list of strings, not a string'),
        ('per-file-ignores."a" = ["DVL9"]', '"a": no rule is called "DVL9"'),
        ('per-file-ignores."[z-a]" = ["DVL"]', '"[z-a]" is not a pattern'),
        ('extra-bases = ["my lib.Base"]', '"my lib.Base" is not a dotted name'),
        ('extra-bases = ["lib."]', '"lib." is not a dotted name'),
        ('device-expression = "torch.device("', "is not a Python expression"),
        ('device-expression = ""', "is not a Python expression"),
        ('device-expression = "x = 1"', "is not a Python expression"),
        ("device-expression = \"'cuda'  # why\"", "is not a Python expression"),
        ("device-expression = \"'cuda', **torch.x\"", "is not one expression on one line"),
        ("device-expression = \"('a'\\n'b')\"", "is not one expression on one line"),
        ('device-expression = "None"', "must name a device"),
        ("device-expression = 1", "must be a string, not a number"),
        ('device-expression = "env.device"', '"env" is not imported by device-import'),
        ('device-import = "x = 1"', "is not one import statement on one line"),
        ('device-import = "import a; import b"', "is not one import statement on one line"),
        ('device-import = "import"', "is not an import statement"),
        ('device-import = "from a import *"', "must name what it imports, not *"),
        ("search-paths = 3", "search-paths: must be a list of strings, not a number"),
        ("baseline = 3", "baseline: must be a string, not a number"),
        ("extra-constructors = []", "must be a table of constructors, not a list"),
        ('extra-constructors."make" = {}', '"make" must be a dotted name, with the module'),
        ('extra-constructors."a b" = {}', '"a b" is not a dotted name'),
        ('extra-constructors."a.b" = 1', '"a.b": must be a table, not a number'),
        (
            'extra-constructors."a.b" = { keywrd = "x" }',
            '"a.b": unknown key "keywrd", did you mean "keyword"?',
        ),
        (
            'extra-constructors."a.b" = { kind = "steam" }',
            'kind: must be one of "tensor", "stream", "generator", "host-memory", not "steam", '
            'did you mean "stream"?',
        ),
        ('extra-constructors."a.b" = { keyword = "a-b" }', 'keyword: "a-b" is not a name'),
        ('extra-constructors."a.b" = { position = -1 }', "position: must be a number from 0"),
        ('extra-constructors."a.b" = { position = true }', "position: must be a number from 0"),
        ('extra-constructors."a.b" = { random = 1 }', "random: must be true or false, not a"),
        ("extra-sinks = 1", "extra-sinks: must be a table of sinks, not a number"),
        ('extra-sinks."a" = "bufer"', '"a": must be one of "parameter", "buffer", "attribute", '),
        ('extra-sinks."a" = "bufer"', 'not "bufer", did you mean "buffer"?'),
        ('extra-sinks."a" = []', '"a": must be a string, not a list'),
        ('extend = "nowhere.toml"', "extend: no file "),
    ],
)
def test_wrong_values_are_named(tmp_path: Path, line: str, message: str) -> None:
    assert message in complaint(line)
    pyproject(tmp_path, line)
    with pytest.raises(ConfigError, match=f"^pyproject.toml: .*{re.escape(message)}"):
        load_settings(tmp_path)


def test_wrong_overrides_are_named() -> None:
    assert complaint(slect="DVL") == 'command line: unknown key "slect", did you mean "select"?'
    assert complaint(select="DVL999").startswith("command line: select: no rule")


@pytest.mark.parametrize(
    ("expression", "statement"),
    [
        ('"cuda"', ""),
        ("torch.device('cuda', torch.cuda.current_device())", ""),
        ("dist.device()", "import dist"),
        ("a.b.c", "import a.b"),
        ("pick(int(1))", "from x import choose as pick"),
    ],
)
def test_device_expressions(expression: str, statement: str) -> None:
    settings = settle(device_expression=expression, device_import=statement)
    assert settings.policy() == Policy(Construction.DEFAULT, expression, statement)


def test_wrong_files_are_named(tmp_path: Path) -> None:
    assert complaint("nope.toml") == "--config 'nope.toml': neither a file nor key = value"
    assert "not TOML" in complaint("construction = meta")
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    assert complaint("pyproject.toml") == "pyproject.toml: has no table [tool.devicelint]"
    (tmp_path / "pyproject.toml").write_text("tool.devicelint = 3\n")
    for isolated in (["pyproject.toml"], []):
        with pytest.raises(ConfigError, match=r"tool\.devicelint must be a table, not a number"):
            load_settings(tmp_path, config=isolated)
    (tmp_path / "pyproject.toml").write_text("[tool.devicelint]\nselect = [\n")
    with pytest.raises(ConfigError, match=r"^pyproject\.toml: not TOML: .*\(at "):
        load_settings(tmp_path)
    (tmp_path / "pyproject.toml").write_bytes(b"# devicelint \xff")
    with pytest.raises(ConfigError, match=r"^pyproject\.toml: not utf-8"):
        load_settings(tmp_path)
    # Broken, but it does not speak of this tool.
    (tmp_path / "pyproject.toml").write_bytes(b"[[[")
    assert load_settings(tmp_path).exclude == ()


def test_an_unreadable_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyproject(tmp_path, "")

    def fail(_: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", fail)
    with pytest.raises(ConfigError, match=r"^pyproject\.toml: cannot be read: Permission denied"):
        load_settings(tmp_path)


def test_nothing_needless_is_imported(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from devicelint.config import load_settings\n"
        f"load_settings(Path({str(tmp_path)!r}))\n"
        "print(sorted({'tomllib', 'pathspec', 'libcst', 'rich'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=Path(__file__).resolve().parent.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"
