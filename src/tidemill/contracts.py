"""What `change/`, `stores/`, `state/` and `run/` share: operations, records, snapshots, results."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Protocol

from tidemill.declare.cursors import Cursor, cursor
from tidemill.declare.names import RESET_ALLOWED

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

RECORD_FORMAT = 1
HELD = "__held"
COMING = "__coming"
PLACE = ("__tidemill_file", "__tidemill_row")  # the file and the place in it in which a stored row stands
FATE = "__tidemill_fate"  # what becomes of it: one of those below, or it stays
DROP = "drop"
REPLACE, MOVE = "replace", "move"  # a row that moves leaves its file, and arrives in that of another partition
PREPARES = '{"tidemill_prepares":true}'  # the metadata of our commits that change properties or columns only
_NOTES = frozenset({"SET TBLPROPERTIES", "CLUSTER BY"})  # those among them that leave the columns alone


@dataclass(frozen=True, slots=True)
class Counts:
    """What a commit did to the rows of a table. Every number is exact."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    unchanged: int = 0
    ignored: int = 0

    @property
    def written(self) -> int:
        return self.inserted + self.updated

    def plus(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))


@dataclass(frozen=True, slots=True)
class Record:
    """Why a commit was made and what it has processed; it lives in the commit itself.

    `strategy` is what the commit did, `kept_by` how the table was declared to be kept. `reset` names inputs that are
    to be read from the beginning, `backfill` is how far a backfill in batches has come. `restored_from` is the version
    that a restore went back to, or the backup. `joined` is what an incremental join has met, and what still waits at
    its end.
    `base` is the version that the commit was planned on, and `held` the rows that it held. `counts` holds what was
    known before the commit; the rest comes from the commit's own metrics (`tidemill.state.counting`), and `remainder`
    names the count that takes the rows which were neither inserted, updated, nor counted otherwise. `expectations`
    tell how many rows that were fetched did not meet each. `same_rows_as` is the version whose rows the table still
    has, where the commit only notes something.
    """

    run_id: str
    table: str
    sequence: int
    strategy: str
    at: str
    rows: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    remainder: str = "unchanged"
    keys: tuple[str, ...] = ()
    unique: bool = False
    window: Mapping[str, str] = field(default_factory=dict)
    progress: Mapping[str, Cursor] = field(default_factory=dict)
    highest: Cursor | None = None
    floor: Cursor | None = None
    sql_hash: str | None = None
    config_hash: str | None = None
    kept_by: str | None = None
    columns: tuple[str, ...] = ()
    input_versions: Mapping[str, str] = field(default_factory=dict)
    inferred_schema: str | None = None
    restored_from: int | str | None = None
    reset: tuple[str, ...] = ()
    backfill: Mapping[str, str] = field(default_factory=dict)
    base: int | None = None
    held: int | None = None
    expectations: Mapping[str, int] = field(default_factory=dict)
    joined: Mapping[str, int | str] = field(default_factory=dict)
    same_rows_as: int | None = None
    format: int = RECORD_FORMAT

    def to_json(self) -> str:
        kept = {name: _plain(value) for name, value in _items(self) if value not in (None, (), {})}
        return json.dumps({"tidemill": kept}, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str | None) -> Record | None:
        """The record in a commit's metadata, or None when the commit is not ours. Unknown fields are left out."""
        data = _ours(text)
        if data is None:
            return None
        known = {f.name for f in fields(cls)}
        values = {name: _typed(name, value) for name, value in data.items() if name in known}
        return cls(**values)

    def by_column(self, column: str, name: str) -> Record:
        """What it still tells of an input that is read by this time column from now on.

        How far it was read by another column says nothing; an append that had a floor has to find it anew.
        """
        if self.window.get("column", column).lower() == column.lower():
            return self
        progress = {each: value for each, value in self.progress.items() if each != name}
        return self.with_(progress=progress, highest=None, floor=None, columns=() if self.floor else self.columns)

    def with_(self, **changes: Any) -> Record:
        return replace(self, **changes)


def _items(record: Record) -> Iterator[tuple[str, Any]]:
    return ((f.name, getattr(record, f.name)) for f in fields(record))


def _plain(value: Any) -> Any:
    match value:
        case Cursor():
            return {"type": str(value.kind), "value": value.text()}
        case Mapping():
            return {name: _plain(item) for name, item in value.items()}
        case tuple():
            return list(value)
        case _:
            return value


