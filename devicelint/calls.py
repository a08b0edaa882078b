"""What a call does, judged from its evaluated callee and arguments.

In: a frame, values.  Out: the value of the result; events and calls noted in the frame.  Never
here: evaluation of syntax.

A function of Python, NumPy or PyTorch is judged by its name at once; any other call is recorded,
for the project to find out what it calls.
"""

from __future__ import annotations

import ast

from devicelint.frame import SELF, Arguments, Frame
from devicelint.ir import STREAM_CONTEXT, TENSOR_CONTEXT, Value
from devicelint.methods import CALLERS, bound
from devicelint.model import Kind, Sink
from devicelint.syntax import written
from devicelint.torch_api import (
    CONSTRUCTORS,
    HOST_FUNCTIONS,
    HOST_MODULES,
    PROBE_FUNCTIONS,
    TENSOR_ARGUMENT_SINKS,
    canonical,
    is_module_class,
)
from devicelint.values import dict_of, merge, references, text_of, texts, tracked

#: Context managers of PyTorch by what they decide (with a CUDA device: streams only).
CONTEXTS = {
    "torch.device": TENSOR_CONTEXT,
    "torch.get_default_device": TENSOR_CONTEXT,
    "torch.cuda.device": STREAM_CONTEXT,
    "torch.cuda.device_of": STREAM_CONTEXT,
    "torch.cuda.stream": STREAM_CONTEXT,
    "torch.accelerator.device_index": STREAM_CONTEXT,
    "torch.xpu.device": STREAM_CONTEXT,
}

#: Functions of PyTorch whose result, or what they do to their argument, is drawn at random.
_DRAWING = frozenset(
    {
        *("bernoulli", "multinomial", "poisson", "normal_", "uniform_", "trunc_normal_"),
        *("xavier_uniform_", "xavier_normal_", "kaiming_uniform_", "kaiming_normal_"),
        *("orthogonal_", "sparse_"),
    }
)

#: Builtins that hand their arguments on.
_PASSING = frozenset(
    {
        *("list", "tuple", "set", "frozenset", "zip", "enumerate", "reversed", "iter", "next"),
        *("map", "filter", "divmod"),
    }
)
#: Builtins whose result is a tensor, if their arguments are or hold some; and the attributes.
_GIVING = frozenset({"sum", "abs", "pow", "vars"})
#: Functions whose result is their argument, or a copy of it that is where it was.
_COPYING = ("copy.copy", "copy.deepcopy", "typing.cast", "collections.OrderedDict")
_DEVICE_MODULE = "torch.get_device_module"
_PARTIAL = ("functools.partial", "functools.partialmethod")


def invoke(frame: Frame, node: ast.Call, callees: Value, args: Arguments, base: Value) -> Value:
    """Judge a call, or record it unless all that it may call is known."""
    if any(atom[0] == "partial" for atom in callees):
        return _call_partial(frame, node, callees, args)
    names = [canonical(name) for name in references(callees)]
    if len(names) == len(callees) and names and not _is_of_some_accelerator(callees):
        results = [_call_known(frame, node, name, args) for name in names]
        if all(result is not None for result in results):
            return merge(*(result or () for result in results))
    _call_arguments(frame, node, args)
    if not callees and not tracked(args.all()):
        return ()
    return frame.record(node, callees, args, base)


def _is_of_some_accelerator(callees: Value) -> bool:
    """Tell `torch.get_device_module().Stream`: what it is called is not the whole truth."""
    return any(name.startswith(f"{_DEVICE_MODULE}.") for name in references(callees))


def _call_partial(frame: Frame, node: ast.Call, callees: Value, args: Arguments) -> Value:
    """Call the functions inside `partial` objects, and whatever else the callee may be."""
    results: list[Value] = [tuple(atom for atom in callees if atom[0] in ("call", "item"))]
    plain = tuple(atom for atom in callees if atom[0] != "partial")
    for atom in callees:
        if atom[0] == "partial":
            inner, given = frame.partials[int(atom[1])]
            results.append(invoke(frame, node, inner, given.then(args), ()))
    if plain:
        results.append(invoke(frame, node, plain, args, ()))
    return merge(*results)


def _call_arguments(frame: Frame, node: ast.Call, args: Arguments) -> None:
    """Note calls of the functions that are handed to `apply`, `map` and their kind."""
    name = written(node.func).rsplit(".", 1)[-1]
    # `smart_apply`, `named_apply`, `apply_fn`: whatever the project calls it
    if name not in CALLERS and "apply" not in name:
        return
    given = [*node.args, *(keyword.value for keyword in node.keywords)]
    others = args.all()
    # not strict: a `partial` brings arguments that are not written here, a `**` has no place
    for item, value in zip(given, args.each(), strict=False):
        functions = tuple(a for a in value if a[0] in ("func", "attr", "ref", "super"))
        if functions:
            frame.record(item, functions, Arguments([tracked(others)]), ())


