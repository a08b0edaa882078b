"""Where values go inside one function: what `extract_facts` says of short sources.

In: the text of a constructor, or of a small file.  Out: tests.  Never here: a second file, a rule.

Calls are shown by their text, so that `{"torch.zeros"}` is the result of that call, and events by
what becomes of a value: `attribute w` is `self.w`, `returned 1` the second of the returned ones.
"""

from __future__ import annotations

import ast
from textwrap import dedent, indent

import pytest

from devicelint.engine import check_text
from devicelint.facts import extend_facts, extend_facts_from, extract_facts, joined
from devicelint.ir import (
    STREAM_CONTEXT,
    TENSOR_CONTEXT,
    Atom,
    CallFact,
    FunctionFacts,
    ModuleFacts,
    Value,
)
from devicelint.outline import outline

HEADER = "import functools\nimport torch\nfrom torch import nn\n"


def read(source: str) -> ModuleFacts:
    """Read a file."""
    return extract_facts(ast.parse(HEADER + dedent(source)))


def function(facts: ModuleFacts, qualname: str) -> FunctionFacts:
    """Return the summary of a function."""
    return next(summary for summary in facts.summaries if summary.qualname == qualname)


def init(body: str, parameters: str = "") -> FunctionFacts:
    """Read a module's constructor, given its parameters after `self` and its body."""
    head = f"class M(nn.Module):\n    def __init__(self, {parameters}):\n"
    return function(read(head + indent(dedent(body).strip(), " " * 8)), "M.__init__")


def call(facts: FunctionFacts, text: str) -> CallFact:
    """Return the only call that is written so."""
    (found,) = (call for call in facts.calls if call.text == text)
    return found


def shown(facts: FunctionFacts, value: Value) -> set[str]:
    """Show a value: calls by their text, anything else by its words."""

    def show(atom: Atom) -> str:
        match atom:
            case ("call", int(number)):
                return facts.calls[number].text
            case ("item", int(number), index):
                return f"{facts.calls[number].text}[{index}]"
        return " ".join(map(str, atom))

    return {show(atom) for atom in value}


def flows(facts: FunctionFacts) -> dict[str, set[str]]:
    """Show what becomes of the values in a function."""
    return {
        f"{event.kind} {event.detail}".strip(): shown(facts, event.value) for event in facts.events
    }


def callees(facts: FunctionFacts, text: str) -> set[str]:
    """Show what a call may call."""
    return shown(facts, call(facts, text).callees)


# What is kept -----------------------------------------------------------------------------------


def test_what_is_on_self_at_the_end_is_an_attribute() -> None:
    assert flows(init("self.w = torch.zeros(3)")) == {"attribute w": {"torch.zeros"}}


def test_attribute_overwritten_by_a_parameter_is_a_parameter_only() -> None:
    facts = init(
        """
        self.w = torch.zeros(3)
        self.w = nn.Parameter(self.w)
        """
    )
    assert flows(facts)["parameter"] == {"torch.zeros"}
    assert "torch.zeros" not in flows(facts).get("attribute w", set())


def test_attribute_is_kept_by_an_early_return() -> None:
    facts = init(
        """
        self.w = torch.zeros(3)
        if small:
            return
        self.w = torch.ones(3)
        """,
        "small",
    )
    assert flows(facts)["attribute w"] == {"torch.zeros", "torch.ones"}


def test_deleted_attribute_is_not_kept() -> None:
    assert flows(init("self.w = torch.zeros(3)\ndel self.w")) == {}


def test_setattr_with_a_literal_is_an_assignment() -> None:
    assert flows(init('setattr(self, "w", torch.zeros(3))')) == {"attribute w": {"torch.zeros"}}


def test_registered_buffer_is_declared_and_filled() -> None:
    facts = init('self.register_buffer("table", torch.arange(3))')
    assert flows(facts) == {
        "buffer table": {"torch.arange"},
        "declared buffer table": {"none"},
        "attribute table": {"torch.arange"},
    }


