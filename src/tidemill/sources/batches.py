"""Frames that come one by one, as one frame: on disk as they come unless they are few, so that memory does not grow."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidemill.declare.names import quote, spelled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructField, StructType

    from tidemill.sources.protocol import Reading

FEW = 4 * 1024 * 1024  # bytes that Spark is given as they are


class Batches:
    """Batches may differ in their columns and in their order: a column that one lacks is NULL there.

    Types are those of the table where it has the column, else what all batches fit into. `rows` may read files in
    `folder`, so they must be kept elsewhere before it goes away, unless they are `few`.
    """

    def __init__(self, reading: Reading, folder: Path) -> None:
        self._reading, self._folder = reading, folder
        self._frames: list[DataFrame] = []
        self._tables: list[pa.Table] = []
        self._bytes = 0
        self._parts: dict[pa.Schema, Path] = {}
        self._names: dict[str, str] = {}
        self._count = 0

    def add_frame(self, frame: DataFrame) -> None:
        self._note(frame.columns)
        self._frames.append(frame)

    def add_records(self, records: list[dict[str, Any]]) -> None:
        """Records may lack fields; a field that no record has a value for has the table's type, or none."""
        self.add_table(records_as_arrow(records, self._arrow_types()))

    def add_table(self, table: pa.Table) -> None:
        """Tables of one schema share a folder, so that many batches are one read."""
        self._note(table.column_names)
        known = self._arrow_types()
        found = {name: _as_wide(table[name], known.get(name.lower())) for name in table.column_names}
        typed = pa.table({name: column for name, column in found.items() if not pa.types.is_null(column.type)})
        if not typed.num_columns:
            return
        self._tables.append(typed)
        self._bytes += typed.nbytes
        if self._bytes > FEW:
            self._store()

    def _store(self) -> None:
        for table in self._tables:
            part = self._parts.setdefault(table.schema, self._folder / f"part-{len(self._parts)}")
            part.mkdir(exist_ok=True)
            self._count += 1
            pq.write_table(table, part / f"{self._count}.parquet", coerce_timestamps="us")
        self._tables.clear()

    @property
    def few(self) -> bool:
        """Whether Spark can be given all rows as they are: they are few, and have the types of the table."""
        if self._frames or self._parts or not self._tables:
            return False
        first, known = self._tables[0].schema, self._arrow_types()
        alike = all(table.schema == first for table in self._tables)
        return alike and all(known.get(field.name.lower()) == field.type for field in first)

    def rows(self) -> DataFrame | None:
        """All batches; None when there was none."""
        if self.few:
            return self._whole(self._few_rows())
        self._store()
        from tidemill.sources.naive import with_held_times  # noqa: PLC0415  it imports PySpark

        spark = self._reading.spark
        frames = [*self._frames, *(spark.read.parquet(str(part)) for part in self._parts.values())]
        if not self._names:
            like = self._reading.like
            return None if like is None else spark.createDataFrame([], like)
        if not frames:
            frames = [spark.range(0).select()]
        return self._whole(with_held_times(reduce(_together, frames), self._reading.like))

    def _few_rows(self) -> DataFrame:
        """One task has them all, so that what is asked of them needs no exchange between tasks."""
        from pyspark.sql.types import StructField, StructType  # noqa: PLC0415  slow to import

        table, known = pa.concat_tables(self._tables), self._fields()
        schema = StructType([StructField(name, known[name.lower()].dataType) for name in table.column_names])
        return self._reading.spark.createDataFrame(table, schema).coalesce(1)

    def _whole(self, rows: DataFrame) -> DataFrame:
        """With the columns that had no value anywhere, in the order in which columns came."""
        from pyspark.sql import functions as F  # noqa: PLC0415  slow to import

        if rows.columns == list(self._names.values()):
            return rows
        types = {name: field.dataType for name, field in self._fields().items()}
        columns = []
        for lower, name in self._names.items():
            found = spelled(name, rows.columns)
            value = F.col(quote(found)) if found else F.lit(None)
            columns.append((value if found or lower not in types else value.cast(types[lower])).alias(name))
        return rows.select(*columns)

    def _note(self, names: list[str]) -> None:
        for name in names:
            self._names.setdefault(name.lower(), name)

    def _arrow_types(self) -> dict[str, pa.DataType]:
        return arrow_types(self._reading.like)

    def _fields(self) -> dict[str, StructField]:
        return {field.name.lower(): field for field in self._reading.like.fields} if self._reading.like else {}


def arrow_types(like: StructType | None) -> dict[str, pa.DataType]:
    """The types of a table's columns in Arrow, by their names in lower case."""
    from pyspark.sql.pandas.types import to_arrow_type  # noqa: PLC0415  slow to import

    fields = like.fields if like else ()
    return {field.name.lower(): to_arrow_type(field.dataType, timestamp_utc=True) for field in fields}


def records_as_arrow(records: Sequence[Mapping[str, Any]], known: Mapping[str, pa.DataType]) -> pa.Table:
    """Records may lack fields. Values are of the known types where they fit, else of their own."""
    names = dict.fromkeys(name for record in records for name in record)
    return pa.table({name: _array([record.get(name) for record in records], known.get(name.lower())) for name in names})


def _array(values: list[Any], kind: pa.DataType | None) -> pa.Array:
    """In the table's type where the values fit it, else in their own: then the step says what does not fit."""
    if kind is not None:
        try:
            return pa.array(values, kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            pass
    return pa.array(values)


def _as_wide(column: pa.ChunkedArray, kind: pa.DataType | None) -> pa.ChunkedArray:
    """Numbers as the table has them, where none loses anything: pandas has no integers with NULLs, for one."""
    if kind is None or kind == column.type or not (_is_number(kind) and _is_number(column.type)):
        return column
    try:
        return column.cast(kind, safe=True)
    except pa.ArrowInvalid:
        return column


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _together(one: DataFrame, other: DataFrame) -> DataFrame:
    return one.unionByName(other, allowMissingColumns=True)
