"""Parquet files with moments in nanoseconds: pandas before version 3 writes them, and Spark does not read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from tidemill.errors import ArgumentError
from tidemill.sources.frames import FrameSource, as_files_hold

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidemill.sources.files.listing import Listing
    from tidemill.sources.files.source import FileSource
    from tidemill.sources.protocol import Reading

_REMEDY = "Write the files with microseconds (pyarrow and pandas: coerce_timestamps='us')."


def read_by_arrow(source: FileSource, found: Listing, reading: Reading, fine: list[str]) -> DataFrame:
    """All rows, with the types of the same frame in memory; one that is no whole microsecond is an error."""
    if found.in_partitions or source.options or source.settled:
        raise _refused(
            source,
            f"holds {', '.join(fine)} in nanoseconds, which Spark cannot read, and large sources, options of readers "
            "and folders of partitions need Spark.",
        )
    try:
        tables = [pq.read_table(file.path, filesystem=root.files, partitioning=None) for root, file in found.placed]
        rows = as_files_hold(pa.concat_tables(tables, promote_options="permissive"))
    except (pa.ArrowException, ValueError) as failure:
        raise _refused(source, f"cannot be read: {'; '.join(map(str, failure.args))}.") from failure
    return FrameSource(rows).read(reading)


def _refused(source: FileSource, problem: str) -> ArgumentError:
    return ArgumentError("source.nanoseconds", f"{source} {problem}", _REMEDY)
