"""The layers of the package, as data, and what each may import.

In: the sources of `devicelint/`, read with `ast`; one fresh interpreter.  Out: tests.  Never here:
an import of a module under test.

A module may import modules of lower layers only, so there can be no cycle.  Imports inside
functions and under `TYPE_CHECKING` count: they are dependencies all the same.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "devicelint"

#: What the rules share; a rule itself sees nothing but these, the model and the tables.
RULE_HELPERS = ("rules.expression", "rules.judgement", "rules.legacy", "rules.wording")

#: Lowest first.  A name ending in `.*` stands for every other module of that sub-package.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("", "model"),
    ("lines", "scopes", "collector", "cache_folder"),
    (
        "torch_api",
        "ir",
        "locate",
        "stopwatch",
        "suppression",
        "fixer",
        "settings",
        "reporters.settings",
    ),
    ("sharing",),
    (
        "values",
        "files",
        "discovery",
        "baseline",
        "options",
        "ignores",
        "arguments",
        "frozen",
        "gate",
        "headers",
        "outline",
        *RULE_HELPERS,
        "reporters.terminal",
        "reporters.layout",
        "reporters.order",
        "reporters.pages",
        "reporters.source",
    ),
    (
        "bindings",
        "glance",
        "prospects",
        "parsing",
        "reuse",
        "trails",
        "cache",
        "syntax",
        "rules.*",
        "reporters.summary",
        "reporters.excerpt",
        "reporters.drawing",
        "reporters.paths",
    ),
    ("frame", "process_groups", "rules", "reporters.json_report", "reporters.remedies"),
    ("reporters.*", "option_values"),
    ("methods", "config", "schema", "directives", "reporters"),
    ("calls",),
    ("expressions",),
    ("dataflow",),
    ("facts",),
    ("project",),
    ("extras", "receivers"),
    ("callees",),
    ("construction",),
    ("walk",),
    ("flow",),
    ("groups",),
    ("targets", "footprint", "unasked"),
    ("analysis",),
    ("reading",),
    ("workers", "joining"),
    ("recall",),
    ("stages",),
    ("engine",),
    ("selection",),
    ("known",),
    ("runner",),
    ("silencing",),
    ("commands.verdict",),
    ("trace.events", "trace.interrupts", "trace.bootstrap.sitecustomize"),
    ("trace.ledger", "trace.reading", "trace.positions", "trace.warned"),
    ("trace.writer", "trace.fate", "trace.catalogue", "trace.lineage", "trace.hooks"),
    ("trace.logfile", "trace.harvest", "trace.patches", "trace.look", "trace.session"),
    ("trace.recorder", "trace.summary", "trace.log", "trace.merge"),
    ("trace.active", "trace.report"),
    ("trace.attached", "trace"),
    ("trace.inject",),
    ("trace.launch",),
    ("trace.pytest_plugin",),
    (
        "commands.options",
        "commands.output",
        "commands.progress",
        "commands.repository",
        "commands.watch",
    ),
    ("commands.outputs", "commands.remarks"),
    ("commands.*",),
    ("commands",),
    ("cli",),
    ("__main__",),
)

#: Modules that may import no more than these of the package, whatever their layer allows.
NARROW: dict[str, frozenset[str]] = {
    "torch_api": frozenset({"model"}),
    "suppression": frozenset({"model"}),
    "fixer": frozenset({"model"}),
    "baseline": frozenset({"model"}),
    **dict.fromkeys(RULE_HELPERS, frozenset({"model", "torch_api"})),
    "rules.*": frozenset({"model", "torch_api", *RULE_HELPERS}),
}

#: Third-party packages, and the only modules that may import them.
ONLY_IN: dict[str, frozenset[str]] = {
    "libcst": frozenset({"analysis"}),
    "click": frozenset({"cli", "commands"}),
    "pathspec": frozenset({"discovery", "settings"}),
    "rich": frozenset({"commands", "reporters"}),
    # What is checked is never imported or run; a trace runs in the user's program, with its torch.
    "torch": frozenset(
        f"trace.{name}"
        for name in (
            "attached catalogue fate harvest hooks lineage look patches recorder session".split()
        )
    ),
    "pytest": frozenset({"trace.pytest_plugin"}),
}


def module_name(path: Path) -> str:
    """Name a module without the package: `rules.expression`, "" for the package itself."""
    parts = list(path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def row(name: str, names: tuple[str, ...]) -> str | None:
    """Find the entry that stands for a module: its own name, or its sub-package's `.*`."""
    if name in names:
        return name
    wildcard = f"{name.rpartition('.')[0]}.*"
    return wildcard if "." in name and wildcard in names else None


def layer(name: str) -> int | None:
    """Return the layer that a module is placed in; an exact name wins over a `.*`."""
    placed = {entry: number for number, names in enumerate(LAYERS) for entry in names}
    entry = row(name, tuple(placed))
    return None if entry is None else placed[entry]


def imports(path: Path) -> Iterator[str]:
    """Yield the dotted names that a file imports, wherever in it, names of modules as such."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}:{node.lineno}: imports are absolute here"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def own_imports(name: str) -> set[str]:
    """Return the modules of the package that one of them imports."""
    found = set()
    for dotted in imports(MODULES[name]):
        if dotted.split(".")[0] != "devicelint":
            continue
        inner = dotted.removeprefix("devicelint").removeprefix(".")
        # `from devicelint.model import Finding` names a module and something in it.
        found.add(inner if inner in MODULES else inner.rpartition(".")[0])
    return found - {name}


@pytest.mark.parametrize("name", MODULES)
def test_module_is_placed(name: str) -> None:
    assert layer(name) is not None, "say in LAYERS where the new module belongs"


def test_architecture_document_names_every_module() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = {
        name
        for name in MODULES
        if name and not name.startswith(("_", "rules.", "reporters.", "commands."))
    }
    assert {name for name in named if not re.search(rf"`{name}[`/]", text)} == set()


def test_layers_name_modules_that_exist() -> None:
    placed = {entry for names in LAYERS for entry in names if not entry.endswith(".*")}
    assert placed <= set(MODULES)


@pytest.mark.parametrize("name", MODULES)
def test_imports_go_downwards(name: str) -> None:
    own = layer(name)
    assert own is not None
    upwards = {other for other in own_imports(name) if (layer(other) or 0) >= own}
    assert upwards == set()


@pytest.mark.parametrize("name", MODULES)
def test_narrow_modules_stay_narrow(name: str) -> None:
    entry = row(name, tuple(NARROW))
    if entry is not None:
        assert own_imports(name) <= NARROW[entry]


@pytest.mark.parametrize("package", ONLY_IN)
def test_third_party_package_stays_in_its_place(package: str) -> None:
    importing = {
        name
        for name, path in MODULES.items()
        if any(dotted.split(".")[0] == package for dotted in imports(path))
    }
    allowed = {name for name in MODULES if {name, name.partition(".")[0]} & ONLY_IN[package]}
    assert importing <= allowed


def loaded(statement: str) -> set[str]:
    """Run a statement in a fresh interpreter and return the top-level modules it loaded."""
    result = subprocess.run(
        [sys.executable, "-c", f"{statement}\nimport sys\nprint(*sys.modules)"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return {name.split(".")[0] for name in result.stdout.split()}


def test_the_command_line_starts_light() -> None:
    # libcst takes 0.19 s to import and rich 0.05 s; `--version` needs neither.
    assert not loaded("import devicelint.cli") & {"libcst", "rich", "pathspec", "torch"}


def test_the_process_pool_is_loaded_on_demand() -> None:
    assert "multiprocessing" not in loaded("import devicelint.cli")
