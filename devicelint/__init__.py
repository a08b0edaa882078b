"""devicelint: find what a PyTorch module builds without saying on which device."""

from __future__ import annotations

__version__ = "0.1.0"
