"""The rules: their metadata, their verdicts on hand-made call sites, their own examples."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest

from devicelint.model import (
    Applicability,
    Argument,
    CallSite,
    Construction,
    Constructor,
    Edit,
    Fix,
    InsertionPoint,
    Kind,
    Location,
    Policy,
    Rule,
    Severity,
    Sink,
    Violation,
)
from devicelint.rules import RULES, RULES_BY_CODE
from devicelint.rules.legacy import Meaning, meaning

HEADINGS = (
    "What it does",
    "Why is this bad?",
    "Example",
    "Use instead",
    "Fix safety",
    "References",
)
CURRENT = "torch.cuda.current_device()"
DEFAULT = Policy()
IN_CONTEXT = Policy(construction=Construction.DEVICE_CONTEXT)
ON_META = Policy(construction=Construction.META)
POLICIES = (DEFAULT, IN_CONTEXT, ON_META)

LEGACY_DTYPES = {
    "torch.Tensor": None,
    "torch.FloatTensor": "float32",
    "torch.LongTensor": "long",
    "torch.cuda.FloatTensor": "float32",
}
EXAMPLES = [
    pytest.param(rule, source, id=f"{rule.code}-{kind}-{index}")
    for rule in RULES
    for kind, sources in (("valid", rule.valid), ("invalid", rule.invalid))
    for index, source in enumerate(sources)
]
each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)


# Making a call site by hand ---------------------------------------------------------------------
# All offsets are bytes, and `ast` counts columns in bytes too.


def at(offset: int) -> Location:
    """Place an offset on the first line, which is all these tests need."""
    return Location(offset, 1, offset + 1)


def insertion_point(text: str, call: ast.Call) -> InsertionPoint:
    """Find the place behind the last argument, as the analysis does."""
    ends = [
        node.end_col_offset
        for node in (*call.args, *(keyword.value for keyword in call.keywords))
        if node.end_col_offset is not None
    ]
    return InsertionPoint(at(max(ends, default=text.rindex(")"))), ", " if ends else "", "")


def arguments_of(text: str, call: ast.Call) -> tuple[Argument, ...]:
    """Read the arguments of a call."""
    positional = [
        Argument(ast.unparse(node), star="*" if isinstance(node, ast.Starred) else "")
        for node in call.args
    ]
    named = [
        Argument(ast.unparse(keyword.value), keyword.arg, "" if keyword.arg else "**")
        for keyword in call.keywords
    ]
    return (*positional, *named)


def make_site(text: str, *, sink: Sink = Sink.ATTRIBUTE, **row: object) -> CallSite:
    """Make the site of a call as if it stood alone at the beginning of a file.

    `row` overrides fields of the constructor's row, the other fields go through `replace`.
    """
    call = ast.parse(text, mode="eval").body
    assert isinstance(call, ast.Call)
    name = re.sub(r"^th\.", "torch.", ast.unparse(call.func))
    name = name if name.startswith("torch.") else f"torch.{name}"
    fields: dict[str, object] = {"name": name, "kind": Kind.TENSOR} | row
    if name in LEGACY_DTYPES:
        fields |= {
            "kind": Kind.LEGACY,
            "takes_device": False,
            "honours_context": False,
            "dtype": LEGACY_DTYPES[name],
        }
    assert call.func.end_col_offset is not None
    return CallSite(
        constructor=Constructor(**fields),  # type: ignore[arg-type]
        callable=name,
        sink=sink,
        symbol="Model.__init__",
        reached_via=("Model.__init__",),
        start=at(0),
        end=at(len(text.encode())),
        callee_end=at(call.func.end_col_offset),
        text=text,
        arguments=arguments_of(text, call),
        insertion=insertion_point(text, call),
    )


def verdicts(site: CallSite, policy: Policy = DEFAULT) -> dict[str, Violation]:
    """Ask every rule."""
    answers = {rule.code: rule.check(site, policy) for rule in RULES}
    return {code: answer for code, answer in answers.items() if answer is not None}


def verdict(site: CallSite, policy: Policy = DEFAULT) -> Violation:
    """Ask every rule and return the one answer there must be."""
    (violation,) = verdicts(site, policy).values()
    return violation


def fix_of(site: CallSite, policy: Policy = DEFAULT) -> Fix:
    """Return the fix of the one violation there must be."""
    fix = verdict(site, policy).fix
    assert fix is not None
    return fix


def fixed(site: CallSite, policy: Policy = DEFAULT) -> str:
    """Apply the edits to the call's text, from the last to the first."""
    data = site.text.encode()
    edits = fix_of(site, policy).edits
    assert edits, fix_of(site, policy).title
    for edit in sorted(edits, key=lambda edit: edit.start, reverse=True):
        data = data[: edit.start.offset] + edit.content.encode() + data[edit.end.offset :]
    ast.parse(data)
    return data.decode()


