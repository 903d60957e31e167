"""Reads the files of one commit of a dataset, by their names."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as t

from tidemill.dataset.footers import footers
from tidemill.dataset.partitions import columns_of
from tidemill.declare.names import quote
from tidemill.errors import TableError
from tidemill.stores.parquet.worker import FILE, ROW

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tidemill.dataset.entries import DataFile
    from tidemill.dataset.protocol import State

_SPECIAL = re.compile(r"([*?\[\]{}\\])")


def rows_of(
    spark: SparkSession, root: Path, files: Iterable[DataFile], schema: t.StructType, *, placed: bool = False
) -> DataFrame:
    """The rows of these files; with FILE and ROW, the file and the place in which each stands, where `placed`.

    When a file has gone by the time that it is read, that is Spark's FILE_NOT_EXIST.
    """
    columns = [F.col(quote(name)) for name in schema.names]
    paths = [_literal(f"{root}/{file.path}") for file in files]
    if not paths:
        nothing = spark.createDataFrame([], schema)
        return nothing.withColumns({FILE: F.lit(""), ROW: F.lit(0).cast("long")}) if placed else nothing
    rows = spark.read.schema(schema).option("basePath", str(root)).parquet(*paths)
    if placed:
        columns += [F.col("_metadata.file_path").alias(FILE), F.col("_metadata.row_index").alias(ROW)]
    return rows.select(*columns)  # Spark puts the columns of partitions last


def schema_of(spark: SparkSession, root: Path, state: State) -> t.StructType:
    """The columns of a dataset: as its log says, or, where others wrote files, as these do."""
    if state.entry is not None and state.entry.schema and not state.came:
        return t.StructType.fromJson(json.loads(state.entry.schema))
    found = footers(root, list(state.files.values()))
    for file, footer in zip(state.files.values(), found, strict=True):
        _refuse_nanoseconds(f"{root}/{file.path}", footer.schema, footer.int96)
    alike = all(footer.schema.equals(found[0].schema) for footer in found)
    paths = [_literal(f"{root}/{path}") for path in state.files]
    reader = spark.read.option("basePath", str(root)).option("mergeSchema", str(not alike).lower())
    return _wide_partitions(reader.parquet(*paths).schema, columns_of(state.files, str(root)))


def _wide_partitions(schema: t.StructType, partitions: tuple[str, ...]) -> t.StructType:
    """Spark guesses the types of partitions from their paths; a source may well have the larger numbers."""
    named = {name.lower() for name in partitions}

    def widened(item: t.StructField) -> t.StructField:
        is_guess = item.name.lower() in named and isinstance(item.dataType, t.IntegerType)
        return t.StructField(item.name, t.LongType()) if is_guess else item

    return t.StructType([widened(item) for item in schema.fields])


def _refuse_nanoseconds(path: str, schema: pa.Schema, int96: frozenset[str]) -> None:
    fine = [
        field.name
        for field in schema
        if pa.types.is_timestamp(field.type) and field.type.unit == "ns" and field.name not in int96
    ]
    if fine:
        raise TableError(
            "dataset.nanoseconds",
            f"{path} holds {', '.join(fine)} in nanoseconds, which Spark cannot read.",
            "Write the files with microseconds (pyarrow and pandas: coerce_timestamps='us'). Nothing was changed.",
        )


def _literal(path: str) -> str:
    """Spark would take special characters for a pattern."""
    return _SPECIAL.sub(r"\\\1", path)
