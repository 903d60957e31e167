"""The port behind which table formats are: a format, the log of a table, and the store that reads and writes it.

A format is one class that is registered. Whatever lies outside of this room asks for its capabilities, never for its
name. ADR 21 says why.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from tidemill.errors import ArgumentError, TidemillError
from tidemill.formats import FORMATS, formats_that
from tidemill.formats.base import Requirements
from tidemill.formats.traits import Capability, FormatTraits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime, timedelta

    import pyarrow as pa
    from pyarrow import fs
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from tidemill.errors import Origin
    from tidemill.formats.base import (
        CommitResult,
        Compacted,
        Finished,
        KeyRange,
        MatchResult,
        MatchRows,
        OnSpark,
        Operation,
        Reach,
        Staged,
        Vacuumed,
        VacuumRequest,
        Whole,
    )
    from tidemill.model.cursor import Cursor
    from tidemill.model.record import Commit, Described, Record, Snapshot


WEIGHT = "__w"  # of a row: +1 where it came, -1 where it went


class RowsBy(StrEnum):
    """What the rows that came and went are read from."""

    FEED = "change data feed"
    FILES = "file actions"
    VERSIONS = "both versions"


@dataclass(frozen=True, slots=True)
class InputChanges:
    """What a table's log knows about the rows that came and went after version `since`, until version `until`.

    `how` they can be read; where that is None, `refusal` says why not, in words that follow "TABLE: ". At most
    `added` rows came and `removed` went, and `size` bytes of files are read for them, where the log tells. `commits`
    are the versions in which rows may have changed. `gone`: it is refused because commits or files are no longer kept.
    `unreadable` is why all rows of version `since` cannot be read any more, though those that came and went can.
    """

    since: int
    until: int
    how: RowsBy | None = None
    refusal: str | None = None
    added: int | None = None
    removed: int | None = None
    size: int | None = None
    commits: tuple[int, ...] = ()
    gone: bool = False
    unreadable: str | None = None


@dataclass(frozen=True, slots=True)
class HistoryEnd:
    """From `at` on something may be removed that says what has changed in a table; `setting` keeps it for `kept`."""

    at: datetime
    kept: timedelta
    setting: str


class TableLog(Protocol):
    """What is known of a table without Spark, by its log. Another reader may take the place of one that reads files."""

    path: str

    def exists(self) -> bool:
        """Whether a table is at its path; anything else that is there is an error."""

    def snapshot(self) -> Snapshot | None:
        """The table as it is now, or None when there is none. Only the log says "first run"."""

    def version(self) -> int:
        """The number of the last commit."""

    def identity(self) -> str:
        """Differs whenever the table has another commit, or another table is at its path."""

    def commits(self, limit: int | None = None) -> Iterator[Commit]:
        """The commits that the log still holds, newest first."""

    def commit(self, version: int) -> Commit | None:
        """One commit, or None when it is not there, or no longer."""

    def described(self) -> Described:
        """What the table says of itself."""

    def columns(self) -> list[str]:
        """The names of its columns."""

    def column_types(self) -> dict[str, str]:
        """The types of its plain columns, as Spark's JSON calls them, by name in lower case."""

    def reach(self, ranges: Sequence[KeyRange]) -> Reach:
        """How much of the table may hold a row within all ranges."""

    def times(self, column: str) -> tuple[Cursor, Cursor] | None:
        """The lowest and highest value of a column, where the log tells; rows that were deleted may count."""

    def changes_since(
        self,
        version: int,
        until: int | None = None,
        *,
        columns: Sequence[str] | None = None,
        content: str | None = None,
    ) -> InputChanges:
        """What is known of the rows that came and went after a version, until another or the last one.

        With ROW_CHANGES `Store.row_changes` gives these rows, unless this has a reason why not: that other `columns` of
        these, or any, are not what they were, or that the table held other `content` then, as `content_of` says it.
        """
        del columns, content
        last = self.version() if until is None else until
        return InputChanges(version, last, refusal="a table of its format does not tell which rows came and went")

    def history_end(self, version: int, now: datetime) -> HistoryEnd | None:
        """What may be removed first of what `changes_since` needs, where its last quarter of time has begun."""
        del version, now
        return None

    def some_rows(self, limit: int) -> pa.Table | None:
        """A few rows of the last commit; None where only Spark can read the table."""
        del limit
        return None


