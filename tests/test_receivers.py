"""A method that many classes inherit does on each what it would do on that class alone.

In: a base and its subclasses, written together and one at a time.  Out: tests.  Never here: where a
value ends, chains.

The constructor of a base is looked at once for all classes that answer alike to what it asks of
`self`; each shape below is something that it may ask.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from textwrap import indent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devicelint.engine import analyse
from devicelint.files import SourceFile
from devicelint.settings import Settings

HEADER = "import torch\nfrom torch import nn\n\n\n"

#: asks `self` for all that it can be asked for
BASE = """
def helper(n):
    return torch.full((n,), 1.0)


class Root(nn.Module):
    make = None
    kind = None

    def __init__(self, n):
        super().__init__()
        self.n = n
        self.hook(n)
        self.other = self.give(n)
        self.value = self.other
        self.call_it()
        self.apply(self._init)
        self.peer()

    def hook(self, n):
        pass

    def give(self, n):
        return n

    def call_it(self):
        if self.make is not None:
            self.made = self.make(3)

    def _init(self, module):
        pass

    def peer(self):
        self.twin = self.kind


class Side:
    def hook(self, n):
        self.side = torch.rand(n)
        super().hook(n)
"""

#: what a subclass may do; each is found on it alone
FEATURES = {
    "hook builds": """
def hook(self, n):
    self.table = torch.zeros(n)
""",
    "hook builds and goes on": """
def hook(self, n):
    super().hook(n)
    self.table = torch.ones(n)
""",
    "hook builds nothing": """
def hook(self, n):
    self.table = n
""",
    "result is built": """
def give(self, n):
    return torch.arange(n)
""",
    "result by a helper": """
def give(self, n):
    return helper(n)
""",
    "class attribute is a function": """
make = helper
""",
    "class attribute is a lambda": """
make = lambda self, n: torch.eye(n)
""",
    "class attribute is a constructor": """
make = torch.zeros
""",
    "attribute is a function": """
def __init__(self, n):
    self.make = helper
    super().__init__(n)
""",
    "constructor of its own": """
def __init__(self, n):
    super().__init__(n)
    self.own = torch.zeros(n)
""",
    "initialises": """
def _init(self, module):
    module.noise = torch.randn(3)
""",
    "setter": """
@property
def value(self):
    return self._value

@value.setter
def value(self, x):
    self._value = torch.tensor(x)
""",
    "buffer": """
def __init__(self, n):
    super().__init__(n)
    self.register_buffer("other", None)
""",
    "its own kind": """
def peer(self):
    self.twin = type(self)(1) if self.n > 1 else None

def grow(self):
    return torch.zeros(self.n)
""",
    "static": """
@staticmethod
def give(n):
    return torch.ones(n)
""",
    "class method": """
@classmethod
def give(cls, n):
    return torch.empty(n)
""",
}

Shown = tuple[str, str, str, str]


def subclass(name: str, features: Iterable[str], bases: str = "Root") -> str:
    """Write a class; two features that define the same name are one definition after the other."""
    body = "".join(FEATURES[feature] for feature in features) or "\npass\n"
    return f"\n\nclass {name}({bases}):{indent(body, '    ')}"


def found_in(text: str) -> set[Shown]:
    """Show what is found in a text, wherever it stands."""
    source = SourceFile("one.py", (HEADER + text).encode())
    (one,) = analyse([source], Settings(), jobs=1, cwd=Path("/nowhere")).values()
    assert not one.diagnostics
    return {(item.code, item.symbol, item.callable, str(item.sink)) for item in one.findings}


def on(name: str, found: Iterable[Shown]) -> set[tuple[str, str]]:
    """Give what is found in the methods of one class."""
    return {(code, symbol) for code, symbol, *_ in found if symbol.startswith(f"{name}.")}


NAMES = [f"Sub{number:02}" for number in range(12)]


# By hand ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("building", [(), (0,), (11,), (3, 4, 9), tuple(range(12))])
def test_a_hook_is_found_on_the_classes_that_override_it(building: tuple[int, ...]) -> None:
    classes = [
        subclass(name, ["hook builds"] if number in building else [])
        for number, name in enumerate(NAMES)
    ]
    found = found_in(BASE + "".join(classes))
    assert found == {
        ("DVL001", f"{NAMES[number]}.hook", "torch.zeros", "attribute") for number in building
    }


def test_a_hook_inherited_from_a_subclass_is_found_there() -> None:
    text = subclass("Middle", ["hook builds"]) + "".join(
        subclass(name, ["hook builds nothing"] if number % 2 else [], "Middle")
        for number, name in enumerate(NAMES)
    )
    assert found_in(BASE + text) == {("DVL001", "Middle.hook", "torch.zeros", "attribute")}


def test_a_base_of_which_every_class_overrides_the_hook_builds_nothing() -> None:
    base = BASE.replace(
        "def hook(self, n):\n        pass", "def hook(self, n):\n        self.t = torch.ones(n)"
    )
    assert base != BASE
    overriding = "".join(subclass(name, ["hook builds nothing"]) for name in NAMES)
    # the base itself may be built
    expected = {("DVL001", "Root.hook", "torch.ones", "attribute")}
    assert found_in(base + overriding) == expected
    assert found_in(base + overriding + subclass("Last", [])) == expected


def test_a_buffer_counts_on_the_class_that_declares_it() -> None:
    text = """