def test_buffer_registered_as_none_is_declared_only() -> None:
    assert flows(init('self.register_buffer("t", None)')) == {"declared buffer t": {"none"}}


def test_data_of_a_parameter_is_a_parameter() -> None:
    assert flows(init("self.norm.weight.data = torch.ones(3)"))["parameter"] == {"torch.ones"}


# How values travel ------------------------------------------------------------------------------


def test_value_passes_methods_and_arithmetic() -> None:
    facts = init("self.w = 1 / torch.arange(3).float().unsqueeze(0)")
    assert flows(facts) == {"attribute w": {"torch.arange"}}


def test_functions_of_torch_hand_their_arguments_on_and_let_them_meet() -> None:
    facts = init("self.w = torch.outer(torch.arange(3), torch.ones(3))")
    assert flows(facts)["attribute w"] == {"torch.arange", "torch.ones"}
    assert facts.meets == ((0, 1),)


def test_move_is_a_call_with_its_destination() -> None:
    """Whether it moves anything depends on the callers: `dev` may be None."""
    facts = init("self.w = torch.zeros(3).to(dev)", "dev")
    move = facts.calls[1]
    assert move.callees == (("move",),)
    assert move.args == ((("call", 0),), (("param", "dev"),))
    assert [event.value for event in facts.events] == [(("call", 1),)]


def test_conversion_of_the_dtype_is_no_move() -> None:
    assert flows(init("self.w = torch.zeros(3).to(torch.half)")) == {"attribute w": {"torch.zeros"}}


def test_tuple_is_unpacked_element_by_element() -> None:
    facts = init("a, self.w = torch.zeros(3), torch.ones(3)")
    assert flows(facts) == {"attribute w": {"torch.ones"}}


def test_element_of_a_result_remembers_its_place() -> None:
    facts = init("cos, sin = self.make()\nself.w = sin")
    assert flows(facts) == {"attribute w": {"self.make[1]"}}


def test_returned_tuple_tells_its_elements_apart() -> None:
    source = """
        def make():
            return torch.zeros(3), torch.ones(3)

        class M(nn.Module):
            def __init__(self):
                self.a, self.b = make()
    """
    assert flows(function(read(source), "make")) == {
        "returned 0": {"torch.zeros"},
        "returned 1": {"torch.ones"},
    }


def test_slice_store_is_a_copy_into_what_was_made_elsewhere() -> None:
    assert flows(init("out[:3] = torch.ones(3)", "out"))["existing out"] == {"torch.ones"}


def test_slice_store_meets_the_tensor_that_was_made_here() -> None:
    facts = init("w = torch.zeros(3)\nw[:1] = torch.ones(1)\nself.w = w")
    assert flows(facts) == {"attribute w": {"torch.zeros", "torch.ones"}}
    assert facts.meets == ((0, 1),)


def test_loop_carries_a_value_into_its_second_run() -> None:
    facts = init(
        """
        last = None
        for _ in range(3):
            self.link(last)
            last = torch.zeros(3)
        """
    )
    assert shown(facts, call(facts, "self.link").args[0]) == {"none", "torch.zeros"}
    assert [fact.text for fact in facts.calls] == ["self.link", "torch.zeros"]


def test_comprehension_makes_a_box_of_its_elements() -> None:
    facts = init("self.ws = [torch.zeros(n) for n in sizes]", "sizes")
    assert flows(facts)["attribute ws"] == {"torch.zeros", "box"}


def test_target_of_a_comprehension_is_local_to_it() -> None:
    facts = init("w = torch.zeros(3)\nws = [w for w in sizes]\nself.w = w", "sizes")
    assert flows(facts)["attribute w"] == {"torch.zeros"}


def test_zip_is_taken_apart() -> None:
    facts = init("for a, b in zip([torch.zeros(3)], [torch.ones(3)]):\n    self.w = b")
    assert flows(facts)["attribute w"] == {"torch.ones", "box"}


