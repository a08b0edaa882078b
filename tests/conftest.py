"""What every test may ask for: the repository and the command.

In: nothing.  Out: fixtures.  Never here: expectations about the program.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from devicelint import runner
from devicelint.files import SourceError
from devicelint.model import Finding
from devicelint.settings import Settings

ROOT = Path(__file__).resolve().parent.parent

# Example times vary with the machine's load; a failure is reproduced by its printed seed.
settings.register_profile("devicelint", deadline=None, print_blob=True)
settings.load_profile("devicelint")

FindingsOf = Callable[[str], tuple[Finding, ...]]
RunCommand = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return ROOT


@pytest.fixture(scope="session")
def findings_of() -> FindingsOf:
    """Check a text with the default settings and return what its author has not silenced."""

    def check(text: str) -> tuple[Finding, ...]:
        run = runner.check(runner.Request(ROOT, stdin=text.encode()), Settings())
        for problem in run.diagnostics:
            raise SourceError(problem.message, problem.line, problem.column)
        return tuple(finding for _, finding in run.findings)

    return check


@pytest.fixture(scope="session")
def run_command() -> RunCommand:
    """Run `python -m devicelint ARGUMENTS` in a folder, on the sources of this checkout."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    for name in ("FORCE_COLOR", "NO_COLOR"):
        environment.pop(name, None)

    def run(
        *arguments: str, cwd: Path, timeout: float = 300.0
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "-m", "devicelint", *arguments],
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            check=False,
        )

    return run
