"""The names that lead from file to file before the walk, and what is read because of them.

In: facts of small files, read for nothing but their classes.  Out: tests.  Never here: a walk.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from devicelint.ir import ModuleFacts
from devicelint.locate import Locator
from devicelint.reading import read_facts
from devicelint.trails import Trails

BASE = """\
class Base:
    def __init__(self):
        pass

    def build(self):
        return deep()

    def other(self):
        return deep()


def make():
    return deep()


def unused():
    return deep()
"""
PACKAGE = "from base import Base, make\n"
USER = """\
from package import Base, make


class Middle(Base):
    pass


class User(Middle):
    def __init__(self):
        super().__init__()
        self.build()
        make()
"""


def facts_of(folder: Path, texts: Mapping[str, str]) -> dict[str, ModuleFacts]:
    """Write files, and read what a file that others import is read for."""
    found: dict[str, ModuleFacts] = {}
    for name, text in texts.items():
        path = folder / name
        path.write_text(text, encoding="utf-8")
        names = {"User"} if name == "user.py" else ()
        facts = read_facts(str(path), text.encode(), names)
        assert isinstance(facts, ModuleFacts)
        found[name] = facts
    return found


def test_files_are_found_one_after_the_other(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, {"base.py": BASE, "package.py": PACKAGE, "user.py": USER})
    trails = Trails(Locator((), str(tmp_path)).find, lambda _: True)

    def ahead(name: str) -> dict[str, set[str]]:
        found = trails.ahead([(str(tmp_path / name), facts[name])])
        return {Path(path).name: {*names} for path, names in found.items()}

    assert ahead("user.py") == {"package.py": {"Base", "make"}}
    assert ahead("package.py") == {"base.py": {"Base", "make"}}
    assert ahead("base.py") == {}


def test_what_was_not_read_of_a_file_is_named(tmp_path: Path) -> None:
    """Imported functions, and methods that a class inherits and calls: no others."""
    facts = facts_of(tmp_path, {"base.py": BASE, "package.py": PACKAGE, "user.py": USER})
    for order in (["base.py", "package.py", "user.py"], ["user.py", "package.py", "base.py"]):
        trails = Trails(Locator((), str(tmp_path)).find, lambda _: True)
        for name in order:
            trails.ahead([(str(tmp_path / name), facts[name])])
        found = {path: sorted(names) for path, names in trails.unread().items()}
        assert found == {str(tmp_path / "base.py"): ["Base.build", "make"]}


def test_files_that_are_not_to_be_read_are_left_alone(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, {"base.py": BASE, "package.py": PACKAGE, "user.py": USER})
    trails = Trails(Locator((), str(tmp_path)).find, lambda _: False)
    assert trails.ahead([(str(tmp_path / "user.py"), facts["user.py"])]) == {}


def test_bases_in_a_circle_have_an_end(tmp_path: Path) -> None:
    circle = "class A(B):\n    def __init__(self):\n        self.run()\n\n\nclass B(A):\n    pass\n"
    facts = facts_of(tmp_path, {"user.py": circle})
    trails = Trails(Locator((), str(tmp_path)).find, lambda _: True)
    assert trails.ahead([(str(tmp_path / "user.py"), facts["user.py"])]) == {}
    assert trails.unread() == {}
