"""What the statistics in a Delta log say: which files can hold certain keys, and the first and last times.

They still know rows that were deleted since, and times are cut to milliseconds; a run asks the rows.
"""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.formats.base import Reach
from tidemill.model.cursor import Cursor, CursorKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tidemill.formats.base import KeyRange

_CUT = timedelta(milliseconds=1)  # Delta cuts the highest timestamp of a file to milliseconds


def reach(table: deltalake.DeltaTable, ranges: Sequence[KeyRange]) -> Reach:
    """The files that may hold a row within all ranges; a file without statistics may hold anything."""
    files = pa.table(table.get_add_actions())
    names, padded = physical_names(table), _padded(table)
    chosen = [True] * files.num_rows
    for span in ranges:
        if span.column.lower() in padded:
            continue
        bounds = zip(*(_bounds(files, end, names[span.column.lower()]) for end in ("min", "max")), strict=True)
        chosen = [kept and _may_hold(low, high, span) for kept, (low, high) in zip(chosen, bounds, strict=True)]
    sizes = files.column("size_bytes").to_pylist()
    return Reach(sum(chosen), sum(size for size, kept in zip(sizes, chosen, strict=True) if kept))


def physical_names(table: deltalake.DeltaTable) -> dict[str, str]:
    """Under column mapping, statistics know a column by another name."""
    return {f["name"].lower(): f["metadata"].get("delta.columnMapping.physicalName", f["name"]) for f in _fields(table)}


def _padded(table: deltalake.DeltaTable) -> set[str]:
    """The columns of type CHAR: they are padded when they are read, and in files, and their statistics, may not be."""
    kinds = {f["name"].lower(): f["metadata"].get("__CHAR_VARCHAR_TYPE_STRING", "") for f in _fields(table)}
    return {name for name, kind in kinds.items() if kind.startswith("char(")}


def _fields(table: deltalake.DeltaTable) -> list[dict[str, Any]]:
    fields: list[dict[str, Any]] = json.loads(table.schema().to_json())["fields"]
    return fields


def _bounds(files: pa.Table, end: str, name: str) -> list[Any]:
    statistics = files.column(end) if end in files.column_names else None
    if statistics is None or statistics.type.get_field_index(name) < 0:
        return [None] * files.num_rows
    return [_known(bound) for bound in pc.struct_field(statistics, [name])]


def _known(bound: pa.Scalar) -> Any:
    """The value in Python; None where Python cannot hold it, such as a date before the year 1."""
    try:
        return bound.as_py()
    except (OverflowError, ValueError):
        return None


def _may_hold(low: Any, high: Any, span: KeyRange) -> bool:
    if low is None or high is None:
        return True
    try:
        return bool(low <= span.high.value and _uncut(high) >= span.low.value)
    except TypeError:  # statistics of another type tell nothing
        return True


def _uncut(high: Any) -> Any:
    last = isinstance(high, datetime) and high.year == datetime.max.year  # noqa: DTZ901  its year only
    return high + _CUT if isinstance(high, datetime) and not last else high


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
