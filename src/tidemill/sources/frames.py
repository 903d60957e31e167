"""Rows that a caller holds as a source: frames of Spark, Arrow, pandas, Polars, or lists of dicts, one or many."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeGuard

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkTypeError
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type, to_arrow_type
from pyspark.sql.types import StructField, StructType

from tidemill.errors import ArgumentError
from tidemill.model import quote, spelled
from tidemill.sources import Connector, select_columns
from tidemill.sources.exact import as_held, with_held_times
from tidemill.spark.session import settle

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import pandas as pd

    from tidemill.sources import Reading
    from tidemill.sources.files import FileSource
    from tidemill.sources.files.listing import Listing

    class OfArrow(Protocol):
        """A frame of Polars, a relation of DuckDB, and whatever else gives its rows as a stream of Arrow's."""

        def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...

    Rows: TypeAlias = DataFrame | pa.Table | pd.DataFrame | OfArrow | list[Mapping[str, Any]]

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

    def add(self, given: object) -> bool:
        """Adds a frame or records; False where it is neither."""
        if is_spark_frame(given):
            self.add_frame(given)
        elif (table := as_arrow(given)) is not None:
            self.add_table(table)
        elif isinstance(given, list | tuple) and all(isinstance(each, Mapping) for each in given):
            self.add_records([dict(each) for each in given])
        else:
            return False
        return True

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

    def keep(self, rows: DataFrame) -> DataFrame:
        """The same rows, where they are many on disk beside the executors until nobody refers to the frame any more."""
        return rows if self.few else settle(rows)

    def rows(self) -> DataFrame | None:
        """All batches; None when there was none."""
        if self.few:
            return self._whole(self._few_rows())
        self._store()

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
        table, known = pa.concat_tables(self._tables), self._fields()
        schema = StructType([StructField(name, known[name.lower()].dataType) for name in table.column_names])
        return self._reading.spark.createDataFrame(table, schema).coalesce(1)

    def _whole(self, rows: DataFrame) -> DataFrame:
        """With the columns that had no value anywhere, in the order in which columns came."""
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


_MOST_DIGITS = 38  # of a decimal
_ALIKE = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
    pa.string_view(): pa.string(),
    pa.binary_view(): pa.binary(),
    pa.json_(): pa.string(),
    pa.json_(pa.large_string()): pa.large_string(),
}


@dataclass(frozen=True)
class FrameSource(Connector):
    """A frame, or something that is not one, which is an error.

    Times without a zone in Arrow and pandas frames are as the table has them, and stay without one where their column
    is new: the same as of a Parquet file of the frame.
    """

    frame: Rows
    settled: bool = False
    _made: list[DataFrame] = field(default_factory=list, repr=False, compare=False)

    def __str__(self) -> str:
        return "the given frame"

    @property
    def is_given(self) -> bool:
        """Its rows were given once, and cannot be read again."""
        return True

    def read(self, reading: Reading, columns: Sequence[str] = ()) -> DataFrame:
        return select_columns(self._frame(reading), columns, self)

    def _frame(self, reading: Reading) -> DataFrame:
        if is_spark_frame(self.frame):
            return self.frame
        if not is_records(self.frame):
            arrow = self._arrow
        elif self.frame or reading.like is None:
            arrow = self._records(self.frame, reading)
        else:  # no rows, whose columns are the table's
            return reading.spark.createDataFrame([], reading.like)
        types, made = _types(arrow.schema, reading.like), self._made
        if not made or made[0].sparkSession is not reading.spark or made[0].schema != types:
            made[:] = [reading.spark.createDataFrame(arrow, types)]
        return made[0]

    def _records(self, records: list[Mapping[str, Any]], reading: Reading) -> pa.Table:
        """With the table's types but for times: those without a zone are none of UTC."""
        known = {name: kind for name, kind in arrow_types(reading.like).items() if not pa.types.is_timestamp(kind)}
        with self._readable():
            return as_files_hold(records_as_arrow(records, known))

    @cached_property
    def _arrow(self) -> pa.Table:
        """Read once: a stream is gone afterwards."""
        with self._readable():
            table = as_arrow(self.frame)
            held = as_files_hold(table) if table is not None else None
        if held is None:
            raise ArgumentError(
                "source.unknown_kind",
                f"A value of the type {type(self.frame).__name__} cannot be merged.",
                "Give a Spark, pandas or Polars DataFrame, a DuckDB relation, a pyarrow Table, a list of dicts, or a "
                "path.",
            )
        return held

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as failure:
            raise ArgumentError(
                "source.bad_frame",
                f"The {type(self.frame).__name__} cannot be read: {'; '.join(map(str, failure.args))}.",
                "Give every column a name of its own, and values of one type; .dt.floor('us') takes nanoseconds off.",
            ) from failure


