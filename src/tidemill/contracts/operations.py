"""The things that can be done to a table in one commit."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from tidemill.contracts.records import Counts

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

    from tidemill.contracts.changes import KeyRange

HELD = "__held"
COMING = "__coming"
PLACE = ("__tidemill_file", "__tidemill_row")  # the file and the place in it in which a stored row stands
FATE = "__tidemill_fate"  # what becomes of it: one of those below, or it stays
DROP = "drop"
REPLACE, MOVE = "replace", "move"  # a row that moves leaves its file, and arrives in that of another partition


@dataclass(frozen=True, slots=True)
class AppendRows:
    """Rows that enter as they are; reading the target inside `rows` makes a foreign append conflict."""

    rows: DataFrame


@dataclass(frozen=True, slots=True)
class Placed:
    """Rows that change or go, with the PLACE and the FATE of those that are stored, and rows that are new."""

    changed: DataFrame
    new: DataFrame | None


@dataclass(frozen=True, slots=True)
class UpsertRows:
    """Rows that enter by key: they replace those where `match` holds and, unless they are `picked`, also `changed`.

    Both conditions call the table's rows HELD and the change's rows COMING. `picked` rows are whole rows, and just
    those that are new or differ. `staged` is what the store has staged of them already. Where it `collapses`, one of
    several stored rows of a key stays, and the others go.
    """

    rows: DataFrame
    match: str
    changed: Column
    columns: tuple[str, ...]
    picked: bool = False
    inserts: bool = True
    delete_missing: bool = False
    collapses: bool = False
    keys: tuple[str, ...] = ()
    ranges: tuple[KeyRange, ...] = ()
    placed: Placed | None = None
    staged: object = None


@dataclass(frozen=True, slots=True)
class ReplaceRows:
    """The target's rows where `predicate` holds become `rows`."""

    rows: DataFrame
    predicate: str


@dataclass(frozen=True, slots=True)
class OverwriteRows:
    """The table becomes `rows`, columns included; it keeps its partitions unless others are given."""

    rows: DataFrame
    partition_by: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class RewriteRows:
    """A small table, or what it holds within `ranges`, becomes `rows`, which are in memory.

    Only onto the very version that they were compared with.
    """

    rows: pa.Table
    ranges: tuple[KeyRange, ...] = ()


Operation = AppendRows | UpsertRows | ReplaceRows | OverwriteRows | RewriteRows


@dataclass(frozen=True, slots=True)
class Compiled:
    """A change turned into one operation, or None when nothing differs; with the counts known so far.

    Of the rows counted as deleted, `collapsed` are further rows of a key that stays.
    """

    operation: Operation | None
    counts: Counts = field(default_factory=Counts)
    known: frozenset[str] = frozenset()
    remainder: str = "unchanged"
    unique: bool = False
    notices: tuple[str, ...] = ()
    collapsed: int = 0

    def record_counts(self) -> dict[str, int]:
        return {name: value for name, value in asdict(self.counts).items() if name in self.known}
