"""The port behind which the table formats are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from tidemill.contracts.operations import Operation
    from tidemill.contracts.records import Counts, Record
    from tidemill.contracts.snapshots import Commit, Snapshot


@dataclass(frozen=True, slots=True)
class CommitResult:
    """`alone` when nobody else committed since the snapshot that the commit was planned on."""

    version: int
    alone: bool
    counts: Counts
    files_rewritten: int
    files_kept: int


class Conflict(Exception):  # noqa: N818  an event that `run/` answers by planning again, not an error a user sees
    """Another writer committed first; nothing of this step is in the table."""


class Store(Protocol):
    """A table format. A store implements four operations and keeps the record in the same commit."""

    def snapshot(self) -> Snapshot | None:
        """The table as it is now, or None when there is none. Only the store says "first run"."""

    def read(self, spark: SparkSession, version: int | None = None) -> DataFrame:
        """The rows of the last commit, or of the one given."""

    def schema(self, spark: SparkSession) -> StructType:
        """The columns of the table."""

    def commit(
        self, spark: SparkSession, operation: Operation, record: Record, snapshot: Snapshot | None
    ) -> CommitResult:
        """The operation and its record in one commit; `Conflict` when another writer came first.

        Without a snapshot the table is made by this commit.
        """

    def commits(self, limit: int | None = None) -> Iterator[Commit]:
        """The commits that the log still holds, newest first."""