def as_files_hold(table: pa.Table) -> pa.Table:
    """Types that Spark lacks as those that it reads from a Parquet file of the same table.

    What these do not hold, such as nanoseconds, is an error.
    """
    fields = [field.with_type(_held(field.type)) for field in table.schema]
    return table.cast(pa.schema(fields)) if fields != list(table.schema) else table


def _held(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_held(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_held(kind.value_type)))
    if pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_held(kind.value_type)))
    return _plainly_held(kind)


def _plainly_held(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_duration(kind):
        return pa.duration("us")
    return pa.time64("us") if pa.types.is_time64(kind) else _ALIKE.get(kind, kind)


def _types(schema: pa.Schema, like: StructType | None) -> StructType:
    """Spark's types for Arrow's."""
    unknown = [f"{item.name} ({item.type})" for item in schema if not _has_type(item)]
    if unknown:
        raise ArgumentError(
            "source.unknown_type",
            f"Spark has no type for {', '.join(unknown)} of the given frame.",
            "Cast it, or leave it out.",
        )
    return as_held(from_arrow_schema(schema, prefer_timestamp_ntz=True), like)


def _has_type(item: pa.Field) -> bool:
    try:
        from_arrow_type(item.type)
    except PySparkTypeError:
        return False
    return not pa.types.is_decimal(item.type) or item.type.precision <= _MOST_DIGITS


def _check_dates(frame: pd.DataFrame, table: pa.Table) -> None:
    """Arrow takes moments that come after a date for dates, and drops their times."""
    for column, kind in zip(range(frame.shape[1]), table.schema.types, strict=True):
        values = frame.iloc[:, column] if pa.types.is_date(kind) else ()
        if any(isinstance(value, datetime) for value in values):
            raise ValueError(f"{frame.columns[column]} has dates and moments")


def is_spark_frame(frame: object) -> TypeGuard[DataFrame]:
    return isinstance(frame, DataFrame)


def is_records(frame: object) -> TypeGuard[list[Mapping[str, Any]]]:
    return isinstance(frame, list) and all(isinstance(record, Mapping) for record in frame)


def as_arrow(frame: object) -> pa.Table | None:
    """A frame of Arrow or pandas, or what gives a stream of Arrow's, as an Arrow table; None when it is neither."""
    pandas = sys.modules.get("pandas")  # who has a frame of it has imported it
    if pandas is not None and isinstance(frame, pandas.DataFrame):
        table = pa.Table.from_pandas(frame, preserve_index=False)
        _check_dates(frame, table)
        return table
    match frame:
        case pa.Table():
            return frame
        case pa.RecordBatch():
            return pa.Table.from_batches([frame])
        case _ if hasattr(frame, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(frame).read_all()
        case _:
            return None


_BY_MICROSECONDS = "Write the files with microseconds (pyarrow and pandas: coerce_timestamps='us')."


def read_by_arrow(source: FileSource, found: Listing, reading: Reading, fine: list[str]) -> DataFrame:
    """All rows of files with moments in nanoseconds, as pandas before version 3 writes them, which Spark does not read.

    Types are those of the same frame in memory; a moment that is no whole microsecond is an error.
    """
    if found.in_partitions or source.options or source.settled:
        raise _refused(
            source,
            f"holds {', '.join(fine)} in nanoseconds, which Spark cannot read, and large sources, options of readers "
            "and folders of partitions need Spark.",
        )
    try:
        tables = [pq.read_table(file.path, filesystem=root.files, partitioning=None) for root, file in found.placed]
        rows = as_files_hold(pa.concat_tables(tables, promote_options="permissive"))
    except (pa.ArrowException, ValueError) as failure:
        raise _refused(source, f"cannot be read: {'; '.join(map(str, failure.args))}.") from failure
    return FrameSource(rows).read(reading)


def _refused(source: FileSource, problem: str) -> ArgumentError:
    return ArgumentError("source.nanoseconds", f"{source} {problem}", _BY_MICROSECONDS)
