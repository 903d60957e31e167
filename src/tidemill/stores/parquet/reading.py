"""Reads the files of one commit of a dataset, by their names."""

from __future__ import annotations

import contextlib
import json
import re
from datetime import date
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as t

from tidemill.dataset.footers import footers
from tidemill.dataset.partitions import columns_of, values_of
from tidemill.declare.names import quote
from tidemill.errors import TableError
from tidemill.stores.parquet.watching import watch
from tidemill.stores.parquet.worker import FILE, ROW

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tidemill.dataset.entries import DataFile
    from tidemill.dataset.protocol import State

_WHOLE = {"ignoreMissingFiles": "false", "ignoreCorruptFiles": "false"}
_SPECIAL = re.compile(r"([*?\[\]{}\\])")


def rows_of(
    spark: SparkSession, root: Path, files: Iterable[DataFile], schema: t.StructType, *, placed: bool = False
) -> DataFrame:
    """The rows of these files; with FILE and ROW, the file and the place in which each stands, where `placed`.

    When a file has gone by the time that it is read, or cannot be read, that is a `FileError`, whatever the session
    says of such files: rows are never left out.
    """
    columns = [F.col(quote(name)) for name in schema.names]
    paths = [_literal(f"{root}/{file.path}") for file in files]
    if not paths:
        nothing = spark.createDataFrame([], schema)
        return nothing.withColumns({FILE: F.lit(""), ROW: F.lit(0).cast("long")}) if placed else nothing
    watch(root)
    rows = spark.read.schema(schema).options(basePath=str(root), **_WHOLE).parquet(*paths)
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
    unlike = {footer.schema: path for path, footer in zip(state.files, found, strict=True)}
    paths = [_literal(f"{root}/{path}") for path in unlike.values()]
    rows = spark.read.option("mergeSchema", str(len(paths) > 1).lower()).parquet(*paths)
    guessed = [t.StructField(name, _guess(name, state.files)) for name in columns_of(state.files, str(root))]
    named = {item.name.lower() for item in guessed}
    return t.StructType([*(item for item in rows.schema.fields if item.name.lower() not in named), *guessed])


def _guess(name: str, paths: Iterable[str]) -> t.DataType:
    """The type of a partition's values by their texts: whole numbers, days, or texts."""
    texts = {value for path in paths if (value := values_of(path)[name]) is not None}
    for kind, read in ((t.LongType(), int), (t.DateType(), date.fromisoformat)):
        with contextlib.suppress(ValueError):
            if texts and all(read(text) is not None for text in texts):
                return kind
    return t.StringType()


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
