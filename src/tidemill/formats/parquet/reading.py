"""Reads the files of one commit of a dataset, by their names.

A frame is lazy: its files may have gone by the time that somebody runs it, in a call in which Tidemill has no
part. PySpark makes Python's errors of Java's in one function. As Delta does for its own errors, it is replaced
here by one that asks first whether the error is about a file of a dataset; all else is left to it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from datetime import date
from functools import reduce
from threading import Lock
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors.exceptions import captured
from pyspark.sql import functions as F
from pyspark.sql import types as t

from tidemill.errors import TableError
from tidemill.formats.parquet.files import (
    columns_of,
    footers,
    gone,
    is_whole_number,
    misread,
    unlike,
    unread,
    values_of,
)
from tidemill.formats.parquet.worker.rewriting import FILE, ROW
from tidemill.model import quote
from tidemill.spark.errors import condition_of, one_line, unread_file
from tidemill.spark.session import SPARK_FAILURES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, SparkSession

    from tidemill.errors import DatasetFileError
    from tidemill.formats.parquet.folder import DataFile
    from tidemill.formats.parquet.protocol import State

_roots: set[str] = set()
_installing = Lock()
_installed: list[Callable[[Any], Exception]] = []


def watch(root: str | Path) -> None:
    """From now on an error about a file under this folder is a `DatasetFileError`, whoever runs the frame."""
    _roots.add(os.path.normpath(root))
    with _installing:
        if not _installed:
            _installed.append(captured.convert_exception)
            captured.convert_exception = _converted  # type: ignore[assignment]


def _converted(throwable: Any) -> Exception:
    return _dataset_error(throwable) or _installed[0](throwable)


def _dataset_error(throwable: Any) -> DatasetFileError | None:
    found = unread_file(throwable)
    if found is None:
        return None
    file, why = found
    root = max((root for root in _roots if file.startswith(f"{root}/")), key=len, default=None)
    return unread(root, file, why) if root else None


_WHOLE = {"ignoreMissingFiles": "false", "ignoreCorruptFiles": "false"}
_UNLIKE = ("CANNOT_MERGE_SCHEMAS", "PARQUET_TYPE", "UNSUPPORTED_TIME_TYPE", "DECIMAL_PRECISION_EXCEEDS_MAX_PRECISION")
_AS_SPARK: dict[t.DataType, t.DataType] = {t.NullType(): t.IntegerType()}  # what it reads as a number in all files
_EVER_WIDER = ((t.ByteType(), t.ShortType(), t.IntegerType(), t.LongType()), (t.FloatType(), t.DoubleType()))
_SPECIAL = re.compile(r"([*?\[\]{}\\])")


def rows_of(
    spark: SparkSession, root: Path, files: Iterable[DataFile], schema: t.StructType, *, placed: bool = False
) -> DataFrame:
    """The rows of these files; with FILE and ROW, the file and the place in which each stands, where `placed`.

    When a file has gone by the time that it is read, or cannot be read, that is a `DatasetFileError`, whatever the
    session says of such files: rows are never left out.
    """
    files = list(files)
    if not files:
        nothing = spark.createDataFrame([], schema)
        return nothing.withColumns({FILE: F.lit(""), ROW: F.lit(0).cast("long")}) if placed else nothing
    watch(root)
    parts = [
        _rows_without(spark, root, group, schema, empty, placed=placed)
        for empty, group in _by_empty_columns(root, files).items()
    ]
    _check_there(root, files)
    return reduce(lambda one, other: one.union(other), parts)


def _rows_without(
    spark: SparkSession,
    root: Path,
    files: Sequence[DataFile],
    schema: t.StructType,
    empty: Collection[str],
    *,
    placed: bool,
) -> DataFrame:
    """The rows of files in which some columns, by their names in lower case, are NULL."""
    paths = [file.path for file in files]
    held = t.StructType([item for item in schema.fields if item.name.lower() not in empty])
    rows = spark.read.schema(held).options(basePath=str(root), **_WHOLE)
    columns = [
        F.lit(None).cast(item.dataType).alias(item.name) if item.name.lower() in empty else _column(item, paths)
        for item in schema.fields
    ]
    if placed:
        columns += [F.col("_metadata.file_path").alias(FILE), F.col("_metadata.row_index").alias(ROW)]
    found = rows.parquet(*[_literal(f"{root}/{path}") for path in paths])
    return found.select(*columns)  # Spark puts the columns of partitions last


def _by_empty_columns(root: Path, files: Sequence[DataFile]) -> dict[frozenset[str], list[DataFile]]:
    """Files by the columns for which they have no type, as all their values are NULL; Spark reads them as numbers."""
    try:
        found = footers(root, files)
    except FileNotFoundError:
        _check_there(root, files)
        raise
    groups: dict[frozenset[str], list[DataFile]] = {}
    for file, footer in zip(files, found, strict=True):
        named = {name.lower() for name in values_of(file.path)}
        groups.setdefault(_empty_columns(footer.schema) - named, []).append(file)
    return groups


def _empty_columns(schema: pa.Schema) -> frozenset[str]:
    return frozenset(item.name.lower() for item in schema if pa.types.is_null(item.type))


def _check_there(root: Path, files: Iterable[DataFile]) -> None:
    """Spark leaves out a file that goes while it lists them. One that is there now was there then."""
    for file in files:
        if not os.path.exists(f"{root}/{file.path}"):  # noqa: PTH110  much faster, and there may be many
            raise gone(str(root), f"{root}/{file.path}")


def _column(item: t.StructField, paths: Sequence[str]) -> Column:
    column = F.col(quote(item.name))
    texts = misread(item.name, paths) if isinstance(item.dataType, t.StringType) else {}
    if not texts:
        return column
    values = F.create_map(*[F.lit(text) for pair in texts.items() for text in pair])
    return F.coalesce(values[column], column).alias(item.name)


def schema_of(spark: SparkSession, root: Path, state: State, logged: str | None) -> t.StructType:
    """The columns of a dataset: as its log says, or, where others wrote files, as these do.

    `logged` are the columns that the log names last. Partitions keep the types that they had.
    """
    known = t.StructType.fromJson(json.loads(logged)) if logged else t.StructType()
    if state.entry is not None and state.entry.schema and not state.came:
        return known
    found = footers(root, list(state.files.values()))
    for file, footer in zip(state.files.values(), found, strict=True):
        _refuse_nanoseconds(f"{root}/{file.path}", footer.schema, footer.int96)
    kinds_of_files = {footer.schema: path for path, footer in zip(state.files, found, strict=True)}
    fields = _fields(spark, root, {path: schema for schema, path in kinds_of_files.items()})
    _check_there(root, state.files.values())
    kinds = {item.name.lower(): item.dataType for item in known.fields}
    guessed = [
        t.StructField(name, _kind(name, state.files, kinds.get(name.lower())))
        for name in columns_of(state.files, str(root))
    ]
    named = {item.name.lower() for item in guessed}
    return t.StructType([*(item for item in fields if item.name.lower() not in named), *guessed])


def _fields(spark: SparkSession, root: Path, schemas: Mapping[str, pa.Schema]) -> list[t.StructField]:
    """The columns of some files, as Spark reads them; numbers of which files have unlike widths, in the widest."""
    paths = [_literal(f"{root}/{path}") for path in schemas]
    try:
        try:
            return _read_as_one(spark, paths)
        except SPARK_FAILURES as failure:
            alone = zip(schemas.values(), paths, strict=True) if _is_unlike(failure) else ()
            if wide := _widened(_typed(_read_as_one(spark, [path]), schema) for schema, path in alone):
                return wide
            raise
    except SPARK_FAILURES as failure:
        if not _is_unlike(failure):
            raise
        raise unlike(str(root), schemas, one_line(failure)) from failure


def _read_as_one(spark: SparkSession, paths: Sequence[str]) -> list[t.StructField]:
    return spark.read.option("mergeSchema", str(len(paths) > 1).lower()).parquet(*paths).schema.fields


def _typed(fields: Iterable[t.StructField], schema: pa.Schema) -> list[t.StructField]:
    """The columns of a file as Spark reads them; those that have no type have none."""
    empty = _empty_columns(schema)
    return [t.StructField(item.name, t.NullType()) if item.name.lower() in empty else item for item in fields]


def _is_unlike(failure: BaseException) -> bool:
    return (condition_of(failure) or "").startswith(_UNLIKE)


def _widened(files: Iterable[Iterable[t.StructField]]) -> list[t.StructField]:
    """The columns of all files; none where a column has types of which neither holds the values of the other."""
    found: dict[str, t.StructField] = {}
    for item in (item for fields in files for item in fields):
        known = found.get(item.name.lower(), item)
        kind = _wider(known.dataType, item.dataType)
        if kind is None:
            return []
        found[item.name.lower()] = t.StructField(known.name, kind)
    return [t.StructField(item.name, _AS_SPARK.get(item.dataType, item.dataType)) for item in found.values()]


def _wider(one: t.DataType, other: t.DataType) -> t.DataType | None:
    if one == other or isinstance(other, t.NullType):
        return one
    if isinstance(one, t.NullType):
        return other
    steps = next((steps for steps in _EVER_WIDER if one in steps and other in steps), None)
    return max(one, other, key=steps.index) if steps else None


def _kind(name: str, paths: Iterable[str], known: t.DataType | None) -> t.DataType:
    """The type of a partition's values: the one that it had, or by their texts whole numbers, days, or texts."""
    texts = {value for path in paths if (value := values_of(path)[name]) is not None}
    if known is not None and all(_may_be(known, text) for text in texts):
        return known
    guesses = (t.LongType(), t.DateType()) if texts else ()
    return next((kind for kind in guesses if all(_may_be(kind, text) for text in texts)), t.StringType())


def _may_be(kind: t.DataType, text: str) -> bool:
    match kind:
        case t.IntegralType():
            return is_whole_number(text)
        case t.DateType():
            return is_date(text)
        case _:
            return True


def is_date(text: str) -> bool:
    """Whether a partition's value is a day, in the one spelling that Spark gives it."""
    with contextlib.suppress(ValueError):
        return str(date.fromisoformat(text)) == text
    return False


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
    """Spark would read special characters as a pattern."""
    return _SPECIAL.sub(r"\\\1", path)
