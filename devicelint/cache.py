"""What earlier runs found out: facts by a file's content, results by all that they rest on.

In: a folder, digests.  Out: facts and results, or None.  Never here: a decision, or trust: whatever
cannot be read is not there, what is read is JSON and never run, and no fault of the cache is a
fault of the run.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import sqlite3
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from time import time
from typing import TypeVar

from devicelint import __version__
from devicelint.cache_folder import APPLICATION, prepare
from devicelint.files import OnDisk, SourceError, SourceFile, on_disk
from devicelint.frozen import (
    Frozen,
    basis_from,
    basis_to,
    facts_from,
    facts_to,
    findings_from,
    findings_to,
    footprint_from,
    footprint_to,
    frozen,
    results_from,
    results_to,
)
from devicelint.ir import Basis, Footprint, ModuleFacts
from devicelint.locate import listing
from devicelint.model import Finding, Results

#: Facts and results depend on the program and on the grammar of the Python that runs it.
VERSION = f"7:{__version__}:{sys.version_info[0]}.{sys.version_info[1]}"

#: Entries that were not used for so long are dropped (30 days).
_LIFETIME = 30 * 24 * 3600
#: So many results of whole runs are kept (each is another choice of paths or settings), with what
#: the last one over each choice of paths was and has asked for.
_RUNS = 36

_SCHEMA = """
create table if not exists files (path text primary key, stamp text, digest text);
create table if not exists facts (digest text primary key, data text, used real);
create table if not exists findings (digest text primary key, data text, used real);
create table if not exists runs (digest text primary key, data text, used real);
"""

#: The facts of so many files are written in one transaction.
_AT_ONCE = 100

_Answer = TypeVar("_Answer")


class Cache:
    """One run's view of the cache: reads at once, writes at the end, facts when it is told to."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._database: sqlite3.Connection | None = None
        self._stamps: dict[str, tuple[str, str]] = {}
        self._new_stamps: dict[str, tuple[str, str]] = {}
        self._new_facts: dict[str, ModuleFacts] = {}
        self._used: set[str] = set()
        self._new_findings: dict[str, str] = {}
        self._new_runs: dict[str, str] = {}
        self._used_runs: set[str] = set()
        self._is_fuller = False
        self.hits = 0
        self.misses = 0
        #: why nothing can be remembered, "" while all is well
        self.problem = ""
        self._open()

    def _open(self, *, again: bool = True) -> None:
        file = self._folder / f"{VERSION.replace(':', '-')}.db"
        try:
            prepare(self._folder)
            if file.is_symlink():
                # it may lead to what is somebody else's
                raise OSError(errno.ELOOP, "its database is a link")
            self._database = sqlite3.connect(file, timeout=1.0)
            if self._database.execute("pragma application_id").fetchone() == (0,):
                self._database.execute(f"pragma application_id = {APPLICATION}")
            self._database.executescript(_SCHEMA)
            rows = self._database.execute("select path, stamp, digest from files")
            self._stamps = {path: (stamp, digest) for path, stamp, digest in rows}
            self.problem = ""
        except (OSError, sqlite3.Error) as error:
            self.problem = _reason(error)
            self.close()
            # not one that another run is at, or that is none of ours
            is_torn = isinstance(error, sqlite3.Error) and not isinstance(
                error, sqlite3.OperationalError
            )
            if is_torn and again:
                with contextlib.suppress(OSError):
                    file.unlink(missing_ok=True)
                self._open(again=False)

    # -- what files hold

    def digest_of(self, source: SourceFile) -> str:
        """Give the digest of a file's bytes; it is not read if it was not touched.

        Raises `SourceError` if it cannot be read.
        """
        content = source.content
        if isinstance(content, bytes):
            return hashlib.sha256(content).hexdigest()
        path, stamp = content.place, _stamp(content)
        known = self._stamps.get(path)
        if stamp and known is not None and known[0] == stamp:
            return known[1]
        digest = hashlib.sha256(content.read()).hexdigest()
        if stamp:
            self._new_stamps[path] = (stamp, digest)
        return digest

    def facts(self, digest: str) -> ModuleFacts | None:
        """Give the facts of a file with this digest."""
        found = self._ask("facts", digest, facts_from)
        if found is None:
            self.misses += 1
        else:
            self.hits += 1
            self._used.add(digest)
        return found

    def keep_facts(self, digest: str, facts: ModuleFacts) -> None:
        """Remember the facts of a file."""
        self._new_facts[digest] = facts

    # -- results

    def findings(self, digest: str) -> tuple[Finding, ...] | None:
        """Give the findings of a file with this text and these targets."""
        return self._ask("findings", digest, findings_from)

    def keep_findings(self, digest: str, findings: tuple[Finding, ...]) -> None:
        """Remember the findings of a file."""
        self._new_findings[digest] = findings_to(findings)

    def results(self, digest: str) -> Results | None:
        """Give the results of a run that rested on just this."""
        return self._ask("runs", digest, results_from)

    def keep_results(self, digest: str, results: Results) -> None:
        """Remember the results of a run."""
        self._new_runs[digest] = results_to(results)

    def basis(self, digest: str) -> Basis | None:
        """Give what the last run over these files was, whatever they held then."""
        return self._ask("runs", digest, basis_from)

    def keep_basis(self, digest: str, basis: Basis) -> None:
        """Remember what a run was."""
        self._new_runs[digest] = basis_to(basis)

    def footprint(self, run: str) -> Footprint | None:
        """Give what a run has asked for."""
        return self._ask("runs", f"{run} asked", footprint_from)

    def keep_footprint(self, run: str, footprint: Footprint) -> None:
        """Remember what a run has asked for."""
        self._new_runs[f"{run} asked"] = footprint_to(footprint)

    def use(self, *digests: str) -> None:
        """Note that what is known of runs was of use, so that it is kept."""
        for digest in digests:
            self._used_runs.update((digest, f"{digest} asked"))

    def _ask(self, table: str, digest: str, read: Callable[[Frozen], _Answer]) -> _Answer | None:
        if self._database is None:
            return None
        try:
            row = self._database.execute(
                f"select data from {table} where digest = ?", (digest,)
            ).fetchone()
            return read(frozen(row[0])) if row else None
        except (sqlite3.Error, ValueError, TypeError, IndexError, KeyError, RecursionError):
            return None

    # -- the end

    def save_facts(self) -> None:
        """Write the facts that are new, and let go of them."""
        new = list(self._new_facts.items())
        self._new_facts.clear()
        if self._database is None or not new:
            return
        self._is_fuller = True
        now = time()
        for start in range(0, len(new), _AT_ONCE):
            # written down before the database is locked
            rows = [
                (digest, facts_to(facts), now) for digest, facts in new[start : start + _AT_ONCE]
            ]
            try:
                with self._database as database:
                    database.executemany("insert or replace into facts values (?, ?, ?)", rows)
            except (sqlite3.Error, OSError, ValueError) as error:
                self.problem = _reason(error)
                return

    def save(self) -> None:
        """Write what is new, drop what is old; a failure is the cache's loss."""
        self.save_facts()
        if self._database is None:
            return
        now = time()
        try:
            with self._database as database:
                database.executemany(
                    "insert or replace into files values (?, ?, ?)",
                    [(path, *entry) for path, entry in self._new_stamps.items()],
                )
                for table, entries in (("findings", self._new_findings), ("runs", self._new_runs)):
                    database.executemany(
                        f"insert or replace into {table} values (?, ?, ?)",
                        [(digest, data, now) for digest, data in entries.items()],
                    )
                database.executemany(
                    "update runs set used = ? where digest = ?",
                    [(now, digest) for digest in self._used_runs],
                )
                if self._is_fuller or self._new_runs:
                    self._age(database, now)
        except (sqlite3.Error, OSError, ValueError) as error:
            self.problem = _reason(error)

    def _age(self, database: sqlite3.Connection, now: float) -> None:
        database.executemany(
            "update facts set used = ? where digest = ?", [(now, digest) for digest in self._used]
        )
        for table in ("facts", "findings"):
            database.execute(f"delete from {table} where used < ?", (now - _LIFETIME,))
        database.execute(
            "delete from runs where digest not in "
            "(select digest from runs order by used desc limit ?)",
            (_RUNS,),
        )

    def close(self) -> None:
        """Let go of the database."""
        if self._database is not None:
            with contextlib.suppress(sqlite3.Error):
                self._database.close()
            self._database = None


