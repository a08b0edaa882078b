"""What the fixtures claim, against what PyTorch does: each is built under the recorder.

In: `fixtures/`, the rules' own examples.  Out: one test per module that can be built on a CPU.
Never here: an expectation without a reason: whatever differs is named in a table below.
"""

from __future__ import annotations

import contextlib
import inspect
import re
import sys
import types
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from devicelint.engine import check_text  # noqa: E402
from devicelint.fixer import fix_text  # noqa: E402
from devicelint.rules import RULES  # noqa: E402
from devicelint.settings import Settings  # noqa: E402
from devicelint.suppression import parse_suppressions, split  # noqa: E402
from devicelint.trace import Construction, Named, record  # noqa: E402
from devicelint.trace.events import Fate  # noqa: E402
from devicelint.trace.fate import held, walk  # noqa: E402
from devicelint.trace.log import Log  # noqa: E402

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
BUILD = re.compile(r"^# build(?P<cuda>-cuda)?: (?P<expression>.+)$", re.MULTILINE)
MARKER = re.compile(
    r"#\s*expect:\s*(?P<codes>DVL\d{3}(?:\s*,\s*DVL\d{3})*)(?:\s+sink=(?P<sink>\w+))?"
)
#: what is made outside the construction of any module, or is no tensor: not for the recorder
UNTRACED = {"DVL010", "DVL011", "DVL012", "DVL100"}
OWN_KINDS = {"tensor", "legacy", "host-memory", "stream", "generator"}

#: What no CPU can build.
NOT_ON_A_CPU = {
    "chained_cuda": "`.cuda()` needs CUDA",
    "host_pinned": "pinned memory needs an accelerator",
    "32_pinned": "pinned memory needs an accelerator",
}

#: (file, line) -> why a construction without a device is rightly without a marker.
SILENT = {
    ("context_current_device", 11): "the current device is set around it",
    ("17_stream_of_a_device_module", 11): "what `backend` is, only its caller knows",
    ("25_left_out_on_purpose", 20): "silenced by a comment",
    ("28_twin_branches", 13): "the other branch names a device: its author has decided",
    ("30_helper_copied_by_its_caller", 11): "the caller copies the result to a device it names",
    ("30_helper_copied_by_its_caller", 12): "the caller copies the result to a device it names",
    ("30_helper_copied_by_its_caller", 14): "the caller copies the result to a device it names",
    ("33_probe_of_the_ambient_device", 17): "asks which device is the default",
    ("34_probe_of_the_layout", 17): "asks for the size of an element",
    ("34_probe_of_the_layout", 18): "asks for the strides",
    ("branches", 11): "the other branch names a device: its author has decided",
    ("factory_kwargs", 14): "what an unknown `**extra` holds, only its caller knows",
    ("probe", 11): "asks for the size of an element",
    ("probe", 12): "asks for the strides",
    ("skipped_file", 11): "the whole file opts out",
    **{("suppressed", line): "silenced by a comment" for line in (10, 11, 13, 14, 15)},
}

#: (file, line) -> why a marker has no construction in this build.
NOT_RUN = {
    ("03_base_from_class_factory", 15): "overridden in the class that is built",
    ("08_mock_for_a_missing_package", 27): "the package is missing, so the layer is left out",
    ("08_mock_for_a_missing_package", 38): "the package is missing, so the class is never made",
    ("10_class_by_version", 13): "this PyTorch has the class that the branch replaces",
    ("13_factory_by_condition", 17): "the helper is called here; the other factory is not",
    ("27_context_around_a_base", 13): "overridden in the class that is built",
    **{
        ("41_argument_asked_for_its_device", line): "moved at once, to a device that nobody named"
        for line in (19, 20)
    },
    ("44_streams_made_once", 39): "the other branch",
    ("50_two_verdicts_in_one_expression", 12): "one side of a conditional expression",
}

#: (file, line) -> (the sink seen, why it is not the marker's).
OTHER_SINK = {
    ("41_argument_asked_for_its_device", 12): ("local", "gives the attribute its device alone"),
    ("conditional_value", 11): ("local", "the other side of the conditional is registered"),
}


