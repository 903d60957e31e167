"""Table formats by name, what each can do, and what Spark needs for it: plain data, for declarations and the engine.

This much of the room stands below all others, and imports nothing but data. A format that is registered with
`tidemill.formats.registry` is known here from then on. What only tables of one format have goes by its own words, so
that nobody else names the format.
"""

from functools import reduce
from operator import or_

from tidemill.errors import ArgumentError
from tidemill.formats.delta import COLUMN_MAPPING, DELTA, needs_mapping
from tidemill.formats.parquet import COMPRESSION, PARQUET, known_codec
from tidemill.formats.traits import Capability, FormatTraits, SparkSupport

__all__ = [
    "COLUMN_MAPPING",
    "COMPRESSION",
    "DATASET_FORMAT",
    "DEFAULT_FORMAT",
    "DELTA",
    "FORMATS",
    "PARQUET",
    "TEMPORARY_FORMAT",
    "Capability",
    "can",
    "formats_that",
    "known_codec",
    "known_format",
    "needs_mapping",
    "spark_support",
]

DEFAULT_FORMAT = DELTA.name
DATASET_FORMAT = PARQUET.name  # of folders that are datasets by the word of who calls
TEMPORARY_FORMAT = PARQUET.name  # of tables that Spark keeps for the length of a run
FORMATS: dict[str, FormatTraits] = {traits.name: traits for traits in (DELTA, PARQUET)}


def known_format(name: str) -> str:
    if str(name).lower() not in FORMATS:
        raise ArgumentError(
            "table.unknown_format",
            f"{name!r} is not a table format that can be merged into.",
            f"Use one of {', '.join(FORMATS)}.",
        )
    return name.lower()


def can(name: str, capability: Capability) -> bool:
    """Whether tables of a format have a capability; one that is declared without a format has the default one."""
    return capability in FORMATS[name or DEFAULT_FORMAT].capabilities


def formats_that(capability: Capability) -> list[str]:
    """The names of the formats with a capability."""
    return [name for name, traits in FORMATS.items() if capability in traits.capabilities]


def spark_support() -> SparkSupport:
    """What Spark needs for the tables of all formats that are known now."""
    return reduce(or_, (traits.spark for traits in FORMATS.values()))
