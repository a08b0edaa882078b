"""How a fix is made: which device expression goes in, where, and what forbids it.

In: a call site and the policy.  Out: a `Fix`, either with edits or, where a person has to decide,
with none and a title that says why.  Never here: a verdict on the call.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from devicelint.model import (
    Applicability,
    Argument,
    CallSite,
    Construction,
    Edit,
    Fix,
    InsertionPoint,
    Policy,
    Sink,
)

#: `torch` as the root of a dotted name; neither `my.torch.x` nor the start of a string
_TORCH_ROOT = re.compile(r"(?<![\w.\"'])torch(?=\s*\.)")

#: an accelerator other than CUDA as a word of a name: `torch.xpu.Stream`, `empty_npu`, `XPUCache`,
#: but not `input`
_ELSEWHERE = re.compile(
    r"(?<![A-Za-z])(?:hpu|mtia|musa|npu|xpu)(?![a-z])|(?<![A-Z])(?:HPU|MTIA|MUSA|NPU|XPU)(?![a-z])"
)

#: the arguments that cannot be tensors whatever their names stand for: literals and displays
_LITERAL = re.compile(r"[-+]?[\d.]|[\[{\"']|(True|False|None|range|len|int|float|list)\b")

_KEPT = frozenset({Sink.ATTRIBUTE, Sink.BUFFER, Sink.PARAMETER})


@dataclass(frozen=True, slots=True)
class Placement:
    """A device expression, the imports it needs, and what forbids using it ("" if nothing)."""

    expression: str
    imports: tuple[Edit, ...] = ()
    obstacle: str = ""


def insert_device(site: CallSite, policy: Policy) -> Fix:
    """Insert the device that the module is built on."""
    placement = device_placement(site, policy)
    if not site.constructor.takes_device and not placement.obstacle:
        return withheld(f"`{site.callable}` takes no `device=`")
    return _insertion(site, placement, _applicability(site))


def insert_cpu(site: CallSite) -> Fix:
    """Insert the CPU.

    Safe for random draws too: without a device context they are made on the CPU already.
    """
    # Under a device context the value would be taken away from whoever else keeps it.
    kept = _KEPT.intersection(site.also)
    return _insertion(
        site, cpu_placement(site), Applicability.UNSAFE if kept else Applicability.SAFE
    )


def device_placement(site: CallSite, policy: Policy) -> Placement:
    """Choose the expression: a device in scope, else the configured one."""
    obstacle = _obstacle(site) or _pinned(site)
    if site.device_in_scope is not None:
        return Placement(site.device_in_scope, obstacle=obstacle)
    expression = policy.device_expression
    if policy.construction is Construction.META:
        obstacle = obstacle or "a named accelerator would defeat construction on meta"
    elif "cuda" in expression and (name := _of_another_accelerator(site)):
        obstacle = obstacle or f"`{expression}` is no device of `{name}`"
    return _with_imports(site, policy, obstacle)


def _of_another_accelerator(site: CallSite) -> str:
    """Give the name that says of itself that it is not for CUDA, "" if none does."""
    names = (site.callable, *site.symbol.split("."))
    return next((name for name in names if _ELSEWHERE.search(name)), "")


def cpu_placement(site: CallSite) -> Placement:
    """Choose the CPU, for values that are read on the host."""
    return Placement('"cpu"', obstacle=_obstacle(site))


def insert_keywords(insertion: InsertionPoint, keywords: str) -> Edit:
    """Write keyword arguments at the insertion point of a call."""
    location = insertion.location
    return Edit(location, location, f"{insertion.before}{keywords}{insertion.after}")


def withheld(obstacle: str) -> Fix:
    """Say why no device is inserted."""
    return Fix(f"Choose the device by hand: {obstacle}", Applicability.DISPLAY)


def buffer_advice(site: CallSite) -> Fix:
    """Advise a buffer: the only thing besides a parameter that follows its module."""
    return Fix(
        f"M{buffer_remedy(site)[1:]} (`persistent=True` would add a key to `state_dict`)",
        Applicability.DISPLAY,
    )


def buffer_remedy(site: CallSite) -> str:
    """Say how to make a buffer of what is an attribute, or of what that holds."""
    if site.is_held:
        return f"make a non-persistent buffer of each tensor that it holds: {buffer_call(site)}"
    return f"make it a non-persistent buffer: {buffer_call(site)}"


def buffer_call(site: CallSite) -> str:
    """Spell the call that registers the value as a non-persistent buffer."""
    # what holds the tensors has the name of the attribute, so they need others
    name = site.target if site.target.isidentifier() else "name"
    return f'`self.register_buffer("{name}", ..., persistent=False)`'


def value_text(argument: Argument) -> str:
    """Return the text of an argument's value, whether or not its keyword is part of the text."""
    text = argument.text.strip()
    keyword, equals, value = text.partition("=")
    if argument.keyword and equals and keyword.strip() == argument.keyword:
        return value.strip()
    return text


