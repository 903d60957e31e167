"""What makes two rows a pair, their times aside: columns of one name, pairs of columns, or a condition."""

from __future__ import annotations

import re
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidemill.change.columns import require
from tidemill.declare.names import spelled
from tidemill.errors import ArgumentError

if TYPE_CHECKING:
    from tidemill.join import On
    from tidemill.join.sides import Sides

_NAME = re.compile(r"\w+")


def condition_of(on: On, sides: Sides) -> Column:
    """The condition as a column. NULLs are equal to nothing, so a row without a key is in no pair."""
    if isinstance(on, Column):
        return on
    if isinstance(on, str):
        is_name = _NAME.fullmatch(on) or all(spelled(on, side.rows.columns) for side in (sides.a, sides.b))
        return _equal(on, on, sides) if is_name else F.expr(on)
    pairs = [(each, each) if isinstance(each, str) else _pair(each) for each in on]
    if not pairs:
        raise ArgumentError("join.no_keys", "A join needs a condition, and `on` is empty.", 'Name a column: on="id".')
    return reduce(lambda one, other: one & other, (_equal(a, b, sides) for a, b in pairs))


def _pair(given: object) -> tuple[str, str]:
    match given:
        case (str() as a, str() as b):
            return a, b
        case _:
            raise ArgumentError(
                "join.bad_keys",
                f"{given!r} in `on` is neither a column nor a pair of columns.",
                'Write on=["id"], on=[("id", "order_id")], or a condition: on="a.id = b.order_id".',
            )


def _equal(a: str, b: str, sides: Sides) -> Column:
    (first,) = require([a], sides.a.rows.columns, "The key column", sides.a.name)
    (second,) = require([b], sides.b.rows.columns, "The key column", sides.b.name)
    return sides.a.column(first) == sides.b.column(second)
