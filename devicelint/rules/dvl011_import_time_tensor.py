"""A tensor that modules use is built when the file is imported.

## What it does

Reports a tensor, stream or generator built without a device in the body of an `nn.Module` class,
in a default argument of its construction code, or as a module-level constant that such code uses.

## Why is this bad?

Such code runs once, at import: before a device is chosen, outside every device context, and before
`torch.cuda.set_device`. All instances share the one value, on whatever device was the default
then, and unless an instance registers it `.to()` does not move it. A submodule in a default
argument is shared in the same way, so that one owner moves it for all.

## Example

```python
import torch
from torch import nn


class Luma(nn.Module):
    weights = torch.tensor([0.3, 0.6, 0.1])

    def forward(self, rgb: torch.Tensor) -> torch.Tensor:
        return (rgb * self.weights).sum(-1)
```

## Use instead

```python
import torch
from torch import nn


class Luma(nn.Module):
    weights: torch.Tensor

    def __init__(self, device: torch.device | None = None) -> None:
        super().__init__()
        weights = torch.tensor([0.3, 0.6, 0.1], device=device)
        self.register_buffer("weights", weights, persistent=False)

    def forward(self, rgb: torch.Tensor) -> torch.Tensor:
        return (rgb * self.weights).sum(-1)
```

In a signature write `weight=None`, and build the default in `__init__`.

## Fix safety

There is no automatic fix. No device is in scope at import, and naming an accelerator there would
initialise CUDA in every process that imports the file. A buffer registered without
`persistent=False` adds a key to `state_dict`.

## References

- [`torch.nn.Module.register_buffer`](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html)
- [pytorch/pytorch#58140](https://github.com/pytorch/pytorch/issues/58140), about a module as a
  default argument
"""

from __future__ import annotations

from devicelint.model import CallSite, Kind, Policy, Rule, Severity, Sink, Violation
from devicelint.rules.judgement import owner
from devicelint.rules.wording import call, reason

CODE = "DVL011"

VALID = (
    """\
import torch
from torch import nn


class Luma(nn.Module):
    def __init__(self, device=None, weight=None):
        super().__init__()
        if weight is None:
            weight = torch.tensor([0.3, 0.6, 0.1], device=device)
        self.register_buffer("weight", weight, persistent=False)
""",
    """\
from torch import nn


class Numbers(nn.Module):
    weights = (0.3, 0.6, 0.1)

    def __init__(self, scale=1.0):
        super().__init__()
        self.scale = scale
""",
)

INVALID = (
    """\
import torch
from torch import nn


class Luma(nn.Module):
    weights = torch.tensor([0.3, 0.6, 0.1])  # expect: DVL011

    def forward(self, rgb):
        return (rgb * self.weights).sum(-1)
""",
    """\
import torch
from torch import nn


class Weighted(nn.Module):
    def __init__(self, weight=torch.full((5,), 0.5)):  # expect: DVL011
        super().__init__()
        self.weight = weight
""",
)

_ADVICE = {
    Kind.STREAM: "Create it in the module that uses it, on that module's device.",
    Kind.GENERATOR: "Create it in the module that uses it, on that module's device.",
    Kind.MODULE: "Build it in `__init__`, so that every instance has its own.",
}


def check(site: CallSite, policy: Policy) -> Violation | None:
    """Report what import builds for all instances.

    A value that is read on the host is left out: at import it is a number, not a tensor.
    """
    if owner(site) != CODE or site.sink is Sink.HOST:
        return None
    return Violation(
        message=(
            f"{call(site)} runs when the file is imported, so its value is built once, on the "
            "device that is the default then, and shared by all instances."
        ),
        reason=reason(site, f"import time: no device is chosen yet{_stays(site)}"),
        severity=Severity.WARNING,
        advice=_ADVICE.get(
            site.constructor.kind,
            "Build it in `__init__`, as a buffer with `persistent=False` if it is constant.",
        ),
    )


def _stays(site: CallSite) -> str:
    moved = site.sink in {Sink.PARAMETER, Sink.BUFFER}
    return "" if moved else ", and `.to()` never moves it"


RULE = Rule(
    code=CODE,
    name="import-time-tensor",
    summary="tensor built in a class body, default argument or module-level constant",
    severity=Severity.WARNING,
    fixable="none",
    documentation=__doc__ or "",
    valid=VALID,
    invalid=INVALID,
    check=check,
)
