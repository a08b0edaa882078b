"""Run the user's program under the recorder, and be as if one were not there.

In: a command line.  Out: its exit code, or the signal that ended it.  Never here: a pipe between
the program and the terminal: stdin, stdout and stderr are the program's own.

The recorder gets in through the environment, so that children of the program, and theirs, are
traced too: `PYTHONPATH` begins with a folder that holds a `sitecustomize`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from devicelint.trace.inject import DEVICE, FOLDER

_BOOTSTRAP = str(Path(__file__).resolve().parent / "bootstrap")
#: What is handed on to the program, if it was sent to us alone.
_FORWARDED = frozenset(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGCONT")
    if hasattr(signal, name)
)


def command_of(words: Sequence[str]) -> list[str]:
    """Take the words after `trace` as a command; a Python file is run by this Python."""
    if words[0].endswith(".py"):
        return [sys.executable, *words]
    return [*words]


def environment(folder: str, device: str, base: Mapping[str, str]) -> dict[str, str]:
    """Give the environment in which Python processes are traced."""
    paths = [_BOOTSTRAP, *filter(None, [base.get("PYTHONPATH", "")])]
    changed = {**base, FOLDER: os.path.abspath(folder), "PYTHONPATH": os.pathsep.join(paths)}
    if device:
        changed[DEVICE] = device
    return changed


def run(command: Sequence[str], env: Mapping[str, str]) -> int:
    """Run a command to its end; a negative number is the signal that ended it.

    Raises OSError if it cannot be started.
    """
    if not hasattr(signal, "sigwaitinfo"):  # macOS, Windows
        return _run_simply(command, env)
    waited = _FORWARDED | {signal.SIGCHLD}
    process = subprocess.Popen(command, env=dict(env))
    # Not before: the program would inherit what is blocked.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    try:
        while process.poll() is None:
            info = signal.sigwaitinfo(waited)
            # The terminal sends Ctrl-C to everybody; only what a process sent is handed on.
            if info.si_signo != signal.SIGCHLD and info.si_code <= 0:
                process.send_signal(info.si_signo)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return process.returncode


def _run_simply(command: Sequence[str], env: Mapping[str, str]) -> int:
    process = subprocess.Popen(command, env=dict(env))
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            continue  # the program has got it too, and decides


def end_like(returncode: int) -> int:
    """End as the program has: by the same signal, or with its exit code."""
    if returncode >= 0:
        return returncode
    number = -returncode
    try:
        import resource  # not on Windows

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # one core file is enough
    except (ImportError, OSError, ValueError):
        pass
    if number != getattr(signal, "SIGKILL", 0):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number