class Store(Protocol):
    """The table at one path, on Spark. A change is staged, and then committed with its record.

    What is implemented here suits a format without the capability that it is about.
    """

    path: str

    @property
    def log(self) -> TableLog:
        """The log of the table."""

    @property
    def traits(self) -> FormatTraits:
        """The format of the table."""

    def can(self, capability: Capability) -> bool:
        return capability in self.traits.capabilities

    # the table as it is

    def snapshot(self) -> Snapshot | None:
        """The table as it is now, or None when there is none; what is staged is staged on it."""
        return self.log.snapshot()

    def commits(self, limit: int | None = None) -> Iterator[Commit]:
        """The commits that the log still holds, newest first."""
        return self.log.commits(limit)

    def read(self, spark: SparkSession, version: int | None = None) -> DataFrame:
        """The rows of the last commit, or of the one given: of an older one with TIME_TRAVEL only."""

    def row_changes(self, spark: SparkSession, since: int, until: int, columns: Sequence[str]) -> DataFrame:
        """With ROW_CHANGES: these columns of rows that came (WEIGHT 1) and went (-1) between two versions.

        As bags they add up to the difference of the versions, and need not be its shortest form. A column that was
        added between is NULL in rows of before. The rows can be read until the store is closed.
        """
        del spark, since, until, columns
        raise cannot(self.traits, self.path, "asked which rows came and went")

    def schema(self, spark: SparkSession) -> StructType:
        """The columns of the table."""
        return self.read(spark).schema

    def count(self, spark: SparkSession) -> int:
        """How many rows there are."""
        return self.read(spark).count()

    def in_memory(self, snapshot: Snapshot, ranges: Sequence[KeyRange] = ()) -> Whole | None:
        """A small table, or the little that it holds within ranges; None where Spark is needed."""
        del snapshot, ranges
        return None

    def near(self, spark: SparkSession) -> Callable[[Sequence[KeyRange]], DataFrame] | None:
        """Gives the rows, with their PLACE, of files that may hold one within ranges; None without ROWS_BY_PLACE."""
        del spark
        return None

    def register(self, spark: SparkSession, name: str) -> None:
        """Gives a name, quoted already, to the table in the catalog of the session."""
        del spark
        raise cannot(self.traits, self.path, f"named {name} in Spark's catalog")

    def is_named(self, spark: SparkSession, name: str) -> bool:
        """Whether a name that the catalog has, quoted already, is no more than a name for the table."""
        del spark, name
        return False

    def refresh(self, spark: SparkSession, name: str) -> None:
        """The name stands for what is at the path now."""
        del spark, name

    # changes

    def attempt(self, number: int) -> AbstractContextManager[None]:
        """One attempt at a step of the table, from 0."""
        del number
        return nullcontext()

    def check_writer(self, spark: SparkSession) -> None:
        """An error where another writer could overwrite our commits, unless the user promises that there is none."""
        del spark

    def stage(self, spark: SparkSession, operation: Operation, snapshot: Snapshot | None, *, rows: int = 0) -> Staged:
        """The operation, ready to be committed on this snapshot; without one, the commit makes the table.

        `rows` is about how many rows come, where that is known.
        """

    def match(self, change: MatchRows, snapshot: Snapshot) -> MatchResult | None:
        """A small change, matched with the rows that it meets and staged; None where Spark has to match it."""
        del change, snapshot
        return None

    def commit(
        self, spark: SparkSession, operation: Operation, record: Record, snapshot: Snapshot | None
    ) -> CommitResult:
        """The operation, staged on the snapshot and committed with its record; `Conflict` if somebody came first."""
        return self.stage(spark, operation, snapshot, rows=record.rows).commit(record, Requirements.of(snapshot))

    def rehearse(self, operation: Operation, record: Record, snapshot: Snapshot | None) -> tuple[CommitResult, int]:
        """What a commit would do, and how many files it would read; nothing is written."""
        del operation, record, snapshot
        raise cannot(self.traits, self.path, "rehearsed")

    def close(self) -> None:
        """What is staged and not committed is given up, and so is what row changes are read from."""
        return

    # commits that change no rows

    def commit_record(self, spark: SparkSession, record: Record, after: int) -> None:
        """A commit of a record alone, which follows version `after`; who planned on an older one conflicts."""

    def set_properties(self, spark: SparkSession, properties: Mapping[str, str]) -> None:
        """Properties of the table, in a commit that only prepares others."""

    def drop_columns(self, spark: SparkSession, columns: Sequence[str], snapshot: Snapshot) -> None:
        """Columns leave the table, in a commit that only prepares others."""

    def cluster(self, spark: SparkSession, columns: Sequence[str]) -> None:
        """With CLUSTERING: files are laid out by these columns from now on; by none where none are given."""
        del spark, columns

    def anchor(self, spark: SparkSession, record: Record, version: int) -> None:
        """With ANCHORS: copies the record of a version to where the clean-up of the log leaves it."""
        del spark, record, version

    def retention(self, snapshot: Snapshot) -> timedelta | None:
        """How long the log keeps a commit; None where nothing of it is cleaned up."""
        del snapshot
        return None

    # other tables and versions

    def like(self, path: str, snapshot: Snapshot) -> Store:
        """A table of the same format elsewhere, which is laid out as the snapshot says."""

    def check_files(self, spark: SparkSession, version: int) -> None:
        """With TIME_TRAVEL: an error where files of an older version have gone."""
        del spark, version
        raise self.no_older_versions()

    def restore(self, spark: SparkSession, version: int, record: Record) -> None:
        """With TIME_TRAVEL: the rows of an older version with their record, in one commit."""
        del spark, version, record
        raise self.no_older_versions()

    def no_older_versions(self) -> TidemillError:
        """The error for who asks for an older version where there is none."""
        return cannot(self.traits, self.path, "taken back to an older version")

    def no_places(self) -> TidemillError:
        """The error for who wants to drop rows by their place where ROWS_BY_PLACE is lacking."""
        nouns = _nouns(Capability.ROWS_BY_PLACE)
        return ArgumentError(
            "dataset.only_parquet",
            f"{self.path} is a {self.traits.noun}; dedup repairs {nouns}.",
            "Merge a source with the strategy deduplicate instead: it leaves one row of each of its keys.",
        )


