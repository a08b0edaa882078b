"""The output formats: one function each, from a `RunReport` and a `Layout` to text.

In: a format's name.  Out: its function.  Never here: a format's module imported before it is
asked for, writing.  A new format is one function here and one line in `FORMATS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from devicelint.model import RunReport
from devicelint.reporters.layout import Layout

Reporter: TypeAlias = Callable[[RunReport, Layout], str]


def _text(run: RunReport, layout: Layout) -> str:
    from devicelint.reporters import text  # rich, 50 ms

    return text.render(run, layout)


def _concise(run: RunReport, layout: Layout) -> str:
    from devicelint.reporters import concise

    return concise.render(run, layout)


def _json(run: RunReport, layout: Layout) -> str:
    from devicelint.reporters import json_report

    return json_report.render(run, layout)


FORMATS: Mapping[str, Reporter] = MappingProxyType(
    {"text": _text, "concise": _concise, "json": _json}
)
