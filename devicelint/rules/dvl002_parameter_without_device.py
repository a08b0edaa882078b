"""A parameter's tensor was built without a device.

## What it does

Reports a tensor factory that is called without `device=` while an `nn.Module` is being built, and
whose value becomes a parameter: inside `nn.Parameter`, `register_parameter`, `nn.ParameterList` or
`nn.ParameterDict`. The factory is reported, not `nn.Parameter`, which takes no device.

## Why is this bad?

`module.to()` still moves the parameter, so this is a note. But it is first allocated, and often
filled, on the default device: a large model needs the host's memory once before it gets to the
GPU, and `nn.utils.skip_init` and loaders that pass a device have no effect on it.

With `construction = "device-context"` only constructors that ignore device contexts are reported;
with `construction = "meta"` none is.

## Example

```python
import torch
from torch import nn


class Gain(nn.Module):
    def __init__(self, width: int, device: torch.device | None = None) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))
```

## Use instead

```python
import torch
from torch import nn


class Gain(nn.Module):
    def __init__(self, width: int, device: torch.device | None = None) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width, device=device))
```

Never move the parameter itself: `nn.Parameter(...).to(device)` is a plain tensor, no parameter.

## Fix safety

The fix inserts `device=` with a device that is in scope, else the configured `device-expression`,
by default `torch.cuda.current_device()`. Know what that costs:

- it needs CUDA while the module is built, and initialises it; without a GPU it raises;
- it defeats construction on `meta`: the tensor takes real GPU memory;
- it returns 0 on every rank until `torch.cuda.set_device(local_rank)` ran.

The fix is safe but for random draws (`torch.randn`, ...): a seed gives other numbers on another
device, so they need `--unsafe-fixes`.

## References

- [`torch.nn.parameter.Parameter`](https://docs.pytorch.org/docs/stable/generated/torch.nn.parameter.Parameter.html)
- [Skipping parameter initialization](https://docs.pytorch.org/tutorials/prototype/skip_param_init.html)
- [facebookresearch/dinov2#476](https://github.com/facebookresearch/dinov2/issues/476), where a
  learned scale ignored the `device` of its constructor
"""

from __future__ import annotations

from devicelint.model import CallSite, Policy, Rule, Severity, Violation
from devicelint.rules.expression import insert_device
from devicelint.rules.judgement import is_placed, owner
from devicelint.rules.wording import call, named, reason

CODE = "DVL002"

VALID = (
    """\
import torch
from torch import nn


class Explicit(nn.Module):
    def __init__(self, n, device=None, dtype=None):
        super().__init__()
        factory_kwargs = {"device": device, "dtype": dtype}
        self.weight = nn.Parameter(torch.empty(n, n, **factory_kwargs))
        self.bias = nn.Parameter(torch.zeros(n, device=device))
""",
    """\
import torch
from torch import nn


class Placed(nn.Module):
    def __init__(self, n, device):
        super().__init__()
        with torch.device(device):
            self.weight = nn.Parameter(torch.empty(n))
""",
    """\
import torch
from torch import nn


class Follows(nn.Module):
    def __init__(self, other):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros_like(other.weight))
        self.bias = nn.Parameter(other.bias.new_zeros(4))
""",
)

INVALID = (
    """\
import torch
from torch import nn


class Gain(nn.Module):
    def __init__(self, n, start=1e-5, device=None):
        super().__init__()
        self.gain = nn.Parameter(start * torch.ones(n))  # expect: DVL002
        self.register_parameter("bias", nn.Parameter(torch.zeros(n)))  # expect: DVL002
""",
    """\
import torch
from torch import nn


class Made(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = self._weight(n)

    def _weight(self, n):
        value = torch.empty(n, n)  # expect: DVL002
        nn.init.zeros_(value)
        return nn.Parameter(value)
""",
)


def check(site: CallSite, policy: Policy) -> Violation | None:
    """Report a parameter that is built in one place and moved to another."""
    if owner(site) != CODE or is_placed(site, policy.construction):
        return None
    return Violation(
        message=_message(site),
        reason=reason(site, "parameter: moved by a later `.to()`"),
        severity=Severity.NOTE,
        fix=insert_device(site, policy),
        advice="Give the device to the factory inside the parameter, never to `nn.Parameter`.",
    )


def _message(site: CallSite) -> str:
    parameter = named("parameter", site)
    if not site.constructor.honours_context:
        return (
            f"{call(site)} has no `device=` and ignores device contexts, so only a later `.to()` "
            f"brings {parameter} to its device."
        )
    return (
        f"{call(site)} has no `device=`, so {parameter} is built on the default device first and "
        "needs a later `.to()`."
    )


RULE = Rule(
    code=CODE,
    name="parameter-without-device",
    summary="factory without `device=` inside a parameter",
    severity=Severity.NOTE,
    fixable="insert `device=`",
    documentation=__doc__ or "",
    valid=VALID,
    invalid=INVALID,
    check=check,
)
