"""The schema that Spark wrote into Parquet files, read without it: asking Spark for it is a job."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyarrow import fs
    from pyspark.sql.types import StructType

    from tidemill.sources.files.listing import Listing

_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
_FEW = 32  # footers that are read here sooner than by a job


def written_schema(found: Listing) -> StructType | None:
    """The schema of all these files, if Spark wrote the same into each; columns of folders (`day=1/`) are not in it."""
    from pyspark.sql.types import StructType  # noqa: PLC0415  slow to import

    in_folders = any("=" in part for root, file in found.placed for part in root.parts(file)[:-1])
    if in_folders or len(found.files) > _FEW:
        return None
    texts = {_written(root.files, file.path) for root, file in found.placed}
    text = texts.pop() if len(texts) == 1 else None
    try:
        return StructType.fromJson(json.loads(text)) if text else None
    except (ValueError, KeyError, TypeError):  # of a Spark that knows other types
        return None


def _written(files: fs.FileSystem, path: str) -> bytes | None:
    try:
        with files.open_input_file(path) as file:
            return (pq.read_metadata(file).metadata or {}).get(_SCHEMA)
    except (OSError, pa.ArrowException):  # Spark will tell what is wrong with it
        return None
