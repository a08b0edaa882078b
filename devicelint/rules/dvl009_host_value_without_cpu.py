"""A value that is read on the host was built without `device="cpu"`.

## What it does

Reports a tensor factory that is called without `device=` while an `nn.Module` is being built, and
whose value is read on the host (`.item()`, `.tolist()`, `int(...)`, a `for` loop, the size of a
layer) or pinned (`pin_memory=True`).

## Why is this bad?

Such a value has to be on the CPU, and is only as long as nobody chooses another default device.
Under `with torch.device("cuda")` every read waits for the GPU, NumPy refuses the tensor, and
pinning it is an error; under `with torch.device("meta")` there is no data to read, so the module
cannot be built there at all.

Constructors that ignore device contexts, such as `torch.normal`, are not reported: their value is
on the CPU in any case.

## Example

```python
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, depth: int, rate: float) -> None:
        super().__init__()
        self.rates = torch.linspace(0, rate, depth).tolist()
```

## Use instead

```python
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, depth: int, rate: float) -> None:
        super().__init__()
        self.rates = torch.linspace(0, rate, depth, device="cpu").tolist()
```

## Fix safety

The fix inserts `device="cpu"`, never another device, and is safe: without a device context nothing
changes, random draws included, and under one the value becomes readable. Where the same value is
also kept by the module, a device context would no longer place what is kept, so the fix needs
`--unsafe-fixes`.

## References

- [The meta device](https://docs.pytorch.org/docs/stable/meta.html)
- [`torch.set_default_device`](https://docs.pytorch.org/docs/stable/generated/torch.set_default_device.html)
- [huggingface/transformers#37563](https://github.com/huggingface/transformers/issues/37563), which
  made such constructors work on meta
"""

from __future__ import annotations

from devicelint.model import CallSite, Policy, Rule, Severity, Violation
from devicelint.rules.expression import insert_cpu, value_text
from devicelint.rules.judgement import owner
from devicelint.rules.wording import call, reason

CODE = "DVL009"

VALID = (
    """\
import torch
from torch import nn


class Explicit(nn.Module):
    def __init__(self, depth, rate):
        super().__init__()
        self.rates = torch.linspace(0, rate, depth, device="cpu").tolist()
        self.staging = torch.empty(depth, device="cpu", pin_memory=True)
""",
    """\
import torch
from torch import nn


class AlwaysOnTheHost(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.offsets = torch.normal(0.0, 1.0, size=(n,)).tolist()
""",
    """\
import torch


def rates(depth):
    return torch.linspace(0, 1, depth).tolist()
""",
)

INVALID = (
    """\
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, depth, rate, device=None):
        super().__init__()
        self.rates = torch.linspace(0, rate, depth).tolist()  # expect: DVL009
        self.items = [x.item() for x in torch.linspace(0, rate, depth)]  # expect: DVL009
        self.order = torch.randperm(depth).tolist()  # expect: DVL009
""",
    """\
import torch
from torch import nn


class Workspace(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.staging = torch.empty(size, pin_memory=True)  # expect: DVL009
""",
    """\
import torch
from torch import nn


class Staged(nn.Module):
    def __init__(self, depths, rate):
        super().__init__()
        schedule = torch.linspace(0, rate, sum(depths))  # expect: DVL009
        groups = schedule.split(depths)
        self.rates = [group.tolist() for group in groups]
""",
)


def check(site: CallSite, policy: Policy) -> Violation | None:
    """Report a value that must be on the CPU and is so only by default."""
    if owner(site) != CODE or not site.constructor.honours_context:
        return None
    pinned = _is_pinned(site)
    return Violation(
        message=_pinned_message(site) if pinned else _read_message(site),
        reason=reason(site, "pinned: must be on the CPU" if pinned else "read on the host"),
        severity=Severity.ERROR,
        fix=insert_cpu(site),
        advice='Pass `device="cpu"`.',
    )


def _is_pinned(site: CallSite) -> bool:
    return any(
        argument.keyword == "pin_memory" and value_text(argument) != "False"
        for argument in site.arguments
    )


def _pinned_message(site: CallSite) -> str:
    return (
        f'{call(site)} is pinned but has no `device="cpu"`: only CPU tensors can be pinned, and '
        "another default device puts this one elsewhere."
    )


def _read_message(site: CallSite) -> str:
    return (
        f'{call(site)} is read on the host but has no `device="cpu"`: under a CUDA default device '
        "every read waits for the GPU, and on meta there is nothing to read."
    )


RULE = Rule(
    code=CODE,
    name="host-value-without-cpu",
    summary='factory without `device="cpu"` whose value is read on the host or pinned',
    severity=Severity.ERROR,
    fixable='insert `device="cpu"`',
    documentation=__doc__ or "",
    valid=VALID,
    invalid=INVALID,
    check=check,
)
