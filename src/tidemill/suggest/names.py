"""What the name of a column says of it."""

from __future__ import annotations

import re
from enum import IntEnum

_CHANGED = re.compile(r"(?i)^(last_?)?(updated?|modified|changed|edited)(_?(at|on|ts|time|date|timestamp))?$|^mtime$")
_ARRIVED = re.compile(
    r"(?i)^(created|inserted|seen|received|loaded|ingested|logged|occurred|happened)(_?(at|on|ts|time|date))?$"
    r"|^event_?(time|ts|at|timestamp)$|^(ts|timestamp|at|time)$|_(at|ts|timestamp|time)$"
)
_KEY = re.compile(r"(?i)^(id|key|uuid|guid|pk)$|(_id|_key|_uuid|_no|_number|_code)$|[a-z]I[dD]$")


class Moves(IntEnum):
    """When the value of a cursor is set, by its name; the lower, the better a cursor it makes."""

    WITH_EVERY_CHANGE = 0
    WHEN_THE_ROW_COMES = 1
    UNKNOWN = 2


def moves(name: str) -> Moves:
    if _CHANGED.search(name):
        return Moves.WITH_EVERY_CHANGE
    return Moves.WHEN_THE_ROW_COMES if _ARRIVED.search(name) else Moves.UNKNOWN


def like_a_key(name: str) -> bool:
    return bool(_KEY.search(name))


def own_id(name: str, source: str) -> bool:
    """Whether an id is that of the rows themselves: `id`, or `order_id` of orders."""
    found = name.lower()
    return found == "id" or (found.endswith("_id") and source.lower().startswith(found.removesuffix("_id")))
