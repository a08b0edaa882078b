"""The reports of a trace: text for people, JSON and SARIF for programs.

In: a `Summary`.  Out: text.  Never here: a terminal, a file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from urllib.parse import quote

from devicelint import __version__
from devicelint.reporters.layout import plural, printable
from devicelint.trace.events import Json, Place, construction_json, log_json, place_json, stray_json
from devicelint.trace.summary import SINKS, Difference, Left, Site, Summary, label

VERSION = 1
_MEANINGS = {
    "stream": "streams: on the device that is current, and `.to()` never moves them",
    "generator": "generators: on the CPU, and `.to()` never moves them",
    "attribute": "plain attributes: `.to()` never moves them",
    "host": "read on the host: must be on the CPU",
    "buffer": "buffers: `.to()` moves them",
    "parameter": "parameters: `.to()` moves them",
    "existing": "copied into tensors that existed",
    "elsewhere": "kept outside any module",
    "gone": "gone when construction ended",
}


def text(summary: Summary) -> str:
    """Tell people: what was left behind first."""
    return "\n".join([*_text(summary), ""])


def _text(summary: Summary) -> Iterator[str]:
    if not summary.logs:
        yield "No process that imports PyTorch was traced."
    yield from _left(summary.left)
    yield from _sites("On the accelerator of another rank", summary.misplaced)
    if summary.unnamed:
        yield (
            f"Built without a device: {plural(len(summary.unnamed), 'place')}, "
            f"{plural(sum(site.count for site in summary.unnamed), 'value')}"
        )
        for sink in SINKS:
            yield from _sites(_MEANINGS[sink], [s for s in summary.unnamed if s.sink == sink], "  ")
        yield ""
    elif summary.logs:
        yield "Nothing was built without a device."
    if summary.differences:
        yield f"Ranks differ at {plural(len(summary.differences), 'place')}:"
        for one in summary.differences:
            told = "; ".join(f"{name}: {what}" for name, what in one.by_process)
            yield f"  {_where(one.place)} {one.callable}: {told}"
        yield ""
    yield from _processes(summary)
    for problem in summary.problems:
        yield f"Problem: {printable(problem)}"


def _left(left: Iterable[Left]) -> Iterator[str]:
    left = list(left)
    if not left:
        return
    count = sum(one.count for one in left)
    yield f"Left behind: {plural(count, 'plain attribute')} on another device than the module"
    for one in left:
        stray = one.stray
        times = f" (and {one.count - 1} more like it)" if one.count > 1 else ""
        where = "" if stray.place is None else f"{_where(stray.place)} "
        yield (
            f"  {where}{stray.module}: {printable(stray.path)} is a {stray.kind} on "
            f"{stray.device}, its module on {stray.module_device}{times}{_who(one.processes)}"
        )
    yield ""


def _sites(heading: str, sites: Iterable[Site], indent: str = "") -> Iterator[str]:
    sites = list(sites)
    if not sites:
        return
    yield f"{indent}{heading}"
    for site in sites:
        item = site.example
        context = f", default device {item.context}" if item.context else ""
        yield (
            f"{indent}  {_where(site.place)} {site.callable} on {', '.join(site.devices)}"
            f"{f' ({site.count:,} times)' if site.count > 1 else ''}{context}{_who(site.processes)}"
        )
        modules = " > ".join(one.name.rpartition(".")[2] for one in item.building)
        names = dict.fromkeys(one.name for one in item.destinations if one.name)
        becomes = f": {', '.join(names)}" if names else ""
        yield f"{indent}    in {printable(modules)}{printable(becomes)}"


def _who(processes: tuple[str, ...]) -> str:
    ranks = [name for name in processes if name.startswith("rank ")]
    return f" [{', '.join(ranks)}]" if ranks else ""


def _processes(summary: Summary) -> Iterator[str]:
    for log in summary.logs:
        words = [f"{label(log)}: {plural(len(log.constructions), 'place')}"]
        if log.own_device:
            words.append(f"works on {log.own_device}")
        if log.exception:
            words.append(f"ended by {log.exception}")
        elif not log.ended:
            words.append("ended without a second look (killed, os._exit, or a full disk)")
        if log.unfinished:
            words.append(f"while {' > '.join(log.unfinished)} was being built")
        yield printable(", ".join(words))
        for fault in log.faults:
            yield f"  fault of the recorder: {printable(fault.strip().splitlines()[-1])}"


def _where(place: Place) -> str:
    return f"{printable(_short(place.path))}:{place.line}:{place.column}"


def _short(path: str) -> str:
    """Show paths below the working directory from there."""
    here = os.getcwd() + os.sep
    return path.removeprefix(here)


# JSON --------------------------------------------------------------------------------------------


def as_json(summary: Summary) -> str:
    """Tell programs everything; `check --trace` reads this too."""
    document: dict[str, Json] = {
        "version": VERSION,
        "summary": {
            "processes": len(summary.logs),
            "constructions": summary.total,
            "named": summary.named,
            "unnamed": sum(site.count for site in summary.unnamed),
            "left_behind": sum(one.count for one in summary.left),
        },
        "left_behind": [
            {**stray_json(one.stray), "count": one.count, "processes": list(one.processes)}
            for one in summary.left
        ],
        "unnamed": [_site(site) for site in summary.unnamed],
        "misplaced": [_site(site) for site in summary.misplaced],
        "differences": [
            {"place": place_json(one.place), "callable": one.callable, "by_process": told(one)}
            for one in summary.differences
        ],
        "problems": list(summary.problems),
        "logs": [log_json(log) for log in summary.logs],
    }
    return json.dumps(document, indent=2) + "\n"


def told(one: Difference) -> dict[str, Json]:
    """Give what each rank says."""
    return {name: what for name, what in one.by_process}  # noqa: C416 - the values widen


def _site(site: Site) -> dict[str, Json]:
    return {
        **construction_json(site.example),
        "sink": site.sink,
        "count": site.count,
        "devices": list(site.devices),
        "processes": list(site.processes),
    }


# SARIF -------------------------------------------------------------------------------------------

_RULES = (
    ("trace/left-behind", "error", "A plain attribute is on another device than its module."),
    ("trace/misplaced", "error", "Built on the accelerator of another rank."),
    ("trace/without-device", "note", "Built without a device."),
    ("trace/ranks-differ", "warning", "Ranks do not build the same here."),
)


def sarif(summary: Summary) -> str:
    """Tell code scanning services."""
    rules: list[Json] = [
        {
            "id": name,
            "shortDescription": {"text": words},
            "defaultConfiguration": {"level": level},
        }
        for name, level, words in _RULES
    ]
    run: dict[str, Json] = {
        "tool": {
            "driver": {"name": "devicelint trace", "semanticVersion": __version__, "rules": rules}
        },
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"%SRCROOT%": {"description": {"text": "The working directory."}}},
        "results": list(_results(summary)),
    }
    document: dict[str, Json] = {
        "$schema": "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/"
        "sarif-schema-2.1.0.json",
        "version": "2.1.0",
        "runs": [run],
    }
    return json.dumps(document, indent=2) + "\n"


def _results(summary: Summary) -> Iterator[Json]:
    for left in summary.left:
        stray = left.stray
        words = f"{stray.path} is on {stray.device}, its module on {stray.module_device}"
        yield _result(0, words, stray.place)
    for site in summary.misplaced:
        yield _result(1, f"{site.callable} on {', '.join(site.devices)}", site.place)
    for site in summary.unnamed:
        words = f"{site.callable} without a device, on {', '.join(site.devices)} ({site.sink})"
        yield _result(2, words, site.place)
    for one in summary.differences:
        told = "; ".join(f"{name}: {what}" for name, what in one.by_process)
        yield _result(3, f"{one.callable}: {told}", one.place)


def _result(rule: int, words: str, place: Place | None) -> Json:
    name, level, _ = _RULES[rule]
    result: dict[str, Json] = {
        "ruleId": name,
        "ruleIndex": rule,
        "level": level,
        "message": {"text": words},
    }
    if place is not None:
        path = _short(place.path).replace(os.sep, "/")
        artifact: dict[str, Json] = {"uri": quote(path)}
        if path.startswith("/"):
            artifact["uri"] = "file://" + quote(path)
        else:
            artifact["uriBaseId"] = "%SRCROOT%"
        region: Json = {
            "startLine": place.line,
            "startColumn": place.column,
            "endLine": place.end_line,
            "endColumn": place.end_column,
        }
        result["locations"] = [
            {"physicalLocation": {"artifactLocation": artifact, "region": region}}
        ]
    return result


FORMATS: Mapping[str, Callable[[Summary], str]] = MappingProxyType(
    {"text": text, "json": as_json, "sarif": sarif}
)
