"""Keys that are so few that they are known one by one: sent as they are, and between gaps of which no file is read."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from tidemill.changes.profile import kind_of
from tidemill.formats.base import KeyRange, Profile
from tidemill.model.cursor import Cursor, CursorKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

MOST = 50_000
_MOST_PARTS = 16  # each costs for every row that is read
_NARROWEST = 64  # a gap that is cut out is wider than the whole range by this
_MEASURED = {CursorKind.INTEGER, CursorKind.DECIMAL, CursorKind.DATE}


def few_keys(keys: DataFrame) -> tuple[DataFrame, Profile] | None:
    """The keys, each of which comes once, as rows of their own, with their profile; one Spark action.

    None where a column has no order and no exact values.
    """
    kinds = {field.name: kind_of(field.dataType) for field in keys.schema.fields}
    if not kinds or not all(kind in {*_MEASURED, CursorKind.STRING} for kind in kinds.values()):
        return None
    table = keys.toArrow()
    columns = {name: table.column(number).to_pylist() for number, name in enumerate(kinds)}
    null_keys = sum(None in row for row in zip(*columns.values(), strict=True))
    found = [_range(name, kind, columns[name]) for name, kind in kinds.items() if kind]
    ranges = tuple(span for span in found if span)
    known = Profile(rows=table.num_rows, keys=table.num_rows, null_keys=null_keys, ranges=ranges)
    own = keys.sparkSession.createDataFrame(table, keys.schema)
    return F.broadcast(own), known


def _range(column: str, kind: CursorKind, given: Sequence[Any]) -> KeyRange | None:
    values = sorted({value for value in given if value is not None})
    if not values:
        return None
    parts = _parts(values) if kind in _MEASURED else []
    low, high = Cursor(kind, values[0]), Cursor(kind, values[-1])
    return KeyRange(column, low, high, parts=tuple((Cursor(kind, a), Cursor(kind, b)) for a, b in parts))


def _parts(values: Sequence[Any]) -> list[tuple[Any, Any]]:
    """The lowest and highest value of each part, between the widest gaps; nothing where they leave little out."""
    whole = values[-1] - values[0]
    gaps = [(after - before, number) for number, (before, after) in enumerate(pairwise(values), 1)]
    wide = sorted((each for each in gaps if each[0] * _NARROWEST > whole), reverse=True)[: _MOST_PARTS - 1]
    spared = sum((gap for gap, _ in wide), whole - whole)
    if not wide or spared * 2 < whole:  # then its parts are not worth a condition
        return []
    cuts = [0, *sorted(number for _, number in wide), len(values)]
    return [(values[first], values[last - 1]) for first, last in pairwise(cuts)]
