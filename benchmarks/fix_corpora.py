"""Fix copies of large public packages, and check that nothing but the insertions changed.

In: folders with sources; without any, the pinned packages of `corpora.py`.  Out: what is wrong, if
anything is, and counts: findings, fixes by rule, each unfixed kind with its reason, seconds.  Never
here: the fixer's own net.  The checks are written anew, so that a hole in one is not a hole in
both.

    python benchmarks/fix_corpora.py [FOLDER...] [--jobs 2] [--json FILE]
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corpora import PINNED, fetch

#: Rules whose findings no insertion can mend: they say so in their documentation.
ADVICE_ONLY = frozenset({"DVL006", "DVL008", "DVL011"})

#: Their values depend on the device, so their fixes wait for `--unsafe-fixes`.
RANDOM = frozenset(f"torch.{name}" for name in ("rand", "randn", "randint", "randperm", "normal"))

_LEGACY = re.compile(r"(?:Float|Double|Half|BFloat16|Long|Int|Short|Char|Byte|Bool)?Tensor")
_LEGACY_CALL = re.compile(rb"(?:\w+\.)*" + _LEGACY.pattern.encode() + rb"(?=\s*\\?\s*\()")


@dataclass(slots=True)
class Result:
    """What was counted, and what went wrong."""

    wrong: list[str] = field(default_factory=list)
    files: int = 0
    changed: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    findings: Counter[str] = field(default_factory=Counter)
    fixed: Counter[str] = field(default_factory=Counter)
    unfixed: Counter[str] = field(default_factory=Counter)
    #: findings that nothing speaks against fixing, and how many of them were fixed
    due: int = 0
    done: int = 0
    #: findings of constructors that draw nothing at random, and how many of them were fixed
    deterministic: int = 0
    deterministic_done: int = 0


# Sources -----------------------------------------------------------------------------------------


def sources(folder: Path) -> dict[str, bytes]:
    """Read every Python file below a folder."""
    found = sorted(path for path in folder.rglob("*.py") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


# The command -------------------------------------------------------------------------------------


def tell(text: str) -> None:
    """Say how far the run is."""
    print(text, file=sys.stderr, flush=True)


def devicelint(folder: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run the command in a folder, on defaults alone and with an empty cache."""
    command = [sys.executable, "-m", "devicelint", *arguments, "--isolated"]
    with tempfile.TemporaryDirectory() as cache:
        options = ["--cache-dir", f"{cache}/.devicelint_cache", "."]
        return subprocess.run([*command, *options], cwd=folder, capture_output=True, check=False)


def check(folder: Path, jobs: int, result: Result) -> list[dict[str, Any]]:
    """Run `check` and return its findings."""
    done = devicelint(folder, "check", "--output-format", "json", "--jobs", str(jobs))
    if not done.stdout.startswith(b"{"):
        result.wrong.append(f"check crashed: {done.stderr.decode()[-2000:]}")
        return []
    report = json.loads(done.stdout)
    for error in report["errors"]:
        if "bug of devicelint" in error["message"] or "not fixed" in error["message"]:
            result.wrong.append(f"{error['path']}: {error['message']}")
    findings: list[dict[str, Any]] = report["findings"]
    return findings


