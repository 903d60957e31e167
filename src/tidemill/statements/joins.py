"""What a window of an incremental join reads, as one statement of SQL that says the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.declare.durations import Duration
from tidemill.declare.joins import JoinType
from tidemill.declare.names import of, quote

if TYPE_CHECKING:
    from tidemill.declare.joins import Join, JoinSide

START, END = "<start>", "<end>"
NOTES = (f"{START} and {END} are the bounds of the window: a run knows them, and tidemill plan shows them",)
_WORDS = {
    JoinType.INNER: "INNER JOIN",
    JoinType.LEFT: "LEFT JOIN",
    JoinType.RIGHT: "RIGHT JOIN",
    JoinType.FULL_OUTER: "FULL JOIN",
    JoinType.LEFT_ANTI: "LEFT ANTI JOIN",
    JoinType.RIGHT_ANTI: "LEFT ANTI JOIN",
}


def join_query(join: Join) -> str:
    """The rows of one window."""
    a, b = of(join.a.alias, join.a.time), of(join.b.alias, join.b.time)
    back, forward = _length(join.look_back), _length(join.look_forward)
    first, second = (join.b, join.a) if join.how is JoinType.RIGHT_ANTI else (join.a, join.b)
    later = {JoinType.LEFT_ANTI: f"{a} + {forward}", JoinType.RIGHT_ANTI: f"{b} + {back}"}
    both = f"CASE WHEN {b} IS NULL THEN {a} + {forward} WHEN {a} IS NULL THEN {b} + {back} ELSE greatest({a}, {b}) END"
    columns = ", ".join(join.select)
    return "\n".join(
        [
            "SELECT * FROM (",
            f"  SELECT {columns}, {later.get(join.how, both)} AS {quote(join.time)}",
            f"  FROM {_rows(join, first)}",
            f"  {_WORDS[join.how]} {_rows(join, second)}",
            f"  ON ({join.on}) AND {b} BETWEEN {a} - {back} AND {a} + {forward}",
            ")",
            f"WHERE {quote(join.time)} >= {START} AND {quote(join.time)} < {END}",
        ]
    )


def _rows(join: Join, side: JoinSide) -> str:
    """A side within the scope of the window."""
    time, back, forward = quote(side.time), _length(join.look_back), _length(join.look_forward)
    judged = join.how.has_outdated_b if side is join.a else join.how.has_outdated_a
    before = f"{back} - {forward}" if judged else forward if side is join.a else back
    return f"(SELECT * FROM {side.table} WHERE {time} >= {START} - {before} AND {time} < {END}) AS {quote(side.alias)}"


def _length(length: Duration | int) -> str:
    match length:
        case Duration(amount, unit):
            return f"INTERVAL {amount} {unit.upper()}{'' if amount == 1 else 'S'}"
        case number:
            return str(number)
