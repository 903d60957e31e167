"""Any data source that Spark knows by its name; and fewer columns and rows of a frame, lazily."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.errors import ConnectorError, did_you_mean
from tidemill.model.names import quote, spelled
from tidemill.sources.params import Params

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from tidemill.model.cursor import Cursor
    from tidemill.model.source import Source
    from tidemill.sources.protocol import Reading


def select_columns(rows: DataFrame, columns: Sequence[str], source: object) -> DataFrame:
    """These columns as the rows spell them, or all where none are named; one that is not there is an error."""
    if not columns:
        return rows
    return rows.select(*(quote(find_column(name, rows.columns, source)) for name in columns))


def rows_since(rows: DataFrame, column: str, value: Cursor, source: object) -> DataFrame:
    """The rows at or above the value, and those without one; Spark hands that on to what can skip by it."""
    name = quote(find_column(column, rows.columns, source))
    return rows.where(f"{name} >= {value.literal()} OR {name} IS NULL")


def find_column(name: str, columns: Sequence[str], source: object) -> str:
    found = spelled(name, columns)
    if found is None:
        close = did_you_mean(name, columns)
        raise ConnectorError(
            "source.no_column",
            f"The source {source} has no column {name}.",
            f"Did you mean {close}?" if close else f"It has {', '.join(columns)}.",
        )
    return found


def kept(rows: DataFrame) -> DataFrame:
    """The same rows, on disk beside the executors until nobody refers to the frame any more."""
    from tidemill.spark.frames import settle  # noqa: PLC0415  imports PySpark

    return settle(rows)


def spark_source(source: Source) -> SparkSource:
    params = Params(source)
    schema, path = params.text("schema"), params.text("path")
    options = params.options()
    if path:  # where nothing is there it may be a name, as Iceberg's tables have
        options["path"] = params.path(path) if Path(params.path(path)).exists() else path
    return SparkSource(source.kind, options, schema, source.columns, source.name)


@dataclass(frozen=True)
class SparkSource:
    """Reads by `spark.read.format(kind)`. Filters reach it as far as its own connector lets them."""

    kind: str
    options: Mapping[str, str]
    schema_text: str | None
    columns: tuple[str, ...]
    name: str
    settled: bool = False

    def __str__(self) -> str:
        return self.name

    def schema(self, reading: Reading) -> StructType:
        return self.read(reading).schema

    def read(self, reading: Reading, columns: Sequence[str] = ()) -> DataFrame:
        return select_columns(self._all(reading), columns or self.columns, self)

    def read_since(self, reading: Reading, column: str, value: Cursor, columns: Sequence[str] = ()) -> DataFrame:
        return select_columns(rows_since(self._all(reading), column, value, self), columns or self.columns, self)

    def version(self) -> str | None:
        return None

    def _all(self, reading: Reading) -> DataFrame:
        reader = reading.spark.read.format(self.kind).options(**self.options)
        return (reader.schema(self.schema_text) if self.schema_text else reader).load()
