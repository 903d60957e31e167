"""Table formats by name, what each can do, and what Spark needs for it: plain data, for declarations and the engine.

A format that is registered with `tidemill.formats.registry` is known here from then on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from tidemill.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping


class Capability(StrEnum):
    """What not every table format can do."""

    TIME_TRAVEL = "reads and restores older versions"
    ROW_CHANGES = "tells the rows that came and went between two versions, while it keeps their files"
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
class Jar:
    """A released jar: its coordinates, and what its content has to be."""

    organisation: str
    module: str
    version: str
    sha256: str

    @property
    def file(self) -> str:
        return f"{self.module}-{self.version}.jar"


@dataclass(frozen=True, slots=True)
class SparkSupport:
    """What Spark needs to keep tables of a format, and how it says that it could not.

    `title` is what people call it. A session has the format where its `settings` hold these values. An engine of ours
    also gets the `jars`, and on one machine the settings of `local`; `package` is the Python package that goes with
    the jars. `statement_settings` hold wherever a statement of ours runs. A step's session takes over the settings
    whose names begin like one of `carried`, but for those of `not_carried`. `version_query` asks a session of others
    for its version. `training` is a module with a `main(archive)`, which does once what the start-up archive is for.

    Of errors, `conflicts` are the classes and `conflict_conditions` the beginnings of the conditions that say that
    another writer came first; `refusals` are conditions by which a table refuses rows, `lost_files` are texts of one
    that cannot be restored. `reader_options` are the options of its reader, where its tables are sources.
    """

    title: str = ""
    package: str = ""
    jars: tuple[Jar, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    local: Mapping[str, str] = field(default_factory=dict)
    statement_settings: Mapping[str, str] = field(default_factory=dict)
    carried: tuple[str, ...] = ()
    not_carried: tuple[str, ...] = ()
    version_query: str = ""
    training: str = ""
    conflicts: frozenset[str] = frozenset()
    conflict_conditions: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    lost_files: tuple[str, ...] = ()
    reader_options: tuple[str, ...] = ()

    @property
    def version(self) -> str:
        """That of its jars; empty where it needs none."""
        return self.jars[0].version if self.jars else ""

    def __or__(self, other: SparkSupport) -> SparkSupport:
        """What Spark needs for the tables of both."""
        return SparkSupport(
            jars=self.jars + other.jars,
            settings=_joined(self.settings, other.settings),
            local={**self.local, **other.local},
            statement_settings={**self.statement_settings, **other.statement_settings},
            carried=self.carried + other.carried,
            not_carried=self.not_carried + other.not_carried,
            conflicts=self.conflicts | other.conflicts,
            conflict_conditions=self.conflict_conditions + other.conflict_conditions,
            refusals=self.refusals + other.refusals,
            lost_files=self.lost_files + other.lost_files,
        )


LISTS = {"spark.sql.extensions", "spark.jars"}  # settings whose values several may add to


def _joined(one: Mapping[str, str], other: Mapping[str, str]) -> dict[str, str]:
    both = {name: f"{one[name]},{other[name]}" for name in LISTS & one.keys() & other.keys()}
    return {**one, **other, **both}


@dataclass(frozen=True, slots=True)
class FormatTraits:
    """A table format as declarations and the engine know it; `noun` is one table of it.

    Properties with one of these beginnings (`protocol`) are no properties once they are set: its log keeps them
    elsewhere. `for_others` are those of tables that are written for readers of all kinds.
    """

    name: str
    noun: str
    capabilities: frozenset[Capability] = frozenset()
    spark: SparkSupport = field(default=SparkSupport(), compare=False, repr=False)
    protocol: tuple[str, ...] = ()
    for_others: tuple[tuple[str, str], ...] = ()


_DELTA_ON_SPARK = SparkSupport(
    title="Delta",
    package="delta-spark",
    jars=(
        Jar(
            "io.delta",
            "delta-spark_4.1_2.13",
            "4.4.0",
            "75a9400986853c061f5109f012547de2545a5759e5e752e5ef633dabe16a4f10",
        ),
        Jar(
            "io.delta",
            "delta-storage",
            "4.4.0",
            "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc",
        ),
    ),
    settings={
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    },
    local={
        "spark.databricks.delta.snapshotPartitions": "1",  # the default of 50 makes a small read take seconds
        # Delta keeps what it knows of 10,000 tables, some 3 MB each: in a process that lives long, memory fills up.
        "spark.databricks.delta.delta.log.cacheSize": "30",
        # Guards a commit as the default does on local disks, and starts no `readlink` process for every file.
        "spark.delta.logStore.file.impl": "io.delta.storage.LocalLogStore",
    },
    statement_settings={"spark.databricks.delta.history.metricsEnabled": "true"},  # commits count their rows
    carried=("spark.databricks.delta.", "spark.databricks.io."),
    not_carried=("spark.databricks.delta.commitInfo.", "spark.databricks.delta.write.txn"),  # those of one commit
    version_query="SELECT try_reflect('io.delta.package', 'VERSION')",
    training="tidemill.formats.delta.training",
    conflicts=frozenset(
        {
            "ConcurrentAppendException",
            "ConcurrentDeleteDeleteException",
            "ConcurrentDeleteReadException",
            "ConcurrentTransactionException",
            "ConcurrentWriteException",
            "DeltaConcurrentModificationException",
            "MetadataChangedException",
            "ProtocolChangedException",
        }
    ),
    conflict_conditions=("DELTA_CONCURRENT_", "DELTA_METADATA_CHANGED", "DELTA_PROTOCOL_CHANGED"),
    refusals=(
        "DELTA_VIOLATE_CONSTRAINT",
        "DELTA_NOT_NULL_CONSTRAINT_VIOLATED",
        "DELTA_EXCEED_CHAR_VARCHAR_LIMIT",
        "DELTA_CANNOT_MODIFY_APPEND_ONLY",
        "DELTA_UNSUPPORTED_DATA_TYPES",
    ),
    lost_files=("Not all files from version",),  # Delta has no condition for it
    reader_options=(
        *("versionAsOf", "timestampAsOf", "readChangeFeed"),
        *("startingVersion", "startingTimestamp", "endingVersion", "endingTimestamp"),
    ),
)

DELTA = FormatTraits(
    "delta",
    "Delta table",
    frozenset(
        {
            Capability.TIME_TRAVEL,
            Capability.ROW_CHANGES,
            Capability.CLUSTERING,
            Capability.ANCHORS,
            Capability.SMALL_TABLES,
            Capability.READ_BY_PATH,
        }
    ),
    spark=_DELTA_ON_SPARK,
    protocol=("delta.feature.", "delta.minreaderversion", "delta.minwriterversion"),
    for_others=(("delta.enableDeletionVectors", "false"),),  # which some readers do not know
)
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
        }
    ),
    spark=SparkSupport(carried=("spark.sql.parquet.",)),
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


def spark_support() -> SparkSupport:
    """What Spark needs for the tables of all formats that are known now."""
    return reduce(or_, (traits.spark for traits in FORMATS.values()))


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


COLUMN_MAPPING = "delta.columnMapping.mode"  # the table property under which `needs_mapping` names may be used
_NOT_IN_PARQUET = frozenset(" ,;{}()\n\t=")


def needs_mapping(name: str) -> bool:
    """Whether Parquet cannot hold a column of this name, so that Delta must call it by another."""
    return bool(_NOT_IN_PARQUET & set(name))
