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
    if not run.files and not run.stale:
        from devicelint.reporters import empty

        return empty.render(run, layout)
    from devicelint.reporters import text  # rich, 50 ms

    return text.render(run, layout)


def _concise(run: RunReport, layout: Layout) -> str:
    from devicelint.reporters import concise

    return concise.render(run, layout)


def _json(run: RunReport, layout: Layout) -> str:
    from devicelint.reporters import json_report

    return json_report.render(run, layout)


def _json_lines(run: RunReport, layout: Layout) -> str:
    from devicelint.reporters import json_lines

    return json_lines.render(run, layout)


def _sarif(run: RunReport, layout: Layout) -> str:
    from devicelint.reporters import sarif

    return sarif.render(run, layout)


def _code_scanning(run: RunReport, layout: Layout) -> str:
    from devicelint.reporters import sarif

    return sarif.render_open(run, layout)


def _github(run: RunReport, layout: Layout) -> str:
    from devicelint.reporters import github

    return github.render(run, layout)


def _gitlab(run: RunReport, layout: Layout) -> str:
    from devicelint.reporters import gitlab

    return gitlab.render(run, layout)


def _junit(run: RunReport, layout: Layout) -> str:
    from devicelint.reporters import junit

    return junit.render(run, layout)


def _rdjson(run: RunReport, layout: Layout) -> str:
    from devicelint.reporters import rdjson

    return rdjson.render(run, layout)


def _rdjsonl(run: RunReport, layout: Layout) -> str:
    from devicelint.reporters import rdjson

    return rdjson.render_lines(run, layout)


FORMATS: Mapping[str, Reporter] = MappingProxyType(
    {
        "text": _text,
        "concise": _concise,
        "json": _json,
        "json-lines": _json_lines,
        "sarif": _sarif,
        "code-scanning": _code_scanning,
        "github": _github,
        "gitlab": _gitlab,
        "junit": _junit,
        "rdjson": _rdjson,
        "rdjsonl": _rdjsonl,
    }
)