def _insertion(site: CallSite, placement: Placement, applicability: Applicability) -> Fix:
    if placement.obstacle or site.insertion is None:
        return withheld(placement.obstacle)
    keyword = f"device={placement.expression}"
    return Fix(
        f"Insert `{keyword}`",
        applicability,
        (*placement.imports, insert_keywords(site.insertion, keyword)),
    )


def _applicability(site: CallSite) -> Applicability:
    """Judge an inserted device: unsafe where more than the placement may change."""
    if site.constructor.random:
        # A seed gives other numbers on another device.
        return Applicability.UNSAFE
    if Sink.HOST in site.also:
        # Every read on the host would wait for the accelerator.
        return Applicability.UNSAFE
    return Applicability.UNSAFE if _may_alias(site) else Applicability.SAFE


def _may_alias(site: CallSite) -> bool:
    """Whether a tensor argument may be aliased now and would be copied with a device.

    `torch.tensor` copies in any case.
    """
    row = site.constructor
    if not row.follows_tensor or row.name == "torch.tensor" or not site.arguments:
        return False
    return not _LITERAL.match(value_text(site.arguments[0]))


def _obstacle(site: CallSite) -> str:
    """Say what forbids any inserted device here, "" if nothing does."""
    keywords = {argument.keyword for argument in site.arguments}
    if site.fix_obstacle:
        return site.fix_obstacle
    if site.insertion is None:
        return "no argument can be added to this call"
    if "device" in keywords:
        # A second `device=` is a SyntaxError, and the place of the first is not known.
        return "`device=None` is written out, replace the `None`"
    sized = "size" in keywords or len(site.arguments) > 2
    if site.constructor.name == "torch.normal" and not sized:
        return "`torch.normal` takes `device=` only together with `size`"
    return ""


def _pinned(site: CallSite) -> str:
    """Say what ties the value to the CPU, "" if nothing does."""
    for argument in site.arguments:
        if argument.keyword == "pin_memory" and value_text(argument) != "False":
            return "only CPU tensors can be pinned"
        if argument.keyword == "layout" and "mkldnn" in argument.text:
            return "the mkldnn layout exists on the CPU only"
    return ""


def _with_imports(site: CallSite, policy: Policy, obstacle: str) -> Placement:
    """Spell the configured expression as the file can, and add what it has to import."""
    expression = policy.device_expression
    statements = [policy.device_import] if policy.device_import else []
    if _TORCH_ROOT.search(expression):
        if site.torch_name is not None:
            expression = _TORCH_ROOT.sub(site.torch_name, expression)
        elif "import torch" not in statements:
            statements.insert(0, "import torch")
    point = site.import_point
    if not statements or obstacle:
        return Placement(expression, obstacle=obstacle)
    if point is None:
        is_torch = statements[0] == "import torch"
        name = "`torch`" if is_torch else "what `device-import` binds"
        return Placement(expression, obstacle=f"{name} is not bound here")
    content = "".join(f"{point.before}{statement}{point.after}" for statement in statements)
    return Placement(expression, (Edit(point.location, point.location, content),))
