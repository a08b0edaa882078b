"""Read the scopes of a file: what each binds and how, where an import may stand, its f-strings.

In: the syntax tree of one file.  Out: `Names`.  Never here: a question about a place (`bindings`
answers those), another file.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto

#: a line (from 1) and a UTF-8 byte column (from 0), as in `ast`
Place = tuple[int, int]
Span = tuple[Place, Place]
_Node = ast.AST

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_IDLE = (ast.Constant, ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Guard(Enum):
    """Under what a name is bound."""

    NOTHING = auto()
    #: `if TYPE_CHECKING:`, which never runs
    TYPING = auto()
    #: the other branch of an `if` or `try`, where one gets by without the import
    FALLBACK = auto()
    #: by `global` in some function, who knows when
    AFAR = auto()


@dataclass(frozen=True, slots=True)
class Binding:
    """One binding of a name; `target` is what an import gives it, "" for anything else."""

    target: str
    guard: Guard
    place: Place
    #: the statements among which it stands
    block: Span
    #: `torch.nn` of `import torch.nn`, which binds `torch`
    dotted: str = ""
    is_none: bool = False


@dataclass(slots=True)
class Scope:
    """A scope under construction or, once the file is read, as it is."""

    kind: str
    span: Span
    parent: Scope | None
    bound: dict[str, list[Binding]] = field(default_factory=dict)
    #: names that `global` or `nonlocal` hands to an outer scope
    handed: dict[str, Scope] = field(default_factory=dict)
    inner: list[Scope] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Names:
    """The names of a file: its module scope, and where an import may stand."""

    module: Scope
    #: 1-based line before which an import statement may be added
    import_line: int
    #: the places of f-strings, outermost first
    texts: tuple[Span, ...]


# Reading -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Todo:
    node: _Node
    scope: Scope
    guard: Guard
    block: Span


def read_names(tree: ast.Module) -> Names:
    """Read the scopes of a file.  Without recursion: a sum of a thousand terms is as deep."""
    everything: Span = ((0, 0), (1 << 60, 0))
    module = Scope("module", everything, None)
    texts: list[Span] = []
    todo = [_Todo(node, module, Guard.NOTHING, everything) for node in reversed(tree.body)]
    while todo:
        item = todo.pop()
        if isinstance(item.node, ast.JoinedStr):
            texts.append(_span(item.node))
        _bind(item)
        todo.extend(reversed([*_parts(item)]))
    return Names(module, import_line(tree), tuple(texts))


def _span(node: _Node) -> Span:
    line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
    end = getattr(node, "end_lineno", line), getattr(node, "end_col_offset", column)
    return (line, column), end


def _block(statements: list[ast.stmt]) -> Span:
    return (_span(statements[0])[0], _span(statements[-1])[1]) if statements else ((0, 0), (0, 0))


def _parts(item: _Todo) -> Iterator[_Todo]:
    """Yield what is below a node, each in its scope."""
    node, scope = item.node, item.scope
    if isinstance(node, _FUNCTIONS):
        yield from _function_parts(item, node)
    elif isinstance(node, ast.ClassDef):
        yield from _all(item, [*node.decorator_list, *node.bases, *node.keywords], scope)
        inside = _open("class", _block(node.body), scope)
        yield from _statements(item, node.body, inside, item.guard)
    elif isinstance(node, _COMPREHENSIONS):
        inside = _open("comprehension", _span(node), scope)
        yield from _all(item, list(ast.iter_child_nodes(node)), inside)
    else:
        for name, value in ast.iter_fields(node):
            parts = value if isinstance(value, list) else [value]
            if parts and isinstance(parts[0], ast.stmt):
                yield from _statements(item, parts, scope, _guard_of(node, name, item.guard))
            else:
                yield from _all(item, [one for one in parts if isinstance(one, ast.AST)], scope)


def _guard_of(node: _Node, branch: str, guard: Guard) -> Guard:
    """Say under what the statements of a branch run, within a node that is itself guarded."""
    if guard is not Guard.NOTHING:
        return guard
    if isinstance(node, ast.If) and branch == "body":
        test = node.test
        named = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", "")
        return Guard.TYPING if named == "TYPE_CHECKING" else guard
    is_other = isinstance(node, ast.If | ast.ExceptHandler)
    return Guard.FALLBACK if is_other else guard


def _function_parts(
    item: _Todo, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
) -> Iterator[_Todo]:
    arguments = node.args
    defaults = [one for one in (*arguments.defaults, *arguments.kw_defaults) if one is not None]
    decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
    yield from _all(item, [*decorators, *defaults], item.scope)
    body = [node.body] if isinstance(node, ast.Lambda) else node.body
    span = (_span(body[0])[0], _span(body[-1])[1])
    inside = _open("function", span, item.scope)
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    for argument in (*every, arguments.vararg, arguments.kwarg):
        if argument is not None:
            _add(inside, argument.arg, Binding("", Guard.NOTHING, span[0], span))
    if isinstance(node, ast.Lambda):
        yield _Todo(node.body, inside, Guard.NOTHING, span)
    else:
        yield from _statements(item, node.body, inside, Guard.NOTHING)


def _open(kind: str, span: Span, parent: Scope) -> Scope:
    scope = Scope(kind, span, parent)
    parent.inner.append(scope)
    return scope


def _all(item: _Todo, nodes: list[_Node], scope: Scope) -> Iterator[_Todo]:
    for node in nodes:
        # most nodes are names that are read, and `ctx`: they bind nothing and hold nothing
        if not isinstance(node, _IDLE) and not (
            isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        ):
            yield _Todo(node, scope, item.guard, item.block)


def _statements(item: _Todo, body: list[ast.stmt], scope: Scope, guard: Guard) -> Iterator[_Todo]:
    block = _block(body)
    if scope.parent is None and item.scope is scope:
        block = item.block
    for node in body:
        yield _Todo(node, scope, guard, block)


def _bind(item: _Todo) -> None:
    """Note the names that a node binds."""
    node = item.node
    match node:
        case ast.Import() | ast.ImportFrom():
            for name, target, dotted in imported_names(node):
                _note(item, name, target, dotted)
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=None)):
            _note(item, name, is_none=True)
        case ast.NamedExpr(target=ast.Name(id=name)):
            scope = item.scope
            while scope.kind == "comprehension" and scope.parent is not None:
                scope = scope.parent
            _add(scope, name, Binding("", item.guard, _span(node)[0], item.block))
        case ast.Global(names=names) | ast.Nonlocal(names=names):
            outer = _outermost(item.scope) if isinstance(node, ast.Global) else item.scope.parent
            item.scope.handed.update((name, outer) for name in names if outer is not None)
        case _:
            for name in _plain_names(node):
                known = item.scope.bound.get(name, [])
                # `x = None` was noted already, with its value
                if not any(one.is_none and one.place == _span(node)[0] for one in known):
                    _note(item, name)


def _plain_names(node: _Node) -> list[str]:
    """List the names to which a node itself gives whatever value."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            return [name]
        case ast.MatchMapping(rest=str(name)) | ast.ExceptHandler(name=str(name)):
            return [name]
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            return [name]
    return []