@dataclass(frozen=True, slots=True)
class Case:
    """A module that can be built."""

    name: str
    path: Path
    text: str
    expression: str


def cases() -> list[Case]:
    """Find the fixtures with a build line."""
    found = []
    for path in sorted([*FIXTURES.glob("*.py"), *(FIXTURES / "hard").glob("*.py")]):
        text = path.read_text(encoding="utf-8")
        match = BUILD.search(text)
        if match is None or path.name.endswith(".fixed.py"):
            continue
        # What only a GPU can build stands on meta, the one other device that a CPU has.
        expression = match["expression"].replace('"cuda"', '"meta"')
        found.append(Case(path.stem, path, text, expression))
    return found


CASES = cases()
BUILDABLE = [case for case in CASES if case.name not in NOT_ON_A_CPU]


class Stream:
    """Stands for `torch.cuda.Stream`, which a CPU build refuses to make."""

    device = torch.device("cuda", 0)

    def __new__(cls, device: object = None, priority: int = 0) -> Stream:
        """Accept what the real one accepts."""
        return super().__new__(cls)


class Event:
    """Stands for `torch.cuda.Event`."""

    def __init__(self, enable_timing: bool = False) -> None:
        """Accept what the real one accepts."""


Stream.__module__ = Event.__module__ = "torch.cuda"


@pytest.fixture(autouse=True)
def unchanged_modes() -> Iterator[None]:
    """Leave no torch function mode behind, ours or another."""
    yield
    assert torch._C._len_torch_function_stack() == 0


