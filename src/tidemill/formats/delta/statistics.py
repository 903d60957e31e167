"""What the statistics in a Delta log say: which files can hold certain keys, and the first and last times.

They still know rows that were deleted since, and times are cut to milliseconds; a run asks the rows.
"""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeGuard

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.formats.base import Reach
from tidemill.model.cursor import Cursor, CursorKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import deltalake

    from tidemill.formats.base import KeyRange

_CUT = timedelta(milliseconds=1)  # Delta cuts the highest timestamp of a file to milliseconds


class FileStatistics:
    """The statistics of the files of a table, as it was opened."""

    def __init__(self, table: deltalake.DeltaTable) -> None:
        actions = pa.RecordBatchReader.from_stream(table.get_add_actions())  # pa.table(…) would load pandas
        self._files = actions.read_all()
        self._fields: list[dict[str, Any]] = json.loads(table.schema().to_json())["fields"]

    def reach(self, ranges: Sequence[KeyRange]) -> Reach:
        """The files that may hold a row within all ranges; a file without statistics may hold anything."""
        files, names, padded = self._files, self._physical_names(), self._padded()
        for span in ranges:
            if span.column.lower() not in padded:
                files = _holding(files, names[span.column.lower()], span)
        return Reach(files.num_rows, pc.sum(files.column("size_bytes")).as_py() or 0)

    def times(self, column: str) -> tuple[Cursor, Cursor] | None:
        """None where the table is empty, or its log does not tell."""
        name = self._physical_names().get(column.lower())
        lows = [value for part in ("min", "partition") for value in _values(self._files, part, name)]
        highs = [value for part in ("max", "partition") for value in _values(self._files, part, name)]
        if not lows or None in (*lows, *highs):
            return None
        low, high = _cursor(min(lows)), _cursor(max(highs))
        return (low, high) if low and high else None

    def _physical_names(self) -> dict[str, str]:
        """Under column mapping, statistics know a column by another name."""
        name = "delta.columnMapping.physicalName"
        return {field["name"].lower(): field["metadata"].get(name, field["name"]) for field in self._fields}

    def _padded(self) -> set[str]:
        """The columns of type CHAR: they are padded when they are read, and in files, and statistics, may not be."""
        kinds = {f["name"].lower(): f["metadata"].get("__CHAR_VARCHAR_TYPE_STRING", "") for f in self._fields}
        return {name for name, kind in kinds.items() if kind.startswith("char(")}


def _holding(files: pa.Table, name: str, span: KeyRange) -> pa.Table:
    """The files that may hold a value of the range, by Arrow: a table may have a hundred thousand files."""
    low, high = (_bound(files, end, name) for end in ("min", "max"))
    if low is None or high is None:
        return files
    lowest = span.low.value - _CUT if _can_be_cut(span.low.value) else span.low.value
    try:
        within = pc.and_(pc.less_equal(low, span.high.value), pc.greater_equal(high, lowest))
    except (pa.ArrowException, OverflowError, TypeError):  # statistics of another type tell nothing
        return files
    return files.filter(pc.fill_null(within, True))  # noqa: FBT003


def _bound(files: pa.Table, end: str, name: str) -> pa.ChunkedArray | None:
    statistics = files.column(end) if end in files.column_names else None
    if statistics is None or statistics.type.get_field_index(name) < 0:
        return None
    return pc.struct_field(statistics, [name])


def _can_be_cut(value: object) -> TypeGuard[datetime]:
    return isinstance(value, datetime) and value.replace(tzinfo=None) > datetime.min + _CUT  # noqa: DTZ901


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