class TableFormat(Protocol):
    """A table format: where its tables are recognised, and what reads and writes them. Imports no Spark by itself."""

    traits: FormatTraits

    def is_at(self, path: str) -> bool:
        """Whether a table of this format is at a path, by what lies there."""

    def log(self, path: str) -> TableLog:
        """The log of the table at a path."""

    def store(
        self,
        path: str,
        *,
        properties: Mapping[str, str] | None = None,
        partition_by: Sequence[str] = (),
        single_writer: bool = False,
    ) -> Store:
        """The store of the table at a path. Properties and partitions are those that a new one gets."""

    def check_place(self, path: str, origin: Origin | None = None) -> None:
        """An error where no table of this format can be at a path."""
        del path, origin

    def is_in(self, files: fs.FileSystem, folder: str) -> bool:
        """Whether a folder of a file system is a table that is a source as a whole, whatever files it holds."""
        del files, folder
        return False

    def finish_interrupted(self, path: str) -> None:
        """Finishes an interrupted commit of the table at a path, if one is there, so that its files can be read."""
        del path

    def is_kept(self, path: str) -> bool:
        """Whether what `is_at` a path is ours for sure, so that no other format may be declared there."""
        return self.is_at(path)

    def is_left(self, path: str) -> bool:
        """Whether interrupted commits have left something at a path where no table came to be."""
        del path
        return False

    def compact(self, path: str, target_size: int, on_spark: OnSpark, *, single_writer: bool = False) -> Compacted:
        """Joins small files until each has about this many bytes. Rows and progress stay."""
        del target_size, on_spark, single_writer
        raise cannot(self.traits, path, "compacted")

    def vacuum(
        self, path: str, asked: VacuumRequest, on_spark: OnSpark, *, single_writer: bool = False
    ) -> Vacuumed | Finished:
        """Removes the files that nothing needs any more."""
        del asked, on_spark, single_writer
        raise cannot(self.traits, path, "vacuumed")

    def recover(self, path: str, name: str) -> Finished:
        """With RECOVERY: finishes an interrupted commit of the table that a user calls so, and clears lost attempts."""
        del path
        nouns = _nouns(Capability.RECOVERY)
        raise ArgumentError(
            "dataset.only_parquet",
            f"{name} is a {self.traits.noun}, and this is for {nouns}.",
            f"Give one of those. A commit of a {self.traits.noun} is whole, or not there.",
        )


def _nouns(capability: Capability) -> str:
    """What tables with a capability are called."""
    return " and ".join(f"{FORMATS[each].noun}s" for each in formats_that(capability))


def cannot(traits: FormatTraits, path: str, done: str) -> ArgumentError:
    """The error for what a format lacks the capability for."""
    others = [name for name in FORMATS if name != traits.name]
    return ArgumentError(
        "table.cannot",
        f"{path} is a {traits.noun}, which cannot be {done}.",
        f"Use another format for it: {', '.join(others)}.",
    )