@pytest.fixture(autouse=True)
def without_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let streams and events be made on a CPU."""
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "device", lambda index: contextlib.nullcontext())
    monkeypatch.setattr(torch, "get_device_module", lambda: torch.cuda)
    torch.manual_seed(0)


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    """Import a text under a name of its own, and forget it afterwards."""

    def load(text: str, path: str) -> types.ModuleType:
        module = types.ModuleType("case")
        monkeypatch.setitem(sys.modules, "case", module)
        exec(compile(text, path, "exec"), vars(module))
        return module

    yield load


def markers(text: str) -> list[tuple[int, str, str]]:
    """Read line, code and sink of each marker."""
    return [
        (number, code, match["sink"] or "")
        for number, line in enumerate(text.split("\n"), start=1)
        if (match := MARKER.search(line))
        for code in re.findall(r"DVL\d{3}", match["codes"])
    ]


def is_unnamed(item: Construction) -> bool:
    """Tell what deserves a marker: a construction whose device nobody named."""
    return (
        (item.named is Named.NO or (item.named is Named.NONE and is_literal(item)))
        and item.kind in OWN_KINDS
        and not item.moved
        and not item.empty
        and not (item.context and item.device == item.context)
        and not (Fate.EXISTING in item.fates and item.sink == "existing")
    )


def is_literal(item: Construction) -> bool:
    """Tell `device=None` as it is written from a None that was passed on."""
    line = Path(item.place.path).read_text(encoding="utf-8").split("\n")[item.place.line - 1]
    return "device=None" in line


def build(load, case: Case) -> Log:
    """Build a case under the recorder."""
    with record() as log:
        module = load(case.text, str(case.path))
        built = eval(case.expression, vars(module) | {"torch": torch})
    assert built is not None
    assert log.faults == ()
    return log


def places(log: Log, path: Path) -> dict[tuple[int, int], Construction]:
    """Give what deserves a marker by line and column."""
    return {
        (item.place.line, item.place.column): item
        for item in log.constructions
        if item.place.path == str(path) and is_unnamed(item)
    }


@pytest.mark.parametrize("case", BUILDABLE, ids=lambda case: case.name)
def test_markers_tell_what_happens(case: Case, loaded) -> None:
    seen = places(build(loaded, case), case.path)
    happened = Counter(line for line, _ in seen)
    expected = Counter(line for line, code, _ in markers(case.text) if code not in UNTRACED)
    unmarked = {line for line in happened if happened[line] > expected[line]}
    unseen = {line for line in expected if expected[line] > happened[line]}
    assert unmarked == {line for name, line in SILENT if name == case.name}
    assert unseen == {line for name, line in NOT_RUN if name == case.name}


@pytest.mark.parametrize("case", BUILDABLE, ids=lambda case: case.name)
def test_sinks_are_what_becomes_of_values(case: Case, loaded) -> None:
    seen = places(build(loaded, case), case.path)
    wanted = {line: sink for line, _, sink in markers(case.text) if sink}
    other = {}
    for (line, _), item in seen.items():
        sink = {"gone": "local", "elsewhere": "local"}.get(item.sink, item.sink)
        if line in wanted and sink != wanted[line]:
            other[line] = sink
    assert other == {
        line: sink for (name, line), (sink, _) in OTHER_SINK.items() if name == case.name
    }


# --- fixes ------------------------------------------------------------------------------------

ON_CPU = Settings(device_expression='"cpu"', device_import="import torch")


@dataclass(frozen=True, slots=True)
class Fixed:
    """A case after its fixes, and what they mended."""

    case: Case
    mended: frozenset[tuple[int, int]]


def fixed(case: Case) -> Fixed:
    """Apply the safe fixes of a case, with the CPU as the device."""

    def findings(utf8: bytes):
        text = utf8.decode()
        kept, _ = split(check_text(text, ON_CPU), parse_suppressions(text))
        return kept

    result = fix_text(case.text.encode(), findings, unsafe=False)
    assert not result.problem
    mended = frozenset((item.start.line, item.start.column) for item in result.applied)
    return Fixed(replace(case, text=result.after.decode()), mended)


def modules(value: object) -> list[torch.nn.Module]:
    """Give the modules of what a build line makes: one, or a tuple of them."""
    items = value if isinstance(value, tuple) else (value,)
    return [item for item in items if isinstance(item, torch.nn.Module)]


def contents(built: object) -> dict[str, tuple[object, ...]]:
    """Give every tensor of the modules: where, what dtype and shape, and its values."""
    found: dict[str, tuple[object, ...]] = {}
    for number, root in enumerate(modules(built)):
        for module, path in walk(root):
            for one in held(module):
                if isinstance(one.value, torch.Tensor):
                    name = f"{number}.{path}.{one.name}"
                    values = one.value.detach()
                    found[name] = (one.fate, one.persistent, values.dtype, values.shape, values)
    return found


def run(load, case: Case) -> tuple[Log, object]:
    """Build a case, with the same random numbers each time and no left-over memory."""
    torch.manual_seed(0)
    with record() as log:
        module = load(case.text, str(case.path))
        built = eval(case.expression, vars(module) | {"torch": torch})
    return log, built


#: legacy constructors leave memory as it is, whatever is asked of PyTorch
UNFILLED = {
    "legacy": frozenset({"0..table"}),
    "20_legacy_sizes_and_data": frozenset({"0..query", "0..pool", "0..bias"}),
}
FIXABLE = [case for case in BUILDABLE if fixed(case).mended]


@pytest.mark.parametrize("case", FIXABLE, ids=lambda case: case.name)
def test_fixes_name_the_device_and_change_nothing_else(case: Case, loaded) -> None:
    torch.use_deterministic_algorithms(True)  # unfilled memory is NaN
    try:
        log, before = run(loaded, case)
        other = fixed(case)
        log_after, after = run(loaded, other.case)
    finally:
        torch.use_deterministic_algorithms(False)
    ran = places(log, case.path)
    left = places(log_after, case.path)
    assert len(left) == len([place for place in ran if place not in other.mended])
    assert len(ran) - len(left) == len(other.mended & set(ran))
    old, new = contents(before), contents(after)
    assert {name: entry[:4] for name, entry in old.items()} == {
        name: entry[:4] for name, entry in new.items()
    }
    for name in old.keys() - UNFILLED.get(case.name, frozenset()):
        if not old[name][4].is_meta and not new[name][4].is_meta:  # no values there
            assert torch.equal(old[name][4].nan_to_num(), new[name][4].nan_to_num()), name
    for one, two in zip(modules(before), modules(after), strict=True):
        assert list(one.state_dict()) == list(two.state_dict())


# --- contexts ---------------------------------------------------------------------------------

MIXED = """
import torch
from torch import nn


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.attribute = torch.empty(2)
        self.parameter = nn.Parameter(torch.empty(2))
        self.stream = torch.cuda.Stream()
        self.register_buffer("buffer", torch.empty(2))
