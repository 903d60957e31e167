"""Parquet datasets. Here is what they can do; `format.py` is the way in to how."""

from tidemill.errors import ArgumentError
from tidemill.formats.traits import Capability, FormatTraits, SparkSupport

PARQUET = FormatTraits(
    "parquet",
    "Parquet dataset",
    frozenset(
        {
            Capability.ROW_CHANGES,
            Capability.ROWS_BY_PLACE,
            Capability.MATCHING,
            Capability.REHEARSAL,
            Capability.RECOVERY,
            Capability.COMPRESSION,
            Capability.PARTITION_VALUES,
            Capability.PLAIN_FILES,
        }
    ),
    spark=SparkSupport(carried=("spark.sql.parquet.",)),
)

COMPRESSION = "parquet.compression"  # the property of a dataset that says how its new files are compressed
CODECS = ("snappy", "zstd", "gzip", "lz4", "none")


def known_codec(name: str) -> str:
    if str(name).lower() not in CODECS:
        raise ArgumentError(
            "dataset.unknown_compression",
            f"{name!r} is no compression that datasets are written with.",
            f"Use one of {', '.join(CODECS)}.",
        )
    return name.lower()