class Root(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.declare()
        self.fill(n)

    def declare(self):
        pass

    def fill(self, n):
        pass


class Buffered(Root):
    def declare(self):
        self.register_buffer("table", None)

    def fill(self, n):
        self.table = torch.zeros(n)


class Plain(Root):
    def fill(self, n):
        self.table = torch.zeros(n)
"""
    assert {(code, symbol) for code, symbol, *_ in found_in(text)} == {
        ("DVL003", "Buffered.fill"),
        ("DVL001", "Plain.fill"),
    }


def test_super_goes_on_in_the_order_of_two_bases() -> None:
    text = "\n\nclass Both(Side, Root):\n    pass\n\n\nclass Root2(Root):\n    pass\n"
    assert on("Side", found_in(BASE + text)) == {("DVL001", "Side.hook")}
    chain = """
class Left(Root):
    def hook(self, n):
        super().hook(n)


class Right(Root):
    def hook(self, n):
        self.right = torch.zeros(n)


class Both(Left, Right):
    pass


class Alone(Left):
    pass
"""
    found = found_in(BASE + chain)
    assert on("Right", found) == {("DVL001", "Right.hook")}
    assert on("Left", found) == set()


def test_super_of_a_class_between_two_bases() -> None:
    """`Left.hook` runs what comes after it on the class that is built, and nothing else."""
    text = """
class Start(nn.Module):
    def __init__(self):
        super().__init__()
        self.hook()

    def hook(self):
        pass


class Left(Start):
    def hook(self):
        super().hook()


class Right:
    def hook(self):
        self.right = torch.zeros(3)


class Before(Right, Left):
    pass


class After(Left, Right):
    pass


class Apart(Left):
    pass
"""
    assert on("Right", found_in(text)) == {("DVL001", "Right.hook")}
    without = text.replace("class Before(Right, Left):\n    pass\n", "")
    # `Start.hook` comes before `Right`, and goes no further
    assert on("Right", found_in(without)) == set()


def test_apply_runs_the_method_of_the_class() -> None:
    text = "".join(
        subclass(name, ["initialises"] if number % 3 == 0 else [])
        for number, name in enumerate(NAMES)
    )
    assert {symbol for _, symbol, *_ in found_in(BASE + text)} == {
        f"{name}._init" for name in NAMES[::3]
    }


def test_functions_in_class_attributes_are_called_on_their_class_alone() -> None:
    text = "".join(subclass(name, []) for name in NAMES[:5])
    assert found_in(BASE + text) == set()
    found = found_in(BASE + text + subclass("One", ["class attribute is a function"]))
    assert {symbol for _, symbol, *_ in found} == {"helper"}
    found = found_in(BASE + text + subclass("One", ["class attribute is a constructor"]))
    assert {(symbol, name) for _, symbol, name, _ in found} == {("Root.call_it", "self.make")}


def test_a_class_that_makes_its_own_kind() -> None:
    """What a class does with itself says nothing of its siblings."""
    text = """
class Root(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.spare = Second(1).extra() if n else None
        self.start()

    def start(self):
        pass

    def extra(self):
        return 1


class First(Root):
    def extra(self):
        return torch.zeros(3)


class Second(Root):
    def extra(self):
        return torch.ones(3)


class Third(Root):
    def extra(self):
        return torch.rand(3)
"""
    for classes in (
        text,
        text.replace("Second(1)", "Third(1)"),
        text.replace("Second(1)", "First(1)"),
    ):
        (maker,) = {name for name in ("First", "Second", "Third") if f"{name}(1)" in classes}
        assert {symbol for _, symbol, *_ in found_in(classes)} == {f"{maker}.extra"}


# Together and alone -------------------------------------------------------------------------------


Calls = set[tuple[str, str]]


def calls_in(text: str) -> Calls:
    """Show the calls found, by the function that holds them."""
    return {(symbol, name) for _, symbol, name, _ in found_in(text)}


def together_and_alone(siblings: dict[str, str]) -> tuple[Calls, Calls]:
    together = calls_in(BASE + "".join(siblings.values()))
    alone = {item for text in siblings.values() for item in calls_in(BASE + text)}
    return together, alone


def test_every_feature_does_something() -> None:
    """But for two: one builds nothing, one is called by nobody."""
    idle = {name for name in FEATURES if not found_in(BASE + subclass("Sub", [name]))}
    assert idle == {"hook builds nothing", "buffer", "its own kind"}


@pytest.mark.parametrize("feature", FEATURES)
def test_a_sibling_with_a_feature_among_many_without(feature: str) -> None:
    for place in (0, 6, 11):
        siblings = {
            name: subclass(name, [feature] if number == place else [])
            for number, name in enumerate(NAMES)
        }
        together, alone = together_and_alone(siblings)
        assert together == alone


def test_siblings_with_a_feature_each() -> None:
    siblings = {
        f"Sub{number:02}": subclass(f"Sub{number:02}", [feature])
        for number, feature in enumerate(FEATURES)
    }
    together, alone = together_and_alone(siblings)
    assert together == alone


SIBLINGS = st.lists(
    st.tuples(
        st.lists(st.sampled_from(sorted(FEATURES)), max_size=3, unique=True),
        st.sampled_from(["Root", "Side, Root"]),
    ),
    min_size=2,
    max_size=6,
)


@settings(max_examples=40)
@given(SIBLINGS)
def test_siblings_with_any_features(drawn: list[tuple[list[str], str]]) -> None:
    siblings = {
        name: subclass(name, features, bases)
        for name, (features, bases) in zip(NAMES, drawn, strict=False)
    }
    together, alone = together_and_alone(siblings)
    assert together == alone


@settings(max_examples=40)
@given(SIBLINGS)
def test_the_order_of_siblings_does_not_matter(drawn: list[tuple[list[str], str]]) -> None:
    texts = [
        subclass(name, features, bases)
        for name, (features, bases) in zip(NAMES, drawn, strict=False)
    ]
    assert found_in(BASE + "".join(texts)) == found_in(BASE + "".join(reversed(texts)))


# Over several files -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the files of a run exist, whatever they hold."""
    folder = tmp_path_factory.mktemp("siblings")
    for name in ("root", *NAMES):
        (folder / f"{name}.py").write_text("", encoding="utf-8")
    return folder


def calls_across(folder: Path, siblings: dict[str, str]) -> Calls:
    """Check siblings in files of their own, beside that of their base."""
    imports = "from root import Root, Side, helper\n"
    texts = {"root": BASE} | {name: imports + text for name, text in siblings.items()}
    sources = [SourceFile(f"{name}.py", (HEADER + text).encode()) for name, text in texts.items()]
    found = analyse(sources, Settings(), jobs=1, cwd=folder)
    assert not any(one.diagnostics for one in found.values())
    return {(item.symbol, item.callable) for one in found.values() for item in one.findings}


@settings(max_examples=30)
@given(SIBLINGS)
def test_siblings_in_files_of_their_own(folder: Path, drawn: list[tuple[list[str], str]]) -> None:
    """Methods are then read on demand, and what waits for them goes on class by class."""
    siblings = {
        name: subclass(name, features, bases)
        for name, (features, bases) in zip(NAMES, drawn, strict=False)
    }
    together = calls_across(folder, siblings)
    assert together == calls_in(BASE + "".join(siblings.values()))
    assert together == {
        call for name, text in siblings.items() for call in calls_across(folder, {name: text})
    }
