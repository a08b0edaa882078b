"""What can be said of values (see `ir`) without knowing the function they occur in.

In: values and syntax nodes.  Out: values, booleans, strings.  Never here: state, names of other
files, or a decision about a device.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping

from devicelint.ir import Atom, Value
from devicelint.torch_api import TORCH_DTYPES

#: A value with more alternatives than this says nothing any more; the cap keeps joins cheap.
MAX_ATOMS = 48

#: Factories whose arguments are sizes, so that a literal 0 among them means "no elements".
SIZED = frozenset(
    "empty zeros ones rand randn full Tensor FloatTensor DoubleTensor HalfTensor LongTensor "
    "IntTensor ByteTensor BoolTensor".split()
)
#: Factories whose first argument is data, so that an empty display means "no elements".
FILLED = frozenset("tensor as_tensor asarray Tensor FloatTensor LongTensor IntTensor".split())

#: Prefixes of `*_device` names that do not hold a device (`use_device`, `per_device`).
_NOT_A_DEVICE = ("is_", "use_", "has_", "per_", "num_", "n_", "cross_", "multi_", "same_", "on_")

#: Context managers that decide where tensors are built, whatever their argument.
DEVICE_CONTEXTS = frozenset({"init_empty_weights", "init_on_device", "DeviceContext"})


def merge(*values: Iterable[Atom]) -> Value:
    """Join values, dropping repeated atoms, first come first."""
    seen: dict[Atom, None] = {}
    for value in values:
        for atom in value:
            seen[atom] = None
    if len(seen) > MAX_ATOMS:
        return tuple(seen)[:MAX_ATOMS]
    return tuple(seen)


def tracked(value: Value) -> Value:
    """Keep the atoms whose way through the function is recorded."""
    return tuple(atom for atom in value if atom[0] in ("call", "item", "param"))


def references(value: Value) -> list[str]:
    """Give the dotted names that the value may stand for."""
    return [str(atom[1]) for atom in value if atom[0] == "ref"]


def element(value: Value, index: int) -> Value:
    """Give the value of element `index` when `value` is unpacked."""
    return merge((("item", atom[1], index) if atom[0] == "call" else atom) for atom in value)


def spread_of(values: list[Value]) -> str:
    """Say what the `**` arguments of a call may bring; see `CallFact.spread`."""
    if not values:
        return ""
    states = [_spread(value) for value in values]
    for state in ("device", "open"):
        if state in states:
            return state
    return "closed"


def _spread(value: Value) -> str:
    dicts = [atom for atom in value if atom[0] == "dict"]
    if any("device" in atom[2:] for atom in dicts):
        return "device"
    if dicts and all(atom[1] for atom in dicts) and all(atom[0] != "param" for atom in value):
        return "closed"
    return "open"


def with_key(value: Value, key: str) -> Value:
    """Add a key to every dict that the value may be (`kwargs["device"] = d`)."""
    return merge((*atom, key) if atom[0] == "dict" and key not in atom else atom for atom in value)


def dict_of(keys: Iterable[str | None], spreads: Iterable[Value]) -> Atom:
    """Build the atom of a dict display from its literal keys (None: not literal) and `**` parts."""
    known: dict[str, None] = {}
    full = 1
    for key in keys:
        if key is None:
            full = 0
        else:
            known[key] = None
    for value in spreads:
        parts = [atom for atom in value if atom[0] == "dict"]
        full = full and int(bool(parts) and all(atom[1] for atom in parts))
        for atom in parts:
            known.update((str(key), None) for key in atom[2:])
    return ("dict", full, *known)


def looks_like_dtype(node: ast.expr) -> bool:
    """Tell a dtype from a device in `.to(x)` by how it is written."""
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name in TORCH_DTYPES or "dtype" in name.lower() or name in ("float", "int", "bool")
        case ast.Call(func=func):
            return looks_like_dtype(func)
        case ast.IfExp(body=body, orelse=orelse):
            return looks_like_dtype(body) and looks_like_dtype(orelse)
    return False


def names_a_device(node: ast.expr) -> bool:
    """Tell whether a `with` item is by its name a device (`with device:`, `with self.device:`)."""
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name == "device" or name.endswith("_device")
    return False


def device_in_scope(env: Mapping[str, Value], owner_init: bool) -> str:
    """Find an expression for a device among the local names bound so far.

    First a name `device`, then the only `*_device` name, then the `device` key of a local dict,
    then `self.device` where the same `__init__` has assigned it: in that order because a
    parameter respects meta-device construction and the caller's choice.
    """
    if "device" in env and env["device"] != (("none",),):
        return "device"
    named = [
        name
        for name in env
        if name.endswith("_device") and "." not in name and not name.startswith(_NOT_A_DEVICE)
    ]
    if len(named) == 1:
        return named[0]
    for name, value in env.items():
        if "." not in name and any(atom[0] == "dict" and "device" in atom[2:] for atom in value):
            return f'{name}["device"]'
    if owner_init and "self.device" in env:
        return "self.device"
    return ""


def _is_zero(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=0) as constant:
            return type(constant.value) is int
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return any(_is_zero(item) for item in elements)
    return False


def is_placeholder(call: ast.Call) -> bool:
    """Tell whether a factory call makes a tensor without elements (`torch.empty(0)`)."""
    match call.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            pass
        case _:
            return False
    if name.endswith("Tensor") and not call.args and not call.keywords:
        return True
    if name in FILLED and call.args:
        first = call.args[0]
        if isinstance(first, ast.List | ast.Tuple) and not first.elts:
            return True
    if name not in SIZED:
        return False
    sizes = call.args[:1] if name == "full" else call.args
    if name.endswith("Tensor") and any(isinstance(arg, ast.List) for arg in sizes):
        return False
    return any(_is_zero(arg) for arg in sizes) or any(
        keyword.arg == "size" and _is_zero(keyword.value) for keyword in call.keywords
    )


def written(node: ast.expr) -> str:
    """Write a callee as in the source, white space folded; long or odd ones are cut short."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attr):
            return f"{written(value)}.{attr}"
        case ast.Call(func=func):
            inner = ", ".join(written(arg) for arg in node.args)
            return f"{written(func)}({inner})"
        case ast.Subscript(value=value, slice=index):
            return f"{written(value)}[{written(index)}]"
        case ast.Constant(value=value):
            return repr(value)[:20]
    return "..."


def bare_name(qualname: str) -> str:
    """Give the name a function is called by: no scope, no line of a redefinition."""
    last = qualname.rsplit(".", 1)[-1]
    return last if last.startswith("<") else last.split("@")[0]


def imported(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    """Yield (local name, dotted target) for each name an import statement binds."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.asname:
                yield alias.asname, alias.name
            else:
                root = alias.name.split(".")[0]
                yield root, root
        return
    prefix = "." * node.level + (node.module or "")
    for alias in node.names:
        if alias.name == "*":
            yield "*", prefix
        else:
            joiner = "" if prefix.endswith(".") else "."
            yield alias.asname or alias.name, f"{prefix}{joiner}{alias.name}"
