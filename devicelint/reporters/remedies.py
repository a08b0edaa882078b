"""Which edits mend a finding on its own, for tools that offer one fix at a time.

In: a `FileReport`, a finding of it.  Out: edits, or one edit of the finding's own lines.  Never
here: applying anything to a file.
"""

from __future__ import annotations

from itertools import pairwise

from devicelint.model import Applicability, Edit, FileReport, Finding
from devicelint.reporters.source import text_between
from devicelint.reporters.summary import remedy


def whole_edits(report: FileReport, finding: Finding) -> tuple[Edit, ...]:
    """Give the edits that must be made together to mend a finding; none if that cannot be.

    Constructions whose values meet get the same device or none, so the edits of one take those of
    the others along.
    """
    if not finding.group:
        return _edits(finding)
    together = [other for other in report.findings if other.group == finding.group]
    if len(together) < finding.group_size or not all(map(_edits, together)):
        return ()
    edits = tuple(sorted({edit for other in together for edit in _edits(other)}))
    if any(second.start < first.end for first, second in pairwise(edits)):
        return ()
    return edits


def _edits(finding: Finding) -> tuple[Edit, ...]:
    if finding.fix is None or remedy(finding) is Applicability.DISPLAY:
        return ()
    return tuple(sorted(finding.fix.edits))


def single_edit(finding: Finding) -> Edit | None:
    """Give one edit that does what all edits of a finding do; None if that takes more.

    It may replace text between the edits by itself, so all of them must be on the finding's lines:
    no other text is known here.
    """
    edits = _edits(finding)
    if finding.group or not edits or not all(_is_inside(edit, finding) for edit in edits):
        return None
    content = edits[0].content
    for before, after in pairwise(edits):
        between = text_between(finding, before.end, after.start)
        content += between + after.content
    return Edit(edits[0].start, edits[-1].end, content)


def _is_inside(edit: Edit, finding: Finding) -> bool:
    return finding.start.line <= edit.start.line and edit.end.line <= finding.end.line
