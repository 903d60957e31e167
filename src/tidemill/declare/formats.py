"""The formats that tables are kept in, and how Parquet files are compressed."""

from __future__ import annotations

from tidemill.errors import ArgumentError

DELTA, PARQUET = "delta", "parquet"
FORMATS = (DELTA, PARQUET)
OF_WAREHOUSE = ""  # that of a declaration which says nothing of it, until its project is known
COMPRESSION = "parquet.compression"  # the property of a dataset that says how its new files are compressed
CODECS = ("snappy", "zstd", "gzip", "lz4", "none")


def known_format(name: str) -> str:
    if str(name).lower() not in FORMATS:
        raise ArgumentError(
            "table.unknown_format",
            f"{name!r} is not a table format that can be merged into.",
            f"Use one of {', '.join(FORMATS)}.",
        )
    return name.lower()


def known_codec(name: str) -> str:
    if str(name).lower() not in CODECS:
        raise ArgumentError(
            "dataset.unknown_compression",
            f"{name!r} is no compression that datasets are written with.",
            f"Use one of {', '.join(CODECS)}.",
        )
    return name.lower()
