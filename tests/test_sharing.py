"""What takes the place of many objects says the same as they would.

In: places, parts of facts, what calls may run.  Out: tests.  Never here: memory measured, which is
for the benchmarks.
"""

from __future__ import annotations

import ast
import pickle

from hypothesis import given
from hypothesis import strategies as st

from devicelint.callees import Callee
from devicelint.construction import Calls, Runnable
from devicelint.facts import extract_facts
from devicelint.ir import CallFact, Event, placed
from devicelint.project import External
from devicelint.sharing import same, same_event

NUMBER = st.integers(0, (1 << 32) - 1)
PAIR = st.tuples(NUMBER, NUMBER)


@given(PAIR, PAIR, PAIR)
def test_a_place_is_read_as_it_was_written(
    start: tuple[int, int], end: tuple[int, int], statement: tuple[int, int]
) -> None:
    call = CallFact((), "f", placed(start, end, statement), (), (), -1, "", 0, "", False, False)
    assert (call.start, call.end, call.statement) == (start, end, statement)


def test_equal_parts_are_one_object() -> None:
    first = same((("ref", "torch." + "zeros"),))
    assert same((("ref", "torch.zeros"),)) is first
    event = same_event("attribute", "table", first)
    assert same_event("attribute", "table", (("ref", "torch.zeros"),)) is event
    assert isinstance(event, Event)
    # an event equals a plain tuple, and is not to be mixed up with it
    assert type(same(tuple(event))) is tuple


def test_facts_of_alike_functions_share_their_parts() -> None:
    function = "\n    def __init__(self):\n        self.table = torch.zeros(3, dtype=torch.int32)\n"
    text = f"import torch\nclass A:{function}\nclass B:{function}"
    first, second = (
        item
        for item in extract_facts(ast.parse(text)).summaries
        if item.qualname.endswith("__init__")
    )
    assert first.calls[0].callees is second.calls[0].callees
    assert first.calls[0].keywords is second.calls[0].keywords
    assert first.calls[0].place != second.calls[0].place
    # and so they are sent but once
    alone = len(pickle.dumps(first, 5))
    assert len(pickle.dumps([first, second], 5)) < 1.7 * alone


@given(st.lists(st.integers(0, 30), max_size=60))
def test_what_a_call_may_run_is_kept_in_order_and_once(numbers: list[int]) -> None:
    targets: list[Runnable] = [
        Callee(("a.py", f"f{number}"), None, False) if number % 2 else External(f"f{number}")
        for number in numbers
    ]
    calls = Calls()
    for target in targets:
        calls.note((("a.py", "g"), 2), target)
    assert list(calls.of(("a.py", "g"), 2)) == list(dict.fromkeys(targets))
    assert not calls.of(("a.py", "g"), 1)
    assert not calls.of(("a.py", "g"), 3)
    assert not calls.of(("b.py", "g"), 2)
