"""Which fixes are safe, which are not, and which are left to a person.

In: short modules.  Out: tests.  Never here: where an edit goes.

A fix that breaks a program is worse than none: each case below broke, or would break, once the
modules it shows are built on a device other than the CPU.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from devicelint.model import Applicability, Finding, Severity

FindingsOf = Callable[[str], tuple[Finding, ...]]

HEADER = "import torch\nfrom torch import nn\n\n\n"


def verdicts(findings: tuple[Finding, ...]) -> list[str]:
    """Show what is offered for each finding."""
    return [f"{one.code} {one.fix.applicability if one.fix else 'none'}" for one in findings]


# Values that meet -------------------------------------------------------------------------------


#: by what it shows: a module, and what is offered
MEETING = {
    "an index of a tensor that is only looped over, and stays where it is": (
        """\
class M(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.sizes = []
        for number in self.order(size):
            self.sizes.append(int(number))

    def order(self, size):
        numbers = torch.arange(size)
        some = numbers[:2]
        numbers[:2] = some[self.swapped()]
        if len(numbers) > size:
            return None
        for number in numbers:
            print(number)

    def swapped(self):
        order = torch.empty(2, dtype=torch.long)
        order[0], order[1] = 1, 0
        return order
""",
        ["DVL004 display"],
    ),
    "an attribute keeps what a helper builds": (
        """\
class M(nn.Module):
    def __init__(self, size, where=None):
        super().__init__()
        self.rates = self.make(size, where)
        self.register_buffer("table", self.steps(size))

    def steps(self, size):
        return torch.outer(torch.arange(size), self.rates)

    def make(self, size, where):
        return torch.arange(size, device=where)
""",
        ["DVL003 display"],
    ),
    "a helper hands on what another one builds": (
        """\
class M(nn.Module):
    def __init__(self, size, where=None):
        super().__init__()
        self.register_buffer("table", torch.arange(size) * self.outer(size, where))

    def outer(self, size, where):
        return self.inner(size, where)

    def inner(self, size, where):
        return torch.arange(size, device=where)
""",
        ["DVL003 display"],
    ),
    "alternatives do not meet": (
        """\
class M(nn.Module):
    def __init__(self, size, where=None):
        super().__init__()
        self.table = self.make(size, where)

    def make(self, size, where):
        return self.plain(size) if size else self.placed(size, where)

    def plain(self, size):
        return torch.arange(size)

    def placed(self, size, where):
        return torch.arange(size, device=where)
""",
        ["DVL001 safe"],
    ),
    "the device is that of a tensor made elsewhere": (
        """\
class M(nn.Module):
    def __init__(self, size, weight: torch.Tensor):
        super().__init__()
        steps = torch.arange(size, device=weight.device)
        self.register_buffer("table", steps * torch.arange(size) * weight)
""",
        ["DVL003 display"],
    ),
}


@pytest.mark.parametrize(("source", "expected"), MEETING.values(), ids=MEETING)
def test_what_meets(source: str, expected: list[str], findings_of: FindingsOf) -> None:
    assert verdicts(findings_of(HEADER + source)) == expected


# Values that meet the weights of a module -------------------------------------------------------

LAYER = """\
class Layer(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.lin = nn.Linear(n, n)

    def forward(self, x):
        return self.lin(x)


def run(layer, x):
    return layer(x)


class M(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(n, n)])
        layer = Layer(n)
        chain = nn.Sequential(layer)
        x = torch.zeros(2, n)
        PROBE

    def helper(self, x):
        return self.layers[0](x)

    def forward(self, x):
        return self.helper(x)
"""


@pytest.mark.parametrize(
    "probe",
    [
        "self.shape = self(x).shape",
        "self.shape = self.forward(x).shape",
        "self.shape = super().__call__(x).shape",
        "self.shape = self.helper(x).shape",
        "self.shape = self.layers[0](x).shape",
        "self.shape = self._modules['layers'][0](x).shape",
        "self.shape = layer(x).shape",
        "self.shape = layer.forward(x).shape",
        "self.shape = chain(x).shape",
        "self.shape = nn.Linear(n, n)(x).shape",
        "self.shape = Layer(n)(x).shape",
        "self.shape = run(layer, x).shape",
        "for layer in self.layers: x = layer(x)",
        "for layer in self.children(): x = layer(x)",
        "for _, layer in self.named_children(): x = layer(x)",
        "self.shape = torch.relu(self(2 * x)).shape",
        "self.mean = nn.functional.linear(x, layer.lin.weight).mean()",
        "self.mean = (x @ layer.lin.weight.data).mean()",
    ],
)
def test_what_a_module_computes_with(probe: str, findings_of: FindingsOf) -> None:
    findings = findings_of(HEADER + LAYER.replace("PROBE", probe))
    assert [one.fix.applicability for one in findings if one.fix] == [Applicability.UNSAFE]


@pytest.mark.parametrize(
    ("probe", "code"),
    [("self.table = torch.relu(x)", "DVL001"), ("self.table = double(x)", "DVL001")],
)
def test_what_a_function_computes_with(probe: str, code: str, findings_of: FindingsOf) -> None:
    source = "def double(x):\n    return 2 * x\n\n\n" + LAYER.replace("PROBE", probe)
    assert verdicts(findings_of(HEADER + source)) == [f"{code} safe"]


# Arguments after a star ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("nn.Linear(*sizes)", "DVL010 display"),
        ("nn.Linear(4, 4, *sizes)", "DVL010 display"),
        ("nn.BatchNorm2d(4, *sizes)", "DVL010 display"),
        ("nn.Linear(4, 4, *keys)", "DVL010 display"),
        ("nn.BatchNorm2d(4, *keys)", "DVL010 safe"),
        ("KeywordOnly(*sizes)", "DVL010 safe"),
        ("torch.zeros(*sizes)", "DVL001 safe"),
        ("torch.Stream(*sizes)", "DVL005 display"),
    ],
)
def test_a_device_may_be_behind_a_star(call: str, expected: str, findings_of: FindingsOf) -> None:
    source = f"""\
class KeywordOnly(nn.Module):
    def __init__(self, n, m, *, device=None):
        super().__init__()
        self.lin = nn.Linear(n, m, device=device)


class M(nn.Module):
    def __init__(self, *sizes, device=None):
        super().__init__()
        keys = {{"eps": 0.1, "momentum": 0.1}}
        self.made = {call}
"""
    assert verdicts(findings_of(HEADER + source)) == [expected]


# Other accelerators -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "statement", "expected"),
    [
        ("make", "self.x = torch.get_device_module().Stream()", "DVL005 display"),
        ("make", "module = torch.get_device_module(); self.x = module.Stream()", "DVL005 display"),
        ("make", "self.x = torch.xpu.Stream()", "DVL005 display"),
        ("make_npu", "self.x = torch.zeros(3)", "DVL001 display"),
        ("makeXPUTable", "self.x = torch.zeros(3)", "DVL001 display"),
        ("_is_hpu_table", "self.x = torch.zeros(3)", "DVL001 display"),
        ("make_input", "self.x = torch.zeros(3)", "DVL001 safe"),
        ("MAKE_INPUT", "self.x = torch.zeros(3)", "DVL001 safe"),
    ],
)
def test_cuda_is_nothing_to_other_accelerators(
    name: str, statement: str, expected: str, findings_of: FindingsOf
) -> None:
    source = f"""\
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.{name}()

    def {name}(self):
        {statement}
"""
    assert verdicts(findings_of(HEADER + source)) == [expected]


def test_a_stream_context_of_some_accelerator(findings_of: FindingsOf) -> None:
    source = """\
class M(nn.Module):
    def __init__(self, device):
        super().__init__()
        with torch.get_device_module().device(device):
            self.stream = torch.cuda.Stream()
"""
    assert findings_of(HEADER + source) == ()


# Sizes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("self.made = nn.Linear(n, 4)", ["DVL009 safe"]),
        ('kwargs = {"in_features": n, "out_features": 4}; self.made = nn.Linear(**kwargs)', None),
        ("self.made = nn.Dropout(n)", ["DVL009 safe"]),
        ("self.made = Own(n)", ["DVL009 safe"]),
        ("self.size = n; self.made = nn.Linear(n, 4)", ["DVL001 unsafe"]),
        ('self.register_buffer("x", torch.zeros(n))', ["DVL003 unsafe", "DVL003 safe"]),
        ("self.made = nn.CrossEntropyLoss(weight=n)", ["DVL003 safe"]),
    ],
)
def test_a_size_is_read(
    statement: str, expected: list[str] | None, findings_of: FindingsOf
) -> None:
    source = f"""\
class Own(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.lin = nn.Linear(n, n)


class M(nn.Module):
    def __init__(self, shape):
        super().__init__()
        n = torch.prod(torch.tensor(shape[1:]))
        {statement}
"""
    assert verdicts(findings_of(HEADER + source)) == (expected or ["DVL009 safe"])


# The device in scope ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("make(n)", "DVL003 display"),
        ("make(n, None)", "DVL003 display"),
        ("outer(n)", "DVL003 display"),
        ("make(n, device)", "DVL003 safe"),
        ("outer(n, device=device)", "DVL003 safe"),
        ("make(n, **options)", "DVL003 safe"),
        ("settled(n)", "DVL003 safe"),
        ("read(n)", "DVL009 safe"),
        ("make(n) + make(n, device)", "DVL003 safe"),
    ],
)
def test_a_parameter_that_no_caller_fills_in(
    call: str, expected: str, findings_of: FindingsOf
) -> None:
    source = f"""\
def make(n, device=None):
    return torch.arange(n) / n


def outer(n, device=None):
    return make(n, device=device)


def settled(n, device=None):
    if device is None:
        device = torch.get_default_device()
    return torch.arange(n) / n


def read(n, device=None):
    return torch.arange(n).tolist()


class M(nn.Module):
    def __init__(self, n, device=None, **options):
        super().__init__()
        self.register_buffer("x", {call})
"""
    assert verdicts(findings_of(HEADER + source)) == [expected]


@pytest.mark.parametrize(
    ("statement", "inserted"),
    [
        ("self.device = device", "device"),
        ('self.device = device or torch.device("cuda")', "self.device"),
        ('self.device = torch.device("cuda") if device is None else device', "self.device"),
    ],
)
def test_an_optional_device_that_was_made_up_for(
    statement: str, inserted: str, findings_of: FindingsOf
) -> None:
    source = f"""\
class M(nn.Module):
    def __init__(self, n, device=None):
        super().__init__()
        {statement}
        self.x = torch.zeros(n)
"""
    (finding,) = findings_of(HEADER + source)
    assert finding.fix is not None
    assert finding.fix.title == f"Insert `device={inserted}`"


# What holds a value -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "is_held"),
    [
        ('{"mean": x}', True),
        ("[x, x]", True),
        ("torch.distributions.Categorical(x)", True),
        ("x", False),
        ("sum([x, x])", False),
        ("torch.stack([x, x])", False),
    ],
)
def test_what_holds_the_tensor_is_no_buffer(
    value: str, is_held: bool, findings_of: FindingsOf
) -> None:
    source = f"""\
class M(nn.Module):
    def __init__(self, n):
        super().__init__()
        x = torch.ones(n)
        self.kept = {value}
"""
    (finding,) = findings_of(HEADER + source)
    assert ("each tensor that it holds" in finding.advice) is is_held
    assert ('register_buffer("kept"' in finding.advice) is not is_held


def test_a_copy_by_way_of_a_name_is_a_note(findings_of: FindingsOf) -> None:
    source = """\
class M(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.layer = nn.Embedding(n, n)
        hot = torch.eye(n)
        self.layer.weight.data[:] = hot
        self.layer.weight.data[:] = torch.eye(n)
"""
    (finding,) = findings_of(HEADER + source)
    assert (finding.code, finding.severity) == ("DVL004", Severity.NOTE)
