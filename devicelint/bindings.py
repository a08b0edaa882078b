"""Tell what a name stands for at a place in a file.

In: the scopes of the file.  Out: the name that torch has there, the standing of an import
statement, the f-string around.  Never here: another file, an edit, a rule.

Python's own rule is kept: a name that a function binds anywhere is local to all of it, and a class
body is seen by its own statements alone.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from devicelint.scopes import Binding, Guard, Names, Place, Scope, Span, imported_names


class Standing(Enum):
    """What a name is at a place, measured by what it should stand for."""

    BOUND = auto()
    FREE = auto()
    TAKEN = auto()


@dataclass(frozen=True, slots=True)
class Import:
    """How an import statement stands at a place.

    `renamed` gives the names by which the file knows what the statement binds.  `is_needed` if
    it has to be added; `taken` names what stands in the way ("" if nothing does).
    """

    renamed: Mapping[str, str]
    is_needed: bool = False
    taken: str = ""


def torch_name(names: Names, place: Place) -> str | None:
    """Give the name that `torch` has at a place; None if it has none there."""
    known = [name for name, target in _known(names, place) if target == "torch"]
    for name in sorted(set(known), key=lambda name: (name != "torch", known.index(name))):
        if _standing(names, name, "torch", place) is Standing.BOUND:
            return name
    return None


def is_free(names: Names, name: str, place: Place) -> bool:
    """Tell whether an import added to the module would give `name` its meaning at a place."""
    return _standing(names, name, "", place) is Standing.FREE


def standing_of(names: Names, statement: str, place: Place) -> Import:
    """Say whether the names that an import statement binds have its meaning at a place."""
    renamed: dict[str, str] = {}
    is_needed = False
    for node in ast.parse(statement).body:
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        for name, target, dotted in imported_names(node):
            own = _name_for(names, name, target, place)
            if own is not None:
                renamed[name] = own
                is_needed = is_needed or not _is_loaded(names, own, dotted, place)
            elif is_free(names, name, place):
                is_needed = True
            else:
                return Import({}, taken=name)
    # a statement that is added binds its own names
    return Import({} if is_needed else renamed, is_needed)


def respell(expression: str, renamed: Mapping[str, str]) -> str:
    """Write an expression with other names for the roots of its dotted names."""
    for name, own in renamed.items():
        if name != own:
            expression = re.sub(rf"(?<![\w.\"']){re.escape(name)}(?![\w\"'])", own, expression)
    return expression


def text_around(names: Names, place: Place) -> Span | None:
    """Give where the f-string is that a place is in, the outermost one; None outside of any."""
    return next((text for text in names.texts if text[0] <= place < text[1]), None)


def _chain(names: Names, place: Place) -> list[Scope]:
    """List the scopes around a place that its names are looked up in, innermost first."""
    chain = [names.module]
    while inner := [one for one in chain[-1].inner if one.span[0] <= place < one.span[1]]:
        chain.append(inner[-1])
    chain.reverse()
    return [scope for number, scope in enumerate(chain) if number == 0 or scope.kind != "class"]


def _known(names: Names, place: Place) -> Iterator[tuple[str, str]]:
    """Yield the names that imports bind around a place, with what they stand for."""
    for scope in _chain(names, place):
        for name, bindings in scope.bound.items():
            for binding in bindings:
                yield name, binding.target


def _name_for(names: Names, name: str, target: str, place: Place) -> str | None:
    known = dict.fromkeys(
        [name, *(other for other, meant in _known(names, place) if _is_same(meant, target))]
    )
    for other in known:
        if _standing(names, other, target, place) is Standing.BOUND:
            return other
    return None


def _is_same(one: str, other: str) -> bool:
    """Compare targets; a relative one stands for any that ends alike."""
    if one == other or not one or not other:
        return one == other
    relative, absolute = (one, other) if one.startswith(".") else (other, one)
    if not relative.startswith(".") or absolute.startswith("."):
        return False
    return absolute.endswith(f".{relative.lstrip('.')}")


def _is_loaded(names: Names, name: str, dotted: str, place: Place) -> bool:
    """Tell whether an import of `a.b` is there, not only one of `a`."""
    if "." not in dotted:
        return True
    return any(
        binding.guard is not Guard.TYPING
        and (_is_same(binding.dotted, dotted) or binding.dotted.startswith(f"{dotted}."))
        for scope in _chain(names, place)
        for binding in scope.bound.get(name, ())
    )


def _standing(names: Names, name: str, target: str, place: Place) -> Standing:
    for scope in _chain(names, place):
        bindings = [one for one in scope.bound.get(name, ()) if one.guard is not Guard.TYPING]
        if scope.parent is None:
            return _at_module_level(bindings, target)
        if name in scope.handed:
            continue
        # names bound for type checkers alone are local all the same
        if scope.bound.get(name):
            is_meant = bool(bindings) and all(_is_same(one.target, target) for one in bindings)
            before = any(
                one.place < place and one.block[0] <= place <= one.block[1] for one in bindings
            )
            return Standing.BOUND if target and is_meant and before else Standing.TAKEN
    return Standing.FREE


def _at_module_level(bindings: list[Binding], target: str) -> Standing:
    if not bindings:
        return Standing.FREE
    meant = [one for one in bindings if target and _is_same(one.target, target)]
    others = [
        one
        for one in bindings
        if one not in meant and not one.is_none and one.guard is not Guard.FALLBACK
    ]
    if others or not meant:
        return Standing.TAKEN
    return Standing.FREE if all(one.guard is Guard.AFAR for one in meant) else Standing.BOUND