# Metadata ---------------------------------------------------------------------------------------


def test_codes_are_unique_and_sorted() -> None:
    codes = [rule.code for rule in RULES]
    assert codes == sorted(set(codes))
    assert all(re.fullmatch(r"DVL\d{3}", code) for code in codes)
    assert list(RULES_BY_CODE) == codes
    assert all(RULES_BY_CODE[rule.code] is rule for rule in RULES)


def test_names_are_unique() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)


@each_rule
def test_name_is_kebab_case(rule: Rule) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)+", rule.name)


@each_rule
def test_file_is_named_after_the_rule(rule: Rule) -> None:
    module = rule.check.__module__.rpartition(".")[2]
    assert module == f"{rule.code.lower()}_{rule.name.replace('-', '_')}"


@each_rule
def test_one_line_texts(rule: Rule) -> None:
    for text in (rule.summary, rule.fixable):
        assert text
        assert "\n" not in text
        assert text == text.strip().rstrip(".")
        # It stands in a table of the documentation.
        assert "|" not in text


@each_rule
def test_documentation_has_the_headings(rule: Rule) -> None:
    assert tuple(re.findall(r"(?m)^## (.+)$", rule.documentation)) == HEADINGS
    first = rule.documentation.partition("\n")[0]
    assert re.fullmatch(r"[A-Z].+\.", first)


@each_rule
def test_documentation_blocks_are_python(rule: Rule) -> None:
    blocks = re.findall(r"(?ms)^```python\n(.*?)^```$", rule.documentation)
    assert len(blocks) >= 2
    assert rule.documentation.count("```") == 2 * len(blocks)
    for block in blocks:
        compile(block, rule.code, "exec", dont_inherit=True)


@each_rule
def test_documentation_has_references(rule: Rule) -> None:
    references = rule.documentation.partition("## References\n")[2]
    assert re.findall(r"\]\(https://[^)\s]+\)", references)


@pytest.mark.parametrize("code", ["DVL001", "DVL002"])
def test_documentation_says_what_the_default_expression_costs(code: str) -> None:
    safety = RULES_BY_CODE[code].documentation.partition("## Fix safety\n")[2]
    for word in (CURRENT, "needs CUDA", "`meta`", "returns 0 on every rank"):
        assert word in safety


@pytest.mark.parametrize(("rule", "source"), EXAMPLES)
def test_example_is_python(rule: Rule, source: str) -> None:
    compile(source, rule.code, "exec", dont_inherit=True)
    assert source.endswith("\n")


@pytest.mark.parametrize(("rule", "source"), EXAMPLES)
def test_example_marks_what_it_expects(rule: Rule, source: str) -> None:
    marked = re.findall(r"# expect: (\w+)$", source, re.MULTILINE)
    assert marked.count("expect") == 0
    assert set(marked) == ({rule.code} if source in rule.invalid else set())


@each_rule
def test_rule_has_examples(rule: Rule) -> None:
    assert rule.valid
    assert rule.invalid


# Examples through the whole tool ----------------------------------------------------------------


@pytest.mark.parametrize(("rule", "source"), EXAMPLES)
def test_example_is_judged_as_marked(rule: Rule, source: str) -> None:
    # Imported here: the other tests of this file need nothing but the rules.
    from devicelint.runner import Request, check
    from devicelint.settings import Settings

    run = check(Request(Path.cwd(), stdin=source.encode()), Settings())
    assert not run.diagnostics
    found = [finding.start.line for _, finding in run.findings if finding.code == rule.code]
    marked = [
        number
        for number, line in enumerate(source.splitlines(), start=1)
        if line.endswith(f"# expect: {rule.code}")
    ]
    assert sorted(found) == marked


