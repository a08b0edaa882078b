"""What attributes and methods stand for, and what a method call does, as far as its name tells.

In: a frame, evaluated receivers and arguments.  Out: values; events and calls noted in the frame.
Never here: evaluation of syntax, or a function that is known by its qualified name.
"""

from __future__ import annotations

import ast

from devicelint.frame import SELF, Arguments, Frame
from devicelint.ir import TENSOR_CONTEXT, Atom, Value
from devicelint.model import Sink
from devicelint.syntax import key_of, looks_like_dtype
from devicelint.torch_api import (
    COPYING_METHODS,
    HOST_METHODS,
    MOVING_METHODS,
    PROBES,
    REGISTERING_METHODS,
    TENSOR_METHODS,
)
from devicelint.values import NONE, merge, references, text_of, texts, tracked, with_key

#: Callables that call a function given to them.
CALLERS = frozenset({"apply", "map", "filter", "reduce", "starmap", "tree_map"})

#: Methods that put their arguments into the receiver.
_MUTATORS = frozenset({"append", "extend", "insert", "add", "update", "appendleft", "setdefault"})
#: Methods of containers whose result is an element or a view of the container.
_ACCESSORS = frozenset({"get", "items", "values", "keys", "pop", "popitem", "popleft"})
#: Attributes that are a view of the tensor, not a fact about it.
_VIEWS = frozenset(
    {
        *("T", "data", "real", "imag", "mT", "mH", "H", "grad", "values", "indices"),
        # parts of what torch.linalg returns
        *("solution", "Q", "R", "L", "S", "U", "V", "Vh", "eigenvalues", "eigenvectors"),
    }
)
#: Atoms of what is a tensor or may be one, and holds no others.
_HOLDING = ("param", "attr", "tensor")
#: Attributes that are tensors wherever they are found.
_TENSORS = frozenset({"weight", "bias"})
#: Methods that fill a tensor with random numbers, which depend on its device.
_DRAWS = frozenset(
    {
        *("normal_", "uniform_", "bernoulli_", "random_", "exponential_", "geometric_"),
        *("cauchy_", "log_normal_", "multinomial", "bernoulli"),
    }
)
#: Methods that of the usual things only tensors have: who calls them on a parameter says its type.
_TENSOR_ONLY = frozenset(
    {
        *("detach", "unsqueeze", "permute", "expand", "contiguous", "requires_grad_"),
        *("new_zeros", "new_ones", "new_empty"),
    }
)
#: Methods by which a module takes in its second argument, and that argument's keyword.
_REGISTRATIONS = {
    "register_buffer": "tensor",
    "register_parameter": "param",
    "__setattr__": "value",
}


def member(frame: Frame, base: Value, attr: str) -> Value:
    """Give the value of an attribute that is read."""
    if base == SELF and attr == "__class__":
        return SELF
    if base == SELF:
        return merge((("attr", attr),), frame.env.get(f"self.{attr}", ()))
    if attr in _TENSORS and not references(base):
        return merge((("tensor",),), *(_member_of(frame, atom, attr) for atom in base))
    return merge(*(_member_of(frame, atom, attr) for atom in base))


def _member_of(frame: Frame, atom: Atom, attr: str) -> Value:
    kind = atom[0]
    if kind == "ref":
        return (("ref", f"{atom[1]}.{attr}"),)
    if kind == "self":
        return (("attr", attr),)
    if kind == "super":
        return (("super", attr),) if len(atom) == 1 else ()
    if kind in ("call", "item", "param") and attr in PROBES:
        frame.event("probe", "", (atom,))
        return (("device_of", *atom),) if attr == "device" else ()
    if kind == "attr" and attr == "device":
        return (("device_of", *atom),)
    # what a call made may be a record of tensors; of a parameter or attribute nothing says so
    if kind in ("call", "item") or (kind in _HOLDING and attr in _VIEWS):
        return (atom,)
    return ()


def bound(frame: Frame, base: Value, attr: str) -> Value:
    """Give the value of an attribute that is called: a method of a local object stays a name."""
    if base == SELF:
        return member(frame, base, attr)
    return merge(*(_bound_to(atom, attr) for atom in base))


def _bound_to(atom: Atom, attr: str) -> Value:
    kind = atom[0]
    if kind == "ref":
        return (("ref", f"{atom[1]}.{attr}"),)
    if kind == "self":
        return (("attr", attr),)
    if kind == "super" and len(atom) == 1:
        return (("super", attr),)
    if kind in ("call", "item", "param", "attr"):
        return (("bound", attr, *atom),)
    return ()


