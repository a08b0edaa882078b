"""A comment of devicelint silences nothing.

## What it does

Reports a `# devicelint: ignore[...]`, or a DVL code in a `# noqa`, that silences no finding; a code
that no rule has; a directive on a statement that no rule looks at; and a `# devicelint: skip-file`
that is not on a line of its own at file level, where alone it counts. Of a comment with several
codes only the idle ones are reported.

A bare `# noqa` and the codes of other tools are never reported. Whether a comment is idle does not
depend on `select`, `ignore` or `min-severity`. Where only some files of a package are checked (by
an editor, by pre-commit), comments are left alone that a file elsewhere may need. An `ignore`
without codes that does silence something is reported, as a note, only if DVL100 is selected by its
own code.

## Why is this bad?

It says that something is amiss here, which is not true any more. If the fault comes back, or
another one is written into the same line, the comment hides it.

## Example

```python
import torch
from torch import nn


class Table(nn.Module):
    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.table = torch.zeros(8, device=device)  # devicelint: ignore[DVL001] moved by hand
```

## Use instead

```python
import torch
from torch import nn


class Table(nn.Module):
    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.table = torch.zeros(8, device=device)  # moved by hand
```

## Fix safety

The fix takes away the idle codes, and the directive once none of its codes is left; what else the
comment says stays: other tools' codes and directives, and the reason. A comment of which nothing is
left goes as a whole. A code that looks misspelt is left to you, and so is a misplaced `skip-file`.

## References

- [`unused-noqa` of ruff](https://docs.astral.sh/ruff/rules/unused-noqa/), the same for `noqa`
"""

from __future__ import annotations

from devicelint.model import CallSite, Policy, Rule, Severity, Violation

CODE = "DVL100"

VALID = (
    """\
import torch
from torch import nn


class Table(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.zeros(8)  # devicelint: ignore[DVL001] read on the host only
        self.other = torch.zeros(8)  # noqa: E501, DVL001
        self.third = 1  # noqa
""",
)

INVALID = (
    """\
import torch
from torch import nn


class Table(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.table = torch.zeros(8, device=device)  # devicelint: ignore[DVL001]  # expect: DVL100
        self.other = torch.zeros(8)  # devicelint: ignore[DVL001, DVL003]  # expect: DVL100
        self.third = torch.zeros(8)  # noqa: E501, DVL001, DVL009  # expect: DVL100
        self.fourth = torch.zeros(8, device=device)  # devicelint: ignore[DVL999]  # expect: DVL100
""",
)


def check(site: CallSite, policy: Policy) -> Violation | None:
    """Report nothing: what this rule judges is a comment, once all call sites have been judged."""
    return None


RULE = Rule(
    code=CODE,
    name="unused-suppression",
    summary="comment that silences nothing, or a code that no rule has",
    severity=Severity.WARNING,
    fixable="remove it",
    documentation=__doc__ or "",
    valid=VALID,
    invalid=INVALID,
    check=check,
)
