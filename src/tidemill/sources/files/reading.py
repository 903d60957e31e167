"""Reads files with Spark: text without loss, types that the file itself does not say, and all that a folder holds."""

from __future__ import annotations

import json
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql.types import (
    ArrayType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tidemill.errors import ConnectorError
from tidemill.formats.registry import finish_interrupted, store_at
from tidemill.model import quote, spelled
from tidemill.sources import find_column
from tidemill.sources.exact import as_texts, columns_misread, exactly, may_hold_codes, with_held_times
from tidemill.sources.files.text import REMEDY, by_header, files_are_documents, lines_are_records
from tidemill.spark.session import settle

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame, DataFrameReader
    from pyspark.sql.types import DataType

    from tidemill.sources import Reading
    from tidemill.sources.files import FileSource
    from tidemill.sources.files.footers import Footers
    from tidemill.sources.files.listing import Listing
    from tidemill.sources.files.text import Alike, Types


# A text that looks like this is a moment; Spark's own guess would take the text "12345" for a year.
_ISO = "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS][XXX]"
_CSV = {"header": "true", "mode": "FAILFAST", "enforceSchema": "false", "escape": '"'}
_JSON = {"mode": "FAILFAST"}
_FIRST = 1000
_CORRUPT = "_corrupt_record"  # the column that Spark makes for what it cannot read
_LADDERS = (("integer", "long", "decimal", "double"), ("date", "timestamp"))


def read_csv(
    reading: Reading,
    groups: Sequence[Alike],
    options: Mapping[str, str],
    types: Types,
    has_codes: Callable[[], bool],
) -> DataFrame:
    """All rows; one that does not fit the types is an error. Files of one group have the same columns.

    A column that a file does not have is NULL in its rows. `has_codes`: whether digits may be there that are no number.
    """
    options = _defaults(_CSV, options)
    whole = _whole(types)
    if whole:
        return _csv(reading, [path for group in groups for path in group.paths], options, whole)
    found = [_csv_schema(reading, group, options, types, has_codes) for group in groups]
    for name in types.some:
        find_column(name, [column for schema in found for column in schema.fieldNames()], types.source)
    common = _with_given(types, _with_types(common_types(found), reading.like))
    pairs = zip(found, groups, strict=True)
    frames = [_csv(reading, group.paths, options, _with_types(schema, common)) for schema, group in pairs]
    return reduce(lambda rows, more: rows.unionByName(more, allowMissingColumns=True), frames)


def _csv(reading: Reading, paths: Sequence[str], options: Mapping[str, str], schema: StructType) -> DataFrame:
    read = as_texts(schema, options, DecimalType, DateType, TimestampType)
    return exactly(reading.spark.read.options(**options).schema(read).csv([*paths]), schema)


def read_json(reading: Reading, paths: Sequence[str], options: Mapping[str, str], types: Types) -> DataFrame:
    """All rows; one that does not fit the types is an error. A field that a row does not have is NULL."""
    schema = _whole(types) or json_schema(reading, paths, options, types)
    options = _defaults(_JSON, options)
    read = as_texts(schema, options, DecimalType, DateType, TimestampType)
    return exactly(reading.spark.read.options(**options).schema(read).json([*paths]), schema)


def json_schema(reading: Reading, paths: Sequence[str], options: Mapping[str, str], types: Types) -> StructType:
    """The fields of all rows; those that the table has are there and have its types, also when no row has them."""
    inferring = reading.spark.read.options(**_defaults({"inferTimestamp": "true", "timestampFormat": _ISO}, options))
    found = _infer_json(inferring, paths)
    if _CORRUPT in found.fieldNames():
        raise ConnectorError("source.not_json_lines", f"{', '.join(paths)} has lines that are no JSON object.", REMEDY)
    found = _with_given(types, _with_all(_all_of(found, reading.like) if reading.like else found, _given(types)))
    if not found.fields:
        raise ConnectorError(
            "source.no_columns",
            "There are no rows yet, so its columns are not known.",
            'Give them in its params: "schema": "id BIGINT, updated_at TIMESTAMP".',
        )
    return found


def _infer_json(inferring: DataFrameReader, paths: Sequence[str]) -> StructType:
    try:
        return inferring.json([*paths]).schema
    except AnalysisException as failure:
        if failure.getCondition() != "COLUMN_ALREADY_EXISTS":
            raise
        name = (failure.getMessageParameters() or {}).get("columnName", "a field")
        raise ConnectorError(
            "source.duplicate_columns",
            f"{', '.join(paths)} has the field {name.strip('`')} twice, perhaps in another case.",
            "Rename one of them; names are matched without case.",
        ) from failure


def kept(rows: DataFrame) -> DataFrame:
    """The same rows, on disk beside the executors until nobody refers to the frame any more."""
    return settle(rows)


def empty(reading: Reading, types: Types) -> DataFrame | None:
    """No rows, where the columns are known all the same."""
    schema = _whole(types) or reading.like
    return None if schema is None else reading.spark.createDataFrame([], schema)


def _csv_schema(
    reading: Reading, alike: Alike, options: Mapping[str, str], types: Types, has_codes: Callable[[], bool]
) -> StructType:
    """Inferring reads every row, and is done only for columns whose type is not known."""
    known = [*(reading.like.fieldNames() if reading.like else ()), *types.some]
    if alike.columns and all(spelled(name, known) for name in alike.columns):
        return _ddl(", ".join(f"{quote(name)} STRING" for name in alike.columns))
    by_header = {name: value for name, value in options.items() if name.lower() != "inferschema"}
    paths = alike.paths
    found = reading.spark.read.options(**by_header).csv([*paths]).schema
    if not all(spelled(name, known) for name in found.fieldNames()):
        inferring = reading.spark.read.options(**_defaults({"inferSchema": "true"}, options))
        found = _without_codes(reading, paths, options, _with_room(inferring.csv([*paths]).schema), codes=has_codes())
    return found


def _without_codes(
    reading: Reading, paths: Sequence[str], options: Mapping[str, str], found: StructType, *, codes: bool
) -> StructType:
    """Times of a day are texts: as moments they would be of the day of the run. So are codes of digits, such as 00123.

    A time that is not among the first rows is an error later; a code would lose its zeros, so all rows are looked at.
    """
    kinds = (TimestampType, LongType, DecimalType, DoubleType) if codes else (TimestampType,)
    read = as_texts(found, options, *kinds)
    looked_at = [quote(f.name) for f, text in zip(found.fields, read.fields, strict=True) if f != text]
    if not looked_at:
        return found
    texts = reading.spark.read.options(**options).schema(read).csv([*paths]).select(*looked_at)
    kept = columns_misread(texts if codes else texts.limit(_FIRST), found)
    return StructType([StructField(f.name, StringType()) if f.name in kept else f for f in found.fields])


def _with_room(found: StructType) -> StructType:
    """Numbers of the first rows may be small; those of JSON, Arrow and pandas are BIGINT too."""
    kinds = [LongType() if isinstance(f.dataType, IntegerType) else f.dataType for f in found.fields]
    return StructType([StructField(f.name, kind) for f, kind in zip(found.fields, kinds, strict=True)])


def common_types(found: Sequence[StructType]) -> StructType:
    """Each column once, with a type that holds what all of them hold."""
    columns: dict[str, StructField] = {}
    for each in [column for schema in found for column in schema.fields]:
        known = columns.setdefault(each.name.lower(), each)
        columns[each.name.lower()] = StructField(known.name, _wider(known.dataType, each.dataType))
    return StructType([*columns.values()])


def _wider(one: DataType, other: DataType) -> DataType:
    if one == other:
        return one
    for ladder in _LADDERS:
        kinds = [kind.typeName() for kind in (one, other)]
        if set(kinds) <= set(ladder):
            return max((one, other), key=lambda kind: (ladder.index(kind.typeName()), getattr(kind, "precision", 0)))
    return StringType()


def _with_types(found: StructType, like: StructType | None) -> StructType:
    known = {each.name.lower(): each.dataType for each in like.fields} if like else {}
    return StructType([StructField(f.name, known.get(f.name.lower(), f.dataType)) for f in found.fields])


def _with_all(found: StructType, like: StructType | None) -> StructType:
    names = found.fieldNames()
    return StructType([*found.fields, *(f for f in (like.fields if like else ()) if not spelled(f.name, names))])


def _all_of(found: StructType, like: StructType) -> StructType:
    """All fields, with the types that are known; those that only the rows have are there inside of columns too."""
    known = {each.name.lower(): each.dataType for each in like.fields}
    fields = [StructField(f.name, _inside(f.dataType, known.get(f.name.lower()))) for f in found.fields]
    return _with_all(StructType(fields), like)


def _inside(found: DataType, known: DataType | None) -> DataType:
    match found, known:
        case StructType(), StructType():
            return _all_of(found, known)
        case ArrayType(), ArrayType():
            return ArrayType(_inside(found.elementType, known.elementType))
        case _:
            return found if known is None else known


def _whole(types: Types) -> StructType | None:
    return _ddl(types.schema) if types.schema else None


def _with_given(types: Types, found: StructType) -> StructType:
    return _with_types(found, _given(types))


def _given(types: Types) -> StructType:
    return _ddl(", ".join(f"{quote(name)} {kind}" for name, kind in types.some.items()))


def _ddl(text: str) -> StructType:
    found = StructType.fromDDL(text) if text else StructType()
    assert isinstance(found, StructType)  # noqa: S101  columns with their types are one
    return found


def _defaults(defaults: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Options count without case."""
    return {name: value for name, value in defaults.items() if _option(name, given) is None} | dict(given)


def _option(name: str, options: Mapping[str, str]) -> str | None:
    return next((value for key, value in options.items() if key.lower() == name.lower()), None)


def _schema_of(footers: Footers) -> StructType | None:
    """The schema of all these files, if Spark wrote the same into each."""
    text = footers.written_schema()
    try:
        return StructType.fromJson(json.loads(text)) if text else None
    except (ValueError, KeyError, TypeError):  # of a Spark that knows other types
        return None


def read_files(source: FileSource, reading: Reading) -> DataFrame:
    """All rows of the files that are there now."""
    found = source.listed_now
    if source.is_table:
        return reading.spark.read.format(source.reader).options(**source.options).load(source.paths[0])
    if not found.files:
        return _no_rows(source, reading)
    if source.is_kept:
        return with_held_times(store_at(source.paths[0]).read(reading.spark), reading.like)
    for path in source.paths:
        finish_interrupted(path)
    found.check()
    options = ({"recursiveFileLookup": "true"} if found.nested else {}) | source.read_options
    match source.reader:
        case "csv":
            return _read_csv(source, reading, found, options)
        case "json":
            options = ({"multiLine": "true"} if files_are_documents(found, options) else {}) | options
            return read_json(reading, found.for_spark(), options, source.types)
        case columnar:
            footers = source.footers_of(found)
            if footers and (fine := footers.fine_columns()):
                from tidemill.sources.frames import read_by_arrow  # noqa: PLC0415  few files hold them

                return read_by_arrow(source, found, reading, fine)
            # Spark would take the columns of any one file for those of all.
            options = ({"mergeSchema": "true"} if len(found.files) > 1 else {}) | options
            reader = reading.spark.read.format(columnar).options(**options)
            schema = _schema_of(footers) if footers and source.is_plain else None
            return with_held_times((reader.schema(schema) if schema else reader).load(found.for_spark()), reading.like)


def _read_csv(source: FileSource, reading: Reading, found: Listing, given: dict[str, str]) -> DataFrame:
    options = ({} if lines_are_records(found, given) else {"multiLine": "true"}) | given
    groups = by_header(found, given)
    base = {"basePath": found.base} if found.base and len(groups) > 1 and not found.nested else {}
    return read_csv(reading, groups, base | options, source.types, has_codes=lambda: may_hold_codes(found, given))


def _no_rows(source: FileSource, reading: Reading) -> DataFrame:
    rows = empty(reading, source.types)
    if rows is None:
        raise ConnectorError(
            "source.no_columns",
            f"The source {source} has no files yet, so its columns are not known.",
            "Put the first file there, or give the columns in its params (schema).",
        )
    return rows
