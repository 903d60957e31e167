"""What files say of their columns without Spark: by headers, footers and logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import sqlglot
from sqlglot.errors import SqlglotError

from tidemill.formats.registry import format_named
from tidemill.sources.files.text import CsvOptions, headers_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyarrow import fs

    from tidemill.sources.files.listing import Listing
    from tidemill.sources.files.source import FileSource

_FEW = 1000  # footers; more take longer to read than a plan should


def known_columns(source: FileSource) -> tuple[str, ...] | None:
    """The names of the columns that reading the source gives; None where only Spark can tell."""
    if source.columns:
        return source.columns
    if source.is_table:  # options may choose another version
        return None if source.options else tuple(format_named(source.format).log(source.paths[0]).columns())
    found = source.listing
    if found.in_partitions or not found.files:
        return None
    if source.has_header:
        return _of_text(source, found)
    return _of_footers(found) if source.is_plain and len(found.files) <= _FEW else None


def _of_text(source: FileSource, found: Listing) -> tuple[str, ...] | None:
    if source.types.schema:
        return _of_ddl(source.types.schema)
    headers = headers_of(found, CsvOptions.of(source.read_options))
    return None if headers is None else _together(headers)


def _of_ddl(schema: str) -> tuple[str, ...] | None:
    """The columns of a schema as Spark writes it: "id INT, at TIMESTAMP"."""
    try:
        tree = sqlglot.parse_one(f"CREATE TABLE t ({schema})", dialect="spark")
    except SqlglotError:
        return None
    return tuple(column.name for column in tree.this.expressions)


def _of_footers(found: Listing) -> tuple[str, ...] | None:
    try:
        return _together(_footer(root.files, file.path) for root, file in found.placed)
    except (OSError, pa.ArrowException):  # Spark says what is wrong with a file that cannot be read
        return None


def _footer(files: fs.FileSystem, path: str) -> Sequence[str]:
    with files.open_input_file(path) as file:
        names: list[str] = pq.read_schema(file).names
        return names


_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
_FEW_SCHEMAS = 32  # footers that are read here sooner than by a job


def written_schema(found: Listing) -> str | None:
    """The schema in Spark's JSON, if Spark wrote the same into the footers of all these files."""
    if found.in_partitions or len(found.files) > _FEW_SCHEMAS:
        return None
    texts = {_written(root.files, file.path) for root, file in found.placed}
    text = texts.pop() if len(texts) == 1 else None
    return text.decode() if text else None


def _written(files: fs.FileSystem, path: str) -> bytes | None:
    try:
        with files.open_input_file(path) as file:
            return (pq.read_metadata(file).metadata or {}).get(_SCHEMA)
    except (OSError, pa.ArrowException):  # Spark will tell what is wrong with it
        return None


def _together(columns: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """The columns of all files, each once: names are matched without case."""
    found: dict[str, str] = {}
    for names in columns:
        for name in names:
            found.setdefault(name.lower(), name)
    return tuple(found.values())
