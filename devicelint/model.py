"""Every data type that flows through devicelint.

In: nothing.  Out: frozen, slotted dataclasses and string enums.  Never here: logic beyond a
property, I/O, or an import of another devicelint module.

Words: a *constructor* is a callable of PyTorch that makes something living on a device; a
*call site* is one call of a constructor in construction code; a *sink* is what becomes of its
value; a *rule* judges a call site and may answer with a *violation*; a violation put in its
place in a file is a *finding*; a *fix* is a list of *edits*.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Severity(StrEnum):
    """How much a finding matters, worst first."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Applicability(StrEnum):
    """Whether a fix may be applied without a person looking at it."""

    SAFE = "safe"
    UNSAFE = "unsafe"
    DISPLAY = "display"


class Sink(StrEnum):
    """What becomes of a constructed value."""

    PARAMETER = "parameter"
    BUFFER = "buffer"
    ATTRIBUTE = "attribute"
    HOST = "host"
    EXISTING = "existing"
    ARGUMENT = "argument"
    LOCAL = "local"
    STREAM = "stream"
    GENERATOR = "generator"


class Construction(StrEnum):
    """How the project builds its modules (the `construction` setting)."""

    DEFAULT = "default"
    DEVICE_CONTEXT = "device-context"
    META = "meta"


class Kind(StrEnum):
    """What sort of thing a constructor makes, as far as rules care."""

    TENSOR = "tensor"
    STREAM = "stream"
    GENERATOR = "generator"
    LEGACY = "legacy"
    HOST_MEMORY = "host-memory"
    MODULE = "module"
    PROCESS_GROUP = "process-group"


@dataclass(frozen=True, slots=True)
class Constructor:
    """One row of the constructor table.

    `device_index` is the 0-based position at which the device may be passed positionally, None
    where it is keyword-only.  `takes_device` is False where no `device=` exists at all or the one
    there is refuses every device but its own (legacy constructors).
    """

    name: str
    kind: Kind
    takes_device: bool = True
    device_index: int | None = None
    honours_context: bool = True
    random: bool = False
    #: keywords whose presence already settles the device (`out`, `generator`, ...)
    settled_by: tuple[str, ...] = ("out",)
    #: True where a tensor as first argument settles the device (`torch.as_tensor`, ...)
    follows_tensor: bool = False
    #: dtype that a legacy constructor stands for, as an expression below `torch.`
    dtype: str | None = None
    #: the keyword that names the device, which a project's own factory may call otherwise
    device_keyword: str = "device"


@dataclass(frozen=True, slots=True, order=True)
class Location:
    """A place in a file.

    `offset` counts bytes of the UTF-8 text without BOM, from 0; `line` and `column` count from 1,
    columns in code points.
    """

    offset: int
    line: int
    column: int


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """Replace the text from `start` up to `end` (exclusive) with `content`."""

    start: Location
    end: Location
    content: str