def cpu_seconds() -> float:
    """Return how long all processes that were run have computed."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def fix(folder: Path, jobs: int, result: Result, stage: str) -> None:
    """Run `fix --write`; note how long it took and whatever it complains about."""
    start, used = time.perf_counter(), cpu_seconds()
    done = devicelint(folder, "fix", "--write", "--jobs", str(jobs))
    result.seconds[stage] = time.perf_counter() - start
    result.seconds[f"{stage}, CPU"] = cpu_seconds() - used
    tell(f"{stage}: {result.seconds[stage]:.1f} s, CPU {cpu_seconds() - used:.1f} s")
    told = (done.stdout + done.stderr).decode(errors="replace")
    if done.returncode not in (0, 1, 2) or "Traceback" in told:
        result.wrong.append(f"{stage} crashed: {told[-2000:]}")
    result.wrong += [line for line in told.splitlines() if "not fixed:" in line or "a bug" in line]


# What may differ ---------------------------------------------------------------------------------


def differences(before: bytes, after: bytes) -> Iterator[str]:
    """Say what differs beyond insertions into calls and added imports."""
    try:
        old = ast.parse(before)
    except (SyntaxError, ValueError, RecursionError):
        yield "changed although it does not parse"
        return
    try:
        new = ast.parse(after)
    except (SyntaxError, ValueError, RecursionError) as error:
        yield f"no longer parses: {error}"
        return
    added = strip(old, new)
    if ast.dump(old) != ast.dump(new):
        yield "another tree once the insertions are taken out"
    if not has_all_bytes(before, after):
        yield "bytes are missing or out of order"
    if after.count(b"device=") - before.count(b"device=") != added:
        yield "a device was written where none counts"
    if endings(after) - endings(before):
        yield "other line endings"
    if before.endswith((b"\n", b"\r")) != after.endswith((b"\n", b"\r")):
        yield "another end of the file"


def strip(old: ast.Module, new: ast.Module) -> int:
    """Take out of `new` what a fix may add to `old`, going by the order of calls alone.

    Returns how many devices that were.
    """
    surplus = len(new.body) - len(old.body)
    kept: list[ast.stmt] = []
    for statement in new.body:
        position = len(kept)
        is_import = isinstance(statement, ast.Import | ast.ImportFrom)
        is_old = position < len(old.body) and ast.dump(statement) == ast.dump(old.body[position])
        if surplus and is_import and not is_old:
            surplus -= 1
        else:
            kept.append(statement)
    new.body[:] = kept
    ours = [node for node in ast.walk(new) if isinstance(node, ast.Call)]
    theirs = [node for node in ast.walk(old) if isinstance(node, ast.Call)]
    # Nothing inserted is walked before the call that it was inserted into, but what it holds
    # (`torch.cuda.current_device()`) is a call of its own: pair by what is left.
    remaining = iter(ours)
    dropped: set[int] = set()
    devices = 0
    for call in theirs:
        twin = next((one for one in remaining if id(one) not in dropped), None)
        if twin is None:
            break
        known = {keyword.arg for keyword in call.keywords}
        added = [
            one for one in twin.keywords if one.arg in ("device", "dtype") and one.arg not in known
        ]
        devices += sum(one.arg == "device" for one in added)
        dropped.update(id(part) for keyword in added for part in ast.walk(keyword))
        twin.keywords = [one for one in twin.keywords if one not in added]
        if added and _is_legacy(call.func) and last_name(twin.func) in ("empty", "tensor"):
            twin.func = call.func
    return devices


def last_name(node: ast.expr) -> str:
    """Return `zeros` of `torch.zeros`."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _is_legacy(node: ast.expr) -> bool:
    return _LEGACY.fullmatch(last_name(node)) is not None


def has_all_bytes(before: bytes, after: bytes) -> bool:
    """Tell whether `before`, legacy names aside, can be had by deleting from `after`."""
    rest = iter(after)
    return all(byte in rest for byte in _LEGACY_CALL.sub(b"", before))


def endings(data: bytes) -> set[bytes]:
    """Return the kinds of line endings in a file."""
    return set(re.findall(rb"\r\n|\r|\n", data))


# Counting ----------------------------------------------------------------------------------------


def kind_of(finding: dict[str, Any]) -> str:
    """Name the kind of an unfixed finding: its rule and the reason, without names and numbers."""
    fix = finding["fix"]
    if fix is None:
        reason = "advice only" if finding["code"] in ADVICE_ONLY else "none"
    elif fix["edits"]:
        reason = f"{fix['applicability']} fix: {_risk(finding['callable'])}"
    else:
        reason = re.sub(r"`[^`]*`", "`...`", re.sub(r"line \d+", "line N", fix["title"]))
    return f"{finding['code']} {reason}"


def _risk(name: str) -> str:
    if name in RANDOM:
        return "a random draw"
    if name in ("torch.as_tensor", "torch.asarray"):
        return "may alias its argument"
    return "meets a random draw, or is read on the host as well"


