"""What passes through the port of table formats: changes, the operations of one commit, results and conflicts."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, TypeVar

from tidemill.display import size_text
from tidemill.model.record import Counts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from tidemill.model.cursor import Cursor, Duration
    from tidemill.model.record import Record, Snapshot

MOST_ROWS = 10_000  # of a table, and of a change, that meet in memory
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

    Both conditions are SQL, and call the table's rows HELD and the change's rows COMING. `picked` rows are whole rows,
    and just those that are new or differ. Where it `collapses`, one of several stored rows of a key stays, and the
    others go. `spreads` when every file of the table holds a row that goes.
    """

    rows: DataFrame
    match: str
    changed: str
    columns: tuple[str, ...]
    picked: bool = False
    inserts: bool = True
    delete_missing: bool = False
    collapses: bool = False
    spreads: bool = False
    keys: tuple[str, ...] = ()
    ranges: tuple[KeyRange, ...] = ()
    placed: Placed | None = None


@dataclass(frozen=True, slots=True)
class ReplaceRows:
    """The target's rows where `predicate` holds become `rows`."""

    rows: DataFrame
    predicate: str


@dataclass(frozen=True, slots=True)
class ReplaceByKey:
    """The table's rows of the keys in `gone` leave, and `rows` enter as they are: many of a key, or of other keys.

    `match` is SQL that holds where the table's row, called HELD, has a key of `gone`, called COMING; NULL is a key as
    any other. `gone` has each key once, all of them within `ranges`; a column that is NULL in one has no range. Without
    `gone`, no row leaves. Both frames may be read more than once.

    `covered`: each key of `gone` has rows that come, and of other keys that come the table has no row, so that `rows`
    alone tell which rows they replace.
    """

    keys: tuple[str, ...]
    gone: DataFrame | None
    rows: DataFrame
    match: str
    ranges: tuple[KeyRange, ...] = ()
    covered: bool = False


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


@dataclass(frozen=True, slots=True)
class DropRows:
    """Stored rows go, by their PLACE; what repairs a table, and no strategy does."""

    rows: DataFrame


Operation = AppendRows | UpsertRows | ReplaceRows | ReplaceByKey | OverwriteRows | RewriteRows | DropRows


@dataclass(frozen=True, slots=True)
class Compiled:
    """A change turned into one operation, or None when nothing differs; with the counts known so far.

    Of the rows counted as deleted, `collapsed` are further rows of a key that stays. `staged` is the operation as the
    store has staged it already, where it has matched the change by itself.
    """

    operation: Operation | None
    counts: Counts = field(default_factory=Counts)
    known: frozenset[str] = frozenset()
    remainder: str = "unchanged"
    unique: bool = False
    notices: tuple[str, ...] = ()
    collapsed: int = 0
    staged: Staged | None = None

    def record_counts(self) -> dict[str, int]:
        return {name: value for name, value in asdict(self.counts).items() if name in self.known}


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The lowest and highest value of one key column; all its values where they are few and worth it.

    `parts` are narrower ranges, each by its lowest and highest value, that have all of them, where these are worth it.
    """

    column: str
    low: Cursor
    high: Cursor
    values: tuple[Cursor, ...] = ()
    parts: tuple[tuple[Cursor, Cursor], ...] = ()


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
    """The rows of one step, aligned with the target's columns, with their profile.

    They are `kept` where they were computed once; others are read again each time that they are asked for.
    """

    rows: DataFrame
    profile: Profile
    volatile: frozenset[str] = frozenset()
    time_column: str | None = None
    copies: int = 0
    kept: bool = False


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
    """A table of few rows, or the few rows of a table within `ranges`: they fit into memory."""

    @property
    def ranges(self) -> tuple[KeyRange, ...]:
        """What its rows are within; none where it is the whole table."""

    @property
    def schema(self) -> StructType:
        """Its columns."""

    def rows(self, most: int) -> pa.Table:
        """Its rows, no more than so many of them."""


@dataclass(frozen=True, slots=True)
class Target:
    """The table that a change is about to enter.

    `reach` tells how much of it a change can meet, `window` is the run's window as a filter and `since` its start,
    `highest` the highest time that the table can hold, where known. `beyond` holds for rows that the window ends
    before: they stay as they are. `near` gives the rows of those files only that a change with such keys can meet, with
    their PLACE, where the store can tell them.
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


