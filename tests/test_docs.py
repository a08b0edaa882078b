"""What the documents say is what the code does.

In: README.md and its neighbours, the rule and option tables of the code.  Out: tests, which print
the text that belongs into the README where a table there is out of date.
Never here: wording, which is for people to judge.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

import click
import pytest

import devicelint
from devicelint.commands import COMMANDS
from devicelint.config import load_settings
from devicelint.engine import check_text
from devicelint.options import OPTIONS
from devicelint.rules import RULES

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = sorted((ROOT / "docs").rglob("*.md"))
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *PAGES, ROOT / "fixtures/README.md"]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def name_of(document: Path) -> str:
    """Name a document below the root."""
    return document.relative_to(ROOT).as_posix()


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


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_python_blocks_parse(document: Path) -> None:
    for block in blocks(document.read_text(encoding="utf-8"), "python"):
        ast.parse(block)


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_toml_blocks_parse(document: Path) -> None:
    for block in blocks(document.read_text(encoding="utf-8"), "toml"):
        tomllib.loads(block)


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_links_lead_somewhere(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
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


def test_generated_documents_are_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "scripts/generate_docs.py"), "--check"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    hint = "out of date, run scripts/generate_docs.py: " + result.stdout + result.stderr
    assert result.returncode == 0, hint
    pages = {page.name for page in (ROOT / "docs/rules").iterdir()}
    assert pages == {"README.md", *(f"{rule.code}.md" for rule in RULES)}


def marked_blocks() -> Iterator[tuple[str, int, str, str]]:
    """Yield each block that says what it lints as: its page, its line, the codes, the block."""
    marked = re.compile(
        r"^<!-- lints: (.*?) -->\n```python\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL
    )
    for page in [ROOT / "README.md", *PAGES]:
        text = page.read_text(encoding="utf-8")
        found = [*marked.finditer(text)]
        assert len(found) == text.count("<!-- lints:"), f"a stray marker in {page}"
        for match in found:
            yield name_of(page), text.count("\n", 0, match.start()) + 1, match[1], match[2]


@pytest.mark.parametrize(
    ("codes", "block"),
    [
        pytest.param(codes, block, id=f"{page}:{line}")
        for page, line, codes, block in marked_blocks()
    ],
)
def test_marked_blocks_lint_as_they_say(codes: str, block: str) -> None:
    expected = set() if codes == "nothing" else set(codes.split())
    assert {finding.code for finding in check_text(block)} == expected


def command_lines(text: str) -> Iterator[list[str]]:
    """Yield the words after `devicelint` of each command line, in blocks and in running text."""
    fenced = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
    lines = [
        line
        for language, block in fenced.findall(text)
        if language in ("bash", "text")
        for line in block.replace("\\\n", " ").splitlines()
        if re.search(r"\bdevicelint [\w-]", line)
    ]
    inline = re.findall(r"`((?:\S*/)?devicelint [^`]+)`", fenced.sub("", text))
    for line in [*lines, *inline]:
        words = shlex.shlex(line, posix=True, punctuation_chars=True)
        words.whitespace_split = True
        yield from invocations([*words])


def invocations(words: list[str]) -> Iterator[list[str]]:
    """Yield what follows each word that is the program, up to the next operator of the shell."""
    for start, word in enumerate(words):
        if os.path.basename(word) == "devicelint" and words[start + 1 :]:
            rest = words[start + 1 :]
            ends = [at for at, each in enumerate(rest) if each and set(each) <= set("();<>|&")]
            if ends[:1] != [0]:
                yield rest[: ends[0]] if ends else rest


def require_command(words: list[str]) -> None:
    """Raise a click error or fail unless a command and its options exist."""
    name, *arguments = words
    if name in ("--version", "--help"):
        return
    assert name in (*COMMANDS, "COMMAND"), f"no command {name!r}"
    if name != "COMMAND" and "--help" not in arguments:
        command = COMMANDS[name]()
        # the parser alone: it knows the options, and looks at no file
        context = click.Context(command, **command.context_settings)
        command.make_parser(context).parse_args([*arguments])


def test_what_is_no_command_is_noticed() -> None:
    text = "```bash\ndevicelint check \\\n  --no-such-option\n```\nand `devicelint lint src`\n"
    option, command = command_lines(text)
    with pytest.raises(click.NoSuchOption):
        require_command(option)
    with pytest.raises(AssertionError):
        require_command(command)


@pytest.mark.parametrize("document", [ROOT / "README.md", *PAGES], ids=name_of)
def test_commands_exist(document: Path) -> None:
    for words in command_lines(document.read_text(encoding="utf-8")):
        try:
            require_command(words)
        except click.UsageError as error:
            pytest.fail(f"{shlex.join(words)}: {error.format_message()}")


@pytest.mark.parametrize("document", [ROOT / "README.md", *PAGES], ids=name_of)
def test_settings_in_examples_are_valid(document: Path, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (tmp_path / "shared.toml").write_text('ignore = ["DVL010"]\n', encoding="utf-8")
    (tmp_path / "other-package/src").mkdir(parents=True)
    for block in blocks(document.read_text(encoding="utf-8"), "toml"):
        if "tool.devicelint" in block:
            (folder / "pyproject.toml").write_text(block, encoding="utf-8")
            assert load_settings(folder).sources


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
