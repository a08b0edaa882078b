"""A constructor takes a device and does not hand it on to a submodule.

## What it does

Reports a submodule that accepts `device`, one of PyTorch's or of the project, built without it in
a constructor that has a `device` parameter or `factory_kwargs`.

## Why is this bad?

Whoever passes `device` expects the whole module there. A submodule that is left out is built on
the default device: the module is spread over two devices, and `nn.utils.skip_init` or a build on
meta allocates and fills it all the same.

## Example

```python
import torch
from torch import nn


class FeedForward(nn.Module):
    def __init__(self, width: int, device: torch.device | None = None) -> None:
        super().__init__()
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width, device=device)
```

## Use instead

```python
import torch
from torch import nn


class FeedForward(nn.Module):
    def __init__(self, width: int, device: torch.device | None = None) -> None:
        super().__init__()
        self.up = nn.Linear(width, 4 * width, device=device)
        self.down = nn.Linear(4 * width, width, device=device)
```

## Fix safety

The fix inserts the device that is in scope, never another, and is safe in that `device=None`
changes nothing. With a real device, layers that draw their initial weights draw them there: a seed
gives other numbers on a GPU than on the CPU. Layers without a `device` parameter (`nn.Dropout`,
`nn.Sequential`, losses) are neither reported nor changed. Where the device may be among the
arguments after a `*`, there is no fix.

## References

- [`torch.nn.Linear`](https://docs.pytorch.org/docs/stable/generated/torch.nn.Linear.html)
- [Skipping parameter initialization](https://docs.pytorch.org/tutorials/prototype/skip_param_init.html)
- [sooftware/conformer#28](https://github.com/sooftware/conformer/issues/28)
"""

from __future__ import annotations

from devicelint.model import CallSite, Policy, Rule, Severity, Violation
from devicelint.rules.expression import insert_device
from devicelint.rules.judgement import owner
from devicelint.rules.wording import call, reason

CODE = "DVL010"

VALID = (
    """\
from torch import nn


class Forwarded(nn.Module):
    def __init__(self, width, device=None, dtype=None):
        super().__init__()
        factory_kwargs = {"device": device, "dtype": dtype}
        self.up = nn.Linear(width, 4 * width, device=device)
        self.act = nn.GELU()
        self.drop = nn.Dropout(0.1)
        self.down = nn.Linear(4 * width, width, True, device)
        self.norm = nn.LayerNorm(width, **factory_kwargs)
""",
    """\
from torch import nn


class NothingToForward(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 4 * width)
""",
)

INVALID = (
    """\
from torch import nn


class FeedForward(nn.Module):
    def __init__(self, width, device=None):
        super().__init__()
        self.up = nn.Linear(width, 4 * width)  # expect: DVL010
        self.down = nn.Linear(4 * width, width, device=device)
        self.norm = nn.LayerNorm(width)  # expect: DVL010
""",
    """\
import torch
from torch import nn


class Gain(nn.Module):
    def __init__(self, width, device=None):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width, device=device))


class Block(nn.Module):
    def __init__(self, width, device=None):
        super().__init__()
        self.gain = Gain(width)  # expect: DVL010
""",
)


def check(site: CallSite, policy: Policy) -> Violation | None:
    """Report a submodule that does not get the device its parent was given."""
    device = site.device_in_scope
    if owner(site) != CODE or device is None:
        return None
    return Violation(
        message=(
            f"{call(site)} accepts `device` but is not given `{device}`, so this submodule is "
            "built on the default device, whatever device its parent is given."
        ),
        reason=reason(site, f"`{device}` is in scope and not forwarded"),
        severity=Severity.WARNING,
        fix=insert_device(site, policy),
        advice=f"Pass `device={device}`.",
    )


RULE = Rule(
    code=CODE,
    name="device-not-forwarded",
    summary="submodule that accepts `device` built without the one in scope",
    severity=Severity.WARNING,
    fixable="insert `device=`",
    documentation=__doc__ or "",
    valid=VALID,
    invalid=INVALID,
    check=check,
)