# Who judges what --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "sink", "code"),
    [
        (Kind.TENSOR, Sink.ATTRIBUTE, "DVL001"),
        (Kind.TENSOR, Sink.PARAMETER, "DVL002"),
        (Kind.TENSOR, Sink.BUFFER, "DVL003"),
        (Kind.TENSOR, Sink.LOCAL, "DVL004"),
        (Kind.TENSOR, Sink.ARGUMENT, "DVL004"),
        (Kind.TENSOR, Sink.EXISTING, "DVL004"),
        (Kind.TENSOR, Sink.HOST, "DVL009"),
        (Kind.STREAM, Sink.STREAM, "DVL005"),
        (Kind.STREAM, Sink.ATTRIBUTE, "DVL005"),
        (Kind.GENERATOR, Sink.GENERATOR, "DVL006"),
        (Kind.GENERATOR, Sink.ARGUMENT, "DVL006"),
        (Kind.LEGACY, Sink.PARAMETER, "DVL007"),
        (Kind.LEGACY, Sink.HOST, "DVL007"),
        (Kind.HOST_MEMORY, Sink.ATTRIBUTE, "DVL008"),
        (Kind.HOST_MEMORY, Sink.HOST, "DVL008"),
        (Kind.MODULE, Sink.LOCAL, "DVL010"),
    ],
)
def test_each_call_has_one_judge(kind: Kind, sink: Sink, code: str) -> None:
    site = replace(make_site("torch.thing(3)", sink=sink, kind=kind), device_in_scope="device")
    assert list(verdicts(site)) == [code]
    at_import = replace(site, import_time=True)
    if kind is Kind.PROCESS_GROUP:
        assert list(verdicts(at_import)) == [code]
        return
    assert list(verdicts(at_import)) == ([] if sink is Sink.HOST else ["DVL011"])


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("sink", Sink)
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.construction)
def test_never_two_judges_and_always_plain_text(kind: Kind, sink: Sink, policy: Policy) -> None:
    for text in ("torch.thing()", "torch.thing(3)", "torch.thing(a, b=1)"):
        for scope in (None, "device"):
            for ignores in (False, True):
                site = make_site(text, sink=sink, kind=kind, honours_context=not ignores)
                site = replace(site, device_in_scope=scope, in_context=ignores)
                found = verdicts(site, policy)
                assert len(found) <= 1
                for violation in found.values():
                    assert_plain(violation)


def assert_plain(violation: Violation) -> None:
    """One or two sentences, one clause, one imperative sentence, a title; all on one line."""
    title = violation.fix.title if violation.fix else "Title"
    for text in (violation.message, violation.reason, violation.advice, title):
        assert text
        assert "\n" not in text
        assert text.count("`") % 2 == 0
    assert violation.message.endswith(".")
    assert violation.message.startswith("`torch.thing` ")
    assert violation.advice.endswith(".")
    assert violation.advice[0].isupper()
    assert not violation.reason.endswith(".")
    assert title[0].isupper()
    assert not title.endswith((".", ": "))
    if violation.fix is not None:
        displayed = violation.fix.applicability is Applicability.DISPLAY
        assert displayed == (not violation.fix.edits)


def test_a_submodule_without_a_device_in_scope_is_nobodys() -> None:
    assert not verdicts(make_site("torch.nn.Linear(4, 4)", kind=Kind.MODULE))


def test_an_empty_legacy_tensor_is_nobodys() -> None:
    assert not verdicts(make_site("torch.Tensor()"))


def test_a_stream_that_takes_no_device_is_nobodys() -> None:
    assert not verdicts(make_site("torch.cpu.Stream()", kind=Kind.STREAM, takes_device=False))


def test_a_host_value_that_no_context_moves_is_nobodys() -> None:
    site = make_site("torch.range(0, 3)", sink=Sink.HOST, honours_context=False)
    assert not verdicts(site)


# How bad it is ----------------------------------------------------------------------------------

ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE


@pytest.mark.parametrize(
    ("sink", "honours", "default", "in_context", "on_meta"),
    [
        (Sink.ATTRIBUTE, True, ERROR, WARNING, ERROR),
        (Sink.ATTRIBUTE, False, ERROR, ERROR, ERROR),
        (Sink.PARAMETER, True, NOTE, None, None),
        (Sink.PARAMETER, False, NOTE, NOTE, None),
        (Sink.BUFFER, True, NOTE, None, None),
        (Sink.BUFFER, False, NOTE, NOTE, None),
        (Sink.LOCAL, True, WARNING, None, None),
        (Sink.LOCAL, False, WARNING, WARNING, None),
        (Sink.HOST, True, ERROR, ERROR, ERROR),
    ],
)
def test_severity_of_a_factory(
    sink: Sink,
    honours: bool,
    default: Severity,
    in_context: Severity | None,
    on_meta: Severity | None,
) -> None:
    site = make_site("torch.zeros(3)", sink=sink, honours_context=honours)
    for policy, expected in zip(POLICIES, (default, in_context, on_meta), strict=True):
        found = [violation.severity for violation in verdicts(site, policy).values()]
        assert found == ([] if expected is None else [expected])


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.construction)
@pytest.mark.parametrize(
    ("kind", "severity"),
    [
        (Kind.STREAM, ERROR),
        (Kind.GENERATOR, ERROR),
        (Kind.LEGACY, ERROR),
        (Kind.HOST_MEMORY, ERROR),
        (Kind.MODULE, WARNING),
    ],
)
def test_severity_of_what_no_context_settles(
    kind: Kind, severity: Severity, policy: Policy
) -> None:
    site = replace(make_site("torch.thing(3)", kind=kind), device_in_scope="device")
    assert verdict(site, policy).severity is severity
    at_import = replace(site, import_time=True)
    assert verdict(at_import, policy).severity is WARNING