def test_appended_value_is_in_the_container() -> None:
    facts = init("ws = []\nws.append(torch.zeros(3))\nself.ws = ws")
    assert flows(facts) == {"attribute ws": {"torch.zeros", "box"}}


def test_walrus_binds_and_hands_on() -> None:
    facts = init("self.w = (w := torch.zeros(3))\nself.v = w")
    assert flows(facts) == {"attribute w": {"torch.zeros"}, "attribute v": {"torch.zeros"}}


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("torch.zeros(3).tolist()", "host"),
        ("int(torch.zeros(3))", "host"),
        ("numpy.sum(torch.zeros(3))", "host"),
        ("torch.zeros(3).shape", "probe"),
        ("torch.zeros(3).numel()", "probe"),
        ("not torch.zeros(3)", "iterated"),
        ("out.copy_(torch.zeros(3))", "existing"),
    ],
)
def test_name_of_a_function_tells_what_becomes_of_the_value(expression: str, kind: str) -> None:
    facts = init(f"import numpy\nx = {expression}", "out")
    assert flows(facts)[kind] == {"torch.zeros"}


# What is called ---------------------------------------------------------------------------------


def test_partial_is_the_call_of_its_function() -> None:
    facts = init("make = functools.partial(torch.zeros, 3, dtype=dt)\nself.w = make()", "dt")
    (made,) = facts.calls
    assert shown(facts, made.callees) == {"ref torch.zeros"}
    assert (made.text, [name for name, _ in made.keywords]) == ("make", ["dtype"])
    assert flows(facts) == {"attribute w": {"make"}}


def test_partial_that_is_not_called_calls_nothing() -> None:
    assert init("self.make = functools.partial(torch.zeros, 3)").calls == ()


def test_conditional_alias_may_be_either() -> None:
    facts = init("make = torch.zeros if flat else torch.ones\nself.w = make(3)", "flat")
    # one call of two alternatives, not two calls
    assert callees(facts, "make") == {"ref torch.zeros", "ref torch.ones"}


def test_dispatch_dict_may_be_any_of_its_values() -> None:
    facts = init('self.w = {"a": torch.zeros, "b": self.make}[kind]()', "kind")
    (made,) = facts.calls
    assert shown(facts, made.callees) >= {"ref torch.zeros", "attr make"}


def test_getattr_with_a_literal_is_the_attribute() -> None:
    facts = init('self.w = getattr(torch, "zeros")(3)')
    assert shown(facts, facts.calls[0].callees) == {"ref torch.zeros"}


def test_getattr_takes_the_default_of_a_parameter() -> None:
    facts = init("self.w = getattr(torch, kind)(3)", 'kind="ones"')
    assert shown(facts, facts.calls[0].callees) == {"ref torch.ones"}


def test_method_of_a_local_object_keeps_its_receiver() -> None:
    facts = init("self.w = self.factory().build(3)")
    assert callees(facts, "self.factory().build") == {"bound build call 0"}
    assert shown(facts, call(facts, "self.factory().build").receiver) == {"self.factory"}


def test_nested_function_is_read_where_it_is_named() -> None:
    source = """
        class M(nn.Module):
            def __init__(self, size):
                def make():
                    return torch.zeros(size)

                self.w = make()
    """
    facts = read(source)
    assert callees(function(facts, "M.__init__"), "make") == {"func M.__init__.<locals>.make"}
    inner = function(facts, "M.__init__.<locals>.make")
    assert flows(inner) == {"returned": {"torch.zeros"}}
    # the parameter belongs to another function, and means nothing here
    assert call(inner, "torch.zeros").args == ((),)


def test_lambda_returns_its_body() -> None:
    facts = read(
        """
        class M(nn.Module):
            def __init__(self):
                make = lambda: torch.zeros(3)
                self.w = make()
        """
    )
    (name,) = callees(function(facts, "M.__init__"), "make")
    assert flows(function(facts, name.removeprefix("func "))) == {"returned": {"torch.zeros"}}


