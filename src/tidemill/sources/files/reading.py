"""Reads files with Spark, whatever their kind."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import StructType

from tidemill.errors import ConnectorError
from tidemill.formats.parquet.protocol import finish_interrupted
from tidemill.formats.registry import store_at
from tidemill.sources.exact import with_held_times
from tidemill.sources.files.nanoseconds import fine_columns, read_by_arrow
from tidemill.sources.files.text import by_header, files_are_documents, lines_are_records, may_hold_codes, with_tabs
from tidemill.sources.files.untyped import empty, read_csv, read_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from tidemill.sources.files.listing import Listing
    from tidemill.sources.files.source import FileSource
    from tidemill.sources.protocol import Reading

_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
_FEW = 32  # footers that are read here sooner than by a job


def fine_columns_of(found: Listing) -> list[str]:
    """The columns of Parquet files that hold nanoseconds, by the footers of the first files."""
    return fine_columns(_footers(found))


def _footers(found: Listing) -> list[pq.FileMetaData]:
    """Those of the first files; Spark will tell what is wrong with one that cannot be read."""
    footers = []
    for root, file in found.placed[:_FEW]:
        with suppress(OSError, pa.ArrowException), root.files.open_input_file(file.path) as opened:
            footers.append(pq.read_metadata(opened))
    return footers


def _written_schema(found: Listing, footers: Sequence[pq.FileMetaData]) -> StructType | None:
    """The schema of all these files, if Spark wrote the same into each; columns of folders (`day=1/`) are not in it."""
    in_folders = any("=" in part for root, file in found.placed for part in root.parts(file)[:-1])
    if in_folders or len(found.files) != len(footers):
        return None
    texts = {(footer.metadata or {}).get(_SCHEMA) for footer in footers}
    text = texts.pop() if len(texts) == 1 else None
    try:
        return StructType.fromJson(json.loads(text)) if text else None
    except (ValueError, KeyError, TypeError):  # of a Spark that knows other types
        return None


def read_files(source: FileSource, reading: Reading) -> DataFrame:
    """All rows of the files that are there now."""
    found = source.listed_now
    if source.format == "delta":
        return reading.spark.read.format("delta").options(**source.options).load(source.paths[0])
    if not found.files:
        return _no_rows(source, reading)
    if source.is_kept:
        return with_held_times(store_at(source.paths[0]).read(reading.spark), reading.like)
    for path in source.paths:
        finish_interrupted(path)
    found.check()
    options = ({"recursiveFileLookup": "true"} if found.nested else {}) | dict(source.options)
    match source.format:
        case "csv":
            return _read_csv(source, reading, found, options)
        case "tsv":
            return _read_csv(source, reading, found, with_tabs(options))
        case "json":
            options = ({"multiLine": "true"} if files_are_documents(found, options) else {}) | options
            return read_json(reading, found.for_spark(), options, source.types)
        case columnar:
            footers = _footers(found) if columnar == "parquet" else []
            if fine := fine_columns(footers):
                return read_by_arrow(source, found, reading, fine)
            # Spark would take the columns of any one file for those of all.
            options = ({"mergeSchema": "true"} if len(found.files) > 1 else {}) | options
            reader = reading.spark.read.format(columnar).options(**options)
            schema = _written_schema(found, footers) if source.is_plain else None
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
