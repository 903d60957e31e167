"""How the files of a dataset are compressed. Sent to Spark's workers by value."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow.parquet as pq

USUAL = "snappy"


def codec_of(file: pq.FileMetaData) -> str:
    """The compression that a file has, by the name under which Arrow writes it."""
    if not file.num_row_groups or not file.num_columns:
        return USUAL
    group = file.row_group(0)
    found = {group.column(number).compression.lower() for number in range(group.num_columns)}
    kept = str(next(iter(found - {"uncompressed"}), "none"))
    return {"lzo": USUAL, "lz4_raw": "lz4"}.get(kept, kept)