def _reason(error: Exception) -> str:
    """Say why a cache cannot be used; "" where another run is at it, which passes."""
    if isinstance(error, FileExistsError | NotADirectoryError):
        return "it is not a folder"
    if isinstance(error, sqlite3.Error) and _code(error) == sqlite3.SQLITE_BUSY:
        return ""
    return (isinstance(error, OSError) and error.strerror) or str(error)


def _code(error: sqlite3.Error) -> int | None:
    # Only errors of SQLite itself have one, not those of Python's module around it.
    return getattr(error, "sqlite_errorcode", None)


def run_digest(settings: str, sources: Iterable[tuple[str, str]]) -> str:
    """Name a run by its settings, and the path and digest of every source."""
    digest = hashlib.sha256(f"{VERSION}\0{settings}\0".encode())
    for path, content in sources:
        digest.update(f"{path}\0{content}\0".encode(errors="surrogateescape"))
    return digest.hexdigest()


def listing_digest(names: Iterable[str]) -> str:
    """Name what is in a folder."""
    return run_digest("folder", [(name, "") for name in sorted(names)])


def unchanged(cache: Cache, rests_on: Mapping[str, str]) -> bool:
    """Tell whether files outside the run that its results rest on are what they were, and whether
    folders outside it hold what they held."""
    for path, digest in rests_on.items():
        if path.endswith(os.sep):
            if listing_digest(listing(path[:-1])) != digest:
                return False
            continue
        try:
            now = cache.digest_of(SourceFile(path, on_disk(path)))
        except SourceError:
            now = ""
        if now != digest:
            return False
    return True


def _stamp(file: OnDisk) -> str:
    """Say by what a file is recognised unread; "" if it might be written again in the same tick."""
    if time() - file.modified / 1e9 < 2:
        return ""
    return f"{file.modified}:{file.size}:{file.inode}:{file.changed}"
