"""A change on its way into a table, what one pass over it tells, and the table that it is about to meet."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from tidemill.contracts.snapshots import Snapshot
    from tidemill.declare.cursors import Cursor


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The lowest and highest value of one key column; all its values where they are few and worth it."""

    column: str
    low: Cursor
    high: Cursor
    values: tuple[Cursor, ...] = ()


@dataclass(frozen=True, slots=True)
class Reach:
    """How much of a table may hold the keys of a change."""

    files: int
    size: int


@dataclass(frozen=True, slots=True)
class Profile:
    """What one pass over a change tells. `octets` are those of its texts, where they were asked for."""

    rows: int
    keys: int = 0
    null_keys: int = 0
    null_times: int = 0
    highest: Cursor | None = None
    ranges: tuple[KeyRange, ...] = ()
    octets: int | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """The rows of one step, aligned with the target's columns, with their profile."""

    rows: DataFrame
    profile: Profile
    volatile: frozenset[str] = frozenset()
    time_column: str | None = None
    copies: int = 0


class HeldRows:
    """The rows of a table as they are before a step: its columns are known, and its rows are read when asked for."""

    def __init__(self, schema: StructType, read: Callable[[], DataFrame]) -> None:
        self.schema, self._read = schema, read

    @property
    def columns(self) -> list[str]:
        return self.schema.fieldNames()

    @cached_property
    def rows(self) -> DataFrame:
        return self._read()

    @property
    def none(self) -> DataFrame:
        """Its columns without a row, for a commit that changes no row."""
        return self.rows.where("false")


class Whole(Protocol):
    """A table of few rows, which fit into memory."""

    @property
    def schema(self) -> StructType:
        """Its columns."""

    def rows(self) -> pa.Table:
        """All its rows."""


@dataclass(frozen=True, slots=True)
class Target:
    """The table that a change is about to enter.

    `reach` tells how much of it a change can meet, `window` is the run's window as a filter and `since` its start,
    `highest` the highest time that the table can hold, where known. `beyond` holds for rows that the window ends
    before: they stay as they are. `near` gives the rows of those files only that a change with such keys can meet, with
    their PLACE, where the store can tell them. `bring` lets the store meet a small change by itself, where it can: None
    where it has to be Spark.
    """

    name: str
    rows: DataFrame
    snapshot: Snapshot
    reach: Callable[[Sequence[KeyRange]], Reach]
    window: str | None = None
    since: Cursor | None = None
    highest: Cursor | None = None
    beyond: str | None = None
    near: Callable[[Sequence[KeyRange]], DataFrame] | None = None
    bring: Callable[[Bringing], Brought | None] | None = None


@dataclass(frozen=True, slots=True)
class Bringing:
    """A change of `count` rows, no two with the same keys, for a store that takes it to its files by itself.

    Known rows that differ in a `compared` column are updated, and new ones inserted, or not.
    """

    rows: DataFrame
    count: int
    keys: tuple[str, ...]
    compared: tuple[str, ...]
    ranges: tuple[KeyRange, ...]
    updates: bool
    inserts: bool


@dataclass(frozen=True, slots=True)
class Brought:
    """How many rows of how many keys of a change a store holds, how many are the same, and what it has staged."""

    rows: int
    keys: int
    same: int
    staged: object
