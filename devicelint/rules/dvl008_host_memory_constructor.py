"""A tensor was built over memory of the host.

## What it does

Reports `torch.from_numpy`, `torch.frombuffer` and `torch.from_file`, called while an `nn.Module`
is being built, unless the result is moved at once.

## Why is this bad?

They share memory with something on the host, so they ignore every device context and can place
their result nowhere else. As a plain attribute it stays on the CPU for ever, since `.to()` moves
only parameters and buffers; as a parameter or buffer it is on another device than its neighbours
until someone calls `.to()`; and it is real memory in a module that is built on meta.

A value that is read on the host is where it has to be: that is only a note.

## Example

```python
import numpy
import torch
from torch import nn


class Table(nn.Module):
    def __init__(self, table: numpy.ndarray, device: torch.device) -> None:
        super().__init__()
        self.table = torch.from_numpy(table)
```

## Use instead

```python
import numpy
import torch
from torch import nn


class Table(nn.Module):
    def __init__(self, table: numpy.ndarray, device: torch.device) -> None:
        super().__init__()
        self.table = torch.from_numpy(table).to(device)
```

`torch.as_tensor(table, device=device)` does the same in one call.

## Fix safety

There is no automatic fix. There is no `device=` to insert, and a copy on another device no longer
shares memory with the array, which may be the point of the call. A parameter must be moved inside:
`nn.Parameter(torch.from_numpy(table).to(device))`.

## References

- [`torch.from_numpy`](https://docs.pytorch.org/docs/stable/generated/torch.from_numpy.html)
- [`torch.frombuffer`](https://docs.pytorch.org/docs/stable/generated/torch.frombuffer.html)
- [`torch.as_tensor`](https://docs.pytorch.org/docs/stable/generated/torch.as_tensor.html)
"""

from __future__ import annotations

from devicelint.model import (
    Applicability,
    CallSite,
    Construction,
    Fix,
    Policy,
    Rule,
    Severity,
    Sink,
    Violation,
)
from devicelint.rules.expression import buffer_advice
from devicelint.rules.judgement import owner
from devicelint.rules.wording import call, ending, reason

CODE = "DVL008"

VALID = (
    """\
import torch
from torch import nn


class Moved(nn.Module):
    def __init__(self, table, device):
        super().__init__()
        self.table = torch.from_numpy(table).to(device)
        self.register_buffer("other", torch.as_tensor(table, device=device))
""",
    """\
import torch


def load(table):
    return torch.from_numpy(table)
""",
)

INVALID = (
    """\
import torch
from torch import nn


class Table(nn.Module):
    def __init__(self, table, data):
        super().__init__()
        self.table = torch.from_numpy(table)  # expect: DVL008
        self.register_buffer("raw", torch.frombuffer(data, dtype=torch.uint8))  # expect: DVL008
""",
    """\
import torch
from torch import nn


class Placed(nn.Module):
    def __init__(self, table, device):
        super().__init__()
        with torch.device(device):
            self.table = nn.Parameter(torch.from_numpy(table))  # expect: DVL008
""",
)


def check(site: CallSite, policy: Policy) -> Violation | None:
    """Report a tensor that can only be on the host."""
    if owner(site) != CODE:
        return None
    if site.sink is Sink.HOST:
        return Violation(
            message=f"{call(site)} builds on the CPU, where its value is read: nothing is amiss.",
            reason=reason(site, "memory of the host, read on the host"),
            severity=Severity.NOTE,
            advice="Leave it on the CPU.",
        )
    return Violation(
        message=(
            f"{call(site)} takes no `device=` and ignores device contexts, so {ending(site)} is "
            "built on the CPU wherever the module is built."
        ),
        reason=reason(site, "memory of the host: no device context moves it"),
        severity=Severity.ERROR,
        fix=_fix(site, policy),
        advice=_advice(site),
    )


def _device(site: CallSite) -> str:
    return site.device_in_scope or "device"


def _advice(site: CallSite) -> str:
    moved = f"Move it with `.to({_device(site)})`"
    if site.sink is Sink.PARAMETER:
        return f"{moved} before it is made a parameter."
    if site.constructor.name == "torch.from_numpy":
        return f"{moved}, or use `torch.as_tensor(..., device={_device(site)})`."
    return f"{moved}."


def _fix(site: CallSite, policy: Policy) -> Fix:
    if policy.construction is Construction.META and site.sink is Sink.ATTRIBUTE:
        return buffer_advice(site)
    title = f"Move the result with `.to({_device(site)})`, which gives up the shared memory"
    return Fix(title, Applicability.DISPLAY)


RULE = Rule(
    code=CODE,
    name="host-memory-constructor",
    summary="`torch.from_numpy`, `torch.frombuffer`: no device parameter, ignore contexts",
    severity=Severity.ERROR,
    fixable="none",
    documentation=__doc__ or "",
    valid=VALID,
    invalid=INVALID,
    check=check,
)
