"""The facts about a file as plain data: what `facts` extracts and `project` joins.

In: the model.  Out: named tuples over strings, numbers and tuples, so that they can be cached as
JSON and sent between processes (a dataclass takes four times as long).  Never here: a syntax tree.

A *value* is the set of places an expression's value may come from, each one an *atom*:

=====================  =============================================================
`("call", i)`          the result of call `i` of the same function
`("item", i, k)`       element `k` of that result (tuple unpacking)
`("param", name)`      a parameter of the function
`("self",)`            the object under construction; `("super",)` its `super()`
`("attr", name)`       `self.name`; `("super", name)` is `super().name`
`("ref", dotted)`      a name outside the function: `torch.zeros` (absolute), `.mod.name`
                       (relative import), `~.name` (this file), `builtins.len`
`("func", qualname)`   a function or lambda defined inside a function of this file
`("bound", name, *a)`  attribute `name` of what atom `a` stands for, as a callee
`("partial", i)`       `functools.partial` object `i` (only inside one function)
`("str", text)`        a string literal; `("none",)`, `("true",)`, `("false",)` the literals
`("dict", full, *ks)`  a dict with the known keys `ks`; `full` is 1 if these are all
`("device",)`          a `torch.device(...)`
`("device_of", *a)`    `.device` of what `a` stands for: a call, a parameter, `self.name`
`("tensor",)`          a tensor by its name (`layer.weight`), made elsewhere
`("move",)`            as a callee: `.to(device)` and its kind (arguments: the value, the device)
`("box",)`             a list, tuple, set or dict display or comprehension, or another object
                       of Python or PyTorch that holds tensors
=====================  =============================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from devicelint.model import FileTargets

Atom = tuple[str | int, ...]
Value = tuple[Atom, ...]

#: (line from 1, UTF-8 byte column from 0), as the `ast` module counts
Point = tuple[int, int]

#: bits of `CallFact.context` and of a reached function: what device contexts surround it
TENSOR_CONTEXT = 1
STREAM_CONTEXT = 2


#: A number of a place takes so many bits: no file that can be parsed has more lines or bytes.
_BITS = 32
_MASK = (1 << _BITS) - 1


def placed(start: Point, end: Point, statement: tuple[int, int]) -> int:
    """Write where a call starts and ends and its statement's lines as one number.

    As three pairs of numbers they would take four times the memory.
    """
    return packed(*start, *end, *statement)


def packed(*numbers: int) -> int:
    """Write numbers as one; the last is number 0 of `unpacked`."""
    whole = 0
    for number in numbers:
        whole = whole << _BITS | number
    return whole


def unpacked(whole: int, index: int) -> int:
    """Give one of several numbers that were written as one."""
    return whole >> index * _BITS & _MASK


class CallFact(NamedTuple):
    """One call inside a function, with what a later stage may ask of it."""

    callees: Value
    #: the callee as written, white space folded
    text: str
    #: where the call and its statement stand, see `placed`; 0 for nowhere
    place: int
    args: tuple[Value, ...]
    keywords: tuple[tuple[str, Value], ...]
    #: index of the first `*args` among `args`, -1 if there is none
    star: int
    #: "": no `**`; "open": a `**` whose keys are not all known; "device": one that brings a device;
    #: "closed": only such that bring none
    spread: str
    context: int
    #: an expression that names a device where the call stands, "" if there is none
    device_in_scope: str
    #: the call makes a tensor without elements, to be bound later
    placeholder: bool
    #: the other branch of an `if` builds the same target with a device
    twin: bool
    #: the receiver, for a call of a method of something other than self
    receiver: Value = ()

    @property
    def start(self) -> Point:
        """Where the call starts."""
        return self._number(5), self._number(4)

    @property
    def end(self) -> Point:
        """Where the call ends."""
        return self._number(3), self._number(2)

    @property
    def statement(self) -> tuple[int, int]:
        """First and last line of the statement (its header only, if it has a body)."""
        return self._number(1), self._number(0)

    def _number(self, index: int) -> int:
        return unpacked(self.place, index)


class Event(NamedTuple):
    """Something a function does with a value.

    `kind` is a `Sink` value, or one of: `moved`; `copied` (into a tensor that exists, by way of a
    name; `existing` is that in one statement); `drawn` (filled with random numbers); `fed` (a
    weight of some layer meets it); `probe` (only metadata is read); `iterated` (looped over or
    tested); `returned` (`detail` the index into a returned tuple, "" for the whole); `declared
    buffer`, `declared parameter` (`detail` a registered name); `default` (`detail` is
    `function:parameter`, in bodies only); `used` (`detail` a class of this file that names a
    module-level constant); `used device` (`detail` a parameter that is the device in scope, just
    as it was given).
    """

    kind: str
    detail: str
    value: Value


class FunctionFacts(NamedTuple):
    """A function: who can be called from it, and where values go in it."""

    qualname: str
    #: qualified name of the class whose body holds the `def`, "" outside classes
    owner: str
    #: function, method, static, class, setter, body (of a class or of the module)
    kind: str
    params: tuple[str, ...]
    #: how many of `params` may be given by position
    positional: int
    vararg: str
    kwarg: str
    defaults: tuple[tuple[str, Value], ...]
    #: parameters whose annotation says that they are tensors
    tensor_params: tuple[str, ...]
    calls: tuple[CallFact, ...]
    events: tuple[Event, ...]
    #: groups of calls whose results meet in one expression, and names of attributes they meet
    meets: tuple[tuple[int | str, ...], ...]
    line: int


class ClassFacts(NamedTuple):
    """A class: its bases as values, its methods, and what its body binds."""

    qualname: str
    bases: tuple[Value, ...]
    #: method name -> qualified names of its definitions (several: in different branches)
    methods: tuple[tuple[str, tuple[str, ...]], ...]
    setters: tuple[tuple[str, str], ...]
    bindings: tuple[tuple[str, Value], ...]
    #: `field(default_factory=...)` callables of a dataclass, with the field's name
    field_factories: tuple[tuple[str, Value], ...]
    line: int


class GroupCall(NamedTuple):
    """A process group set up without a device, or a barrier that has to guess one."""

    name: str
    #: the callee as written
    text: str
    start: Point
    end: Point
    statement: tuple[int, int]
    #: a local name that holds a device with an index, "" if there is none
    device_in_scope: str
    symbol: str


class Unread(NamedTuple):
    """A function that was not read yet, and where its text is."""

    qualname: str
    owner: str
    #: `first`, `line`, `start` and `end` as one number, see `packed`
    place: int
    is_indented: bool

    @property
    def first(self) -> int:
        """Its first line (from 1), decorators included."""
        return unpacked(self.place, 3)

    @property
    def line(self) -> int:
        """The line of its `def`."""
        return unpacked(self.place, 2)

    @property
    def start(self) -> int:
        """Where it starts, in code points of the text with its newlines normalised."""
        return unpacked(self.place, 1)

    @property
    def end(self) -> int:
        """Where it ends, likewise."""
        return unpacked(self.place, 0)


class ModuleFacts(NamedTuple):
    """What one file defines, and the summaries of the functions read so far."""

    #: local name -> where it is imported from (several: `try`/`if` alternatives)
    imports: tuple[tuple[str, tuple[str, ...]], ...]
    stars: tuple[str, ...]
    classes: tuple[ClassFacts, ...]
    #: names of module-level functions and qualified names of methods, whether read or not
    functions: tuple[str, ...]
    bindings: tuple[tuple[str, Value], ...]
    summaries: tuple[FunctionFacts, ...]
    unread: tuple[Unread, ...] = ()
    #: names that the file defines although it imports them as well, or Python has them built in
    shadowing: tuple[str, ...] = ()
    process_groups: tuple[GroupCall, ...] = ()


class FileHeaders(NamedTuple):
    """The classes of a file by name, with the dotted names that their bases mention, and what the
    first parts of these are imported from.  A name may occur several times in either."""

    classes: tuple[tuple[str, tuple[str, ...]], ...]
    imports: tuple[tuple[str, str], ...]
    #: first parts of bases that may stand for something else as well
    reassigned: tuple[str, ...]
    #: some `forward` is defined
    forwards: bool


class Meaning(NamedTuple):
    """What a name may mean in a file, by its bytes."""

    #: what it is imported from
    imported: tuple[str, ...]
    #: a star import or an assignment may give it a meaning
    otherwise: bool


#: Names that were looked up in the bytes of files, by path and name.
Consulted = Mapping[str, Mapping[str, Meaning]]


class Glance(NamedTuple):
    """What a file's bytes tell."""

    headers: FileHeaders
    #: a suppression of this tool's own may be there
    holds_directive: bool
    sets_up_group: bool


