"""The second look: where the values are when the program ends, or a `with record()` does.

In: a ledger.  Out: frozen constructions with their final devices, and the stray attributes.
Never here: a device touched or initialised: only what is initialised already is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import nn

from devicelint.trace.events import Construction, Fate, Named, Stray
from devicelint.trace.fate import Held, device_of, held, is_placed, living, tree
from devicelint.trace.ledger import End, Entry, Ledger

_Contents = dict[int, dict[str, Held]]


def constructions(ledger: Ledger) -> tuple[Construction, ...]:
    """Freeze the ledger, with where each value is now."""
    contents: _Contents = {}

    def final(end: End, module: object) -> str:
        if not isinstance(module, nn.Module):
            return ""
        now = _contents(module, contents).get(end.name)
        return "" if now is None else device_of(now.value)

    return tuple(entry.frozen(final) for entry in ledger.entries.values())


def strays(ledger: Ledger) -> tuple[Stray, ...]:
    """Find the plain attributes on another device than the module that holds them."""
    origins = {
        (id(module()), end.name): entry
        for entry in ledger.entries.values()
        for end, module in entry.found
        if end.fate is Fate.ATTRIBUTE
    }
    found: dict[tuple[object, ...], Stray] = {}
    for root in living(ledger.roots):
        for within in tree(root):
            for one in held(within.module):
                stray = _stray(one, within.device, within.path, within.module, origins)
                if stray is None:
                    continue
                key = (stray.place or stray.path, stray.module, stray.device, stray.module_device)
                known = found.setdefault(key, stray)
                if known is not stray:
                    found[key] = replace(known, count=known.count + 1)
    return tuple(found.values())


def _stray(
    one: Held,
    around: str,
    path: str,
    module: nn.Module,
    origins: Mapping[tuple[int, str], Entry],
) -> Stray | None:
    device = device_of(one.value)
    if one.fate is not Fate.ATTRIBUTE or not around or not device or device == around:
        return None
    origin = origins.get((id(module), one.name))
    if origin is not None and origin.named is Named.YES and not origin.moved:
        return None  # somebody has said that it belongs there
    kind = "tensor"
    if is_placed(one.value):
        kind = "generator" if isinstance(one.value, torch.Generator) else "stream"
    return Stray(
        f"{path}.{one.name}" if path else one.name,
        type(module).__qualname__,
        kind,
        device,
        around,
        None if origin is None else origin.place,
    )


def _contents(module: nn.Module, known: _Contents) -> dict[str, Held]:
    if id(module) not in known:
        known[id(module)] = {one.name: one for one in held(module)}
    return known[id(module)]


def own_device() -> str:
    """Name the device that this process works on, without initialising any."""
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        return f"cuda:{torch.cuda.current_device()}"
    return "cpu"
