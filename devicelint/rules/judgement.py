"""What all rules must agree on: whose call a call is, and what the project places by itself.

In: a call site, the `construction` setting.  Out: a rule's code, a truth value.  Never here: a
message or a fix.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from devicelint.model import CallSite, Construction, Kind, Sink

_BY_KIND: Final[Mapping[Kind, str]] = MappingProxyType(
    {
        Kind.LEGACY: "DVL007",
        Kind.HOST_MEMORY: "DVL008",
        Kind.STREAM: "DVL005",
        Kind.GENERATOR: "DVL006",
        Kind.MODULE: "DVL010",
        Kind.PROCESS_GROUP: "DVL012",
    }
)

_BY_SINK: Final[Mapping[Sink, str]] = MappingProxyType(
    {
        Sink.HOST: "DVL009",
        Sink.ATTRIBUTE: "DVL001",
        Sink.PARAMETER: "DVL002",
        Sink.BUFFER: "DVL003",
    }
)


def owner(site: CallSite) -> str:
    """Return the code of the one rule that judges the call: when it runs, then what it makes,
    then what becomes of it."""
    if site.import_time and site.constructor.kind is not Kind.PROCESS_GROUP:
        return "DVL011"
    return _BY_KIND.get(site.constructor.kind) or _BY_SINK.get(site.sink, "DVL004")


def is_placed(site: CallSite, construction: Construction) -> bool:
    """Whether the way the project builds modules already gives such a tensor its device."""
    match construction:
        case Construction.DEVICE_CONTEXT:
            return site.constructor.honours_context
        case Construction.META:
            return True
    return False
