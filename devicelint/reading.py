"""One file at a time: from bytes to facts, from facts and targets to findings.

In: a file's bytes.  Out: `ModuleFacts`, findings, or a diagnostic where the file is at fault (or
devicelint is).  Never here: other files, a pool of processes, selection.
"""

from __future__ import annotations

import ast
import traceback
from collections.abc import Collection, Iterable, Sequence

from devicelint.facts import (
    extend_facts,
    extend_facts_from,
    extract_facts,
    joined,
    process_group_facts,
)
from devicelint.files import SourceError, decode
from devicelint.gate import sets_up_process_group
from devicelint.ir import ModuleFacts
from devicelint.model import Diagnostic, FileTargets, Finding, Policy
from devicelint.outline import normalised, outline
from devicelint.parsing import fault_of, parse
from devicelint.rules import RULES

#: What the parser raises.
_UNPARSED = (SyntaxError, ValueError, RecursionError, MemoryError)


def read_facts(
    path: str, data: bytes, names: Collection[str] | None = None
) -> ModuleFacts | Diagnostic:
    """Parse a file and extract its facts; whatever goes wrong is a diagnostic.

    The functions and the constructors of classes with these `names` (None: of all classes) are
    read, and what they name in the file.
    """
    try:
        facts = _facts(data, names)
        return process_group_facts(parse(data), facts) if sets_up_process_group(data) else facts
    except SourceError as error:
        return error.told_of(path)
    except Exception as error:  # noqa: BLE001 - one file's fault must not cost the run
        return _our_fault(path, error)


def read_more(
    path: str, data: bytes, facts: ModuleFacts, wanted: Iterable[str]
) -> ModuleFacts | Diagnostic:
    """Read further functions of a file; whatever goes wrong is a diagnostic."""
    names = list(wanted)
    try:
        text = normalised(decode(data).text)
        try:
            return extend_facts(text, facts, names)
        except (KeyError, *_UNPARSED):
            return _extend_anew(text, data, facts, names)
    except SourceError as error:
        return error.told_of(path)
    except Exception as error:  # noqa: BLE001 - one file's fault must not cost the run
        return _our_fault(path, error)


def read_each(
    path: str, data: bytes, facts: ModuleFacts, wanted: Sequence[str]
) -> list[ModuleFacts | Diagnostic]:
    """Read further functions of a file; one that is at fault does not cost the others.

    So what is known of a file does not depend on what was asked for together.
    """
    news = read_more(path, data, facts, wanted)
    if isinstance(news, ModuleFacts) or len(wanted) == 1:
        return [news]
    each = (read_more(path, data, facts, [name]) for name in wanted)
    return [*(item for item in each if isinstance(item, ModuleFacts)), news]


def _extend_anew(text: str, data: bytes, facts: ModuleFacts, names: list[str]) -> ModuleFacts:
    """Read functions that were left in, or are inside others; raises SourceError."""
    left_out = outline(text)
    try:
        return extend_facts_from(ast.parse(left_out.skeleton), facts, names, left_out)
    except _UNPARSED:
        return extend_facts_from(parse(data), facts, names, None)


def read_again(path: str, data: bytes, before: ModuleFacts) -> ModuleFacts | Diagnostic:
    """Read of a changed file what was read of it before, as far as it is still there."""
    facts = read_facts(path, data, ())
    if isinstance(facts, Diagnostic):
        return facts
    unread = {item.qualname for item in facts.unread}
    wanted = [item.qualname for item in before.summaries if item.qualname in unread]
    news = read_more(path, data, facts, wanted)
    return joined(facts, news) if isinstance(news, ModuleFacts) else news


def judge_file(
    path: str, data: bytes, targets: FileTargets, policy: Policy
) -> tuple[Finding, ...] | Diagnostic:
    """Turn a file's targets into findings."""
    # imported here: it takes 0.19 s, which a run without candidates need not pay
    from devicelint.analysis import judge

    try:
        return judge(decode(data).utf8, targets, policy, RULES)
    except SyntaxError as error:
        # what was read of the file did parse, and not all is read: see `outline`
        return fault_of(path, data) or _our_fault(path, error)
    except SourceError as error:
        return error.told_of(path)
    except Exception as error:  # noqa: BLE001 - one file's fault must not cost the run
        return _our_fault(path, error)


def _facts(data: bytes, names: Collection[str] | None) -> ModuleFacts:
    left_out = outline(normalised(decode(data).text))
    try:
        return extract_facts(ast.parse(left_out.skeleton), left_out, names)
    except _UNPARSED:
        return extract_facts(parse(data), None, names)


def _our_fault(path: str, error: Exception) -> Diagnostic:
    if isinstance(error, RecursionError):
        message = "too deeply nested to be analysed; exclude the file or split it"
        return Diagnostic(path, 0, 0, message, traceback.format_exc())
    message = (
        f"devicelint failed on this file ({type(error).__name__}: {error}); it was not checked. "
        "This is a bug of devicelint: please report it with `--verbose`"
    )
    return Diagnostic(path, 0, 0, message, traceback.format_exc())
