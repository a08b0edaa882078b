"""Judge by bytes alone how closely a file has to be read.

In: the bytes of a file.  Out: truth values.  Never here: decoding, parsing, or a loss: whatever a
gate lets through less is still read, only less of it.
"""

from __future__ import annotations

import re

from devicelint.model import Kind
from devicelint.torch_api import CONSTRUCTORS, FACTORY_TOKENS

_TOKENS = frozenset(FACTORY_TOKENS)

#: Names that mostly stand in annotations (`x: torch.Tensor`); only a call of them counts.
_TYPES = frozenset(
    row.name.rpartition(".")[2].encode() for row in CONSTRUCTORS.values() if row.kind is Kind.LEGACY
)

_DOTTED = re.compile(rb"\btorch\s*\.\s*([\w.]+)")
_CALL = re.compile(rb"\s*\(")
_INSIDE = re.compile(rb"([(\[{])|([)\]}])|\bdevice\s*=\s*(?!None\b)|[#\"']")
#: other ways to a constructor than `torch.name(...)`
_INDIRECT = re.compile(
    rb"\bimport\s+torch\s+as\b|\bgetattr\(\s*torch\b|\bfrom\s+torch(?:\.\w+)*\s+import\s+(?!nn\b)"
    rb"|\bdef\s+__init__\s*\([^)]*\b(?:device|factory_kwargs)\b"
)

#: A call longer than this is not searched for its end.
_LONGEST = 4_000


def may_matter(data: bytes) -> bool:
    """Tell files that may define a module or call a helper of one: the rest is not parsed."""
    return b"torch" in data or (b"class " in data and b"import" in data and b"nn" in data)


def sets_up_process_group(data: bytes) -> bool:
    """Tell files that may set up a process group of torch.distributed."""
    return b"init_process_group" in data and b"torch" in data


def may_lack_device(data: bytes) -> bool:
    """Tell files in which a constructor may be called without a device, wherever that is.

    Approximate in one direction: True for some files without such a call.
    """
    if b"torch" not in data:
        return False
    if _INDIRECT.search(data):
        return True
    for match in _DOTTED.finditer(data):
        name = match[1].rpartition(b".")[2]
        if name in _TOKENS:
            call = _CALL.match(data, match.end())
            if call is None and name in _TYPES:
                continue
            if call is None or not _names_device(data, call.end()):
                return True
    return False


def _names_device(data: bytes, start: int) -> bool:
    """Tell whether the call whose bracket opens before `start` has a `device=` of its own."""
    depth = 1
    for match in _INSIDE.finditer(data, start, start + _LONGEST):
        if match[1]:
            depth += 1
        elif match[2]:
            depth -= 1
            if not depth:
                return False
        elif match[0][:1] in b"#\"'":
            return False  # brackets in strings and comments do not count: look closer
        elif depth == 1:
            return True
    return False
