"""A buffer's tensor was built without a device.

## What it does

Reports a tensor factory that is called without `device=` while an `nn.Module` is being built, and
whose value becomes a buffer: `register_buffer` or `nn.Buffer`, neither of which takes a device.

## Why is this bad?

`module.to()` still moves the buffer, so this is a note. But a module whose parameters take a
`device` and whose buffers do not is spread over two devices until someone calls `.to()`, and a
loader that builds a module in its final place never does.

With `construction = "device-context"` only constructors that ignore device contexts are reported;
with `construction = "meta"` none is.

## Example

```python
import torch
from torch import nn


class Causal(nn.Module):
    def __init__(self, n: int, device: torch.device | None = None) -> None:
        super().__init__()
        self.register_buffer("mask", torch.ones(n, n).tril())
```

## Use instead

```python
import torch
from torch import nn


class Causal(nn.Module):
    def __init__(self, n: int, device: torch.device | None = None) -> None:
        super().__init__()
        self.register_buffer("mask", torch.ones(n, n, device=device).tril())
```

## Fix safety

The fix inserts `device=` with a device that is in scope, else the configured `device-expression`,
by default `torch.cuda.current_device()`, which needs CUDA while the module is built, defeats
construction on `meta`, and returns 0 on every rank until `set_device` ran (see DVL001).

The fix is safe but for random draws, whose numbers depend on the device, for values that are also
read on the host, and for values that a module computes with: those need `--unsafe-fixes`. All
constructions that meet in one expression get the same device, or none does.

## References

- [`torch.nn.Module.register_buffer`](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html)
- [`torch.nn.parameter.Buffer`](https://docs.pytorch.org/docs/stable/generated/torch.nn.parameter.Buffer.html)
"""

from __future__ import annotations

from devicelint.model import CallSite, Policy, Rule, Severity, Violation
from devicelint.rules.expression import insert_device
from devicelint.rules.judgement import is_placed, owner
from devicelint.rules.wording import call, named, reason

CODE = "DVL003"

VALID = (
    """\
import torch
from torch import nn


class Explicit(nn.Module):
    def __init__(self, n, device=None):
        super().__init__()
        self.register_buffer("mask", torch.ones(n, n, device=device).tril())
        self.register_buffer("late", None)
""",
    """\
import torch
from torch import nn


class Moved(nn.Module):
    def __init__(self, n, device):
        super().__init__()
        self.register_buffer("mask", torch.ones(n, n).to(device))
""",
)

INVALID = (
    """\
import torch
from torch import nn


class Causal(nn.Module):
    def __init__(self, n, device=None):
        super().__init__()
        self.register_buffer("mask", torch.ones(n, n).tril())  # expect: DVL003
        self.scale = nn.Buffer(torch.tensor(0.5))  # expect: DVL003
""",
    """\
import torch
from torch import nn


class Rope(nn.Module):
    def __init__(self, n, base):
        super().__init__()
        self.register_buffer("table", self._table(n, base), persistent=False)

    def _table(self, n, base):
        exponents = torch.arange(n) / n  # expect: DVL003
        return base**exponents
""",
)


def check(site: CallSite, policy: Policy) -> Violation | None:
    """Report a buffer that is built in one place and moved to another."""
    if owner(site) != CODE or is_placed(site, policy.construction):
        return None
    return Violation(
        message=_message(site),
        reason=reason(site, "buffer: moved by a later `.to()`"),
        severity=Severity.NOTE,
        fix=insert_device(site, policy),
        advice="Give the device to the factory: registering a buffer takes none.",
    )


def _message(site: CallSite) -> str:
    buffer = named("buffer", site)
    if not site.constructor.honours_context:
        return (
            f"{call(site)} has no `device=` and ignores device contexts, so only a later `.to()` "
            f"brings {buffer} to its device."
        )
    return (
        f"{call(site)} has no `device=`, so {buffer} is built on the default device first and "
        "needs a later `.to()`."
    )


RULE = Rule(
    code=CODE,
    name="buffer-without-device",
    summary="factory without `device=` whose value becomes a buffer",
    severity=Severity.NOTE,
    fixable="insert `device=`",
    documentation=__doc__ or "",
    valid=VALID,
    invalid=INVALID,
    check=check,
)
