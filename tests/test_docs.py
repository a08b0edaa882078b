"""What the documents say is what the code does.

In: README.md and its neighbours, the rule and option tables of the code.  Out: tests, which print
the text that belongs into the README where a table there is out of date.
Never here: wording, which is for people to judge.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest

import devicelint
from devicelint.options import OPTIONS
from devicelint.rules import RULES

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "fixtures/README.md"])
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Lay out a Markdown table."""
    cells = [tuple(head), *(tuple(row) for row in rows)]
    lines = ["| " + " | ".join(row) + " |" for row in cells]
    return "\n".join([lines[0], "|" + "---|" * len(cells[0]), *lines[1:]])


def between(name: str) -> str:
    """Return what the README has between the markers of a generated part."""
    _, _, rest = README.partition(f"<!-- {name}: begin -->\n")
    part, found, _ = rest.partition(f"\n<!-- {name}: end -->")
    assert found, f"the markers of {name} are gone from the README"
    return part


def blocks(text: str, language: str) -> list[str]:
    """Return the fenced code blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def test_rule_table_is_that_of_the_rules() -> None:
    head = ("code", "name", "reports", "severity", "fix")
    rows = (
        (rule.code, rule.name, rule.summary, str(rule.severity), rule.fixable) for rule in RULES
    )
    assert between("rules") == table(head, rows)


def as_toml(value: object) -> str:
    """Spell a default as a configuration file would."""
    if isinstance(value, tuple):
        return json.dumps(list(value))
    return json.dumps(value)


def test_option_table_is_that_of_the_code() -> None:
    rows = (
        (f"`{key}`", str(option.type), f"`{as_toml(option.default)}`", option.doc)
        for key, option in OPTIONS.items()
    )
    assert between("options") == table(("key", "takes", "default", "means"), rows)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_python_blocks_parse(document: Path) -> None:
    for block in blocks(document.read_text(encoding="utf-8"), "python"):
        ast.parse(block)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_toml_blocks_parse(document: Path) -> None:
    for block in blocks(document.read_text(encoding="utf-8"), "toml"):
        tomllib.loads(block)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        linked = document.parent / path if path else document
        assert linked.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", linked.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {slug(heading) for heading in headings}, target


def slug(heading: str) -> str:
    """Turn a heading into its anchor, as GitHub does."""
    kept = re.sub(r"[^\w\- ]", "", heading.lower())
    return kept.replace(" ", "-")


def test_fix_makes_the_second_block_of_the_first(run_command, tmp_path: Path) -> None:
    before, after = blocks(README, "python")[:2]
    file = tmp_path / "example.py"
    file.write_text(before, encoding="utf-8")
    result = run_command("fix", "--write", "--isolated", "--no-cache", file.name, cwd=tmp_path)
    assert file.read_text(encoding="utf-8") == after, result.stderr.decode()


def test_suppressions_of_the_readme_work(findings_of) -> None:
    comments = blocks(README, "python")[2]
    body = "".join(f"        {line}\n" for line in comments.splitlines())
    model = (
        "import torch\nfrom torch import nn\n\n\nclass Net(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n"
    )
    assert findings_of(model + body) == ()
    assert findings_of(model + re.sub(r"#.*", "", body)) != ()


def test_the_first_command_has_something_to_show(run_command) -> None:
    result = run_command(
        "check", "--no-cache", "--output-format", "concise", "examples/predictor.py", cwd=ROOT
    )
    assert result.returncode == 1, result.stderr.decode()
    codes = set(re.findall(rb"DVL\d{3}", result.stdout))
    assert codes == {b"DVL001", b"DVL002", b"DVL003", b"DVL005", b"DVL009"}


def test_hook_definitions_are_valid() -> None:
    hooks = str(ROOT / ".pre-commit-hooks.yaml")
    command = [sys.executable, "-m", "pre_commit", "validate-manifest", hooks]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_hooks_of_the_readme_are_defined() -> None:
    defined = re.findall(
        r"^- id: (\S+)", (ROOT / ".pre-commit-hooks.yaml").read_text(), re.MULTILINE
    )
    assert defined == ["devicelint", "devicelint-fix"]
    # the fixing one first: what it mends need not be reported
    assert re.findall(r"^ +- id: (\S+)", README, re.MULTILINE) == defined[::-1]


def test_version_is_the_same_everywhere() -> None:
    version = PYPROJECT["project"]["version"]
    assert devicelint.__version__ == version
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## (\S+)", changelog, re.MULTILINE)[1] == version