def speaks_against(finding: dict[str, Any]) -> bool:
    """Tell whether the tool states a reason for not fixing a finding by itself."""
    fix = finding["fix"]
    if fix is None:
        return finding["code"] in ADVICE_ONLY
    return not fix["edits"] or fix["applicability"] != "safe"


def count(before: list[dict[str, Any]], after: Iterable[dict[str, Any]], result: Result) -> None:
    """Count what was found, what is gone and what is left."""
    left = Counter((one["path"], one["fingerprint"]) for one in after)
    for finding in before:
        code = f"{finding['code']} {finding['name']}"
        result.findings[code] += 1
        key = (finding["path"], finding["fingerprint"])
        is_left = left[key] > 0
        left[key] -= is_left
        if is_left:
            result.unfixed[kind_of(finding)] += 1
        else:
            result.fixed[code] += 1
        if finding["callable"] not in RANDOM:
            result.deterministic += 1
            result.deterministic_done += not is_left
        if not is_left or not speaks_against(finding):
            result.due += 1
            result.done += not is_left
    new = +left
    if new:
        result.wrong.append(f"{sum(new.values())} findings are new: {list(new)[:3]}")


# The run -----------------------------------------------------------------------------------------


def run(folders: Iterable[Path], jobs: int) -> Result:
    """Fix copies of the folders, twice, and compare."""
    result = Result()
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        for folder in folders:
            shutil.copytree(folder, work / folder.name)
        before = sources(work)
        result.files = len(before)
        start = time.perf_counter()
        findings = check(work, jobs, result)
        result.seconds["check"] = time.perf_counter() - start
        tell(f"check: {result.seconds['check']:.1f} s, {len(findings)} findings")
        fix(work, jobs, result, "fix --write")
        once = sources(work)
        compare(before, once, {finding["path"] for finding in findings}, result)
        tell(f"compared {result.files} files")
        count(findings, check(work, jobs, result), result)
        fix(work, jobs, result, "second fix --write")
        again = sources(work)
        result.wrong += [f"{path}: changed again" for path in once if once[path] != again[path]]
        result.wrong += [f"{path}: left behind" for path in work.rglob("*.tmp")]
    return result


def compare(
    before: dict[str, bytes], after: dict[str, bytes], found: set[str], result: Result
) -> None:
    """Compare every file before and after."""
    if before.keys() != after.keys():
        result.wrong.append("files came or went")
    for path, old in before.items():
        new = after.get(path, b"")
        if old == new:
            continue
        result.changed += 1
        if path not in found:
            result.wrong.append(f"{path}: changed without a finding")
        result.wrong += [f"{path}: {what}" for what in differences(old, new)]


def report(result: Result) -> str:
    """Write the counts as text."""
    lines = [
        f"files {result.files}, changed {result.changed}",
        *(f"{stage}: {seconds:.1f} s" for stage, seconds in result.seconds.items()),
        f"{'rule':42}{'found':>8}{'fixed':>8}",
        *(f"{code:42}{n:8}{result.fixed[code]:8}" for code, n in sorted(result.findings.items())),
        f"{'sum':42}{result.findings.total():8}{result.fixed.total():8}",
        "not fixed:",
        *(f"{n:8}  {kind}" for kind, n in result.unfixed.most_common()),
        f"of {result.due} findings that nothing speaks against, {result.done} are fixed "
        f"({100 * result.done / max(result.due, 1):.2f} %)",
        f"of {result.deterministic} findings of constructors that draw nothing at random, whatever "
        f"speaks against a fix, {result.deterministic_done} are fixed "
        f"({100 * result.deterministic_done / max(result.deterministic, 1):.2f} %)",
        f"{len(result.wrong)} faults",
        *(f"  {fault}" for fault in result.wrong[:50]),
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path, help="sources; else pinned packages")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path, help="where to put the counts as JSON")
    options = parser.parse_args()
    sys.setrecursionlimit(10_000)
    result = run(options.folders or fetch(PINNED), options.jobs)
    print(report(result))
    if options.json is not None:
        counts = {name: getattr(result, name) for name in Result.__slots__}
        options.json.write_text(json.dumps(counts, indent=1), encoding="utf-8")
    return 1 if result.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
