"""What can be said of values (see `ir`) without knowing the function they occur in.

In: values.  Out: values, booleans, strings.  Never here: syntax, state, names of other files, or a
decision about a device.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from devicelint.ir import Atom, Value

#: A value with more alternatives than this says nothing any more; the cap keeps joins cheap.
MAX_ATOMS = 48

#: The value of a literal `None`.
NONE: Value = (("none",),)
TRUE: Value = (("true",),)
FALSE: Value = (("false",),)

#: Prefixes of `*_device` names that do not hold a device (`use_device`, `per_device`).
_NOT_A_DEVICE = ("is_", "use_", "has_", "per_", "num_", "n_", "cross_", "multi_", "same_", "on_")


def merge(*values: Iterable[Atom]) -> Value:
    """Join values, dropping repeated atoms, first come first."""
    seen: dict[Atom, None] = {}
    for value in values:
        for atom in value:
            seen[atom] = None
    if len(seen) > MAX_ATOMS:
        return tuple(seen)[:MAX_ATOMS]
    return tuple(seen)


def either(*values: Value) -> Value:
    """Join alternatives: a dict with known keys is known no longer if it may be something else."""
    joined = merge(*values)
    if not all(values):
        # of one alternative nothing is known: it may be anything but the literal
        joined = tuple(atom for atom in joined if atom != ("none",))
    if any(atom[0] == "dict" for atom in joined) and any(
        value and value != NONE and all(atom[0] != "dict" for atom in value) for value in values
    ):
        return merge(("dict", 0, *atom[2:]) if atom[0] == "dict" else atom for atom in joined)
    return joined


def tracked(value: Value) -> Value:
    """Keep the atoms whose way through the function is recorded."""
    return tuple(atom for atom in value if atom[0] in ("call", "item", "param"))


def references(value: Value) -> list[str]:
    """Give the dotted names that the value may stand for."""
    return [str(atom[1]) for atom in value if atom[0] == "ref"]


def texts(value: Value) -> list[str]:
    """Give the string literals that the value may be."""
    return [str(atom[1]) for atom in value if atom[0] == "str"]


def text_of(value: Value) -> str:
    """Give the first string literal that the value may be, "" if it is none."""
    return next(iter(texts(value)), "")


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
    if dicts and all(atom[1] for atom in dicts):
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


def device_in_scope(
    env: Mapping[str, Value],
    hidden: Container[str],
    optional: Container[str],
    *,
    is_constructor: bool,
) -> str:
    """Find an expression for a device among the local names bound so far, but for `hidden` ones.

    First a name `device`, then the only `*_device` name, then the `device` key of a local dict,
    then `self.device` where the same `__init__` has assigned it: in that order because a
    parameter respects meta-device construction and the caller's choice.  An `optional` parameter
    that `__init__` has made up for in the attribute of its name stands back for that attribute.
    """
    found = _name_in_scope(env, hidden, is_constructor=is_constructor)
    kept = f"self.{found}"
    is_made_up_for = kept in env and env[kept] != env.get(found) and kept not in hidden
    return kept if is_constructor and found in optional and is_made_up_for else found


def _name_in_scope(
    env: Mapping[str, Value], hidden: Container[str], *, is_constructor: bool
) -> str:
    if "device" not in hidden and env.get("device", NONE) != NONE:
        return "device"
    named: list[str] = []
    holder = ""
    for name, value in env.items():
        if "." in name or name in hidden:
            continue
        if name.endswith("_device") and not name.startswith(_NOT_A_DEVICE):
            named.append(name)
        if not holder and any(atom[0] == "dict" and "device" in atom[2:] for atom in value):
            holder = name
    if len(named) == 1:
        return named[0]
    if holder:
        return f'{holder}["device"]'
    if is_constructor and "self.device" in env and "self.device" not in hidden:
        return "self.device"
    return ""


def bare_name(qualname: str) -> str:
    """Give the name a function is called by: no scope, no number of a redefinition."""
    last = qualname.rsplit(".", 1)[-1]
    return last if last.startswith("<") else last.split("@")[0]