@dataclass(frozen=True, slots=True)
class Fix:
    """What would mend a finding: a title in the imperative, and the edits (none for advice)."""

    title: str
    applicability: Applicability
    edits: tuple[Edit, ...] = ()


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a call as it is written; `star` is "", "*" or "**"."""

    text: str
    keyword: str | None = None
    star: str = ""


@dataclass(frozen=True, slots=True)
class InsertionPoint:
    """Where a new keyword argument goes, and what must stand around it.

    The edit's content is `before + "device=..." + after`.
    """

    location: Location
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """A constructor call that the project-wide analysis found, before its text is looked at.

    `start` and `end` are (line from 1, UTF-8 byte column from 0); the other fields are those of
    `CallSite`.
    """

    constructor: Constructor
    callable: str
    callee: str
    sink: Sink
    symbol: str
    reached_via: tuple[str, ...]
    start: tuple[int, int]
    end: tuple[int, int]
    statement: tuple[int, int]
    device_in_scope: str | None
    in_context: bool
    fix_obstacle: str
    target: str
    also: tuple[Sink, ...]
    import_time: bool
    #: names the constructions of a file whose values meet ("" if this one meets none): all or none
    #: of them get a device
    group: str = ""
    #: one of them, perhaps in another file, is drawn at random
    drawn_together: bool = False


@dataclass(frozen=True, slots=True)
class FileTargets:
    """What to visit in one file."""

    candidates: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class CallSite:
    """A constructor call without a device, in construction code.  All that a rule may know."""

    constructor: Constructor
    #: the qualified name as resolved (`torch.empty`); a local name where the callee is dynamic
    callable: str
    sink: Sink
    #: class and function that hold the call, `Model.__init__`
    symbol: str
    #: the functions that lead here from the module's `__init__`, outermost first, the holder last
    reached_via: tuple[str, ...]
    start: Location
    end: Location
    #: end of the callee's name, where the parenthesis opens
    callee_end: Location
    #: the call exactly as written
    text: str
    arguments: tuple[Argument, ...]
    insertion: InsertionPoint | None
    #: a device expression in scope at the call (`device`, `factory_kwargs["device"]`)
    device_in_scope: str | None = None
    #: the name torch is bound to where the call stands, None if it is not bound there
    torch_name: str | None = "torch"
    #: where a missing import statement goes, and the line ending to use
    import_point: InsertionPoint | None = None
    #: an enclosing device context that this constructor ignores is there
    in_context: bool = False
    #: why the analysis forbids an inserted device here (empty: it does not)
    fix_obstacle: str = ""
    #: name of the attribute, buffer or parameter the value ends in ("" if none is known), with
    #: "[...]" behind that of a list, dict or other object which holds the value
    target: str = ""
    #: the value is read on the host *and* kept, or the like: rules may word their reason so
    also: tuple[Sink, ...] = ()
    #: the call is in code run at import (class body, default argument, module level)
    import_time: bool = False

    @property
    def is_held(self) -> bool:
        """Tell a value that a list, a dict or another object on the module holds."""
        return self.target.endswith("[...]")


@dataclass(frozen=True, slots=True)
class Policy:
    """The settings that judgement depends on."""

    construction: Construction = Construction.DEFAULT
    device_expression: str = "torch.cuda.current_device()"
    #: import statement that the expression needs ("" : `import torch` where torch is not bound)
    device_import: str = ""


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule's verdict on a call site."""

    message: str
    reason: str
    severity: Severity
    fix: Fix | None = None
    #: one imperative sentence: what to do
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: what it is called, what it says of itself, and how it judges."""

    code: str
    name: str
    summary: str
    severity: Severity
    fixable: str
    documentation: str
    valid: tuple[str, ...]
    invalid: tuple[str, ...]
    check: Callable[[CallSite, Policy], Violation | None]


@dataclass(frozen=True, slots=True)
class Finding:
    """A violation in its place.  No path: it holds for the same bytes anywhere."""

    code: str
    name: str
    message: str
    severity: Severity
    start: Location
    end: Location
    symbol: str
    callable: str
    sink: Sink
    reached_via: tuple[str, ...]
    reason: str
    advice: str
    fingerprint: str
    fix: Fix | None
    #: the source lines from `start.line` to `end.line`, without line endings
    excerpt: tuple[str, ...]
    #: first and last line (1-based, inclusive) of the statement that holds the call
    statement: tuple[int, int]
    #: names the findings of this file whose values meet, and how many they are: their fixes are
    #: applied together or not at all ("" and 1 for a finding alone)
    group: str = ""
    group_size: int = 1


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A file that could not be dealt with in full, and why.  `line` 0: the file as a whole."""

    path: str
    line: int
    column: int
    message: str
    #: the traceback, for `--verbose`; empty where the fault is the file's
    detail: str = ""
    #: it was checked all the same, and the message says what was not done
    is_checked: bool = False


@dataclass(frozen=True, slots=True, order=True)
class BaselineEntry:
    """A known finding, as the baseline file keeps it; `path` as in a `FileReport`."""

    path: str
    code: str
    symbol: str
    callable: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Looked:
    """The statements of a file that were looked at, by first and last line.

    `own` are those that run because of a module class of the file itself: whatever else is checked,
    they are looked at.
    """

    own: frozenset[tuple[int, int]] = frozenset()
    all: frozenset[tuple[int, int]] = frozenset()


@dataclass(frozen=True, slots=True)
class Analysis:
    """What one source yielded, before selection and suppression.

    `looked` is filled in only for a file that may hold a suppression of this tool's own.
    """

    findings: tuple[Finding, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    looked: Looked | None = None


@dataclass(frozen=True, slots=True)
class Results:
    """What a run yielded, by `path` of the source (one without anything may be left out).

    `rests_on` holds the digests of files outside the run that were read for it ("": no such file).
    """

    analyses: Mapping[str, Analysis]
    rests_on: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class FileReport:
    """What one file yielded.  `path` is relative to the working directory, forward slashes."""

    path: str
    findings: tuple[Finding, ...] = ()
    suppressed: tuple[Finding, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    #: findings that the baseline knows
    baselined: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class RunReport:
    """What a run yielded, files sorted by path, findings by position."""

    files: tuple[FileReport, ...]
    checked: int
    #: seconds per stage, for `--verbose`
    timings: tuple[tuple[str, float], ...] = field(default=())
    #: entries of the baseline whose findings are gone
    stale: tuple[BaselineEntry, ...] = ()
    #: how many of the files that the cache was asked about it knew, and how many not: all files of
    #: the run where its whole result is known, else those whose facts were needed
    remembered: tuple[int, int] = (0, 0)
    #: why the cache could not be used, "" if it could
    unremembered: str = ""

    @property
    def findings(self) -> tuple[tuple[str, Finding], ...]:
        """Every finding with its path."""
        return tuple((report.path, finding) for report in self.files for finding in report.findings)

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Every diagnostic, in file order."""
        return tuple(diagnostic for report in self.files for diagnostic in report.diagnostics)
