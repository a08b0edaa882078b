"""JSON lines: one object a line, for a program that reads as it goes.

In: a `RunReport`.  Out: the findings as in the JSON report, then the problems, which have `code`
null.  Never here: a summary.
"""

from __future__ import annotations

import json

from devicelint.model import RunReport
from devicelint.reporters.json_report import Json, as_json, error_as_json
from devicelint.reporters.layout import Layout


def render(run: RunReport, layout: Layout) -> str:
    """Render a line for each finding and each problem (the layout has no say in it)."""
    objects: list[dict[str, Json]] = [as_json(path, finding) for path, finding in run.findings]
    objects += [{"code": None, **error_as_json(diagnostic)} for diagnostic in run.diagnostics]
    return "".join(f"{json.dumps(one)}\n" for one in objects)