@pytest.mark.parametrize("kind", [Kind.LEGACY, Kind.HOST_MEMORY])
def test_host_memory_read_on_the_host_is_a_note(kind: Kind) -> None:
    assert verdict(make_site("torch.thing(3)", kind=kind, sink=Sink.HOST)).severity is NOTE


@each_rule
def test_declared_severity_is_the_default_one(rule: Rule) -> None:
    for kind in Kind:
        for sink in set(Sink) - {Sink.HOST}:
            for at_import in (False, True):
                site = make_site("torch.thing(3)", kind=kind, sink=sink)
                site = replace(site, device_in_scope="device", import_time=at_import)
                violation = rule.check(site, DEFAULT)
                expected = rule.severity
                if rule.code == "DVL004" and sink is Sink.EXISTING and kind is Kind.TENSOR:
                    expected = Severity.NOTE  # only copied: the target is where it was
                assert violation is None or violation.severity is expected


# What it says -----------------------------------------------------------------------------------


def test_message_names_the_target() -> None:
    site = replace(make_site("torch.linspace(0, 1, n)"), target="step")
    assert verdict(site).message == (
        "`torch.linspace` has no `device=`, so the plain attribute `step` lands on the default "
        "device and stays there: `.to()` moves only parameters and buffers."
    )
    assert 'self.register_buffer("step", ..., persistent=False)' in verdict(site).advice
    assert "a plain attribute lands" in verdict(replace(site, target="")).message


def test_message_names_what_holds_the_target() -> None:
    """A dict or a distribution is nothing to register: the tensors in it are."""
    told = verdict(replace(make_site("torch.linspace(0, 1, n)"), target="steps[...]"))
    assert "so what the plain attribute `steps` holds lands on the default" in told.message
    assert "each tensor that it holds" in told.advice
    assert "steps" not in told.advice


@pytest.mark.parametrize(
    ("chain", "told"),
    [
        (("Model.__init__",), ""),
        (("Model.__init__", "Base.__init__"), ""),
        (
            ("Model.__init__", "Model._build_tables"),
            "; reached through `_build_tables`",
        ),
        (
            ("Model.__init__", "Base.__init__", "Base._build", "table"),
            "; reached through `_build` -> `table`",
        ),
    ],
)
def test_reason_tells_the_way_here(chain: tuple[str, ...], told: str) -> None:
    site = replace(make_site("torch.zeros(3)"), reached_via=chain)
    assert verdict(site).reason == f"plain attribute: `.to()` never moves it{told}"


def test_reason_tells_a_context_without_effect() -> None:
    site = make_site("torch.Generator()", kind=Kind.GENERATOR, honours_context=False)
    assert "context" not in verdict(site).reason
    assert "the enclosing device context has no effect" in (
        verdict(replace(site, in_context=True)).reason
    )


def test_reason_tells_the_other_end() -> None:
    site = replace(make_site("torch.zeros(3)"), also=(Sink.HOST,))
    assert "also read on the host" in verdict(site).reason


def test_host_message_tells_pinned_from_read() -> None:
    pinned = verdict(make_site("torch.empty(n, pin_memory=True)", sink=Sink.HOST))
    assert "only CPU tensors can be pinned" in pinned.message
    read = verdict(make_site("torch.empty(n, pin_memory=False)", sink=Sink.HOST))
    assert "read on the host" in read.message


# Which device a fix inserts ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "sink", [Sink.ATTRIBUTE, Sink.PARAMETER, Sink.BUFFER, Sink.LOCAL, Sink.ARGUMENT]
)
def test_expression(sink: Sink) -> None:
    site = make_site("torch.zeros(3, dtype=d)", sink=sink)
    assert fixed(site) == f"torch.zeros(3, dtype=d, device={CURRENT})"
    in_scope = replace(site, device_in_scope='factory_kwargs["device"]')
    assert fixed(in_scope) == 'torch.zeros(3, dtype=d, device=factory_kwargs["device"])'
    other = Policy(device_expression="get_device()")
    assert fixed(site, other) == "torch.zeros(3, dtype=d, device=get_device())"
    assert fix_of(site).applicability is Applicability.SAFE
    assert fix_of(site).title == f"Insert `device={CURRENT}`"


