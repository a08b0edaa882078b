"""Bring the results of an earlier run up to date where a few files were edited since.

In: what the run was and found, the files as they are now, the cache.  Out: the results of now, or
None where an edit may concern more than its own file.  Never here: names of other files, a walk.

The question for each edited file is whether it still says what the run has used of it (see
`reuse`).  If so, only its own findings are worked out again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from devicelint.cache import Cache
from devicelint.files import SourceFile
from devicelint.glance import glance_at
from devicelint.ir import Basis, ModuleFacts
from devicelint.model import Analysis, Diagnostic, Policy, Results
from devicelint.reading import judge_file, read_again
from devicelint.reuse import Moves, says_the_same

#: With more edited files than this, a run of its own takes about as long.
_MOST = 12


def recall(
    cache: Cache,
    basis: Basis,
    sources: Mapping[str, SourceFile],
    digests: Mapping[str, str],
    policy: Policy,
) -> Results | None:
    """Give the results of now.

    `sources` and `digests` (of their contents) are by the path that the user sees.
    """
    known = cache.results(basis.run)
    changed = [path for path in sources if basis.files[path][0] != digests[path]]
    if known is None or len(changed) > _MOST:
        return None
    analyses = dict(known.analyses)
    for path in changed:
        data = sources[path].data
        before = analyses.get(path, Analysis())
        if before.diagnostics or glance_at(data) != basis.files[path][1]:
            return None
        # of a file that was read, the facts hold all imports that count
        if path in basis.consulted - basis.read:
            return None
        if path in basis.read:
            moves = _moves(cache, path, data, basis.files[path][0], digests[path])
            after = _moved(before, moves, path, data, basis, policy) if moves is not None else None
            if after is None:
                return None
            analyses[path] = after
    return replace(known, analyses=analyses)


def _moved(
    before: Analysis, moves: Moves, path: str, data: bytes, basis: Basis, policy: Policy
) -> Analysis | None:
    """Judge again what was looked at, where it is now."""
    targets = basis.targets.get(path)
    found = judge_file(path, data, moves.targets(targets), policy) if targets is not None else ()
    if isinstance(found, Diagnostic):
        return None
    return Analysis(found, looked=moves.looked(before.looked) if before.looked else None)


def _moves(cache: Cache, path: str, data: bytes, old: str, new: str) -> Moves | None:
    """Say where the calls of a file have moved, None if it does not say what it said."""
    before = cache.facts(old)
    after = read_again(path, data, before) if before is not None else None
    if before is None or not isinstance(after, ModuleFacts) or not says_the_same(before, after):
        return None
    cache.keep_facts(new, after)
    return Moves(before, after)
