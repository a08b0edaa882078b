"""A tensor was built by a legacy constructor.

## What it does

Reports `torch.Tensor(...)`, `torch.FloatTensor(...)` and the other typed constructors, called
while an `nn.Module` is being built.

## Why is this bad?

They ignore `with torch.device(...)` and `torch.set_default_device(...)`, and refuse every device
but their own ("legacy constructor expects device type: cpu but device type: cuda was passed").
Such a tensor is on the CPU even if everything around it is built on the GPU or on meta; one of
`torch.cuda.FloatTensor` is on the GPU even under meta. Some loaders replace `torch.Tensor` while
they build a module, and then take `torch.Tensor([2, 3])` for a shape.

A value that is read on the host is where it has to be, so that is only a note. Beware of
"modernising" it: `torch.tensor(...)` without `device="cpu"` follows device contexts, and cannot be
read while the module is built on meta.

## Example

```python
import torch
from torch import nn


class Scale(nn.Module):
    def __init__(self, rows: int, columns: int, device: torch.device | None = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.Tensor(rows, columns))
        self.register_buffer("steps", torch.Tensor([1, 2]))
```

## Use instead

```python
import torch
from torch import nn


class Scale(nn.Module):
    def __init__(self, rows: int, columns: int, device: torch.device | None = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(rows, columns, device=device))
        steps = torch.tensor([1, 2], dtype=torch.get_default_dtype(), device=device)
        self.register_buffer("steps", steps)
```

## Fix safety

Sizes become `torch.empty`, data becomes `torch.tensor`, and the dtype stays what it was: the
default dtype for `torch.Tensor`, the named one for the typed constructors. Several arguments,
starred arguments, integer literals, `len(...)` and arithmetic on these are sizes; displays,
comprehensions and `list(...)` are data. `torch.Tensor(x)` may be a size, data or an alias of the
tensor `x`, which only the running program knows: there is no fix.

The device is chosen as in DVL001, and costs the same: `torch.cuda.current_device()` needs CUDA
while the module is built, defeats construction on `meta`, and returns 0 on every rank until
`set_device` ran. For a value that is read on the host it is `device="cpu"`, behind
`--unsafe-fixes`; so is every rewrite with `construction = "meta"`.

## References

- [`torch.Tensor`](https://docs.pytorch.org/docs/stable/tensors.html)
- [huggingface/transformers#35011](https://github.com/huggingface/transformers/issues/35011), where
  a legacy constructor met a library that replaces it
- [pytorch/pytorch#126533](https://github.com/pytorch/pytorch/issues/126533)
"""

from __future__ import annotations

from devicelint.model import (
    Applicability,
    CallSite,
    Construction,
    Edit,
    Fix,
    Policy,
    Rule,
    Severity,
    Sink,
    Violation,
)
from devicelint.rules.expression import (
    buffer_advice,
    cpu_placement,
    device_placement,
    insert_keywords,
    withheld,
)
from devicelint.rules.judgement import owner
from devicelint.rules.legacy import Meaning, meaning
from devicelint.rules.wording import call, ending, reason

CODE = "DVL007"

VALID = (
    """\
import torch
from torch import nn


class Modern(nn.Module):
    mask: torch.Tensor

    def __init__(self, rows, columns, mask, device=None):
        super().__init__()
        assert isinstance(mask, torch.Tensor)
        self.weight = nn.Parameter(torch.empty(rows, columns, device=device))
        self.register_buffer("mask", mask)
""",
    """\
import torch
from torch import nn


class Moved(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.steps = torch.FloatTensor([1, 2]).to(device)
""",
)

INVALID = (
    """\
import torch
from torch import nn


class Scale(nn.Module):
    def __init__(self, rows, columns, device=None):
        super().__init__()
        self.weight = nn.Parameter(torch.Tensor(rows, columns))  # expect: DVL007
        self.register_buffer("steps", torch.FloatTensor([1, 2]))  # expect: DVL007
""",
    """\
import torch as th
from torch import nn


class Undecided(nn.Module):
    def __init__(self, shape, values):
        super().__init__()
        self.starred = th.Tensor(*shape)  # expect: DVL007
        self.unclear = th.Tensor(values)  # expect: DVL007
""",
    """\
import torch
from torch import nn


class Rates(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.rates = torch.Tensor([0.1] * depth).tolist()  # expect: DVL007
""",
)