def test_expression_for_a_host_value() -> None:
    for policy in POLICIES:
        site = replace(make_site("torch.arange(3)", sink=Sink.HOST), device_in_scope="device")
        assert fixed(site, policy) == 'torch.arange(3, device="cpu")'
        assert fix_of(site, policy).applicability is Applicability.SAFE


def test_insertion_point_is_followed_to_the_letter() -> None:
    text = "torch.zeros(\n    3,  # three\n)"
    site = make_site(text)
    point = InsertionPoint(at(text.index(",")), ",\n    ", "")
    assert fixed(replace(site, insertion=point, device_in_scope="device")) == (
        "torch.zeros(\n    3,\n    device=device,  # three\n)"
    )
    point = InsertionPoint(at(text.index("\n)")), "\n    ", ",")
    assert fixed(replace(site, insertion=point, device_in_scope="device")) == (
        "torch.zeros(\n    3,  # three\n    device=device,\n)"
    )


def test_random_draws_are_unsafe_but_not_on_the_cpu() -> None:
    site = make_site("torch.randperm(3)", random=True)
    assert fix_of(site).applicability is Applicability.UNSAFE
    host = replace(site, sink=Sink.HOST)
    assert fix_of(host).applicability is Applicability.SAFE


@pytest.mark.parametrize(
    ("sink", "also"), [(Sink.ATTRIBUTE, Sink.HOST), (Sink.HOST, Sink.ATTRIBUTE)]
)
def test_a_value_with_two_ends_is_unsafe(sink: Sink, also: Sink) -> None:
    site = replace(make_site("torch.arange(3)", sink=sink), also=(also,))
    assert fix_of(site).applicability is Applicability.UNSAFE


@pytest.mark.parametrize(
    ("text", "applicability"),
    [
        ("torch.as_tensor(x)", Applicability.UNSAFE),
        ("torch.as_tensor([1, 2])", Applicability.SAFE),
        ("torch.as_tensor(-1.5)", Applicability.SAFE),
        ("torch.asarray(range(3))", Applicability.SAFE),
        ("torch.asarray(range_of_x)", Applicability.UNSAFE),
        ("torch.tensor(x)", Applicability.SAFE),
    ],
)
def test_what_may_alias_is_unsafe(text: str, applicability: Applicability) -> None:
    assert fix_of(make_site(text, follows_tensor=True)).applicability is applicability


@pytest.mark.parametrize(
    ("expression", "torch_name", "inserted"),
    [
        (CURRENT, "th", "th.cuda.current_device()"),
        (CURRENT, "_torch", "_torch.cuda.current_device()"),
        (
            'torch.device("cuda", torch.cuda.current_device())',
            "th",
            'th.device("cuda", th.cuda.current_device())',
        ),
        ("my.torch.device", "th", "my.torch.device"),
        ("mytorch.device", "th", "mytorch.device"),
    ],
)
def test_alias_of_torch(expression: str, torch_name: str, inserted: str) -> None:
    site = replace(make_site("th.zeros(3)"), torch_name=torch_name)
    policy = Policy(device_expression=expression)
    assert fixed(site, policy) == f"th.zeros(3, device={inserted})"


def unbound_site() -> CallSite:
    """Make a call in a file that has no name for torch itself."""
    site = make_site("zeros(3)")
    return replace(site, torch_name=None, import_point=InsertionPoint(at(0), "", "\n"))


@pytest.mark.parametrize(
    ("policy", "imports"),
    [
        (DEFAULT, "import torch\n"),
        (Policy(device_import="import torch"), "import torch\n"),
        (
            Policy(device_expression="here()", device_import="from place import here"),
            "from place import here\n",
        ),
        (
            Policy(device_expression="torch.npu.current_device()", device_import="import npu"),
            "import torch\nimport npu\n",
        ),
        (Policy(device_expression="'cuda'"), ""),
    ],
)
def test_missing_import_is_added(policy: Policy, imports: str) -> None:
    call = f"zeros(3, device={policy.device_expression})"
    assert fixed(unbound_site(), policy) == imports + call


def test_import_is_not_added_in_vain() -> None:
    in_scope = replace(unbound_site(), device_in_scope="device")
    assert fixed(in_scope) == "zeros(3, device=device)"
    host = replace(unbound_site(), sink=Sink.HOST)
    assert fixed(host) == 'zeros(3, device="cpu")'
    nowhere = fix_of(replace(unbound_site(), import_point=None))
    assert nowhere.title == "Choose the device by hand: `torch` is not bound here"


