"""Bring the results of an earlier run up to date where a few files were edited since.

In: what the run was, found and asked for, the files as they are now, the cache.  Out: the results
of now, or None where an edit may concern more than its own file.  Never here: a whole walk.

The question for each edited file is whether it still says what the run has used of it (see
`reuse`), or else whether all that is new or gone was never asked for (see `unasked`).  If so, only
its own findings are worked out again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from devicelint.cache import Cache
from devicelint.extras import Extras
from devicelint.files import SourceFile
from devicelint.flow import Flow
from devicelint.glance import glance_at
from devicelint.headers import exports_of, meaning_of
from devicelint.ir import Basis, CallFact, Footprint, ModuleFacts
from devicelint.joining import FactStore, Find
from devicelint.model import (
    Analysis,
    Candidate,
    Diagnostic,
    FileTargets,
    Finding,
    Kind,
    Policy,
    Results,
)
from devicelint.project import External, Key, ProjectIndex
from devicelint.reading import judge_file, read_again
from devicelint.reuse import Moves, says_the_same
from devicelint.targets import constructor_calls, file_targets
from devicelint.unasked import OwnAffair, unasked
from devicelint.walk import Walk

#: With more edited files than this, a run of its own takes about as long.
_MOST = 12


@dataclass(frozen=True, slots=True)
class Project:
    """The files as they are now, and all that judging them takes."""

    #: by the path that the user sees, with their absolute paths and the digests of their contents
    sources: Mapping[str, SourceFile]
    places: Mapping[str, str]
    digests: Mapping[str, str]
    store: FactStore
    #: over the facts in `store`
    index: ProjectIndex
    find: Find
    extras: Extras
    policy: Policy


@dataclass(frozen=True, slots=True)
class _Edit:
    """A file that was read, and is not what it was: what it says before and after."""

    #: as the user sees it, and absolute
    path: str
    place: str
    before: ModuleFacts
    after: ModuleFacts
    #: it says the same, perhaps in other lines
    is_moved_only: bool


def recall(cache: Cache, basis: Basis, project: Project) -> Results | None:
    """Give the results of now."""
    known = cache.results(basis.run)
    changed = [path for path in project.sources if basis.files[path][0] != project.digests[path]]
    if known is None or len(changed) > _MOST:
        return None
    if not all(_looks_the_same(path, known, basis, project) for path in changed):
        return None
    edits = [_edit(cache, basis, project, path) for path in changed if path in basis.read]
    told = [edit for edit in edits if edit is not None]
    is_moved_only = all(edit.is_moved_only for edit in told)
    footprint = cache.footprint(basis.run) if not is_moved_only else None
    affairs = _own_affairs(told, known, basis, project, footprint)
    if len(told) < len(edits) or affairs is None:
        return None
    analyses = dict(known.analyses)
    for edit, affair in zip(told, affairs, strict=True):
        after = _judged(edit, affair, analyses.get(edit.path), basis, project, footprint)
        if after is None:
            return None
        analyses[edit.path] = after
    if not _has_read_no_more(known, basis, project):
        return None
    for edit in told:
        cache.keep_facts(project.digests[edit.path], edit.after)
    return replace(known, analyses=analyses)


def _looks_the_same(path: str, known: Results, basis: Basis, project: Project) -> bool:
    """Tell whether the bytes of an edited file, unparsed, tell what they told."""
    before = known.analyses.get(path)
    if before is not None and before.diagnostics:
        return False
    data = project.sources[path].data
    if path in basis.exports and exports_of(data) != basis.exports[path]:
        return False
    return glance_at(data) == basis.files[path][1] and all(
        meaning_of(data, name) == meaning for name, meaning in basis.consulted.get(path, {}).items()
    )


def _edit(cache: Cache, basis: Basis, project: Project, path: str) -> _Edit | None:
    """Read again what was read of a file."""
    before = cache.facts(basis.files[path][0])
    if before is None:
        return None
    after = read_again(path, project.sources[path].data, before)
    if not isinstance(after, ModuleFacts):
        return None
    place = project.places[path]
    project.store.hold(place, after)
    return _Edit(path, place, before, after, says_the_same(before, after))


def _own_affairs(
    edits: Sequence[_Edit],
    known: Results,
    basis: Basis,
    project: Project,
    footprint: Footprint | None,
) -> list[OwnAffair] | None:
    """Tell what each file says that it did not say; None if that may concern another one."""
    affairs: list[OwnAffair] = []
    for edit in edits:
        if edit.is_moved_only:
            affairs.append(OwnAffair({}, frozenset()))
            continue
        before = known.analyses.get(edit.path)
        is_looked_at = before is not None and before.looked is not None
        if footprint is None or is_looked_at:
            return None
        is_outside = partial(_is_outside, project, edit.place)
        affair = unasked(edit.place, edit.before, edit.after, footprint, is_outside)
        if affair is None or any(affair.attributes & other.attributes for other in affairs):
            return None
        affairs.append(affair)
    return affairs


def _is_outside(project: Project, path: str, call: CallFact) -> bool:
    """Tell a call that runs nothing of the project, whatever class it is made on."""
    for atom in call.callees:
        name = str(atom[1]) if atom[0] == "ref" else ""
        # where a file is found it would be read
        if not name or (not name.startswith("~.") and project.find(path, name) is not None):
            return False
        for target in project.index.resolve(path, name):
            if not isinstance(target, External):
                return False
            row = project.extras.constructors.get(target.name)
            if row is not None and row.kind is Kind.MODULE:
                return False
    return bool(call.callees)


def _judged(
    edit: _Edit,
    affair: OwnAffair,
    before: Analysis | None,
    basis: Basis,
    project: Project,
    footprint: Footprint | None,
) -> Analysis | None:
    """Judge again what was looked at, where it is now, and what is new."""
    moves = Moves(edit.before, edit.after, affair.blocks)
    known = moves.targets(basis.targets.get(edit.path, FileTargets(())))
    new = _new(edit, affair, project, footprint) if footprint is not None else ()
    targets = file_targets((*known.candidates, *new))
    found: tuple[Finding, ...] | Diagnostic = ()
    if targets.candidates:
        found = judge_file(edit.path, project.sources[edit.path].data, targets, project.policy)
    if isinstance(found, Diagnostic):
        return None
    looked = before.looked if before is not None else None
    return Analysis(found, looked=moves.looked(looked) if looked is not None else None)


def _new(
    edit: _Edit, affair: OwnAffair, project: Project, footprint: Footprint
) -> Iterator[Candidate]:
    """Choose among the calls that are new, in functions that construction comes to."""
    ways = footprint.ways.get(edit.place, {})
    for qualname, block in affair.blocks.items():
        key: Key = (edit.place, qualname)
        way, summary = ways.get(qualname), project.index.summary(key)
        if way is None or summary is None:
            continue
        walk = Walk(project.index, project.extras)
        walk.look_at(key, block.new(), way.context)
        construction = walk.finish()
        # what becomes of them is the same on every class
        construction.reached = {key: [(edit.place, summary.owner) if summary.owner else None]}
        flow = Flow(project.index, construction, project.extras)
        chain = tuple((edit.place, name) for name in way.chain)
        yield from constructor_calls(project.index, construction, flow, {key: chain}).values()


def _has_read_no_more(known: Results, basis: Basis, project: Project) -> bool:
    """Tell whether no file was read for all this that the earlier run had not read: what runs when
    it is imported would count as well."""
    read = {project.places[path] for path in basis.read}
    outside = set(project.store.rests_on)
    return (
        not project.store.problems
        and outside <= known.rests_on.keys()
        and all(path in read for path in project.store.loaded() if path not in outside)
    )
