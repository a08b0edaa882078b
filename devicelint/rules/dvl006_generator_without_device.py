"""A random generator was created without a device.

## What it does

Reports `torch.Generator()` created without a device while an `nn.Module` is being built.

## Why is this bad?

Without a device it is a CPU generator, also under `torch.set_default_device("cuda")` and inside
`with torch.device("cuda")`, and `.to()` never moves it. A draw on the GPU that is given a CPU
generator is refused: "Expected a 'cuda' device type for generator but found 'cpu'".

## Example

```python
import torch
from torch import nn


class Dither(nn.Module):
    def __init__(self, seed: int, device: torch.device) -> None:
        super().__init__()
        self.rng = torch.Generator()
        self.rng.manual_seed(seed)
```

## Use instead

```python
import torch
from torch import nn


class Dither(nn.Module):
    def __init__(self, seed: int, device: torch.device) -> None:
        super().__init__()
        self.rng = torch.Generator(device=device)
        self.rng.manual_seed(seed)
```

A generator that is meant to draw on the CPU says so: `torch.Generator(device="cpu")`.

## Fix safety

The fix inserts `device=` only where a device is in scope, and always needs `--unsafe-fixes`: a
seed gives other numbers on another device, and whatever the generator feeds has to be drawn on
that device too. With `construction = "meta"` no fix is applied, since there is no generator on
meta.

## References

- [`torch.Generator`](https://docs.pytorch.org/docs/stable/generated/torch.Generator.html)
- [Reproducibility](https://docs.pytorch.org/docs/stable/notes/randomness.html)
"""

from __future__ import annotations

from dataclasses import replace

from devicelint.model import (
    Applicability,
    CallSite,
    Construction,
    Fix,
    Policy,
    Rule,
    Severity,
    Violation,
)
from devicelint.rules.expression import insert_device
from devicelint.rules.judgement import owner
from devicelint.rules.wording import call, reason

CODE = "DVL006"

VALID = (
    """\
import torch
from torch import nn


class Explicit(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.rng = torch.Generator(device=device)
        self.host_rng = torch.Generator("cpu")
""",
    """\
import torch


def shuffle(n):
    return torch.randperm(n, generator=torch.Generator())
""",
)

INVALID = (
    """\
import torch
from torch import nn


class Dither(nn.Module):
    def __init__(self, seed, device):
        super().__init__()
        self.rng = torch.Generator()  # expect: DVL006
        self.rng.manual_seed(seed)
""",
    """\
import torch
from torch import nn


class Placed(nn.Module):
    def __init__(self, device):
        super().__init__()
        with torch.device(device):
            self.rng = torch.Generator()  # expect: DVL006
""",
)


def check(site: CallSite, policy: Policy) -> Violation | None:
    """Report a generator that draws on the CPU by omission."""
    if owner(site) != CODE:
        return None
    return Violation(
        message=(
            f"{call(site)} has no `device=`, so it draws on the CPU whatever the default device "
            "is, and `.to()` never moves it."
        ),
        reason=reason(site, "generator: on the CPU unless it is given a device"),
        severity=Severity.ERROR,
        fix=_fix(site, policy),
        advice="Create it on the device of the tensors that are drawn with it.",
    )


def _fix(site: CallSite, policy: Policy) -> Fix | None:
    if site.device_in_scope is None or policy.construction is Construction.META:
        return None
    fix = insert_device(site, policy)
    # A generator is nothing but its numbers, and these are other ones on another device.
    return replace(fix, applicability=Applicability.UNSAFE) if fix.edits else fix


RULE = Rule(
    code=CODE,
    name="generator-without-device",
    summary="`torch.Generator` created without a device",
    severity=Severity.ERROR,
    fixable="insert `device=`, where one is in scope",
    documentation=__doc__ or "",
    valid=VALID,
    invalid=INVALID,
    check=check,
)
