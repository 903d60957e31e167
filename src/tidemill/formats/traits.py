"""What a table format says of itself, as plain data: what it can do, and what Spark needs to keep its tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

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
    PLAIN_FILES = "is a folder of files of the type that is called as it is, which any reader of them reads"
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