@dataclass(frozen=True, slots=True)
class MatchRows:
    """A change of `count` rows, no two with the same keys, for a store that matches it with its rows by itself.

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
class MatchResult:
    """How many rows of how many keys of a change a store holds, how many are the same, and what it has staged."""

    rows: int
    keys: int
    same: int
    staged: Staged


@dataclass(frozen=True, slots=True)
class Requirements:
    """What must still hold when a change is committed: nobody has changed the rows, or taken the sequence number.

    `version` is None where no table may be there yet.
    """

    version: int | None
    sequence: int

    @classmethod
    def of(cls, snapshot: Snapshot | None) -> Requirements:
        return cls(snapshot.version, snapshot.sequence) if snapshot else cls(None, 0)


class Staged(Protocol):
    """An operation that is ready to be committed. Files may be written for it, and none of them is in the table yet."""

    def commit(self, record: Record, required: Requirements) -> CommitResult:
        """The operation and its record in one commit; `Conflict` when what is expected does not hold any more."""


@dataclass(frozen=True, slots=True)
class CommitResult:
    """`alone` when nobody else committed since the snapshot that the commit was planned on."""

    version: int
    alone: bool
    counts: Counts
    files_rewritten: int
    files_kept: int


class Conflict(Exception):  # noqa: N818  an event that `execution` answers by planning again, not an error a user sees
    """Another writer committed first; nothing of this step is in the table."""


Done = TypeVar("Done")


class OnSpark(Protocol):
    """Does work on a session, which it may have to start."""

    def __call__(self, work: Callable[[SparkSession], Done], /) -> Done: ...


@dataclass(frozen=True, slots=True)
class Compacted:
    """How many files were joined to how many; none where all are large enough."""

    joined: int
    written: int
    kept: int
    version: int

    def plus(self, other: Compacted) -> Compacted:
        """With the files of what is kept beside the table."""
        return Compacted(self.joined + other.joined, self.written + other.written, self.kept + other.kept, self.version)


@dataclass(frozen=True, slots=True)
class Follower:
    """A view, as its users call it, that has yet to follow a table from a version on; `run` is the command for that."""

    view: str
    version: int
    run: str


@dataclass(frozen=True, slots=True)
class VacuumRequest:
    """What a vacuum was asked for: how long removed files are retained, whether a short time is meant, whether to ask
    only what it would do. Files that any of the `followers` needs are not removed.
    """

    retain: Duration | None = None
    confirmed: bool = False
    dry_run: bool = False
    followers: Callable[[], Sequence[Follower]] = tuple


@dataclass(frozen=True, slots=True)
class Vacuumed:
    """The files of a Delta table that were removed, or would be; `bytes` is None where the store does not say."""

    files: int
    bytes: int | None
    retained_hours: float
    dry_run: bool

    def plus(self, other: Vacuumed) -> Vacuumed:
        """With the files of what is kept beside the table."""
        size = None if self.bytes is None or other.bytes is None else self.bytes + other.bytes
        return Vacuumed(self.files + other.files, size, self.retained_hours, self.dry_run)

    @property
    def facts(self) -> list[str]:
        if not self.files:
            return ["nothing to remove"]
        size = "" if self.bytes is None else f" ({size_text(self.bytes)})"
        files = f"1 file{size}" if self.files == 1 else f"{self.files:,} files{size}"
        days = f"{self.retained_hours / 24:g} days" if self.retained_hours >= 48 else f"{self.retained_hours:g} hours"  # noqa: PLR2004
        lost = f"versions that ended more than {days} ago cannot be restored"
        return [
            f"{files} would be removed" if self.dry_run else f"{files} removed",
            f"{lost} then" if self.dry_run else lost,
        ]


@dataclass(frozen=True, slots=True)
class Finished:
    """What interrupted runs had left in a dataset: a commit that was finished, attempts that were cleared."""

    finished_commit: int | None
    cleared: int
    bytes: int

    @property
    def facts(self) -> list[str]:
        done = [f"commit {self.finished_commit} finished"] if self.finished_commit is not None else []
        attempts = f"{self.cleared:,} interrupted attempt{'' if self.cleared == 1 else 's'} cleared"
        done += [f"{attempts} ({size_text(self.bytes)})"] if self.cleared else []
        return done or ["whole, nothing to do"]
