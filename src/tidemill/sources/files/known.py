"""The columns of files, as far as they are known without Spark: by headers, footers and logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import sqlglot
from sqlglot.errors import SqlglotError

from tidemill.formats.delta.log import DeltaLog
from tidemill.sources.files.text import CsvOptions, headers_of, with_tabs

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
    if source.format == "delta":  # options may choose another version
        return None if source.options else tuple(DeltaLog(source.paths[0]).columns())
    found = source.listing
    in_folders = any("=" in part for root, file in found.placed for part in root.parts(file)[:-1])
    if in_folders or not found.files:  # names of folders are columns too
        return None
    match source.format:
        case "csv" | "tsv":
            return _of_text(source, found)
        case "parquet" if source.is_plain and len(found.files) <= _FEW:
            return _of_footers(found)
        case _:
            return None


def _of_text(source: FileSource, found: Listing) -> tuple[str, ...] | None:
    if source.types.schema:
        return _of_ddl(source.types.schema)
    options = dict(source.options)
    headers = headers_of(found, CsvOptions.of(with_tabs(options) if source.format == "tsv" else options))
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


def _together(columns: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """The columns of all files, each once: names are matched without case."""
    found: dict[str, str] = {}
    for names in columns:
        for name in names:
            found.setdefault(name.lower(), name)
    return tuple(found.values())