@pytest.mark.parametrize(
    ("site", "why"),
    [
        (replace(make_site("torch.zeros(3)"), insertion=None), "no argument can be added"),
        (replace(make_site("torch.zeros(3)"), fix_obstacle="it meets x"), "it meets x"),
        (make_site("torch.zeros(3, device=None)"), "`device=None` is written out"),
        (make_site("torch.zeros(3, pin_memory=True)"), "only CPU tensors can be pinned"),
        (make_site("torch.zeros(3, layout=torch._mkldnn)"), "mkldnn"),
        (make_site("torch.normal(mean, std)"), "only together with `size`"),
        (make_site("torch.thing(3)", takes_device=False), "`torch.thing` takes no `device=`"),
        (make_site("torch.xpu.Stream()", kind=Kind.STREAM), "no device of `torch.xpu.Stream`"),
    ],
)
def test_fix_is_withheld_with_a_reason(site: CallSite, why: str) -> None:
    fix = fix_of(site)
    assert fix.applicability is Applicability.DISPLAY
    assert fix.edits == ()
    assert fix.title.startswith("Choose the device by hand: ")
    assert why in fix.title


@pytest.mark.parametrize("text", ["torch.normal(0.0, 1.0, (3,))", "torch.normal(0.0, 1.0, size=s)"])
def test_normal_with_a_size_takes_a_device(text: str) -> None:
    assert fixed(make_site(text)) == f"{text[:-1]}, device={CURRENT})"


@pytest.mark.parametrize("scope", [None, "device"])
def test_on_meta_an_attribute_is_advised_to_be_a_buffer(scope: str | None) -> None:
    site = replace(make_site("torch.zeros(3)"), device_in_scope=scope, target="table")
    fix = fix_of(site, ON_META)
    assert fix.applicability is Applicability.DISPLAY
    assert 'self.register_buffer("table", ..., persistent=False)' in fix.title
    assert "`persistent=True` would add a key to `state_dict`" in fix.title
    assert fix_of(replace(site, target="tables[0]"), ON_META).title.count('"name"') == 1


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("sink", Sink)
def test_on_meta_no_accelerator_is_ever_inserted(kind: Kind, sink: Sink) -> None:
    site = make_site("torch.Tensor(3)") if kind is Kind.LEGACY else make_site("torch.thing(3)")
    site = replace(site, sink=sink, constructor=replace(site.constructor, kind=kind))
    for violation in verdicts(site, ON_META).values():
        edits: tuple[Edit, ...] = violation.fix.edits if violation.fix else ()
        assert not any("cuda" in edit.content for edit in edits)


# Streams, generators, submodules, host memory ---------------------------------------------------


def test_stream() -> None:
    site = make_site("torch.cuda.Stream()", kind=Kind.STREAM, sink=Sink.STREAM)
    assert fixed(site) == f"torch.cuda.Stream(device={CURRENT})"
    assert fix_of(site).applicability is Applicability.SAFE
    in_scope = replace(site, device_in_scope="self.device")
    assert fixed(in_scope) == "torch.cuda.Stream(device=self.device)"
    assert fix_of(in_scope, ON_META).applicability is Applicability.DISPLAY


def test_generator() -> None:
    site = make_site("torch.Generator()", kind=Kind.GENERATOR, sink=Sink.GENERATOR)
    assert verdict(site).fix is None
    in_scope = replace(site, device_in_scope="device")
    assert fixed(in_scope) == "torch.Generator(device=device)"
    assert fix_of(in_scope).applicability is Applicability.UNSAFE
    assert verdict(in_scope, ON_META).fix is None


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.construction)
def test_submodule(policy: Policy) -> None:
    site = make_site("torch.nn.Linear(4, 4)", kind=Kind.MODULE, sink=Sink.LOCAL)
    site = replace(site, device_in_scope="device")
    assert fixed(site, policy) == "torch.nn.Linear(4, 4, device=device)"
    assert fix_of(site, policy).applicability is Applicability.SAFE


def test_host_memory() -> None:
    site = make_site("torch.from_numpy(a)", kind=Kind.HOST_MEMORY, takes_device=False)
    assert fix_of(site).edits == ()
    assert ".to(device)" in fix_of(site).title
    in_scope = replace(site, device_in_scope="place")
    assert ".to(place)" in fix_of(in_scope).title
    assert "`torch.as_tensor(..., device=place)`" in verdict(in_scope).advice
    assert "before it is made a parameter" in verdict(replace(site, sink=Sink.PARAMETER)).advice
    assert "non-persistent buffer" in fix_of(site, ON_META).title
    assert verdict(replace(site, sink=Sink.HOST)).fix is None


