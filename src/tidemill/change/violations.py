"""The rows that break a check, as a condition in SQL."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tidemill.declare.checks import AcceptedValues, Holds, NotNull
from tidemill.declare.names import quote, quoted_text
from tidemill.declare.variables import as_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidemill.declare.checks import Accepted

RowCheck = NotNull | AcceptedValues | Holds

_TEXTS = ("string", "varchar", "char")
_EXACT_NUMBERS = ("tinyint", "smallint", "int", "bigint", "decimal")


def violation(check: RowCheck, kinds: Mapping[str, str]) -> str:
    """True for the rows that break the check, and for no others. `kinds` has the types of the columns."""
    match check:
        case NotNull(columns):
            return " OR ".join(f"{quote(column)} IS NULL" for column in columns)
        case AcceptedValues(column, values):
            accepted = ", ".join(_literal(value, kinds[column]) for value in values)
            name = quote(column)
            return f"{name} IS NOT NULL AND NOT coalesce({name} IN ({accepted}), false)"
        case Holds(condition):
            return f"NOT coalesce(({condition}\n), true)"  # a comment at its end must not swallow the rest


def _literal(value: Accepted, kind: str) -> str:
    """The value as the column would hold it: NULL, which equals nothing, where the column cannot."""
    text = quoted_text(as_text(value))
    if kind.startswith(_TEXTS):
        return text
    if _is_number(value) and kind.startswith(_EXACT_NUMBERS):
        return repr(value)  # a cast to the type of the column would round it
    return f"try_cast({text} AS {kind})"


def _is_number(value: Accepted) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
