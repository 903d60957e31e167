"""Values of rows, as cells of a table and as JSON."""

from __future__ import annotations

import json
import math
from datetime import date, datetime, time, timedelta
from typing import Any

LONGEST = 60  # characters of a cell; JSON has the whole


def cell(value: Any) -> str:
    """One line. A moment is in UTC; texts and lists are cut."""
    match value:
        case None:
            return "NULL"
        case "":
            return "''"
        case str():
            return _cut("".join(char if char.isprintable() else ascii(char)[1:-1] for char in value))
        case datetime():
            return value.replace(tzinfo=None).isoformat(sep=" ") + (" UTC" if value.tzinfo else "")
        case bool() | dict() | list():
            return _cut(json.dumps(plain(value), ensure_ascii=False))
        case _:
            return _cut(str(plain(value)))


def plain(value: Any) -> Any:
    """What JSON can hold: texts for what it has no type for, so that nothing is lost."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case date() | time():
            return value.isoformat()
        case timedelta():
            return str(value)
        case bytes():
            return value.hex()
        case dict():
            return {str(name): plain(each) for name, each in value.items()}
        case list() | tuple():
            return [plain(each) for each in value]
        case _:
            return str(value)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