def test_import_time_has_no_fix() -> None:
    site = replace(make_site("torch.zeros(3)"), import_time=True, device_in_scope="device")
    assert verdict(site).fix is None
    assert "`.to()` never moves it" in verdict(site).reason
    assert "never moves" not in verdict(replace(site, sink=Sink.BUFFER)).reason


# Legacy constructors ----------------------------------------------------------------------------

REWRITES = {
    "torch.Tensor(a, b)": "torch.empty(a, b, device=device)",
    "torch.Tensor(3)": "torch.empty(3, device=device)",
    "torch.Tensor(len(x) + 1)": "torch.empty(len(x) + 1, device=device)",
    "torch.Tensor(*shape)": "torch.empty(*shape, device=device)",
    "torch.Tensor(2, *shape)": "torch.empty(2, *shape, device=device)",
    "torch.Tensor([1, 2])": (
        "torch.tensor([1, 2], dtype=torch.get_default_dtype(), device=device)"
    ),
    "torch.Tensor((2, 3))": (
        "torch.tensor((2, 3), dtype=torch.get_default_dtype(), device=device)"
    ),
    "th.Tensor([0.1] * n)": ("th.tensor([0.1] * n, dtype=th.get_default_dtype(), device=device)"),
    "torch.FloatTensor(a, b)": "torch.empty(a, b, dtype=torch.float32, device=device)",
    "torch.LongTensor([1, 2])": "torch.tensor([1, 2], dtype=torch.long, device=device)",
    "torch.LongTensor(4)": "torch.empty(4, dtype=torch.long, device=device)",
    "torch.cuda.FloatTensor(4, 4)": "torch.empty(4, 4, dtype=torch.float32, device=device)",
    "torch.Tensor(ä, len('ö'))": "torch.empty(ä, len('ö'), device=device)",
}


@pytest.mark.parametrize(("text", "expected"), REWRITES.items())
def test_legacy_rewrite(text: str, expected: str) -> None:
    site = replace(make_site(text, sink=Sink.PARAMETER), device_in_scope="device")
    point = site.insertion
    assert point is not None
    assert fixed(site) == expected
    assert fix_of(site).applicability is Applicability.SAFE
    # Other edits may lie inside the arguments: theirs is none of this fix's text.
    callee, keywords = fix_of(site).edits
    assert (callee.start, callee.end) == (site.start, site.callee_end)
    assert keywords.start == keywords.end == point.location


@pytest.mark.parametrize(
    ("text", "torch_name", "expected"),
    [
        ("Tensor(2, 3)", "torch", "torch.empty(2, 3, device=device)"),
        ("Tensor(2, 3)", "th", "th.empty(2, 3, device=device)"),
        ("FloatTensor([1])", "th", "th.tensor([1], dtype=th.float32, device=device)"),
    ],
)
def test_legacy_rewrite_of_a_bare_name(text: str, torch_name: str, expected: str) -> None:
    site = replace(make_site(text), device_in_scope="device", torch_name=torch_name)
    assert fixed(site) == expected
    unbound = fix_of(replace(site, torch_name=None))
    assert unbound.edits == ()
    assert "`torch` is not bound here" in unbound.title


def test_legacy_rewrite_with_the_configured_expression() -> None:
    site = make_site("th.Tensor(2, 3)")
    assert fixed(replace(site, torch_name="th")) == (
        "th.empty(2, 3, device=th.cuda.current_device())"
    )


def test_legacy_rewrite_of_another_spelling() -> None:
    site = make_site("torch.Tensor(2, 3)")
    text = 'getattr(torch, "Tensor")(2, 3)'
    end = at(text.rindex("("))
    point = InsertionPoint(at(len(text) - 1), ", ", "")
    site = replace(site, text=text, callee_end=end, insertion=point, device_in_scope="device")
    assert fixed(site) == "torch.empty(2, 3, device=device)"


@pytest.mark.parametrize(
    "text",
    [
        "torch.Tensor(x)",
        "torch.Tensor(x.shape)",
        "torch.Tensor(x * 2)",
        "torch.Tensor(make())",
        "torch.Tensor(**options)",
        "torch.FloatTensor(values)",
    ],
)
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.construction)
def test_undecidable_legacy_call_is_left_alone(text: str, policy: Policy) -> None:
    site = replace(make_site(text, sink=Sink.PARAMETER), device_in_scope="device")
    fix = fix_of(site, policy)
    assert fix.edits == ()
    assert fix.applicability is Applicability.DISPLAY
    assert "does not show which" in fix.title


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.construction)
def test_legacy_value_on_the_host_stays_there(policy: Policy) -> None:
    site = replace(make_site("torch.Tensor([1])", sink=Sink.HOST), device_in_scope="device")
    violation = verdict(site, policy)
    assert violation.severity is NOTE
    assert 'without `device="cpu"` it would break building on meta' in violation.message
    assert fixed(site, policy) == (
        'torch.tensor([1], dtype=torch.get_default_dtype(), device="cpu")'
    )
    assert fix_of(site, policy).applicability is Applicability.UNSAFE


