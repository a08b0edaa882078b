"""Find process groups that are set up without a device, and barriers that have to guess one.

In: the syntax tree of a file.  Out: the calls, as plain data.  Never here: other files, or modules:
a script sets up its process group wherever it likes.

Facts (read in the source of ProcessGroupNCCL, and run on torch 2.11 with NCCL, one rank): with no
`device_id=`, a barrier before any collective takes `global rank % local device count` and logs
"Guessing device ID based on global rank"; `torch.cuda.set_device` is never consulted for it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping

from devicelint.ir import GroupCall, Point
from devicelint.syntax import blocks_of

_SET_UP = "torch.distributed.init_process_group"
_BARRIER = "torch.distributed.barrier"


def process_group_calls(
    tree: ast.Module, imports: Mapping[str, tuple[str, ...]]
) -> tuple[GroupCall, ...]:
    """Give the set-ups without a device, and the barriers without one in the same file."""
    found = list(_calls(tree.body, imports, "<module>", {}))
    if not any(call.name == _SET_UP for call in found):
        return ()
    return tuple(sorted(found, key=lambda call: call.start))


def _calls(
    body: list[ast.stmt],
    imports: Mapping[str, tuple[str, ...]],
    symbol: str,
    devices: Mapping[str, None],
) -> Iterator[GroupCall]:
    """Walk statements in order, with the names bound so far that hold a device with an index."""
    known = dict(devices)
    for statement in body:
        inner = symbol
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = statement.name if symbol == "<module>" else f"{symbol}.{statement.name}"
        local = {**imports, **_imported_in(statement)}
        for expression in _expressions(statement):
            for node in ast.walk(expression):
                call = _judge(node, statement, local, symbol, known)
                if call is not None:
                    yield call
        for block in blocks_of(statement):
            yield from _calls(block, local, inner, known)
        for name, is_device in _assigned(statement, local):
            known.pop(name, None)
            if is_device:
                known[name] = None


def _imported_in(statement: ast.stmt) -> Mapping[str, tuple[str, ...]]:
    """Give what imports among a function's own statements bind."""
    bound: dict[str, tuple[str, ...]] = {}
    for node in getattr(statement, "body", ()):
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.asname or alias.name.split(".")[0]
                bound[name] = (alias.name if alias.asname else name,)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                bound[alias.asname or alias.name] = (f"{node.module}.{alias.name}",)
    return bound


def _expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    """Give the expressions of a statement, not those of the statements in it."""
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.expr):
            yield child
        elif isinstance(child, ast.withitem):
            yield child.context_expr


def _judge(
    node: ast.AST,
    statement: ast.stmt,
    imports: Mapping[str, tuple[str, ...]],
    symbol: str,
    devices: Mapping[str, None],
) -> GroupCall | None:
    if not isinstance(node, ast.Call):
        return None
    name = _dotted(node.func, imports)
    keywords = {keyword.arg for keyword in node.keywords}
    if None in keywords or any(isinstance(arg, ast.Starred) for arg in node.args):
        return None
    if name == _SET_UP:
        if "device_id" in keywords or not _may_be_nccl(node):
            return None
    elif name != _BARRIER or "device_ids" in keywords or len(node.args) > 2:
        return None
    start: Point = (node.lineno, node.col_offset)
    end: Point = (node.end_lineno or node.lineno, node.end_col_offset or 0)
    body = getattr(statement, "body", None)
    last = body[0].lineno - 1 if isinstance(body, list) and body else statement.end_lineno
    lines = (statement.lineno, max(statement.lineno, last or statement.lineno))
    device = "device" if "device" in devices else next(reversed(list(devices)), "")
    return GroupCall(name, ast.unparse(node.func), start, end, lines, device, symbol)


def _dotted(func: ast.expr, imports: Mapping[str, tuple[str, ...]]) -> str:
    parts: list[str] = []
    while isinstance(func, ast.Attribute):
        parts.append(func.attr)
        func = func.value
    if not isinstance(func, ast.Name):
        return ""
    for target in imports.get(func.id, ()):
        name = ".".join([target, *reversed(parts)])
        if name in (_SET_UP, _BARRIER):
            return name
    return ""


def _may_be_nccl(call: ast.Call) -> bool:
    """Tell a set-up for NCCL, or one that names no backend (NCCL then serves the GPUs)."""
    backends: Iterable[ast.expr] = [
        *call.args[:1],
        *(keyword.value for keyword in call.keywords if keyword.arg == "backend"),
    ]
    for backend in backends:
        match backend:
            case ast.Constant(value=None):
                return True
            case ast.Constant(value=str(text)):
                return "nccl" in text.lower()
        return False
    return True


def _assigned(
    statement: ast.stmt, imports: Mapping[str, tuple[str, ...]]
) -> Iterator[tuple[str, bool]]:
    """Give the names a statement assigns, and whether they then hold a device with an index."""
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            if isinstance(target, ast.Name):
                yield target.id, _has_index(statement.value, imports)
        return
    match statement:
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            yield name, _has_index(value, imports)


def _has_index(value: ast.expr, imports: Mapping[str, tuple[str, ...]]) -> bool:
    """Tell `torch.device("cuda", rank)`, `torch.device(f"cuda:{rank}")` and the like."""
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute | ast.Name):
        return False
    written = ast.unparse(value.func)
    root, _, rest = written.partition(".")
    targets = {".".join([target, rest]).rstrip(".") for target in imports.get(root, ())}
    if "torch.device" not in targets:
        return False
    if len(value.args) == 2 or any(keyword.arg == "index" for keyword in value.keywords):
        return True
    match value.args:
        case [ast.JoinedStr(values=[ast.Constant(value=str(text)), *_])]:
            return text.startswith("cuda:")
        case [ast.Constant(value=str(text))]:
            return text.startswith("cuda:")
    return False
