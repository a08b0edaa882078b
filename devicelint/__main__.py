"""Run the command line as `python -m devicelint`."""

from __future__ import annotations

import sys

from devicelint.cli import main

if __name__ == "__main__":
    sys.exit(main())
