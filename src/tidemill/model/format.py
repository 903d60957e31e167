"""Table formats by name, and what each can do: all that a declaration has to know of one.

A format that is registered with `tidemill.formats.registry` is known here from then on.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tidemill.errors import ArgumentError


class Capability(StrEnum):
    """What not every table format can do."""

    TIME_TRAVEL = "reads and restores older versions"
    CLUSTERING = "lays files out by columns that can be changed"
    ANCHORS = "cleans its log up, so that the last record is copied into a property"
    SMALL_TABLES = "hands over and takes small tables, and small parts of tables, in memory"
    ROWS_BY_PLACE = "knows rows by their file and place, and drops them by it"
    MATCHING = "matches a small change by itself, while it is staged"
    REHEARSAL = "counts what a commit would do to files, and writes nothing"
    RECOVERY = "finishes interrupted commits, and clears what never came to one"
    COMPRESSION = "takes the compression of its files as a property"
    PARTITION_VALUES = "checks the values of its partitions where they are written"
    READ_BY_PATH = "is read by queries at its path, and known to catalogs by name"


@dataclass(frozen=True, slots=True)
class FormatTraits:
    """A table format as declarations know it; `noun` is one table of it.

    Properties with one of these beginnings (`protocol`) are no properties once they are set: its log keeps them
    elsewhere. `for_others` are those of tables that are written for readers of all kinds.
    """

    name: str
    noun: str
    capabilities: frozenset[Capability] = frozenset()
    protocol: tuple[str, ...] = ()
    for_others: tuple[tuple[str, str], ...] = ()


DELTA = FormatTraits(
    "delta",
    "Delta table",
    frozenset(
        {
            Capability.TIME_TRAVEL,
            Capability.CLUSTERING,
            Capability.ANCHORS,
            Capability.SMALL_TABLES,
            Capability.READ_BY_PATH,
        }
    ),
    protocol=("delta.feature.", "delta.minreaderversion", "delta.minwriterversion"),
    for_others=(("delta.enableDeletionVectors", "false"),),  # which some readers do not know
)
PARQUET = FormatTraits(
    "parquet",
    "Parquet dataset",
    frozenset(
        {
            Capability.ROWS_BY_PLACE,
            Capability.MATCHING,
            Capability.REHEARSAL,
            Capability.RECOVERY,
            Capability.COMPRESSION,
            Capability.PARTITION_VALUES,
        }
    ),
)
DEFAULT_FORMAT = DELTA.name
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
