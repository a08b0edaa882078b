"""A tensor is kept as a plain attribute and was built without a device.

## What it does

Reports a tensor factory (`torch.zeros`, `torch.arange`, `torch.tensor`, ...) that is called
without `device=` while an `nn.Module` is being built, and whose value ends in a plain attribute:
`self.x`, or a list, tuple or dict on `self`.

## Why is this bad?

`module.to()`, `.cuda()` and `.to_empty()` move parameters, buffers and submodules. A plain
attribute is none of these: it stays on whatever device was the default while the module was
built, usually the CPU. In `forward` it then meets tensors on another device, or is copied anew
on every step. A module built on `meta` is worse off: its attribute stays there, without data.

A device context (`with torch.device(...)`) does place the attribute, but only for loaders that
use one. With `construction = "device-context"` the finding is therefore a warning, except for
constructors that ignore such contexts; with `construction = "meta"` it is an error, and the
advice is to make it a buffer.

## Example

```python
import torch
from torch import nn


class PhaseStretch(nn.Module):
    def __init__(self, bins: int, device: torch.device | None = None) -> None:
        super().__init__()
        self.step = torch.linspace(0, 1, bins)
```

## Use instead

```python
import torch
from torch import nn


class PhaseStretch(nn.Module):
    def __init__(self, bins: int, device: torch.device | None = None) -> None:
        super().__init__()
        self.step = torch.linspace(0, 1, bins, device=device)
```

or, so that it moves with its module and no checkpoint gains a key:

```python
import torch
from torch import nn


class PhaseStretch(nn.Module):
    step: torch.Tensor

    def __init__(self, bins: int, device: torch.device | None = None) -> None:
        super().__init__()
        step = torch.linspace(0, 1, bins, device=device)
        self.register_buffer("step", step, persistent=False)
```

## Fix safety

The fix inserts `device=` with a device that is in scope (`device`, `factory_kwargs["device"]`).
Where none is, it inserts the configured `device-expression`, by default
`torch.cuda.current_device()`. Know what that costs:

- it needs CUDA while the module is built, and initialises it; without a GPU it raises;
- it defeats construction on `meta`: the tensor takes real GPU memory;
- it returns 0 on every rank until `torch.cuda.set_device(local_rank)` ran.

Only the placement changes, so the fix is safe, with four exceptions that need `--unsafe-fixes`:
random draws (a seed gives other numbers on another device), values that are read on the host as
well, values that a module computes with (its weights are wherever they are), and
`torch.as_tensor(x)` and its like, which may alias `x` now and would copy it.

With `construction = "meta"` there is no automatic fix. A buffer registered without
`persistent=False` adds a key to `state_dict`, and older checkpoints no longer load strictly.

## References

- [`torch.nn.Module.register_buffer`](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html)
- [`torch.set_default_device`](https://docs.pytorch.org/docs/stable/generated/torch.set_default_device.html)
- [The meta device](https://docs.pytorch.org/docs/stable/meta.html)
- [pytorch/audio#457](https://github.com/pytorch/audio/issues/457), where a transform was moved
  and its phase ramp was not
"""

from __future__ import annotations

from devicelint.model import CallSite, Construction, Policy, Rule, Severity, Violation
from devicelint.rules.expression import buffer_advice, buffer_remedy, insert_device
from devicelint.rules.judgement import owner
from devicelint.rules.wording import call, named, reason

CODE = "DVL001"

VALID = (
    """\
import torch
from torch import nn


class Explicit(nn.Module):
    def __init__(self, n, device=None):
        super().__init__()
        self.steps = torch.linspace(0, 1, n, device=device)
        self.moved = torch.arange(n).to(device)
""",
    """\
import torch
from torch import nn


class MovedByItsModule(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.register_buffer("steps", torch.linspace(0, 1, n), persistent=False)
        self.weight = nn.Parameter(torch.empty(n))
""",
    """\
import torch
from torch import nn


class Placed(nn.Module):
    def __init__(self, n, device):
        super().__init__()
        with torch.device(device):
            self.steps = torch.linspace(0, 1, n)
""",
    """\
import torch
from torch import nn


class Placeholder(nn.Module):
    def __init__(self):
        super().__init__()
        self.cache = torch.tensor([])
        self.device = torch.empty(0).device
""",
    """\
import torch


class NoModule:
    def __init__(self, n):
        self.steps = torch.linspace(0, 1, n)
""",
)

INVALID = (
    """\
import torch
from torch import nn


class Rope(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.steps = torch.linspace(0, 1, n)  # expect: DVL001
        self.none = torch.ones(n, device=None)  # expect: DVL001
""",
    """\
import torch as th


class Tables(th.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.tables = [self._table(n) for _ in range(2)]

    def _table(self, n):
        return th.arange(n) * 0.5  # expect: DVL001
""",
    """\
import torch
from torch import nn, zeros


class Scale(nn.Module):
    def __init__(self, n, device=None):
        super().__init__()
        self.scale = zeros(  # expect: DVL001
            n,
            dtype=torch.float32,
        )
""",
    """\
import torch
from torch import nn


class Noise(nn.Module):
    def __init__(self, n, device):
        super().__init__()
        with torch.device(device):
            self.noise = torch.normal(0.0, 1.0, size=(n,))  # expect: DVL001
""",
)


def check(site: CallSite, policy: Policy) -> Violation | None:
    """Report a tensor that no `.to()` will ever move."""
    if owner(site) != CODE:
        return None
    on_meta = policy.construction is Construction.META
    return Violation(
        message=_message(site, policy.construction),
        reason=reason(site, "plain attribute: `.to()` never moves it"),
        severity=_severity(site, policy.construction),
        fix=buffer_advice(site) if on_meta else insert_device(site, policy),
        advice=_advice(site, policy.construction),
    )


def _severity(site: CallSite, construction: Construction) -> Severity:
    placed = construction is Construction.DEVICE_CONTEXT and site.constructor.honours_context
    return Severity.WARNING if placed else Severity.ERROR


def _message(site: CallSite, construction: Construction) -> str:
    attribute = named("plain attribute", site)
    if not site.constructor.honours_context:
        return (
            f"{call(site)} has no `device=` and ignores device contexts, so {attribute} stays "
            "where it was built: `.to()` moves only parameters and buffers."
        )
    match construction:
        case Construction.DEVICE_CONTEXT:
            return (
                f"{call(site)} has no `device=`: a device context places {attribute}, but a later "
                "`.to()` or a build on meta leaves it behind."
            )
        case Construction.META:
            return (
                f"{call(site)} has no `device=`, so {attribute} is built on meta and stays there: "
                "materialising a module fills only parameters and buffers."
            )
    return (
        f"{call(site)} has no `device=`, so {attribute} lands on the default device and stays "
        "there: `.to()` moves only parameters and buffers."
    )


def _advice(site: CallSite, construction: Construction) -> str:
    buffer = buffer_remedy(site)
    if construction is Construction.META:
        return f"M{buffer[1:]}."
    if site.device_in_scope is not None:
        return f"Pass `device={site.device_in_scope}`, or {buffer}."
    return f"Name its device, or {buffer}."


RULE = Rule(
    code=CODE,
    name="attribute-without-device",
    summary="factory without `device=` whose value becomes a plain attribute",
    severity=Severity.ERROR,
    fixable="insert `device=`",
    documentation=__doc__ or "",
    valid=VALID,
    invalid=INVALID,
    check=check,
)
