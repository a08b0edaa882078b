"""A tensor used while a module is built was made without a device.

## What it does

Reports any other tensor factory that is called without `device=` while an `nn.Module` is being
built: its value is handed to a call the analysis cannot see through, or is used up on the way.

## Why is this bad?

The value lives on the default device, whatever device the module is built on. Where it meets a
tensor that has been given the module's device, PyTorch refuses to mix the two; where it is handed
on, whoever keeps it inherits the wrong device.

With `construction = "device-context"` only constructors that ignore device contexts are reported;
with `construction = "meta"` none is.

## Example

```python
import torch
from torch import nn


class OneHot(nn.Module):
    def __init__(self, n: int, device: torch.device | None = None) -> None:
        super().__init__()
        table = torch.zeros(n, n, device=device)
        index = torch.arange(n).unsqueeze(-1)
        table.scatter_(1, index, 1.0)
        self.register_buffer("table", table)
```

## Use instead

```python
import torch
from torch import nn


class OneHot(nn.Module):
    def __init__(self, n: int, device: torch.device | None = None) -> None:
        super().__init__()
        table = torch.zeros(n, n, device=device)
        index = torch.arange(n, device=device).unsqueeze(-1)
        table.scatter_(1, index, 1.0)
        self.register_buffer("table", table)
```

## Fix safety

The fix inserts `device=` with a device that is in scope, else the configured `device-expression`,
by default `torch.cuda.current_device()`, which needs CUDA while the module is built, defeats
construction on `meta`, and returns 0 on every rank until `set_device` ran (see DVL001).

The fix is safe but for random draws, whose numbers depend on the device, for values also read on
the host, for constructors that may alias their argument, and for what a module computes with
(`self(torch.zeros(1, n))`), whose weights are wherever they are: those need `--unsafe-fixes`. All
constructions that meet in one expression get the same device, or none does.

## References

- [`torch.set_default_device`](https://docs.pytorch.org/docs/stable/generated/torch.set_default_device.html)
- [Tensor creation](https://docs.pytorch.org/docs/stable/torch.html#creation-ops)
"""

from __future__ import annotations

from devicelint.model import CallSite, Policy, Rule, Severity, Sink, Violation
from devicelint.rules.expression import insert_device
from devicelint.rules.judgement import is_placed, owner
from devicelint.rules.wording import call, reason

CODE = "DVL004"

VALID = (
    """\
import torch
from torch import nn


class OneHot(nn.Module):
    def __init__(self, n, device=None):
        super().__init__()
        table = torch.zeros(n, n, device=device)
        index = torch.arange(n, device=device).unsqueeze(-1)
        table.scatter_(1, index, 1.0)
        self.register_buffer("table", table)
""",
    """\
import torch
from torch import nn


class Copied(nn.Module):
    def __init__(self, n, device=None):
        super().__init__()
        self.register_buffer("steps", torch.empty(n, device=device))
        self.steps.copy_(torch.linspace(0, 1, n))
""",
    """\
import torch
from torch import nn


class ForwardOnly(nn.Module):
    def forward(self, x):
        return x + torch.arange(x.shape[0])
""",
)

INVALID = (
    """\
import torch
from torch import nn


class OneHot(nn.Module):
    def __init__(self, n, device=None):
        super().__init__()
        table = torch.zeros(n, n, device=device)
        index = torch.arange(n).unsqueeze(-1)  # expect: DVL004
        table.scatter_(1, index, 1.0)
        self.register_buffer("table", table)
""",
    """\
import torch
from somewhere import configure
from torch import nn


class Handed(nn.Module):
    def __init__(self, n):
        super().__init__()
        configure(self, torch.ones(n))  # expect: DVL004
""",
)

_ENDS = {
    Sink.ARGUMENT: "handed to another call",
    Sink.EXISTING: "copied into an existing tensor",
    Sink.LOCAL: "local value of construction code",
}


def check(site: CallSite, policy: Policy) -> Violation | None:
    """Report a tensor of construction code that is on no device in particular."""
    if owner(site) != CODE or is_placed(site, policy.construction):
        return None
    return Violation(
        message=_message(site),
        reason=reason(site, _ENDS.get(site.sink, "value of construction code")),
        severity=_severity(site),
        fix=insert_device(site, policy),
        advice="Build it on the device of the tensors that it meets.",
    )


def _severity(site: CallSite) -> Severity:
    """A note where the value is only copied: it costs a detour, the target is where it was."""
    if site.sink is Sink.EXISTING and site.constructor.honours_context:
        return Severity.NOTE
    return Severity.WARNING


def _message(site: CallSite) -> str:
    if not site.constructor.honours_context:
        return (
            f"{call(site)} has no `device=` and ignores device contexts, so its value may be on "
            "another device than the rest of the module."
        )
    return (
        f"{call(site)} has no `device=`, so its value is on the default device, whatever device "
        "the module is built on."
    )


RULE = Rule(
    code=CODE,
    name="tensor-without-device",
    summary="any other factory without `device=` in construction code",
    severity=Severity.WARNING,
    fixable="insert `device=`",
    documentation=__doc__ or "",
    valid=VALID,
    invalid=INVALID,
    check=check,
)
