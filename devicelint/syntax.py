"""What can be said of syntax by how it is written.

In: nodes of `ast`.  Out: names, booleans, other nodes.  Never here: state, what a name stands for,
or a decision about a device.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from devicelint.torch_api import TORCH_DTYPES

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

#: Factories whose arguments are sizes, so that a literal 0 among them means "no elements".
_SIZED = frozenset(
    {
        *("empty", "zeros", "ones", "rand", "randn", "full"),
        *("Tensor", "FloatTensor", "DoubleTensor", "HalfTensor", "LongTensor", "IntTensor"),
        *("ByteTensor", "BoolTensor"),
    }
)
#: Factories whose first argument is data, so that an empty display means "no elements".
_FILLED = frozenset(
    {
        *("tensor", "as_tensor", "asarray"),
        *("Tensor", "FloatTensor", "LongTensor", "IntTensor"),
    }
)

#: Context managers that decide where tensors are built, whatever their argument.
DEVICE_CONTEXTS = frozenset({"init_empty_weights", "init_on_device", "DeviceContext"})


# Statements ---------------------------------------------------------------------------------------


def blocks_of(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """Yield the statement lists inside a compound statement."""
    for field in ("body", "orelse", "finalbody"):
        block = getattr(statement, field, None)
        if isinstance(block, list):
            yield block
    for handler in getattr(statement, "handlers", ()):
        yield handler.body
    for case in getattr(statement, "cases", ()):
        yield case.body


def flatten(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a class body, those under `if` and `try` included."""
    for statement in body:
        if isinstance(statement, ast.If | ast.Try | ast.With):
            for block in blocks_of(statement):
                yield from flatten(block)
        else:
            yield statement


def assigned_names(statement: ast.stmt) -> list[str]:
    """List the plain names a statement assigns, not those of nested statements."""
    targets: list[ast.expr] = []
    match statement:
        case ast.Assign(targets=several):
            targets = list(several)
        case ast.AnnAssign(target=target) | ast.AugAssign(target=target) | ast.For(target=target):
            targets = [target]
        case ast.With(items=items):
            targets = [item.optional_vars for item in items if item.optional_vars]
    return [
        node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)
    ]


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


def is_setter(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Tell a property setter (`@x.setter`)."""
    return any(
        isinstance(decorator, ast.Attribute) and decorator.attr == "setter"
        for decorator in node.decorator_list
    )


def kind_of(node: FunctionNode, owner: str, qualname: str) -> str:
    """Say how a function is called: function, method, static, class or setter."""
    if isinstance(node, ast.Lambda) or qualname.rpartition(".")[0] != owner or not owner:
        return "function"
    if is_setter(node):
        return "setter"
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Name) and decorator.id in ("staticmethod", "classmethod"):
            return "static" if decorator.id == "staticmethod" else "class"
    return "class" if node.name in ("__new__", "__init_subclass__") else "method"


def defaults_of(args: ast.arguments) -> Iterator[tuple[str, ast.expr]]:
    """Yield each parameter that has a default, with the default."""
    ordered = [*args.posonlyargs, *args.args]
    for parameter, default in zip(ordered[::-1], args.defaults[::-1], strict=False):
        yield parameter.arg, default
    for parameter, maybe in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        if maybe is not None:
            yield parameter.arg, maybe


def field_factory(statement: ast.stmt) -> tuple[str, ast.expr] | None:
    """Find the `default_factory` of a dataclass field."""
    match statement:
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.Call(keywords=keywords)):
            for keyword in keywords:
                if keyword.arg == "default_factory":
                    return name, keyword.value
    return None


def is_tensor_annotation(node: ast.expr) -> bool:
    """Tell whether a parameter's annotation says that it is a tensor, or one or None.

    `float | Tensor` does not: who writes it mostly gets a float.
    """
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name in ("Tensor", "Parameter")
        case ast.Constant(value=str(text)):
            return text.endswith("Tensor")
        case ast.BinOp(left=left, right=ast.Constant(value=None)):
            return is_tensor_annotation(left)
        case ast.BinOp(left=ast.Constant(value=None), right=right):
            return is_tensor_annotation(right)
        case ast.Subscript(value=value, slice=inner):
            return written(value).endswith("Optional") and is_tensor_annotation(inner)
    return False


# Expressions --------------------------------------------------------------------------------------


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


def key_of(target: ast.expr) -> str:
    """Give the name under which a target's value is kept: `x`, `self.x`, "" for other places."""
    match target:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id="self"), attr=attr):
            return f"self.{attr}"
    return ""


def looks_like_dtype(node: ast.expr) -> bool:
    """Tell a dtype from a device in `.to(x)` by how it is written."""
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name in TORCH_DTYPES or "dtype" in name.lower()
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


def is_placeholder(call: ast.Call) -> bool:
    """Tell whether a factory call makes a tensor without elements (`torch.empty(0)`)."""
    match call.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            pass
        case _:
            return False
    if name.endswith("Tensor") and not call.args and not call.keywords:
        return True
    if name in _FILLED and call.args:
        first = call.args[0]
        if isinstance(first, ast.List | ast.Tuple) and not first.elts:
            return True
    if name not in _SIZED:
        return False
    sizes = call.args[:1] if name == "full" else call.args
    if name.endswith("Tensor") and any(isinstance(arg, ast.List) for arg in sizes):
        return False
    return any(_is_zero(arg) for arg in sizes) or any(
        keyword.arg == "size" and _is_zero(keyword.value) for keyword in call.keywords
    )


def _is_zero(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=0) as constant:
            return type(constant.value) is int
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return any(_is_zero(item) for item in elements)
    return False
