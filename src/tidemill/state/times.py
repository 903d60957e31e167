"""The first and the last time of a Delta table by the statistics in its log: for plans, which start no Spark.

They still know rows that were deleted since, and times are cut to milliseconds; a run asks the rows.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.declare.cursors import Cursor, CursorKind
from tidemill.state.pruning import physical_names

if TYPE_CHECKING:
    from collections.abc import Iterator


def times_of(path: str, column: str) -> tuple[Cursor, Cursor] | None:
    """None where the table is empty, or its log does not tell."""
    table = deltalake.DeltaTable(path)
    name = physical_names(table).get(column.lower())
    files = pa.table(table.get_add_actions())
    lows = [value for part in ("min", "partition") for value in _values(files, part, name)]
    highs = [value for part in ("max", "partition") for value in _values(files, part, name)]
    if not lows or None in (*lows, *highs):
        return None
    low, high = _cursor(min(lows)), _cursor(max(highs))
    return (low, high) if low and high else None


def _values(files: pa.Table, part: str, name: str | None) -> Iterator[Any]:
    column = files.column(part) if part in files.column_names else None
    if name is not None and column is not None and column.type.get_field_index(name) >= 0:
        yield from pc.struct_field(column, [name]).to_pylist()


def _cursor(value: object) -> Cursor | None:
    match value:
        case datetime() as moment if moment.tzinfo:
            return Cursor(CursorKind.TIMESTAMP, moment.astimezone(UTC))
        case datetime():
            return Cursor(CursorKind.TIMESTAMP_NTZ, value)
        case date():
            return Cursor(CursorKind.DATE, value)
        case int():
            return Cursor(CursorKind.INTEGER, value)
        case _:
            return None
