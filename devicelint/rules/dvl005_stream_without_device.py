"""A stream was created without a device.

## What it does

Reports `torch.cuda.Stream()`, `torch.Stream()`, `torch.xpu.Stream()` and their like, created
without a device while an `nn.Module` is being built. `torch.cuda.Event` is never reported: it
takes no device and binds when it is first recorded.

## Why is this bad?

A stream belongs to the device that is current when it is created. A module is often built before
its process selects a GPU: then every rank gets a stream on GPU 0. Neither `.to()` nor a device
context (`with torch.device(...)`, meta included) changes that afterwards, and all replicas of a
`DataParallel` module share the one stream.

## Example

```python
import torch
from torch import nn


class CopyPipe(nn.Module):
    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.copy_stream = torch.cuda.Stream()
```

## Use instead

```python
import torch
from torch import nn


class CopyPipe(nn.Module):
    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.copy_stream = torch.cuda.Stream(device=device)
```

or create the stream on first use, when the module's device is known.

## Fix safety

The fix inserts `device=` with a device that is in scope, else the configured `device-expression`,
by default `torch.cuda.current_device()`: that is the device the stream gets now, only written
down, and it is still GPU 0 on every rank until `set_device` ran.

Where the device in scope may be the CPU, the fixed call raises a `ValueError` for it: a stream
needs an accelerator. With `construction = "meta"` no fix is applied, since the device in scope
may be meta.

## References

- [`torch.cuda.Stream`](https://docs.pytorch.org/docs/stable/generated/torch.cuda.Stream.html)
- [CUDA semantics](https://docs.pytorch.org/docs/stable/notes/cuda.html)
- [vllm-project/vllm#8403](https://github.com/vllm-project/vllm/issues/8403), where every rank
  made its copy stream on GPU 0
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
    Violation,
)
from devicelint.rules.expression import insert_device
from devicelint.rules.judgement import owner
from devicelint.rules.wording import call, reason

CODE = "DVL005"

VALID = (
    """\
import torch
from torch import nn


class Explicit(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.first = torch.cuda.Stream(device=device)
        self.second = torch.cuda.Stream(device)
        self.done = torch.cuda.Event()
""",
    """\
import torch
from torch import nn


class Selected(nn.Module):
    def __init__(self, device):
        super().__init__()
        with torch.cuda.device(device):
            self.stream = torch.cuda.Stream()
""",
)

INVALID = (
    """\
import torch
from torch import nn


class CopyPipe(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.copy_stream = torch.cuda.Stream()  # expect: DVL005
        self.side_stream = torch.cuda.Stream(priority=-1)  # expect: DVL005
""",
    """\
import torch
from torch import nn


class Overlap(nn.Module):
    def __init__(self, stream=None):
        super().__init__()
        self.stream = stream or torch.Stream()  # expect: DVL005
""",
    """\
import torch
from torch import nn


class TensorContext(nn.Module):
    def __init__(self, device):
        super().__init__()
        with torch.device(device):
            self.stream = torch.cuda.Stream()  # expect: DVL005
""",
)


def check(site: CallSite, policy: Policy) -> Violation | None:
    """Report a stream on whichever device happens to be current."""
    if owner(site) != CODE or not site.constructor.takes_device:
        return None
    return Violation(
        message=(
            f"{call(site)} has no `device=`, so it belongs to the accelerator that is current "
            "while the module is built: neither `.to()` nor a device context changes that."
        ),
        reason=reason(site, "stream: bound to the current device at construction"),
        severity=Severity.ERROR,
        fix=_fix(site, policy),
        advice="Create the stream on the device it serves, or on first use.",
    )


def _fix(site: CallSite, policy: Policy) -> Fix:
    if policy.construction is Construction.META:
        # A stream on a device that may be meta is a ValueError.
        title = "Create the stream on first use, when the module has left meta"
        return Fix(title, Applicability.DISPLAY)
    return insert_device(site, policy)


RULE = Rule(
    code=CODE,
    name="stream-without-device",
    summary="stream created without a device",
    severity=Severity.ERROR,
    fixable="insert `device=`",
    documentation=__doc__ or "",
    valid=VALID,
    invalid=INVALID,
    check=check,
)
