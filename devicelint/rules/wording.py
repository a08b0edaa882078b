"""The phrases that rules share: what a value ends in, how a call is reached, why it matters.

In: a call site.  Out: pieces of one-line text.  Never here: a verdict, a severity or a fix.
"""

from __future__ import annotations

from devicelint.model import CallSite, Sink

#: how a second end of a value is told
_ALSO = {
    Sink.HOST: "also read on the host",
    Sink.ATTRIBUTE: "also kept as a plain attribute",
    Sink.PARAMETER: "also part of a parameter",
    Sink.BUFFER: "also part of a buffer",
}

_NOUNS = {
    Sink.ATTRIBUTE: "plain attribute",
    Sink.PARAMETER: "parameter",
    Sink.BUFFER: "buffer",
}


def call(site: CallSite) -> str:
    """Name the constructor as resolved, in backticks."""
    return f"`{site.callable}`"


def named(noun: str, site: CallSite) -> str:
    """Name what the value ends in: "the buffer `mask`", or "a buffer" if no name is known."""
    if site.is_held:
        return f"what the {noun} `{site.target.removesuffix('[...]')}` holds"
    return f"the {noun} `{site.target}`" if site.target else f"a {noun}"


def ending(site: CallSite) -> str:
    """Name what the value becomes, "its value" where that has no name of its own."""
    noun = _NOUNS.get(site.sink)
    return named(noun, site) if noun else "its value"


def reason(site: CallSite, head: str) -> str:
    """Add to a reason what is peculiar to this call: contexts, other ends, the way here."""
    parts = [head]
    if site.in_context:
        parts.append("the enclosing device context has no effect on it")
    parts += [_ALSO[sink] for sink in site.also if sink in _ALSO and sink is not site.sink]
    chain = _chain(site)
    if chain:
        parts.append(f"reached through {chain}")
    return "; ".join(parts)


def _chain(site: CallSite) -> str:
    """Spell the way from the constructor to the call, "" where it is the constructor itself."""
    steps = [step.rpartition(".")[2] for step in site.reached_via]
    return " -> ".join(f"`{step}`" for step in steps if step != "__init__")
