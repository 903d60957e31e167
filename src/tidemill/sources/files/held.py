"""What files hold, as far as they say so by themselves: columns, types, rows; and how some of them are read alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from tidemill.sources import Reading
from tidemill.sources.files import FEW_FOOTERS, each_once
from tidemill.sources.kinds import OF_FILES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyarrow import fs
    from pyspark.sql import DataFrame, SparkSession

    from tidemill.sources.files import FileSource
    from tidemill.sources.files.listing import Root

    Placed = tuple[Root, fs.FileInfo]

_TYPES = {
    "bool": "boolean",
    "int8": "byte",
    "int16": "short",
    "int32": "integer",
    "int64": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "large_string": "string",
    "binary": "binary",
    "date32[day]": "date",
    "timestamp[us, tz=UTC]": "timestamp",
    "timestamp[us]": "timestamp_ntz",
}
_TEXT = {"csv", "json"}
_AT_ONCE = 16  # files that are looked into


class Held(Protocol):
    """What files hold. `refusal` is why the rows of some of them cannot be read alone, None where they can."""

    @property
    def refusal(self) -> str | None: ...

    @property
    def columns(self) -> Sequence[str]:
        """None where only Spark can tell."""

    @property
    def types(self) -> Mapping[str, str]:
        """Those of plain columns, by name in lower case."""

    @property
    def rows(self) -> Sequence[int] | None:
        """How many each file has, where that is known."""

    def read(self, spark: SparkSession, files: Sequence[Placed]) -> DataFrame:
        """The rows of some files, with the columns of all."""


def held_in(source: FileSource, files: Sequence[Placed]) -> Held | None:
    """What these files of a source hold; None where that depends on more than them, or they are too many to look at."""
    if not 0 < len(files) <= FEW_FOOTERS or any("=" in part for root, file in files for part in root.parts(file)[:-1]):
        return None
    if source.reader in _TEXT:
        chosen = {name.lower() for name in OF_FILES}.intersection(map(str.lower, source.options))
        return None if chosen else TextFiles(source, files)
    found = ParquetFiles(source, files) if source.is_plain and not source.has_nanoseconds else None
    return found if found and found.footers is not None else None


@dataclass(frozen=True)
class ParquetFiles:
    """Each says what it holds, and a column that has another type in one of them is an error for whoever reads it."""

    source: FileSource
    files: Sequence[Placed]
    refusal: str | None = None

    @cached_property
    def footers(self) -> list[pq.FileMetaData] | None:
        with suppress(OSError, pa.ArrowException), ThreadPoolExecutor(_AT_ONCE) as pool:
            return list(pool.map(_footer, self.files))
        return None  # Spark says what is wrong with a file

    @cached_property
    def _schemas(self) -> list[pa.Schema]:
        return [each.schema.to_arrow_schema() for each in self.footers or ()]

    @property
    def columns(self) -> Sequence[str]:
        return each_once(schema.names for schema in self._schemas)

    @property
    def types(self) -> Mapping[str, str]:
        found: dict[str, set[str]] = {}
        for schema in self._schemas:
            for column in schema:
                found.setdefault(column.name.lower(), set()).add(_type(column.type))
        return {name: kinds.pop() for name, kinds in found.items() if len(kinds) == 1 and "" not in kinds}

    @property
    def rows(self) -> Sequence[int]:
        return [each.num_rows for each in self.footers or ()]

    def read(self, spark: SparkSession, files: Sequence[Placed]) -> DataFrame:
        whole = self.source.read(Reading(spark))
        paths = [root.for_spark(file) for root, file in files]
        return spark.read.schema(whole.schema).parquet(*paths) if paths else whole.where("false")


@dataclass(frozen=True)
class TextFiles:
    """They have no types of their own: what a column is may depend on all of them, unless the source says so."""

    source: FileSource
    files: Sequence[Placed]
    rows: Sequence[int] | None = None

    @property
    def refusal(self) -> str | None:
        if self.source.types.schema:
            return None
        return "types of its columns may depend on all of its files; declare them (schema), or LOAD it into a table"

    @property
    def columns(self) -> Sequence[str]:
        return self.source.known_columns() or tuple(self.types)

    @cached_property
    def types(self) -> Mapping[str, str]:
        import sqlglot  # noqa: PLC0415  slow to import

        said = self.source.types.schema or ", ".join(
            f"`{name}` {kind}" for name, kind in self.source.types.some.items()
        )
        if not said:
            return {}
        try:
            tree = sqlglot.parse_one(f"CREATE TABLE t ({said})", dialect="spark")
        except sqlglot.errors.SqlglotError:
            return {}
        kinds = {each.name.lower(): each.args["kind"].sql(dialect="spark").lower() for each in tree.this.expressions}
        return {name: kind.replace(", ", ",") for name, kind in kinds.items() if "<" not in kind}

    def read(self, spark: SparkSession, files: Sequence[Placed]) -> DataFrame:
        if not files:
            return self.source.read(Reading(spark)).where("false")
        paths = tuple(f"{root.scheme}{file.path}" for root, file in files)
        return replace(self.source, path=paths, kind=self.source.format).read(Reading(spark))


def _footer(placed: Placed) -> pq.FileMetaData:
    root, file = placed
    with root.files.open_input_file(file.path) as opened:
        return pq.read_metadata(opened)


def _type(kind: pa.DataType) -> str:
    """A plain type as Spark's JSON calls it; "" for others."""
    if pa.types.is_decimal128(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return _TYPES.get(str(kind), "")
