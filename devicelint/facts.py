"""Read one file with `ast`: what it imports, defines and binds, and what its functions do.

In: the text of a file.  Out: `ModuleFacts` that depend on that text alone, so that they can be
cached by content.  Never here: another file, a decision what is a module or a finding.

Function bodies are summarised on demand (`Reader.summarise`): the constructors of every class and
whatever of the same file they name, the rest only when the project asks for it.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection, Container, Iterable, Iterator, Mapping

from devicelint.dataflow import read_function, read_statement
from devicelint.expressions import evaluate
from devicelint.frame import Frame, Outer
from devicelint.ir import ClassFacts, FunctionFacts, ModuleFacts, Unread, Value, packed
from devicelint.outline import ENTRY_METHODS, Outline, Stub, function_of
from devicelint.process_groups import process_group_calls
from devicelint.sharing import same
from devicelint.syntax import (
    FunctionNode,
    assigned_names,
    blocks_of,
    defaults_of,
    field_factory,
    flatten,
    imported,
    is_setter,
    kind_of,
)
from devicelint.torch_api import LIFECYCLE
from devicelint.values import bare_name, merge

BUILTINS = frozenset(dir(builtins))


def extract_facts(
    tree: ast.Module, left_out: Outline | None = None, names: Collection[str] | None = None
) -> ModuleFacts:
    """Read a parsed file and summarise what its constructors reach within it.

    With `left_out`, `tree` is that of its skeleton.  With `names`, only the constructors of classes
    and the functions with these names are read; all others when somebody asks.
    """
    reader = Reader(left_out.text if left_out else "")
    reader.survey(tree, left_out)
    reader.read_constructors(names)
    facts = reader.facts()
    reader.forget()
    return facts


def process_group_facts(tree: ast.Module, facts: ModuleFacts) -> ModuleFacts:
    """Add the process groups that a whole file sets up."""
    return facts._replace(process_groups=process_group_calls(tree, dict(facts.imports)))


def extend_facts(text: str, facts: ModuleFacts, wanted: Iterable[str]) -> ModuleFacts:
    """Read the functions `wanted` of a file and give just what is new; see `joined`.

    `text` is that of the file with its newlines normalised.  Raises SyntaxError, and KeyError if a
    function is not among the `unread` ones.
    """
    names = list(wanted)
    reader = Reader(text)
    reader.recall(facts)
    for name in names:
        reader.nodes[name]
    reader.read_wanted(names)
    return reader.news(facts)


def extend_facts_from(
    tree: ast.Module, facts: ModuleFacts, wanted: Iterable[str], left_out: Outline | None = None
) -> ModuleFacts:
    """Read functions in the tree of a file or of its skeleton, nested ones too; give what is new.

    Raises SyntaxError.
    """
    reader = Reader(left_out.text if left_out else "")
    reader.survey(tree, left_out)
    missing = list(wanted)
    reader.summaries.clear()
    # a nested function is known once those around it have been read (again), outermost first
    for around in sorted({around for name in missing for around in _functions_around(name)}):
        reader.read_wanted([around])
    reader.read_wanted(missing)
    return reader.news(facts)


def joined(facts: ModuleFacts, news: ModuleFacts) -> ModuleFacts:
    """Add what `extend_facts` has found; of what was read twice, the first reading holds."""
    summaries = {item.qualname: item for item in (*news.summaries, *facts.summaries)}
    return facts._replace(
        functions=tuple(dict.fromkeys((*facts.functions, *news.functions))),
        summaries=tuple(summaries.values()),
        unread=tuple(item for item in facts.unread if item.qualname not in summaries),
    )


class Reader:
    """The definitions of one file, and the summaries of the functions read so far."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.imports: dict[str, tuple[str, ...]] = {}
        self.stars: list[str] = []
        self.classes: dict[str, ClassFacts] = {}
        self.functions: dict[str, None] = {}
        self.nodes: dict[str, tuple[FunctionNode | Unread, str, Outer | None]] = {}
        self.defined: set[str] = set()
        self.bindings: dict[str, Value] = {}
        self.summaries: dict[str, FunctionFacts] = {}
        self.by_name: dict[str, list[str]] = {}
        self.stubs: Mapping[int, Stub] = {}
        self.body = Frame(self, "<module>", "", "body", 1)

    def survey(self, tree: ast.Module, left_out: Outline | None) -> None:
        """Take in what the tree of a file defines, and its module's body."""
        self.stubs = left_out.stubs if left_out else {}
        self._survey(tree.body)
        if self._made_constants():
            whole = ast.parse(self.text) if self.stubs else tree
            self._note_constants(whole)
        self.summaries["<module>"] = self.body.finish()

    def recall(self, facts: ModuleFacts) -> None:
        """Take in what was known of the file before."""
        self.imports = dict(facts.imports)
        self.classes = {item.qualname: item for item in facts.classes}
        self.functions = dict.fromkeys(facts.functions)
        self.defined = set(facts.shadowing)
        for item in facts.unread:
            self._enlist(item.qualname, item, item.owner, None)

    # -- what the file defines -----------------------------------------------------------------

    def _survey(self, body: list[ast.stmt]) -> None:
        for statement in body:
            match statement:
                case ast.Import() | ast.ImportFrom():
                    self._import(statement)
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    full = self.add_function(name, statement, "", None)
                    self._read_defaults(self.body, statement, full)
                    self.defined.add(name)
                case ast.ClassDef(name=name):
                    self.add_class(statement, name, None)
                    self.defined.add(name)
                case ast.Assign() | ast.AnnAssign() | ast.AugAssign() | ast.Expr() | ast.Delete():
                    self._bind(statement)
                case ast.Pass(lineno=line) if line in self.stubs:
                    self.add_stub(self.stubs[line], "")
                    self.defined.add(self.stubs[line].name)
                case ast.If() if _is_main_guard(statement):
                    continue  # a script's own: no module of the file rests on it
                case _:
                    self.defined.update(assigned_names(statement))
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
        names = assigned_names(statement)
        read_statement(self.body, statement)
        for name in names:
            value = self.body.env.get(name, ())
            if value:
                self.bindings[name] = merge(self.bindings.get(name, ()), value)
        self.defined.update(names)

    def add_function(
        self, qualname: str, node: FunctionNode, owner: str, outer: Outer | None
    ) -> str:
        """Register a function under a qualified name that is unique in the file."""
        qualname = _unique(qualname, self.functions)
        self._enlist(qualname, node, owner, outer)
        return qualname

    def add_stub(self, stub: Stub, owner: str) -> str:
        """Register a function that was left out."""
        qualname = _unique(f"{owner}.{stub.name}" if owner else stub.name, self.functions)
        self._enlist(qualname, _place(qualname, owner, stub), owner, None)
        return qualname

    def _enlist(
        self, qualname: str, node: FunctionNode | Unread, owner: str, outer: Outer | None
    ) -> None:
        self.functions[qualname] = None
        self.nodes[qualname] = (node, owner, outer)
        self.by_name.setdefault(bare_name(qualname), []).append(qualname)

    def add_class(self, node: ast.ClassDef, qualname: str, outer: Outer | None) -> str:
        """Register a class, its methods and what its body binds."""
        qualname = _unique(qualname, self.classes)
        bases = tuple(same(self._base(base, outer)) for base in node.bases)
        methods: dict[str, tuple[str, ...]] = {}
        setters: list[tuple[str, str]] = []
        body = Frame(self, f"{qualname}.<body>", qualname, "body", node.lineno, outer)
        factories: list[tuple[str, Value]] = []
        # registered before the body is read: nested classes and methods may name it
        known = ClassFacts(qualname, bases, (), (), (), (), node.lineno)
        self.classes[qualname] = known
        for statement in flatten(node.body):
            method = self._method(statement, qualname, outer)
            if method is not None:
                name, full, setter = method
                if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                    self._read_defaults(body, statement, full)
                if setter:
                    setters.append((name, full))
                else:
                    methods[name] = (*methods.get(name, ()), full)
            elif isinstance(statement, ast.ClassDef):
                inner = self.add_class(statement, f"{qualname}.{statement.name}", outer)
                body.env[statement.name] = (("ref", f"~.{inner}"),)
            else:
                read_statement(body, statement)
                factory = field_factory(statement)
                if factory is not None:
                    factories.append((factory[0], evaluate(body, factory[1])))
        bound = tuple(same(item) for item in body.env.items() if item[1])
        for name, value in bound:
            body.event("attribute", name, value)
        if body.calls:
            self.summaries[f"{qualname}.<body>"] = body.finish()
        self.classes[qualname] = known._replace(
            methods=tuple(methods.items()),
            setters=tuple(setters),
            bindings=bound,
            field_factories=tuple(factories),
        )
        return qualname

    def _method(
        self, statement: ast.stmt, owner: str, outer: Outer | None
    ) -> tuple[str, str, bool] | None:
        """Register a method; give its name, its qualified name, and whether it is a setter."""
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                full = self.add_function(f"{owner}.{name}", statement, owner, outer)
                return name, full, is_setter(statement)
            case ast.Pass(lineno=line) if line in self.stubs:
                stub = self.stubs[line]
                return stub.name, self.add_stub(stub, owner), stub.is_setter
        return None

    def _read_defaults(
        self, body: Frame, node: ast.FunctionDef | ast.AsyncFunctionDef, qualname: str
    ) -> None:
        """Read default arguments as part of the body around the function: they run with it."""
        body.span = (node.lineno, max(node.lineno, node.body[0].lineno - 1))
        for name, default in defaults_of(node.args):
            if any(isinstance(part, ast.Call) for part in ast.walk(default)):
                body.event("default", f"{qualname}:{name}", evaluate(body, default))

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

    def read_constructors(self, names: Collection[str] | None) -> None:
        """Summarise functions and the constructors of classes (None: of all), and what they name
        in this file.

        Functions that define a class are read whatever the names: the classes of a file are known
        from the start, whoever asks for what.
        """
        failed = {*self.read_functions(names or (), names)}
        # what is read may hold further such functions
        while makers := [name for name in self._makers() if name not in failed]:
            failed.update(self.read_functions(makers, names))

    def _makers(self) -> Iterator[str]:
        """Give the functions that define a class and were not read."""
        for name, (node, _, _) in self.nodes.items():
            if not isinstance(node, Unread) and name not in self.summaries and _makes_class(node):
                yield name

    def read_functions(
        self, wanted: Iterable[str], classes: Container[str] | None
    ) -> Collection[str]:
        """Summarise the functions `wanted`, the constructors of `classes`, and what they name here.

        A function that is named is read if the file holds one of that name.  Gives those that do
        not parse: whether that matters is for who needs one of them to say.
        """
        pending = list(wanted)
        failed: set[str] = set()
        # functions that are read may hold classes, whose constructors are to be read then
        while pending := pending or self._unread_constructors(classes, failed):
            qualname = pending.pop()
            if qualname in self.summaries or qualname not in self.nodes or qualname in failed:
                continue
            try:
                named = self._read_function(qualname)
            except SyntaxError:
                failed.add(qualname)
                continue
            for name in named:
                for called in (name, *LIFECYCLE.get(name, ())):
                    # a nested function is named in full
                    pending.extend(self.by_name.get(called, (called,)))
        return failed

    def read_wanted(self, wanted: Collection[str]) -> None:
        """Summarise functions that somebody needs; raises SyntaxError."""
        failed = self.read_functions(wanted, ())
        for name in wanted:
            if name in failed:
                raise SyntaxError(f"{name} does not parse")

    def _read_function(self, qualname: str) -> Iterable[str]:
        """Summarise a function, and give the names it uses."""
        node, owner, outer = self.nodes[qualname]
        may_name_device = True
        if isinstance(node, Unread):
            may_name_device = self.text.find("device", node.start, node.end) >= 0
            node = function_of(self.text, node)
        kind = kind_of(node, owner, qualname)
        frame = Frame(self, qualname, owner, kind, node.lineno, outer, may_name_device)
        self.summaries[qualname] = read_function(frame, node)
        return frame.named

    def function_at(self, line: int) -> FunctionNode | None:
        """Give the function that was left out at a line of the skeleton, None if none was."""
        stub = self.stubs.get(line)
        return function_of(self.text, _place("", "", stub)) if stub is not None else None

    def _unread_constructors(
        self, classes: Container[str] | None, failed: Container[str]
    ) -> list[str]:
        return [
            qualname
            for facts in self.classes.values()
            if classes is None or bare_name(facts.qualname) in classes
            for name, qualnames in facts.methods
            if name in ENTRY_METHODS
            for qualname in qualnames
            if qualname in self.nodes and qualname not in self.summaries and qualname not in failed
        ]

    def _made_constants(self) -> dict[str, Value]:
        """Give the module-level constants that a constructor call made."""
        calls = self.body.constructor_calls()
        return {
            name: value
            for name, value in self.bindings.items()
            if calls and any(atom[0] == "call" and atom[1] in calls for atom in value)
        }

    def _note_constants(self, tree: ast.Module) -> None:
        """Note which classes name such a constant."""
        made = self._made_constants()
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                for name in sorted(_free_names(node) & made.keys()):
                    self.body.event("used", node.name, made[name])

    def forget(self) -> None:
        """Let go of everything: frames and reader hold each other, and the collector may be off."""
        self.nodes.clear()
        self.summaries.clear()
        del self.body

    def facts(self) -> ModuleFacts:
        """Give everything read so far as plain data."""
        shadowing = [name for name in self.defined if name in self.imports or name in BUILTINS]
        return ModuleFacts(
            imports=tuple(map(same, self.imports.items())),
            stars=tuple(self.stars),
            classes=tuple(self.classes.values()),
            functions=tuple(self.functions),
            bindings=tuple(map(same, self.bindings.items())),
            summaries=tuple(self.summaries.values()),
            unread=self._unread(),
            shadowing=tuple(sorted(shadowing)),
        )

    def news(self, facts: ModuleFacts) -> ModuleFacts:
        """Give what has been read beyond what was known, and let go of the rest."""
        functions = set(facts.functions)
        news = ModuleFacts(
            imports=(),
            stars=(),
            # known from the start, see `read_constructors`
            classes=(),
            functions=tuple(name for name in self.functions if name not in functions),
            bindings=(),
            summaries=tuple(self.summaries.values()),
        )
        self.forget()
        return news

    def _unread(self) -> tuple[Unread, ...]:
        return tuple(
            node
            for name, (node, _, _) in self.nodes.items()
            if isinstance(node, Unread) and name not in self.summaries
        )