def _outermost(scope: Scope) -> Scope:
    while scope.parent is not None:
        scope = scope.parent
    return scope


def _note(
    item: _Todo, name: str, target: str = "", dotted: str = "", *, is_none: bool = False
) -> None:
    guard, scope = item.guard, item.scope
    if name in scope.handed:
        guard, scope = Guard.AFAR, scope.handed[name]
    place = _span(item.node)[0]
    _add(scope, name, Binding(target, guard, place, item.block, dotted, is_none))


def _add(scope: Scope, name: str, binding: Binding) -> None:
    scope.bound.setdefault(name, []).append(binding)


def imported_names(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str, str]]:
    """Yield name, what it stands for, and the module that is loaded, for each import."""
    for alias in node.names:
        if isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            joint = "" if module.endswith(".") or not module else "."
            target = f"{module}{joint}{alias.name}"
            yield alias.asname or alias.name, target, target
        elif alias.asname:
            yield alias.asname, alias.name, alias.name
        else:
            root = alias.name.partition(".")[0]
            yield root, root, alias.name


def import_line(tree: ast.Module) -> int:
    """Find the line before which an import may stand: after docstring and `__future__`.

    It begins a statement, which must not continue a line of what is before it.
    """
    line = 1
    is_head = True
    for index, statement in enumerate(tree.body):
        decorators = [node.lineno for node in getattr(statement, "decorator_list", [])]
        start: int = min([statement.lineno, *decorators])
        is_docstring = (
            index == 0
            and isinstance(statement, ast.Expr)
            and isinstance(statement.value, ast.Constant)
            and isinstance(statement.value.value, str)
        )
        is_future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        is_head = is_head and (is_docstring or is_future)
        if not is_head and start >= line:
            return start
        line = (statement.end_lineno or statement.lineno) + 1
    return line
