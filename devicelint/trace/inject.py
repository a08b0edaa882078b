"""In the traced process: wait for PyTorch, record, write, and look again at the end.

In: the environment that `launch` has set.  Out: a log in the folder named there.  Never here:
output of any kind, or an exception that the program could see.  Until PyTorch is imported nothing
else of this package is loaded: many a process of a program never gets there.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType, TracebackType

FOLDER, DEVICE = "DEVICELINT_TRACE", "DEVICELINT_TRACE_DEVICE"
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def watch() -> None:
    """Start recording as soon as PyTorch has been imported."""
    sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    """Notices that PyTorch is imported, once."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Let the others find it, and be told when it is there."""
        if fullname != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(Loader):
    """Loads as the real loader does, and then says so."""

    def __init__(self, real: Loader) -> None:
        self._real = real

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Make the module as the real loader does."""
        return self._real.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module with its own loader in place, then start."""
        module.__loader__ = self._real
        if module.__spec__ is not None:
            module.__spec__.loader = self._real
        self._real.exec_module(module)
        try:
            _arm()
        except Exception:  # noqa: BLE001 - the program runs untraced rather than not at all
            _note_failure()


def _load_package() -> None:
    """Make this very package importable, whatever environment the program runs in."""
    if "devicelint" in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(
        "devicelint", os.path.join(_PACKAGE, "__init__.py"), submodule_search_locations=[_PACKAGE]
    )
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["devicelint"] = module
    spec.loader.exec_module(module)


def _arm() -> None:
    _load_package()
    import atexit

    from devicelint.trace.attached import Attached

    attached = Attached(os.environ[FOLDER], os.environ.get(DEVICE, ""))
    attached.start()
    atexit.register(attached.finish, "exit")
    os.register_at_fork(after_in_child=attached.after_fork)
    sys.excepthook = _excepthook(attached.died, sys.excepthook)


_Hook = Callable[[type[BaseException], BaseException, TracebackType | None], object]


def _excepthook(died: Callable[[BaseException], None], following: _Hook) -> _Hook:
    """Note what ends the program, and take our own lines out of its traceback."""

    def hook(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> object:
        died(error)
        return following(kind, error, trace)

    return hook


def _note_failure() -> None:
    """Say in the folder why there is no log; a full disk loses that too."""
    import traceback

    try:
        path = os.path.join(os.environ[FOLDER], f"failed-{os.getpid()}.txt")
        with open(path, "w", encoding="utf-8") as file:
            traceback.print_exc(file=file)
    except OSError:
        pass