class Way(NamedTuple):
    """How a run came to a function."""

    #: the device contexts that surround it on every way to it
    context: int
    #: qualified names of the functions on the shortest way, itself last
    chain: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a run has asked for by name, and how it came to each function; by path where files are
    told apart."""

    #: all parts of the names that were looked up in files, and the methods
    names: frozenset[str]
    #: files of which everything was asked for
    listed: frozenset[str]
    #: attributes that tell something to others: asked for, set by a property, met in an expression,
    #: kept by several functions
    attributes: frozenset[str]
    #: attributes in which functions keep something, or that they register
    kept: frozenset[str]
    #: `function:parameter` of what a constructed value was followed into
    parameters: Mapping[str, frozenset[str]]
    #: by qualified name
    ways: Mapping[str, Mapping[str, Way]]


@dataclass(frozen=True, slots=True)
class Basis:
    """What a run was, for the next one over the same files to compare itself with."""

    #: the run by its digest
    run: str
    #: the digest of each file's content, and what the first look at it told, by its shown path
    files: Mapping[str, tuple[str, Glance]]
    #: what was looked at in each file
    targets: Mapping[str, FileTargets]
    #: the files that were read
    read: frozenset[str]
    consulted: Consulted
    #: what a star import takes from files, None if that cannot be told
    exports: Mapping[str, frozenset[str] | None]
