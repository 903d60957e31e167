"""Any data source that Spark knows by its name, with its own options."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.sources.narrow import picked, since
from tidemill.sources.params import Params

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from tidemill.declare.cursors import Cursor
    from tidemill.declare.sources import Source
    from tidemill.sources.protocol import Reading


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
        return picked(self._all(reading), columns or self.columns, self)

    def read_since(self, reading: Reading, column: str, value: Cursor, columns: Sequence[str] = ()) -> DataFrame:
        return picked(since(self._all(reading), column, value, self), columns or self.columns, self)

    def version(self) -> str | None:
        return None

    def _all(self, reading: Reading) -> DataFrame:
        reader = reading.spark.read.format(self.kind).options(**self.options)
        return (reader.schema(self.schema_text) if self.schema_text else reader).load()