def call_method(
    frame: Frame, node: ast.Call, func: ast.Attribute, base: Value, args: Arguments
) -> Value | None:
    """Judge a method by its name; None if it has to be looked up."""
    name = func.attr
    if name in _REGISTRATIONS and not references(base):
        return _register(frame, node, name, args)
    if name == "enter_context" and ("device",) in args.get(0, "cm"):
        frame.context |= TENSOR_CONTEXT  # for the rest of the function, near enough
        return ()
    if name in _MUTATORS and base != SELF and not (name == "add" and _is_tensor(base)):
        return _mutate(frame, func.value, args)
    if name in _ACCESSORS and any(atom[0] in ("dict", "box") for atom in base):
        # the first argument is a key, not a value
        held = (atom for atom in base if atom[0] not in ("dict", "box"))
        return merge(held, *args.positional[1:])
    if any(atom[0] in ("ref", "super", "self") for atom in base):
        return None
    if not base and not tracked(args.all()):
        return () if name not in CALLERS else None
    return _call_tensor_method(frame, node, name, base, args)


def _call_tensor_method(
    frame: Frame, node: ast.Call, name: str, base: Value, args: Arguments
) -> Value | None:
    """Judge a method of what may be a tensor or a container of tensors."""
    if name in MOVING_METHODS and _moves(node, name):
        return frame.record(node, (("move",),), Arguments([base, _destination(name, args)]), ())
    if name in _DRAWS or (name.endswith("_") and "generator" in dict(args.keywords)):
        frame.event("drawn", "", base)
        return base
    if name in HOST_METHODS:
        frame.event(Sink.HOST, "", base)
        return ()
    if name in PROBES:
        frame.event("probe", "", base)
        return ()
    if name in COPYING_METHODS:
        frame.copied(args.all())
        return base
    if name in _ACCESSORS:
        return merge(base, args.all())
    if name in _TENSOR_ONLY:
        frame.tensor_params += [str(atom[1]) for atom in base if atom[0] == "param"]
    if name in TENSOR_METHODS or name in MOVING_METHODS:
        if name.startswith("new_") and args.has_device():
            return ()
        joined = frame.meet(base, args.all())
        return base if name.endswith("_") else tracked(joined)
    return None


def _moves(node: ast.Call, name: str) -> bool:
    """Tell a move between devices from `.to(dtype)`."""
    if name != "to":
        return True
    if any(keyword.arg in ("device", "other", "tensor") for keyword in node.keywords):
        return True
    return bool(node.args) and not looks_like_dtype(node.args[0])


def _destination(name: str, args: Arguments) -> Value:
    """Give where a move goes: a device, or a tensor that is followed; unknown is empty."""
    if name not in ("to", "type_as"):
        return (("device",),)
    for keyword, value in args.keywords:
        if keyword in ("device", "other", "tensor"):
            return value
    return args.positional[0] if args.positional else ()


def _register(frame: Frame, node: ast.Call, name: str, args: Arguments) -> Value:
    """Note what a module takes in under a name."""
    sink = str(REGISTERING_METHODS.get(name, Sink.ATTRIBUTE))
    label = text_of(args.get(0, "name"))
    value = args.get(1, _REGISTRATIONS[name])
    if value == NONE:
        # the name is taken: a later `self.name = t` is a buffer (or parameter) then
        frame.declare(sink, label)
    frame.event(sink, label, value)
    if label and name == "register_buffer" and tracked(value):
        frame.env[f"self.{label}"] = tracked(value)
    if label and name in REGISTERING_METHODS:
        frame.declare(sink, label)
    if label:
        calls = [number for number, call in enumerate(frame.calls) if _inside(call.node, node)]
        if calls:
            frame.log.append((f"self.{label}", calls[0], calls[-1] + 1))
    return ()


def _mutate(frame: Frame, target: ast.expr, args: Arguments) -> Value:
    """Put the arguments of `append` and its kind into the container."""
    key = key_of(_container(target))
    value = args.all()
    if key and key in frame.env:
        held = frame.env[key]
        for name in (*dict(args.keywords), *texts(args.get(0, "key"))):
            held = with_key(held, name)
        frame.env[key] = merge(held, value)
    elif key.startswith("self."):
        frame.env[key] = merge((("attr", key.removeprefix("self.")), ("box",)), value)
    else:
        frame.event("attribute", "", value)
    return ()


def _is_tensor(value: Value) -> bool:
    """Tell what a call made, not a set that was made here."""
    kinds = {atom[0] for atom in value}
    return bool(kinds & {"call", "item"}) and "box" not in kinds


def _container(node: ast.expr) -> ast.expr:
    """Go back from `self.x[i].setdefault(k, [])` to `self.x`."""
    while True:
        match node:
            case ast.Subscript(value=inner) | ast.Call(func=ast.Attribute(value=inner)):
                node = inner
            case _:
                return node


def _inside(inner: ast.expr, outer: ast.expr) -> bool:
    start = (outer.lineno, outer.col_offset)
    end = (outer.end_lineno or 0, outer.end_col_offset or 0)
    return start <= (inner.lineno, inner.col_offset) and (
        (inner.end_lineno or 0, inner.end_col_offset or 0) <= end
    )
