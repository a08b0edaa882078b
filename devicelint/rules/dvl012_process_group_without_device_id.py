"""A process group for NCCL was set up without saying which device this rank uses.

## What it does

Reports `torch.distributed.init_process_group(...)` for NCCL, or with no backend named, without
`device_id=`; and, in a file that sets up such a group, `torch.distributed.barrier()` without
`device_ids=`. Unlike the other rules it looks outside `nn.Module`s too.

## Why is this bad?

Without a device the group has to guess one when a barrier comes before the first collective. It
takes the global rank modulo the number of visible devices, and logs "Guessing device ID based on
global rank". `torch.cuda.set_device` does not help: the current device is not consulted. Where
ranks are mapped to devices otherwise (`CUDA_VISIBLE_DEVICES=0,5,6,7`, one visible device for each
process, several nodes of unequal size), the guess is another rank's device: the barrier may hang,
or every rank may open a context on GPU 0.

With `device_id=` there is nothing to guess, and the communicator is formed at once.

## Example

```python
import torch
import torch.distributed as dist


def start(local_rank: int) -> None:
    device = torch.device("cuda", local_rank)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl")
    dist.barrier()
```

## Use instead

```python
import torch
import torch.distributed as dist


def start(local_rank: int) -> None:
    device = torch.device("cuda", local_rank)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    dist.barrier()
```

## Fix safety

The fix inserts `device_id=` where a local name holds a device with an index
(`torch.device("cuda", rank)`, `torch.device(f"cuda:{rank}")`); a device without one is a
`ValueError`. It needs `--unsafe-fixes`: the communicator is then formed eagerly, and groups made
from this one split from it. `device_id=` takes a `torch.device` since PyTorch 2.3.

## References

- [`torch.distributed.init_process_group`](https://docs.pytorch.org/docs/stable/distributed.html)
"""

from __future__ import annotations

from devicelint.model import (
    Applicability,
    CallSite,
    Fix,
    Policy,
    Rule,
    Severity,
    Violation,
)
from devicelint.rules.expression import insert_keywords
from devicelint.rules.judgement import owner
from devicelint.rules.wording import call

CODE = "DVL012"

VALID = (
    """\
import torch
import torch.distributed as dist


def start(rank):
    device = torch.device("cuda", rank)
    dist.init_process_group("nccl", device_id=device)
    dist.barrier()
""",
    """\
import torch.distributed as dist


def start_on_cpu():
    dist.init_process_group("gloo")
    dist.barrier()
""",
    """\
import torch.distributed as dist


def start(options):
    dist.init_process_group(**options)


def wait():
    dist.barrier()
""",
)

INVALID = (
    """\
import torch
import torch.distributed as dist


def start(rank):
    device = torch.device(f"cuda:{rank}")
    dist.init_process_group(backend="nccl")  # expect: DVL012
    dist.barrier(device_ids=[rank])
""",
    """\
from torch import distributed as dist

dist.init_process_group()  # expect: DVL012


def wait():
    dist.barrier()  # expect: DVL012
""",
)


def check(site: CallSite, policy: Policy) -> Violation | None:
    """Report a process group, or a barrier of one, that has to guess its device."""
    if owner(site) != CODE:
        return None
    if site.callable.endswith("barrier"):
        return Violation(
            message=(
                f"{call(site)} has no `device_ids=` and its process group no "
                "`device_id=`, so before the first collective it takes global rank modulo device "
                "count, whatever `torch.cuda.set_device` said."
            ),
            reason="the process group of this file was set up without a device",
            severity=Severity.ERROR,
            advice="Pass `device_id=` where the group is set up, or `device_ids=[index]` here.",
        )
    return Violation(
        message=(
            f"{call(site)} has no `device_id=`, so a barrier before the first "
            "collective guesses this rank's device from its global rank, whatever "
            "`torch.cuda.set_device` said."
        ),
        reason='NCCL then logs "Guessing device ID based on global rank"',
        severity=Severity.ERROR,
        fix=_fix(site),
        advice="Pass `device_id=torch.device('cuda', local_rank)`: a device with an index.",
    )


def _fix(site: CallSite) -> Fix:
    if site.device_in_scope is None or site.insertion is None:
        title = "Choose the device by hand: no local name holds a device with an index"
        return Fix(title, Applicability.DISPLAY)
    keyword = f"device_id={site.device_in_scope}"
    edit = insert_keywords(site.insertion, keyword)
    return Fix(f"Insert `{keyword}`", Applicability.UNSAFE, (edit,))


RULE = Rule(
    code=CODE,
    name="process-group-without-device-id",
    summary="process group for NCCL set up without `device_id=`, and barriers that depend on it",
    severity=Severity.ERROR,
    fixable="insert `device_id=`, where a device with an index is in scope",
    documentation=__doc__ or "",
    valid=VALID,
    invalid=INVALID,
    check=check,
)