def _call_known(frame: Frame, node: ast.Call, name: str, args: Arguments) -> Value | None:
    """Judge a function of Python, NumPy or PyTorch by its name; None: record the call."""
    root, _, rest = name.partition(".")
    if root == "builtins":
        return _call_builtin(frame, node, rest, args)
    if root == "torch":
        return _call_torch(frame, node, name, args)
    if root in HOST_MODULES or root == "operator":
        frame.event(Sink.HOST, "", args.all())
        return ()
    if name in _PARTIAL and args.positional:
        frame.partials.append((args.positional[0], args.without_first()))
        return (("partial", len(frame.partials) - 1),)
    if name in _COPYING:
        return args.all()
    return None


# Builtins -----------------------------------------------------------------------------------------


def _call_builtin(frame: Frame, node: ast.Call, name: str, args: Arguments) -> Value:
    if name == "super":
        return (("super",),)
    if name == "getattr" and len(node.args) >= 2:
        return _getattr(frame, args)
    if name == "setattr" and len(args.positional) == 3:
        return _setattr(frame, args)
    if name in CALLERS:
        _call_arguments(frame, node, args)
    if name == "dict":
        atom = dict_of([key for key, _ in args.keywords], [*args.positional, *args.spreads])
        return merge((atom,), *(value for _, value in args.keywords))
    if name == "type" and args.positional == [SELF]:
        return SELF
    if name in PROBE_FUNCTIONS:
        frame.event("probe", "", args.all())
        return ()
    if name in HOST_FUNCTIONS:
        frame.event(Sink.HOST, "", args.all())
        return ()
    if name in _PASSING:
        return merge(args.all(), (("box",),))
    result = args.all() if name == "vars" else tracked(args.all())
    return result if name in _GIVING else ()


def _getattr(frame: Frame, args: Arguments) -> Value:
    base, key = args.positional[:2]
    names = texts(key) or _default_texts(frame, key)
    if not names:
        # any function of a project's own module may be meant: `getattr(ops, name)(x)`
        return tuple(("ref", f"{atom[1]}.*") for atom in base if atom[0] == "ref")
    return merge(*(bound(frame, base, name) for name in names))


def _default_texts(frame: Frame, value: Value) -> list[str]:
    """Give the string defaults of the parameters that a value may be."""
    defaults = dict(frame.defaults)
    return [
        text
        for atom in value
        if atom[0] == "param"
        for text in texts(defaults.get(str(atom[1]), ()))
    ]


def _setattr(frame: Frame, args: Arguments) -> Value:
    owner, name, value = args.positional
    label = text_of(name)
    if owner == SELF and label:
        frame.env[f"self.{label}"] = value
    else:
        frame.event("attribute", label, value)
    return ()


# PyTorch ------------------------------------------------------------------------------------------


def _call_torch(frame: Frame, node: ast.Call, name: str, args: Arguments) -> Value:
    if name in CONSTRUCTORS:
        return _construct(frame, node, name, args)
    if name in TENSOR_ARGUMENT_SINKS or is_module_class(name):
        _take_tensors(frame, name, args)
        _call_arguments(frame, node, args)
        return ()
    if name in CONTEXTS:
        frame.record(node, (("ref", name),), args, ())
        return (("device",),)
    if name in _ODD:
        return _ODD[name](frame, args)
    last = name.rpartition(".")[2]
    if last in _DRAWING:
        frame.event("drawn", "", args.all())
    elif last == "copy_":
        frame.copied(args.get(1, "src"))
        return args.get(0, "tensor")
    elif name.startswith(("torch.Tensor.", "torch.distributed.", "torch.ops.")):
        frame.event(Sink.ARGUMENT, name, args.all())
        return tracked(args.all())
    elif last.endswith("_like") and args.has_device():
        return ()
    computed = tracked(frame.meet(args.all()))
    # a distribution and its kind is no tensor, it holds them
    return merge(computed, (("box",),)) if last[:1].isupper() else computed


def _construct(frame: Frame, node: ast.Call, name: str, args: Arguments) -> Value:
    kind = CONSTRUCTORS[name].kind
    if kind is Kind.MODULE:
        _take_tensors(frame, name, args)
    made = frame.record(node, (("ref", name),), args, ())
    if kind in (Kind.LEGACY, Kind.HOST_MEMORY):
        frame.meet(made, args.all())  # it refuses tensors of another device than its own
    return made


def _device_module(frame: Frame, args: Arguments) -> Value:
    """Whichever it is: the tables take it for `torch.cuda`, but by a name of its own."""
    return (("ref", _DEVICE_MODULE),)


def _default_device(frame: Frame, args: Arguments) -> Value:
    """From here on it is as if all stood in a `with torch.device(...)`."""
    frame.context |= TENSOR_CONTEXT
    return ()


def _probe(frame: Frame, args: Arguments) -> Value:
    frame.event("probe", "", args.all())
    return ()


#: Functions of PyTorch that are neither constructors nor compute a tensor.
_ODD = {
    _DEVICE_MODULE: _device_module,
    "torch.set_default_device": _default_device,
    "torch.is_tensor": _probe,
    "torch.numel": _probe,
}


def _take_tensors(frame: Frame, name: str, args: Arguments) -> None:
    """Note what a module class makes of the tensors handed to it: those of torch.nn that take no
    tensor read it as a size or a rate."""
    other = Sink.HOST if name.startswith("torch.nn.") else Sink.ARGUMENT
    sink = TENSOR_ARGUMENT_SINKS.get(name, other)
    frame.event(sink, "" if sink is not Sink.ARGUMENT else name, args.all())