_FUNCTIONS = {Meaning.SIZES: "empty", Meaning.DATA: "tensor"}


def check(site: CallSite, policy: Policy) -> Violation | None:
    """Report a tensor that no device context and no `device=` can place."""
    if owner(site) != CODE or not site.arguments:
        return None
    on_host = site.sink is Sink.HOST
    head = "legacy constructor: ignores device contexts, takes no other device"
    return Violation(
        message=_message(site),
        reason=reason(site, f"{head}; read on the host" if on_host else head),
        severity=Severity.NOTE if on_host else Severity.ERROR,
        fix=_fix(site, policy),
        advice=_advice(site),
    )


def _message(site: CallSite) -> str:
    if site.sink is Sink.HOST:
        return (
            f"{call(site)} is a legacy constructor; its value is read on the host, where it is "
            'now. Modernised without `device="cpu"` it would break building on meta.'
        )
    place = "the current GPU" if site.constructor.name.startswith("torch.cuda.") else "the CPU"
    return (
        f"{call(site)} ignores device contexts and refuses any other device, so {ending(site)} "
        f"is built on {place} wherever the module is built."
    )


def _advice(site: CallSite) -> str:
    if site.sink is Sink.HOST:
        return 'Leave it, or use `torch.tensor` with the same dtype and `device="cpu"`.'
    return "Use `torch.empty` for a size and `torch.tensor` with a dtype for data."


def _fix(site: CallSite, policy: Policy) -> Fix:
    on_meta = policy.construction is Construction.META
    on_host = site.sink is Sink.HOST
    if on_meta and site.sink is Sink.ATTRIBUTE:
        return buffer_advice(site)
    function = _FUNCTIONS.get(meaning(site.arguments))
    if function is None:
        return Fix(
            "Rewrite by hand: an int is a size, a sequence is data and a tensor is aliased, "
            "and the call does not show which of them it gets",
            Applicability.DISPLAY,
        )
    if on_meta and not on_host and site.device_in_scope is None:
        title = f"Rewrite to `torch.{function}`, which follows the device context"
        return Fix(title, Applicability.DISPLAY)
    placement = cpu_placement(site) if on_host else device_placement(site, policy)
    root = _root(site)
    if placement.obstacle or site.insertion is None:
        return withheld(placement.obstacle)
    if root is None:
        return withheld("`torch` is not bound here")
    keywords = ", ".join((*_dtype(site, function, root), f"device={placement.expression}"))
    return Fix(
        f"Rewrite to `{root}.{function}(..., {keywords})`",
        Applicability.UNSAFE if on_host or on_meta else Applicability.SAFE,
        (
            *placement.imports,
            Edit(site.start, site.callee_end, f"{root}.{function}"),
            insert_keywords(site.insertion, keywords),
        ),
    )


def _dtype(site: CallSite, function: str, root: str) -> tuple[str, ...]:
    """Keep the dtype: `torch.empty` has the default one by itself, `torch.tensor` infers."""
    if site.constructor.dtype is not None:
        return (f"dtype={root}.{site.constructor.dtype}",)
    return (f"dtype={root}.get_default_dtype()",) if function == "tensor" else ()


def _root(site: CallSite) -> str | None:
    """Return what torch is called in this call: `th` in `th.Tensor(3)`."""
    width = site.callee_end.offset - site.start.offset
    callee = site.text.encode()[:width].decode()
    root = callee.removesuffix(site.constructor.name.removeprefix("torch"))
    if root != callee and all(part.isidentifier() for part in root.split(".")):
        return root
    return site.torch_name


RULE = Rule(
    code=CODE,
    name="legacy-constructor",
    summary="`torch.Tensor(...)`, `torch.FloatTensor(...)` and the like",
    severity=Severity.ERROR,
    fixable="rewrite, where sizes and data can be told apart",
    documentation=__doc__ or "",
    valid=VALID,
    invalid=INVALID,
    check=check,
)