def test_legacy_on_meta() -> None:
    site = make_site("torch.Tensor(2, 3)", sink=Sink.PARAMETER)
    assert fix_of(site, ON_META).title == (
        "Rewrite to `torch.empty`, which follows the device context"
    )
    in_scope = replace(site, device_in_scope="device")
    assert fixed(in_scope, ON_META) == "torch.empty(2, 3, device=device)"
    assert fix_of(in_scope, ON_META).applicability is Applicability.UNSAFE
    attribute = replace(in_scope, sink=Sink.ATTRIBUTE)
    assert "non-persistent buffer" in fix_of(attribute, ON_META).title


def test_legacy_message_names_the_place() -> None:
    on_cpu = make_site("torch.Tensor(2, 3)", sink=Sink.BUFFER)
    assert "a buffer is built on the CPU" in verdict(on_cpu).message
    on_gpu = make_site("torch.cuda.FloatTensor(2, 3)", sink=Sink.LOCAL)
    assert "its value is built on the current GPU" in verdict(on_gpu).message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3", Meaning.SIZES),
        ("-3", Meaning.SIZES),
        ("len(x)", Meaning.SIZES),
        ("2 * len(x) // 3", Meaning.SIZES),
        ("max(1, len(x))", Meaning.SIZES),
        ("x.shape[0]", Meaning.SIZES),
        ("x.shape[-1] + 1", Meaning.SIZES),
        ("x.size(0)", Meaning.SIZES),
        ("x.numel()", Meaning.SIZES),
        ("x.ndim", Meaning.SIZES),
        ("3 if c else len(x)", Meaning.SIZES),
        ("3  # three", Meaning.SIZES),
        ("[1,\n 2]", Meaning.DATA),
        ("(1, 2)", Meaning.DATA),
        ("[i for i in x]", Meaning.DATA),
        ("[0.0] * n", Meaning.DATA),
        ("n * [0.0]", Meaning.DATA),
        ("list(x)", Meaning.DATA),
        ("range(n)", Meaning.DATA),
        ("[1] if c else (2,)", Meaning.DATA),
        ("x", Meaning.UNCLEAR),
        ("True", Meaning.UNCLEAR),
        ("1.5", Meaning.UNCLEAR),
        ("x + 1", Meaning.UNCLEAR),
        ("x * len(y)", Meaning.UNCLEAR),
        ("3 / 2", Meaning.UNCLEAR),
        ("2 ** -1", Meaning.UNCLEAR),
        ("max(x)", Meaning.UNCLEAR),
        ("x.shape", Meaning.UNCLEAR),
        ("x.shape[:2]", Meaning.UNCLEAR),
        ("x.size()", Meaning.UNCLEAR),
        ("x()", Meaning.UNCLEAR),
        ("x.f()", Meaning.UNCLEAR),
        ("3 if c else [3]", Meaning.UNCLEAR),
        ("not python", Meaning.UNCLEAR),
    ],
)
def test_meaning_of_one_argument(text: str, expected: Meaning) -> None:
    assert meaning((Argument(text),)) is expected


def test_meaning_of_several_arguments() -> None:
    assert meaning(()) is Meaning.UNCLEAR
    assert meaning((Argument("x"), Argument("y"))) is Meaning.SIZES
    assert meaning((Argument("*x", star="*"),)) is Meaning.SIZES
    assert meaning((Argument("x"), Argument("**y", star="**"))) is Meaning.UNCLEAR
    assert meaning((Argument("x"), Argument("None", "device"))) is Meaning.UNCLEAR


@pytest.mark.parametrize(
    "text", [text for text in REWRITES if "cuda" not in text and "ä" not in text]
)
def test_legacy_rewrite_makes_the_same_tensor(text: str) -> None:
    torch = pytest.importorskip("torch")
    names = {"torch": torch, "th": torch, "a": 2, "b": 3, "n": 4, "x": "abc", "shape": (2, 3)}
    names["device"] = "cpu"
    before, after = eval(text, dict(names)), eval(REWRITES[text], dict(names))
    assert (before.dtype, before.shape) == (after.dtype, after.shape)
    if "tensor(" in REWRITES[text]:
        assert torch.equal(before, after)