def test_function_handed_to_apply_is_called() -> None:
    facts = init("self.apply(self.fill)")
    assert callees(facts, "self.fill") == {"attr fill"}


# What is known of a call ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spread", "state"),
    [
        ('{"dtype": dt}', "closed"),
        ('{"device": dev, "dtype": dt}', "device"),
        ("dict(dtype=dt)", "closed"),
        ('{"dtype": dt, **{"device": dev}}', "device"),
        ("{key: dt}", "open"),
        ("kwargs", "open"),
    ],
)
def test_spread_says_what_the_dict_may_bring(spread: str, state: str) -> None:
    facts = init(f"d = {spread}\nself.w = torch.zeros(3, **d)", "dev, dt, key, **kwargs")
    assert call(facts, "torch.zeros").spread == state


def test_key_stored_later_is_in_the_spread() -> None:
    facts = init('d = {}\nd["device"] = dev\nself.w = torch.zeros(3, **d)', "dev")
    assert call(facts, "torch.zeros").spread == "device"


def test_dict_that_may_be_another_is_open() -> None:
    facts = init("d = {} if flat else given\nself.w = torch.zeros(3, **d)", "flat, given")
    assert call(facts, "torch.zeros").spread == "open"


@pytest.mark.parametrize(
    ("parameters", "before", "expression"),
    [
        ("device", "pass", "device"),
        ("device, out_device", "pass", "device"),
        ("out_device", "pass", "out_device"),
        ("in_device, out_device", "pass", ""),
        ("use_device", "pass", ""),
        ("device", "device = None", ""),
        ("where", 'd = {"device": where}', 'd["device"]'),
        ("where", "self.device = where", "self.device"),
        ("where", "pass", ""),
    ],
)
def test_device_in_scope(parameters: str, before: str, expression: str) -> None:
    facts = init(f"{before}\nself.w = torch.zeros(3)", parameters)
    assert call(facts, "torch.zeros").device_in_scope == expression


@pytest.mark.parametrize(
    ("manager", "bits"),
    [
        ('torch.device("meta")', TENSOR_CONTEXT),
        ("device", TENSOR_CONTEXT),
        ("self.out_device", TENSOR_CONTEXT),
        ("init_empty_weights()", TENSOR_CONTEXT),
        ("torch.cuda.device(0)", STREAM_CONTEXT),
        ("torch.cuda.device(0), device", STREAM_CONTEXT | TENSOR_CONTEXT),
        ("torch.no_grad()", 0),
    ],
)
def test_context_is_what_the_with_statement_decides(manager: str, bits: int) -> None:
    facts = init(f"with {manager}:\n    a = torch.zeros(3)\nb = torch.ones(3)", "device")
    assert (call(facts, "torch.zeros").context, call(facts, "torch.ones").context) == (bits, 0)


def test_call_is_a_twin_where_the_other_branch_names_a_device() -> None:
    facts = init(
        """
        if dev is None:
            self.w = torch.zeros(3)
            self.v = torch.zeros_like(self.w) + torch.ones(3)
        else:
            self.w = torch.empty(3, device=dev)
        """,
        "dev",
    )
    assert call(facts, "torch.zeros").twin
    assert not call(facts, "torch.ones").twin


def test_rest_of_a_block_is_the_twin_of_an_early_return() -> None:
    source = """
        def make(dev):
            if dev is None:
                return torch.zeros(3)
            return torch.empty(3, device=dev)

        class M(nn.Module):
            def __init__(self):
                self.w = make(None)
    """
    assert call(function(read(source), "make"), "torch.zeros").twin


@pytest.mark.parametrize(
    ("expression", "empty"),
    [("torch.empty(0)", True), ("torch.tensor([])", True), ("torch.zeros(3)", False)],
)
def test_placeholder_has_no_elements(expression: str, empty: bool) -> None:
    assert init(f"self.w = {expression}").calls[0].placeholder is empty


