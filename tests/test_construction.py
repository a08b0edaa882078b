"""How a constructor call is reached: the chain that a finding shows.

In: short sources of several classes.  Out: tests.  Never here: which calls are found at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations

import pytest

HEADER = "import torch\nfrom torch import nn\n\n\n"

#: a base whose method calls a hook, and two siblings of which one builds a tensor in it
SIBLINGS = {
    "Base": """
class Base(nn.Module):
    def embed(self):
        self.hook()

    def hook(self):
        pass
""",
    "Early": """
class Early(Base):
    def __init__(self):
        super().__init__()
        self.embed()

    def hook(self):
        self.scale = 1.0
""",
    "Late": """
class Late(Base):
    def __init__(self):
        super().__init__()
        self.embed()

    def hook(self):
        self.table = torch.zeros(3)
""",
}

#: siblings that build in the base's method, by a hook and by a function at its side
SHARED = {
    "Base": SIBLINGS["Base"],
    "helper": """
def helper():
    return torch.ones(3)
""",
    "Early": """
class Early(Base):
    def __init__(self):
        super().__init__()
        self.prepare()

    def prepare(self):
        self.embed()

    def hook(self):
        self.scale = helper()
""",
    "Late": SIBLINGS["Late"].replace("torch.zeros(3)", "helper()"),
    "Latest": SIBLINGS["Late"].replace("Late", "Latest").replace("torch.zeros(3)", "helper()"),
}


def chains(findings_of, classes: Mapping[str, str], order: tuple[str, ...]) -> list[str]:
    """Show the chains of the findings in classes that are written in this order."""
    text = HEADER + "\n".join(classes[name] for name in ("Base", *order))
    return [" > ".join(finding.reached_via) for finding in findings_of(text)]


@pytest.mark.parametrize("order", list(permutations(("Early", "Late"))))
def test_a_chain_keeps_to_its_class(order: tuple[str, ...], findings_of) -> None:
    assert chains(findings_of, SIBLINGS, order) == ["Late.__init__ > Base.embed > Late.hook"]


@pytest.mark.parametrize("order", list(permutations(("helper", "Early", "Late", "Latest"))))
def test_the_shortest_chain_of_all_classes_is_shown(order: tuple[str, ...], findings_of) -> None:
    assert chains(findings_of, SHARED, order) == ["Late.__init__ > Base.embed > Late.hook > helper"]


def test_a_constructor_comes_before_a_body_of_another_class(findings_of) -> None:
    body = "\nclass Bare(nn.Module):\n    table = helper()\n"
    assert chains(findings_of, SHARED | {"Bare": body}, ("helper", "Bare", "Late")) == [
        "Late.__init__ > Base.embed > Late.hook > helper"
    ]
