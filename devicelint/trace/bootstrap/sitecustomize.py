"""Start the recorder in a Python process that `devicelint trace` has something to do with.

In: the environment; Python imports this by itself, because its folder is first on `PYTHONPATH`.
Out: a hook that waits for PyTorch.  Never here: output, an exception, an import that the program
would notice.  A `sitecustomize` of the environment's own is imported as it would have been.
"""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _others() -> None:
    """Import the `sitecustomize` that this one stands in front of."""
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != _HERE]
    own = sys.modules.pop(__name__, None)
    try:
        __import__("sitecustomize")
    except ImportError:
        if own is not None:
            sys.modules.setdefault(__name__, own)


def _start() -> None:
    """Load the hook by its path: neither its package nor what that imports is needed yet."""
    if sys.version_info < (3, 11) or not os.environ.get("DEVICELINT_TRACE"):
        return
    import importlib.util

    path = os.path.join(os.path.dirname(_HERE), "inject.py")
    spec = importlib.util.spec_from_file_location("_devicelint_inject", path)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.watch()


_others()
# contextlib is not imported yet, and this is a process that may not need it.
try:  # noqa: SIM105
    _start()
except Exception:  # noqa: BLE001 - the program runs untraced rather than not at all
    pass