def test_statement_of_a_call_is_the_header_if_it_has_a_body() -> None:
    facts = init("for x in torch.zeros(\n    3\n):\n    y = torch.ones(\n        3\n    )")
    lines = len(HEADER.splitlines()) + 2
    assert call(facts, "torch.zeros").statement == (lines + 1, lines + 3)
    assert call(facts, "torch.ones").statement == (lines + 4, lines + 6)


# Around functions -------------------------------------------------------------------------------


def test_default_argument_is_part_of_the_body_around_it() -> None:
    facts = read(
        """
        class M(nn.Module):
            def __init__(self, w=torch.zeros(3), kind="a"):
                self.w = w
        """
    )
    constructor = function(facts, "M.__init__")
    assert constructor.calls == ()
    assert dict(constructor.defaults) == {"w": (), "kind": (("str", "a"),)}
    assert flows(function(facts, "M.<body>")) == {"default M.__init__:w": {"torch.zeros"}}


def test_class_body_keeps_what_it_binds() -> None:
    facts = read(
        """
        class M(nn.Module):
            table = torch.arange(3)
        """
    )
    assert flows(function(facts, "M.<body>")) == {"attribute table": {"torch.arange"}}
    (known,) = facts.classes
    assert known.bindings == (("table", (("call", 0),)),)


def test_module_constant_is_used_by_the_class_that_names_it() -> None:
    facts = read(
        """
        TABLE = torch.arange(3)

        class M(nn.Module):
            def __init__(self):
                self.table = TABLE
        """
    )
    assert flows(function(facts, "<module>")) == {"used M": {"torch.arange"}}


def test_function_that_no_constructor_names_is_read_on_demand() -> None:
    text = HEADER + "def make():\n    return torch.zeros(3)\n"
    left_out = outline(text)
    facts = extract_facts(ast.parse(left_out.skeleton), left_out)
    assert [summary.qualname for summary in facts.summaries] == ["<module>"]
    assert [item.qualname for item in facts.unread] == ["make"]
    extended = extend_facts(text, facts, ["make"])
    assert flows(function(extended, "make")) == {"returned": {"torch.zeros"}}
    assert joined(facts, extended).unread == ()
    assert function(extended, "make") == function(
        extend_facts_from(ast.parse(text), facts, ["make"]), "make"
    )


def test_nested_function_is_not_read_from_its_place() -> None:
    text = HEADER + "def make():\n    def inner():\n        return torch.zeros(3)\n"
    left_out = outline(text)
    facts = extract_facts(ast.parse(left_out.skeleton), left_out)
    with pytest.raises(KeyError):
        extend_facts(text, facts, ["make.<locals>.inner"])
    extended = extend_facts_from(ast.parse(text), facts, ["make.<locals>.inner"])
    assert flows(function(extended, "make.<locals>.inner")) == {"returned": {"torch.zeros"}}


def test_annotation_or_use_tells_a_tensor_parameter() -> None:
    facts = init("x = b.detach()", "a: torch.Tensor | None, b, c: int")
    assert facts.tensor_params == ("a", "b")


@pytest.mark.parametrize(
    "line", ["w[torch.arange(n), 0] = 1.0", "self.row = w[torch.arange(n)]"], ids=["into", "from"]
)
def test_an_index_goes_where_its_tensor_goes(line: str) -> None:
    """A tensor refuses an index that is on another device."""
    text = f"""
import torch
from torch import nn


class A(nn.Module):
    def __init__(self, n):
        super().__init__()
        w = torch.zeros(n, n)
        {line}
        self.w = nn.Parameter({{}})
"""
    alike = {item.callable: item for item in check_text(text.format("w"))}
    assert alike["torch.arange"].group == alike["torch.zeros"].group != ""
    assert alike["torch.arange"].fix is not None and alike["torch.arange"].fix.edits
    # the legacy constructor refuses what is not on the CPU
    apart = {item.callable: item for item in check_text(text.format("torch.FloatTensor(w)"))}
    for name in ("torch.arange", "torch.zeros"):
        fix = apart[name].fix
        assert fix is not None and not fix.edits