def _place(qualname: str, owner: str, stub: Stub) -> Unread:
    place = packed(stub.first, stub.line, stub.start, stub.end)
    return Unread(qualname, owner, place, stub.indent > 0)


def _unique(qualname: str, taken: Container[str]) -> str:
    """Number a name that is defined again; lines would change with every edit above."""
    number = 1
    unique = qualname
    while unique in taken:
        number += 1
        unique = f"{qualname}@{number}"
    return unique


def _functions_around(qualname: str) -> Iterator[str]:
    """Give the functions in which a function is defined, by their qualified names."""
    parts = qualname.split(".<locals>.")
    for count in range(1, len(parts)):
        yield ".<locals>.".join(parts[:count])


def _makes_class(node: FunctionNode) -> bool:
    """Tell a function in whose body a class is defined."""
    return not isinstance(node, ast.Lambda) and _defines_class(node.body)


def _defines_class(body: list[ast.stmt]) -> bool:
    return any(
        isinstance(item, ast.ClassDef) or any(map(_defines_class, blocks_of(item))) for item in body
    )


def _is_main_guard(statement: ast.If) -> bool:
    match statement.test:
        case ast.Compare(left=ast.Name(id="__name__")):
            return True
    return False


def _free_names(node: ast.ClassDef) -> set[str]:
    """Give the names that a class reads and that none of its functions binds itself."""
    free: set[str] = set()
    functions = [item for item in ast.walk(node) if isinstance(item, ast.FunctionDef)]
    for item in functions:
        names = [part for part in ast.walk(item) if isinstance(part, ast.Name)]
        bound = {part.arg for part in ast.walk(item.args) if isinstance(part, ast.arg)}
        bound |= {part.id for part in names if isinstance(part.ctx, ast.Store)}
        free |= {part.id for part in names if isinstance(part.ctx, ast.Load)} - bound
    for statement in node.body:
        if not isinstance(statement, ast.FunctionDef):
            free |= {part.id for part in ast.walk(statement) if isinstance(part, ast.Name)}
    return free
