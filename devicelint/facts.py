"""Read one file with `ast`: what it imports, defines and binds, and what its functions do.

In: the text of a file.  Out: `ModuleFacts` that depend on that text alone, so that they can be
cached by content.  Never here: another file, a decision what is a module or a finding.

Function bodies are summarised on demand (`Reader.summarise`): the constructors of every class and
whatever of the same file they name, the rest only when the project asks for it.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator

from devicelint.dataflow import FunctionNode, FunctionReader, Outer, defaults_of
from devicelint.ir import ClassFacts, FunctionFacts, ModuleFacts, Value
from devicelint.values import bare_name, imported, merge

BUILTINS = frozenset(dir(builtins))

#: Methods that run when an object is made, without being named by anyone.
ENTRY_METHODS = ("__init__", "__post_init__", "__new__")


def extract_facts(tree: ast.Module) -> ModuleFacts:
    """Read a parsed file and summarise what its constructors reach within it."""
    reader = Reader(tree)
    reader.read_constructors()
    return reader.facts()


def extend_facts(tree: ast.Module, facts: ModuleFacts, wanted: Iterable[str]) -> ModuleFacts:
    """Read the same file again for the functions `wanted` that `facts` has no summary of."""
    reader = Reader(tree)
    have = {summary.qualname for summary in facts.summaries}
    reader.read_functions([name for name in wanted if name not in have])
    fresh = [summary for summary in reader.summaries.values() if summary.qualname not in have]
    return ModuleFacts(
        facts.imports,
        facts.stars,
        facts.classes,
        facts.functions,
        facts.bindings,
        (*facts.summaries, *fresh),
        facts.torch_name,
        facts.import_line,
    )


class Reader:
    """The definitions of one file, and the summaries of the functions read so far."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.imports: dict[str, tuple[str, ...]] = {}
        self.stars: list[str] = []
        self.classes: dict[str, ClassFacts] = {}
        self.nodes: dict[str, tuple[FunctionNode, str, Outer | None]] = {}
        self.defined: set[str] = set()
        self.bindings: dict[str, Value] = {}
        self.summaries: dict[str, FunctionFacts] = {}
        self.by_name: dict[str, list[str]] = {}
        self.body_reader = FunctionReader(self, "<module>", "", "body", 1)
        self._survey(tree.body)

    # -- what the file defines -----------------------------------------------------------------

    def _survey(self, body: list[ast.stmt]) -> None:
        for statement in body:
            match statement:
                case ast.Import() | ast.ImportFrom():
                    self._import(statement)
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    full = self.add_function(name, statement, "", None)
                    self._read_defaults(self.body_reader, statement, full)
                    self.defined.add(name)
                case ast.ClassDef(name=name):
                    self.add_class(statement, name, None)
                    self.defined.add(name)
                case ast.Assign() | ast.AnnAssign() | ast.AugAssign() | ast.Expr() | ast.Delete():
                    self._bind(statement)
                case _:
                    self._bind_header(statement)
                    for block in blocks_of(statement):
                        self._survey(block)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        for name, target in imported(node):
            if name == "*":
                self.stars.append(target)
            else:
                known = self.imports.get(name, ())
                self.imports[name] = known if target in known else (*known, target)

    def _bind(self, statement: ast.stmt) -> None:
        names = [name for name in assigned_names(statement) if name not in self.defined]
        self.body_reader.statement(statement)
        for name in assigned_names(statement):
            value = self.body_reader.env.get(name, ())
            if value:
                self.bindings[name] = merge(self.bindings.get(name, ()), value)
        self.defined.update(names)

    def _bind_header(self, statement: ast.stmt) -> None:
        for name in assigned_names(statement):
            self.defined.add(name)

    def add_function(
        self, qualname: str, node: FunctionNode, owner: str, outer: Outer | None
    ) -> str:
        """Register a function under a qualified name that is unique in the file."""
        if qualname in self.nodes:
            qualname = f"{qualname}@{node.lineno}"
        self.nodes[qualname] = (node, owner, outer)
        self.by_name.setdefault(bare_name(qualname), []).append(qualname)
        return qualname

    def add_class(self, node: ast.ClassDef, qualname: str, outer: Outer | None) -> str:
        """Register a class, its methods and what its body binds."""
        if qualname in self.classes:
            qualname = f"{qualname}@{node.lineno}"
        bases = tuple(self._base(base, outer) for base in node.bases)
        methods: dict[str, tuple[str, ...]] = {}
        setters: list[tuple[str, str]] = []
        body = FunctionReader(self, f"{qualname}.<body>", qualname, "body", node.lineno, outer)
        factories: list[tuple[str, Value]] = []
        # registered before the body is read: nested classes and methods may name it
        self.classes[qualname] = ClassFacts(qualname, bases, (), (), (), (), node.lineno)
        for statement in flatten(node.body):
            match statement:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    full = self.add_function(f"{qualname}.{name}", statement, qualname, outer)
                    self._read_defaults(body, statement, full)
                    if is_setter(statement):
                        setters.append((name, full))
                    else:
                        methods[name] = (*methods.get(name, ()), full)
                case ast.ClassDef(name=name):
                    inner = self.add_class(statement, f"{qualname}.{name}", outer)
                    body.env[name] = (("ref", f"~.{inner}"),)
                case _:
                    body.statement(statement)
                    factory = field_factory(statement)
                    if factory is not None:
                        factories.append((factory[0], body.value(factory[1])))
        bound = tuple((name, value) for name, value in body.env.items() if value)
        for name, value in bound:
            body.event("attribute", name, value)
        self.summaries[f"{qualname}.<body>"] = body.finish()
        self.classes[qualname] = ClassFacts(
            qualname,
            bases,
            tuple(methods.items()),
            tuple(setters),
            bound,
            tuple(factories),
            node.lineno,
        )
        return qualname

    def _read_defaults(
        self, body: FunctionReader, node: ast.FunctionDef | ast.AsyncFunctionDef, qualname: str
    ) -> None:
        """Read default arguments as part of the body around the function: they run with it."""
        body.span = (node.lineno, max(node.lineno, node.body[0].lineno - 1))
        for name, default in defaults_of(node.args):
            if any(isinstance(part, ast.Call) for part in ast.walk(default)):
                body.event("default", f"{qualname}:{name}", body.value(default))

    def _base(self, node: ast.expr, outer: Outer | None) -> Value:
        """Evaluate a base class; of a call (`make(Base)`) its arguments count as well."""
        match node:
            case ast.Subscript(value=value):
                return self._base(value, outer)
            case ast.Call(func=func, args=args):
                return merge(*(self._base(item, outer) for item in [func, *args]))
            case ast.IfExp(body=body, orelse=orelse):
                return merge(self._base(body, outer), self._base(orelse, outer))
            case ast.Name(id=name):
                return self.lookup(name, outer)
            case ast.Attribute(value=value, attr=attr):
                inner = self._base(value, outer)
                return tuple(("ref", f"{atom[1]}.{attr}") for atom in inner if atom[0] == "ref")
        return ()

    # -- names ---------------------------------------------------------------------------------

    def lookup(self, name: str, outer: Outer | None = None) -> Value:
        """Give the value of a name that is not local to the function that uses it."""
        while outer is not None:
            if name in outer.env:
                return outer.env[name]
            outer = outer.parent
        if name in self.defined:
            return (("ref", f"~.{name}"),)
        if name in self.imports:
            return tuple(("ref", target) for target in self.imports[name])
        if name in BUILTINS:
            return (("ref", f"builtins.{name}"),)
        return (("ref", f"~.{name}"),)

    # -- functions -----------------------------------------------------------------------------

    def read_constructors(self) -> None:
        """Summarise the constructors of all classes, and what they name in this file."""
        self.read_functions(
            [
                qualname
                for facts in list(self.classes.values())
                for name, qualnames in facts.methods
                if name in ENTRY_METHODS
                for qualname in qualnames
            ]
        )

    def read_functions(self, wanted: list[str]) -> None:
        """Summarise the functions `wanted`, and by name what they call in this file."""
        pending = list(wanted)
        while pending:
            qualname = pending.pop()
            if qualname in self.summaries or qualname not in self.nodes:
                continue
            node, owner, outer = self.nodes[qualname]
            kind = kind_of(node, owner, qualname)
            reader = FunctionReader(self, qualname, owner, kind, node.lineno, outer)
            self.summaries[qualname] = reader.read(node)
            for name in reader.named:
                pending.extend(self.by_name.get(name, ()))

    def _note_constants(self) -> None:
        """Note which classes name a module-level constant that a constructor call made."""
        calls = self.body_reader.constructor_calls()
        made = {
            name: value
            for name, value in self.bindings.items()
            if any(atom[0] == "call" and atom[1] in calls for atom in value)
        }
        for node in ast.walk(self.tree) if made else ():
            if isinstance(node, ast.ClassDef):
                inside = {item.id for item in ast.walk(node) if isinstance(item, ast.Name)}
                for name in inside & made.keys():
                    self.body_reader.event("used", node.name, made[name])

    def facts(self) -> ModuleFacts:
        """Give everything read so far as plain data."""
        self._note_constants()
        self.summaries["<module>"] = self.body_reader.finish()
        torch_names = [name for name, targets in self.imports.items() if targets == ("torch",)]
        name = "torch" if "torch" in torch_names else (torch_names or [""])[0]
        return ModuleFacts(
            tuple(self.imports.items()),
            tuple(self.stars),
            tuple(self.classes.values()),
            tuple(self.nodes),
            tuple(self.bindings.items()),
            tuple(self.summaries.values()),
            name,
            import_line(self.tree),
        )


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


def field_factory(statement: ast.stmt) -> tuple[str, ast.expr] | None:
    """Find the `default_factory` of a dataclass field."""
    match statement:
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.Call(keywords=keywords)):
            for keyword in keywords:
                if keyword.arg == "default_factory":
                    return name, keyword.value
    return None


def import_line(tree: ast.Module) -> int:
    """Find the line before which an import may stand: after docstring and `__future__`."""
    line = 1
    for index, statement in enumerate(tree.body):
        docstring = (
            index == 0
            and isinstance(statement, ast.Expr)
            and isinstance(statement.value, ast.Constant)
            and isinstance(statement.value.value, str)
        )
        future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        if not docstring and not future:
            return max(line, min(statement.lineno, *_decorators(statement)))
        line = (statement.end_lineno or statement.lineno) + 1
    return line


def _decorators(statement: ast.stmt) -> list[int]:
    nodes = getattr(statement, "decorator_list", [])
    return [node.lineno for node in nodes] or [statement.lineno]
