"""Find the file of an imported module, from the importing file's own surroundings.

In: the path of a file and a dotted name.  Out: the path of the module that holds it.  Never here:
reading or importing a module; only the existence of files is asked for, each once.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping

#: Packages that are never looked for below a project: asking for them costs a stat a folder.
_FOREIGN = frozenset(
    "torch numpy typing collections dataclasses functools abc enum math os sys re json logging "
    "itertools contextlib warnings builtins typing_extensions einops triton transformers_modules "
    "copy pathlib time random inspect types operator tqdm scipy pandas PIL cv2 requests".split()
)


class Locator:
    """Maps dotted names to files, with the answers remembered."""

    def __init__(self, search_paths: Iterable[str] = (), boundary: str = "") -> None:
        """Look in the importing file's package, in `search_paths`, and in no parent higher than
        `boundary` (a folder) but those that hold the package.

        A file outside `boundary` has its own package root as its only root.
        """
        self._boundary = boundary
        self._search_paths = tuple(search_paths)
        self._exists: dict[str, frozenset[str]] = {}
        self._roots: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}
        #: by folder and name
        self._found: dict[str, dict[str, tuple[str, int] | None]] = {}
        #: of what is found over and over one copy
        self._same: dict[tuple[str, int], tuple[str, int]] = {}
        self._files: dict[str, str] = {}

    def find(self, path: str, name: str) -> tuple[str, int] | None:
        """Find the file for the longest prefix of a dotted name, as seen from the file `path`.

        Returns the file and how many parts of the name lead to it (leading dots not counted), or
        None if the name leads out of the project.
        """
        if name.partition(".")[0] in _FOREIGN:
            return None
        folder = os.path.dirname(path)
        answers = self._found.get(folder)
        if answers is None:
            answers = self._found[folder] = {}
        if name not in answers:
            answers[name] = self._once(self._search(folder, name))
        return answers[name]

    def _once(self, found: tuple[str, int] | None) -> tuple[str, int] | None:
        if found is None:
            return None
        file = self._files.setdefault(found[0], found[0])
        return self._same.setdefault(found, (file, found[1]))

    def _search(self, folder: str, name: str) -> tuple[str, int] | None:
        if name.startswith("."):
            level = len(name) - len(name.lstrip("."))
            for _ in range(level - 1):
                folder = os.path.dirname(folder)
            parts = [part for part in name.lstrip(".").split(".") if part]
            return self._walk(folder, parts) or self._package(folder, 0)
        parts = name.split(".")
        own, others = self._roots_of(folder)
        for root in (*own, *self._above(folder, parts[0]), *others):
            found = self._walk(root, parts)
            if found is not None:
                return found
        return None

    def _above(self, folder: str, package: str) -> Iterator[str]:
        """Give the folders that hold a package which the folder is in, nearest first.

        A folder without `__init__.py` hides what it is a part of, and the boundary may be below
        that: `megatron.core` is not to be another package because of where a run was started.
        """
        while os.path.dirname(folder) != folder:
            folder, name = os.path.split(folder)
            if name == package:
                yield folder

    def _roots_of(self, folder: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """List the folders an absolute import may start from: the package root and the own folder;
        parents and the search paths."""
        roots = self._roots.get(folder)
        if roots is None:
            top = folder
            while "__init__.py" in self._listing(top):
                top = os.path.dirname(top)
            own = (top,) if folder == top else (top, folder)
            chain: list[str] = []
            # folders without __init__.py may be namespace packages: the parents count as roots
            parent = top
            while parent != self._boundary and parent.startswith(self._boundary + os.sep):
                parent = os.path.dirname(parent)
                chain.append(parent)
            others = (item for item in (*chain, *self._search_paths) if item not in own)
            roots = self._roots[folder] = own, tuple(dict.fromkeys(others))
        return roots

    def _walk(self, folder: str, parts: list[str]) -> tuple[str, int] | None:
        best: tuple[str, int] | None = None
        for index, part in enumerate(parts):
            names = self._listing(folder)
            if part in names:
                folder = os.path.join(folder, part)
                best = self._package(folder, index + 1) or best
                continue
            if f"{part}.py" in names:
                return os.path.join(folder, f"{part}.py"), index + 1
            break
        return best

    def _package(self, folder: str, used: int) -> tuple[str, int] | None:
        if "__init__.py" in self._listing(folder):
            return os.path.join(folder, "__init__.py"), used
        return None

    def _listing(self, folder: str) -> frozenset[str]:
        names = self._exists.get(folder)
        if names is None:
            names = self._exists[folder] = listing(folder)
        return names

    def listings(self) -> Mapping[str, frozenset[str]]:
        """Give what was in each folder that was looked into: what is not found depends on it."""
        return self._exists


def listing(folder: str) -> frozenset[str]:
    """Give the names in a folder that may be modules or packages; none if it cannot be read."""
    try:
        with os.scandir(folder or ".") as entries:
            return frozenset(
                entry.name
                for entry in entries
                if entry.name.endswith(".py")
                or ("." not in entry.name and entry.name != "__pycache__" and entry.is_dir())
            )
    except OSError:
        return frozenset()
