"""Read the headers of classes, and the imports behind their bases, in the text of one file.

In: the bytes of a file.  Out: `FileHeaders`, and what a name is imported from.  Never here:
parsing, another file, or what a name means.

A header or import in odd layout is never lost: what cannot be told is said to be unknown.
"""

from __future__ import annotations

import builtins
import codecs
import re
from collections.abc import Collection, Iterator
from functools import lru_cache

from devicelint.ir import FileHeaders, Meaning
from devicelint.sharing import same

# Each of these starts with plain letters, for which `re` has a fast search (20 times that of `^`);
# whether they start a line is looked at afterwards.

_SPACE = rb"(?:[ \t\f]|\\\n)"
_STRING = rb"'[^'\n]*'|\"[^\"\n]*\""
_INNER = rb"\((?:[^()#'\"]++|" + _STRING + rb"|#[^\n]*|['\"])*+\)"
#: brackets one level deep, strings and comments, which may hold any
_HEADER = re.compile(
    rb"class%b+([\w\x80-\xff]+)%b*(?:\[(?:[^\[\]]|\[[^\[\]]*\])*\])?%b*" % ((_SPACE,) * 3)
    + rb"(?:(\()((?:[^()#'\"]++|%b|%b|#[^\n]*|['\"])*+\))?)?" % (_STRING, _INNER)
)
_TEXT = re.compile(_STRING.decode())
_COMMENT = re.compile(r"#[^\n]*")
#: not a list, which may hold bases
_SUBSCRIPT = re.compile(r"(?<=[\w\])])\s*\[(?:[^\[\]]|\[[^\[\]]*\])*\]")
_KEYWORD = re.compile(r"\b\w+\s*=\s*[\w.]+(?:\([^()]*\))?")
_DOTTED = re.compile(r"[^\W\d][\w.]*")

_FROM = re.compile(
    rb"from%b*([.\w\x80-\xff]+)%b+import\b%b*" % ((_SPACE,) * 3)
    + rb"(\((?:[^()#]++|#[^\n]*)*+\)|(?:[^\n(;\\]++|\\\n)*+)"
)
_IMPORT = re.compile(rb"import[ \t]+((?:[^\n#;\\]++|\\\n)+)")
_FORWARD = re.compile(rb"def\s+forward\b")

#: `__all__` with plain strings in brackets, a comma between any two, and nothing behind them
_GAP = rb"(?:[ \t\n]|#[^\n]*\n)*+"
_ALL = re.compile(
    rb"__all__[ \t]*=[ \t]*[\[(](%b(?:(?:'[^'\\\n]*'|\"[^\"\\\n]*\")%b(?:,%b|(?=[\])])))*+)[\])]"
    % (_GAP, _GAP, _GAP)
    + rb"(?=[ \t]*(?:#[^\n]*)?(?:\n|\Z))"
)

BUILTINS = frozenset(dir(builtins))

# Bases that are not in the text, spelt as no name is: one that cannot be told, and that of a class
# inside a function, where a name may be a parameter.
_UNKNOWN = "?"
PARAMETER = "?parameter"


_NO_HEADERS = FileHeaders((), (), (), False)


def read_headers(data: bytes) -> FileHeaders:
    """Read the headers of classes in a file's bytes, wherever they stand, and their imports."""
    if b"class" not in data:
        return _NO_HEADERS
    text = _normalised(data)
    classes = tuple(_headers_of(text))
    roots = {base.partition(".")[0] for _, bases in classes for base in bases}
    roots = {name for name in roots if name not in BUILTINS or _is_renamed(name.encode(), text)}
    imports = _imports_of(text, [b"*", *map(str.encode, roots)]) if roots else ()
    return FileHeaders(
        tuple(same(item) for item in classes),
        tuple(same(item) for item in imports if item[0] in roots or item[0] == "*"),
        tuple(sorted(name for name in roots if _is_assigned(name.encode(), text))),
        _FORWARD.search(text) is not None,
    )


def _is_renamed(name: bytes, text: bytes) -> bool:
    """Tell a name of Python's own that a file gives a meaning."""
    return b"import " + name in text or b" as " + name in text or name + b" = " in text


def _is_assigned(name: bytes, text: bytes) -> bool:
    """Tell whether something may be assigned to a name: `a = x`, `a: type = x`, `b, a = x`."""
    seen = 0
    start = text.find(name)
    while start >= 0:
        seen += 1
        if seen == _MANY and _beside(name).search(text, start) is None:
            return False
        end = start + len(name)
        stop = text.find(b"\n", end)
        rest = text[end : stop if stop >= 0 else len(text)].lstrip(b" \t")
        if rest.startswith((b"=", b":", b",")) and b"=" in rest and not rest.startswith(b"=="):
            before = text[text.rfind(b"\n", 0, start) + 1 : start]
            if _TARGETS.fullmatch(before):
                return True
        start = text.find(name, end)
    return False