def _typed(name: str, value: Any) -> Any:
    match name:
        case "progress":
            return {item: cursor(data["type"], data["value"]) for item, data in value.items()}
        case "highest" | "floor":
            return cursor(value["type"], value["value"])
        case "keys" | "columns" | "reset":
            return tuple(value)
        case _:
            return value


def _ours(text: str | None) -> dict[str, Any] | None:
    if not text or not text.startswith('{"tidemill":'):
        return None
    data = json.loads(text)["tidemill"]
    return data if isinstance(data, dict) else None


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit of a table's log, as it stands there.

    `numbered` when it took a sequence number of ours, `prepares` when it is ours and changes no rows.
    """

    version: int
    at: str
    operation: str
    metrics: Mapping[str, str]
    record: Record | None
    read_version: int | None = None
    numbered: bool = False
    prepares: bool = False
    adds_rows: bool = False
    removes_rows: bool = False


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A table as its store says it is: the ground on which a step is planned.

    `foreign` holds what others committed since the version that our last record was planned on, newest first.
    `rows` is how many rows it holds, where the log tells.
    """

    version: int
    sequence: int
    record: Record | None
    record_version: int | None
    foreign: tuple[Commit, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    partition_columns: tuple[str, ...] = ()
    files: int = 0
    anchored: int | None = None
    rows: int | None = None
    table_id: str = ""

    @property
    def content(self) -> str:
        """Differs whenever its rows or columns may: what we have noted on it since changes neither."""
        return f"{self.table_id}@{self.content_version}"

    @property
    def content_version(self) -> int:
        """The version in which its rows or columns may have changed last."""
        notes = takewhile(lambda commit: commit.prepares and commit.operation in _NOTES, self.foreign)
        version = self.version - len(tuple(notes))
        record = self.record
        if record is None or record.same_rows_as is None or record.base is None:
            return version
        followed = self.record_version == version == record.base + 1  # nobody else came in between
        return record.same_rows_as if followed else version

    @property
    def foreign_adds(self) -> bool:
        """Somebody else's rows may be in the table."""
        return self.record is None or any(commit.adds_rows for commit in self.foreign)

    @property
    def robbed(self) -> tuple[int, ...]:
        """Versions whose rows tell how far the table goes, because somebody else removed or replaced some.

        A removal after our last record shows in the table as it is; one that came while our last commit was
        under way only in the version that it made.
        """
        ours = -1 if self.record_version is None else self.record_version
        removals = (commit.version for commit in self.foreign if commit.removes_rows)
        return tuple({version if version < ours else self.version for version in removals})

    @property
    def resists_reset(self) -> bool:
        """The table itself says that its history is to be kept, whatever its declaration does."""
        return self.properties.get(RESET_ALLOWED, "true").lower() == "false"

    def unique_on(self, keys: tuple[str, ...]) -> bool:
        """Whether the log proves that no two rows of the table share these keys."""
        record = self.record
        if record is None or not record.unique or self.foreign_adds:
            return False
        return {key.lower() for key in record.keys} <= {key.lower() for key in keys}


@dataclass(frozen=True, slots=True)
class Described:
    """What a table says of itself, its rows aside. `columns` differs whenever its columns do."""

    description: str | None
    properties: Mapping[str, str]
    partition_by: tuple[str, ...]
    columns: str = ""


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
    """What one pass over a change tells. Nothing else of the change ever reaches Python."""

    rows: int
    keys: int = 0
    null_keys: int = 0
    null_times: int = 0
    highest: Cursor | None = None
    ranges: tuple[KeyRange, ...] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """The rows of one step, aligned with the target's columns, with their profile."""

    rows: DataFrame
    profile: Profile
    volatile: frozenset[str] = frozenset()
    time_column: str | None = None
    copies: int = 0


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


Operation = AppendRows | UpsertRows | ReplaceRows | OverwriteRows


@dataclass(frozen=True, slots=True)
class Compiled:
    """A change turned into one operation, or None when nothing differs; with the counts known so far."""

    operation: Operation | None
    counts: Counts = Counts()
    known: frozenset[str] = frozenset()
    remainder: str = "unchanged"
    unique: bool = False
    notices: tuple[str, ...] = ()

    def record_counts(self) -> dict[str, int]:
        return {name: value for name, value in asdict(self.counts).items() if name in self.known}


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