"""


def landed(log: Log) -> dict[str, set[str]]:
    """Give the devices on which each kind of value landed."""
    found: dict[str, set[str]] = {}
    for item in log.unnamed:
        found.setdefault(item.sink, set()).add(item.device)
    return found


@pytest.mark.parametrize("text", [MIXED, (FIXTURES / "predictor.py").read_text(encoding="utf-8")])
@pytest.mark.parametrize(
    ("context", "device"), [("none", "cpu"), ("with", "meta"), ("default", "meta")]
)
def test_where_values_land_by_context(text: str, context: str, device: str, loaded) -> None:
    module = loaded(text, "<mixed>")
    match = BUILD.search(text)
    expression = match["expression"] if match else "Mixed()"
    with record() as log:
        if context == "with":
            with torch.device(device):
                eval(expression, vars(module))
        else:
            torch.set_default_device(device if context == "default" else None)
            try:
                eval(expression, vars(module))
            finally:
                torch.set_default_device(None)
    expected = {"attribute": {device}, "parameter": {device}, "stream": {"cuda:0"}}
    found = landed(log)
    if "buffer" in found:
        expected["buffer"] = {device}
    assert found == expected
    assert {item.context for item in log.unnamed} == {"" if context == "none" else device}


def test_what_a_move_leaves_behind(loaded) -> None:
    module = loaded(MIXED, "<mixed>")
    with record() as log:
        built = module.Mixed().to("meta")
    assert built is not None
    assert {(item.path, item.device, item.module_device) for item in log.strays} == {
        ("attribute", "cpu", "meta"),
        ("stream", "cuda:0", "meta"),
    }
    ends = {item.sink: item.destinations[0].final_device for item in log.unnamed}
    assert ends == {"attribute": "cpu", "parameter": "meta", "buffer": "meta", "stream": "cuda:0"}


# --- the rules' own examples ------------------------------------------------------------------


def examples() -> list[tuple[str, str]]:
    """Give each example of each rule that says something is wrong."""
    return [
        (f"{rule.code}-{number}", text)
        for rule in RULES
        for number, text in enumerate(rule.invalid)
    ]


def attempts(module: types.ModuleType) -> Iterator[object]:
    """Try to build every module class of an example, with small numbers for what it wants."""
    for cls in list(vars(module).values()):
        if not (isinstance(cls, type) and issubclass(cls, torch.nn.Module)):
            continue
        if cls.__module__ != module.__name__:
            continue
        wanted = [
            "cpu" if name == "device" else 4
            for name, parameter in inspect.signature(cls).parameters.items()
            if parameter.default is parameter.empty
            and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        ]
        with contextlib.suppress(Exception):  # many an example is no program
            yield cls(*wanted)


def test_findings_in_examples_that_ran_are_true(loaded) -> None:
    built = ran = 0
    wrong = []
    for name, text in examples():
        with contextlib.suppress(Exception), record() as log:
            built += len(list(attempts(loaded(text, f"<{name}>"))))
        seen = {(item.place.line, item.place.column): item for item in log.constructions}
        for finding in check_text(text):
            item = seen.get((finding.start.line, finding.start.column))
            if item is None or finding.code in UNTRACED:
                continue
            ran += 1
            if item.named not in (Named.NO, Named.NONE):
                wrong.append((name, finding.start.line))
    assert wrong == []
    assert built > 20
    assert ran > 20