#: After so many occurrences, a name (`nn`) is worth a pattern of its own.
_MANY = 10


@lru_cache(maxsize=64)
def _beside(name: bytes) -> re.Pattern[bytes]:
    """Find a name with a mark behind it that something assigned to it would have."""
    return re.compile(re.escape(name) + rb"[ \t]*[=:,]")


#: What may stand in a line before a name that something is assigned to.
_TARGETS = re.compile(
    rb"(?:.*;)?[ \t\f]*(?:(?:if|elif|else|try|except|finally|for|while|with|case)\b.*:[ \t]*)?"
    rb"[(\[*]*(?:[\w.\x80-\xff]+[ \t]*,[ \t]*)*\*?"
)


def meaning_of(data: bytes, name: str) -> Meaning:
    """Say what a name may mean by a file's bytes: what it is imported from, wherever that stands,
    and whether a star import or an assignment gives it a meaning."""
    text = _normalised(data)
    found = _imports_of(text, [name.encode()])
    return Meaning(
        tuple(target for bound, target in found if bound == name),
        b"import *" in text or _is_assigned(name.encode(), text),
    )


def exports_of(data: bytes) -> frozenset[str] | None:
    """Give the names in the `__all__` of a file's bytes, which are all that `import *` takes from
    it; None if there is none, or it is more than one plain list of strings."""
    if data.count(b"__all__") != 1:
        return None
    text = _normalised(data)
    start = text.find(b"__all__")
    found = _ALL.match(text, start)
    # in a docstring it is an example
    if found is None or text[:start][-1:] not in (b"", b"\n") or text.count(b'"""', 0, start) % 2:
        return None
    items = _COMMENT.sub("", found[1].decode(errors="replace"))
    if found[0].rstrip(b"\n").endswith(b")") and "," not in items and items.strip():
        return None  # `("name")` is a string, each letter of it a name
    return frozenset(name[1:-1] for name in _TEXT.findall(items))


def _normalised(data: bytes) -> bytes:
    """Leave out what no header begins with: a byte order mark, other line endings."""
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return data.removeprefix(codecs.BOM_UTF8)


def _headers_of(data: bytes) -> Iterator[tuple[str, tuple[str, ...]]]:
    end = 0
    while (match := _HEADER.search(data, end)) is not None:
        # in prose, what looks like a header may swallow a real one
        end = match.end(1)
        if not _starts_line(data, match.start()):
            continue
        name = match[1].decode(errors="replace")
        if match[2] is None:
            yield name, ()
        elif match[3] is None:
            yield name, (_UNKNOWN,)
        else:
            bases = _bases(match[3].decode(errors="replace"))
            is_inside = match.start() and data[match.start() - 1] not in b"\n\f"
            yield name, (*bases, PARAMETER) if bases and is_inside else bases


def _starts_line(data: bytes, start: int) -> bool:
    return not start or not data[data.rfind(b"\n", 0, start) + 1 : start].strip()


def _starts_statement(data: bytes, start: int) -> bool:
    before = data[data.rfind(b"\n", 0, start) + 1 : start].rstrip()
    return not before or before.endswith((b";", b":"))


def _bases(text: str) -> tuple[str, ...]:
    """List the dotted names in the bases of a class; what subscripts hold is no base."""
    text = _KEYWORD.sub("", _COMMENT.sub("", _TEXT.sub("", text)))
    while (shorter := _SUBSCRIPT.sub("", text)) != text:
        text = shorter
    return tuple(_DOTTED.findall(text)) if text.count("[") == text.count("]") else (_UNKNOWN,)


def _mentions(text: bytes, names: Collection[bytes]) -> bool:
    # not `any`: a generator for each import is a sixth of the first look at all files
    for name in names:  # noqa: SIM110
        if name in text:
            return True
    return False


def _imports_of(data: bytes, names: Collection[bytes] = (b"",)) -> Iterator[tuple[str, str]]:
    """Yield (local name, dotted target) for the imports of a file, wherever they stand.

    Statements in which none of `names` is mentioned are passed over.
    """
    for match in _FROM.finditer(data):
        if not _mentions(match[2], names) or not _starts_statement(data, match.start()):
            continue
        prefix = match[1].decode(errors="replace")
        joiner = "" if prefix.endswith(".") else "."
        bound = _COMMENT.sub("", match[2].decode(errors="replace")).strip("()\\ \t")
        for item in bound.replace("\\", " ").split(","):
            words = item.split()
            if words:
                yield words[-1], f"{prefix}{joiner}{words[0]}"
    for match in _IMPORT.finditer(data):
        if not _mentions(match[1], names) or not _starts_statement(data, match.start()):
            continue
        for item in match[1].decode(errors="replace").replace("\\", " ").split(","):
            words = item.split()
            if len(words) == 3:
                yield words[2], words[0]
            elif words:
                root = words[0].partition(".")[0]
                yield root, root
