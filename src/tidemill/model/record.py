"""What a commit of ours says of itself, what it did to how many rows, and a table as its log shows it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import takewhile
from typing import Any

from tidemill.errors import StateError
from tidemill.model import RESET_ALLOWED
from tidemill.model.cursor import Cursor, cursor

# A field that is renamed in the JSON, removed, or given another meaning needs the next number, with a golden record in
# tests/model/golden_records; a field that is added, and may be missing, does not.
RECORD_FORMAT = 1


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
class InputRecord:
    """What a record says of one of several sources: its columns, and by which column it was read.

    `highest` is the highest time that it ever gave, `config_hash` that of its own declaration.
    """

    columns: tuple[str, ...] = ()
    time_column: str | None = None
    floor: Cursor | None = None
    highest: Cursor | None = None
    config_hash: str | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """Why a commit was made and what it has processed; it is stored in the commit itself.

    `strategy` is what the commit did, `declared_strategy` how the table was declared to be maintained. `reset` names
    inputs that are to be read from the beginning, `backfill` is how far a backfill in batches has come. `restored_from`
    is the version that a restore went back to, or the backup. `joined` is what an incremental join has matched, and
    what still waits at its end. `base` is the version that the commit was planned on, and `held` the rows that it held.
    `counts` holds what was known before the commit; the rest comes from the commit's own metrics
    (`completed`), and `remainder` names the count that takes the rows which were neither inserted,
    updated, nor counted otherwise. `expectations` says how many rows that were fetched did not meet each.
    `same_rows_as` is the version whose rows the table still has, where the commit only notes something. `inputs` has
    what is known of each source, where there are several. `refresh` is how a materialized view followed its inputs, and
    `sums` the content of the sums beside it that go with its rows.

    `input_versions` are the versions of the inputs that were read, `read_versions` those of the tables that a query
    with a window has read, whether or not the window covers all of their rows. Both hold identities and no mere
    numbers (`content_of`): a table that was created again, or whose log went back and on, has none of them again.

    >>> record = tidemill.history("shop/warehouse/main/raw_orders")[0].record
    >>> record.table, record.keys
    ('main.raw_orders', ('order_id',))
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
    declared_strategy: str | None = None
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
    read_versions: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, InputRecord] = field(default_factory=dict)
    refresh: Mapping[str, Any] = field(default_factory=dict)
    sums: str | None = None
    format: int = RECORD_FORMAT

    def to_json(self) -> str:
        kept = {name: _plain(value) for name, value in _items(self) if value not in (None, (), {})}
        return json.dumps({"tidemill": kept}, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str | None) -> Record | None:
        """The record in a commit's metadata, or None when the commit is not ours; one of a newer format is an error.

        Fields that a later version has added without a new format are left out.
        """
        data = _ours(text)
        if data is None:
            return None
        if data.get("format", RECORD_FORMAT) not in _READABLE:
            raise _newer(data)
        known = {_KEYS.get(f.name, f.name): f.name for f in fields(cls)}
        return cls(**{known[key]: _typed(key, value) for key, value in data.items() if key in known})

    def reached(self, names: Iterable[str]) -> Cursor | None:
        """How far all of these inputs were read: the lowest of their watermarks, where they have one of one type."""
        found = [self.progress.get(name) for name in names]
        known = [value for value in found if value is not None]
        return min(known) if len(known) == len(found) and len({each.kind for each in known}) == 1 else None

    def of_input(self, name: str) -> Record:
        """What it says as if this source were the table's only one."""
        known = self.inputs.get(name)
        if known is None:
            return self
        window = {"column": known.time_column} if known.time_column else {}
        return self.with_(columns=known.columns, floor=known.floor, highest=known.highest, window=window)

    def by_column(self, column: str, name: str) -> Record:
        """What it still says of an input that is read by this time column from now on.

        How far it was read by another column says nothing; an append that had a floor has to find it again.
        """
        if self.window.get("column", column).lower() == column.lower():
            return self
        progress = {each: value for each, value in self.progress.items() if each != name}
        return self.with_(progress=progress, highest=None, floor=None, columns=() if self.floor else self.columns)

    def with_(self, **changes: Any) -> Record:
        return replace(self, **changes)


_READABLE = range(1, RECORD_FORMAT + 1)


def _newer(data: Mapping[str, Any]) -> StateError:
    return StateError(
        "state.newer_record",
        f"{data.get('table', 'The table')} was written by a newer Tidemill: its record has format {data['format']}, "
        f"and this version knows formats up to {RECORD_FORMAT}.",
        "Upgrade Tidemill here (pip install --upgrade tidemill). The table is unchanged.",
    )


# Names in the JSON are the format, and stay; those of the fields are for readers of the code.
_KEYS = {"declared_strategy": "kept_by"}


def _items(record: Record | InputRecord) -> Iterator[tuple[str, Any]]:
    return ((_KEYS.get(f.name, f.name), getattr(record, f.name)) for f in fields(record))


def _plain(value: Any) -> Any:
    match value:
        case Cursor():
            return {"type": str(value.kind), "value": value.text()}
        case InputRecord():
            return {name: _plain(item) for name, item in _items(value) if item not in (None, ())}
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
        case "inputs":
            return {item: _input_record(data) for item, data in value.items()}
        case _:
            return value


def _input_record(data: Mapping[str, Any]) -> InputRecord:
    known = {f.name for f in fields(InputRecord)}
    return InputRecord(**{name: _typed(name, value) for name, value in data.items() if name in known})


def _ours(text: str | None) -> dict[str, Any] | None:
    if not text or not text.startswith('{"tidemill":'):
        return None
    data = json.loads(text)["tidemill"]
    return data if isinstance(data, dict) else None


COMPACTS = "OPTIMIZE"  # the operation of a commit that joins files, as Delta calls it
PREPARES = '{"tidemill_prepares":true}'  # the metadata of our commits that change no rows
# Those among them that leave the columns alone, and upkeep of files.
_NOTES = frozenset({"SET TBLPROPERTIES", "CLUSTER BY", COMPACTS, "VACUUM START", "VACUUM END"})


def content_of(table_id: str, version: int, commit_id: str) -> str:
    """What a table holds, as one text: its identity, the version, and the commit that made it."""
    return f"{table_id}@{version}.{commit_id}" if commit_id else f"{table_id}@{version}"


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit of a table's log, as it stands there.

    `id` is its own, whatever its number: another commit that took the same number has another one. `numbered` when it
    took a sequence number of ours, `prepares` when it is ours and changes no rows. `seen` has the rows that it
    inserted, updated and deleted, by the log alone.

    >>> commit = tidemill.history("lake/orders")[0]
    >>> commit.version, commit.record.strategy
    (1, 'merge upsert')
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
    id: str = ""
    seen: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A table as its store says it is: the ground on which a step is planned.

    `foreign` holds what others committed since the version that our last record was planned on, newest first.
    `rows` is how many rows it holds, where the log tells. `fills` are the columns, in lower case, that it fills itself
    where rows come without them. `content_id` is the id of the commit in which its rows or columns may have changed
    last, where the log still holds it. `maps_columns`: its files may have other names for its columns, so these can
    be any, and can go. `marks_rows`: rows leave its files by a mark; without, the files are rewritten.
    `updates_matter`: somebody asks how a row has come to be as it is, by a change feed or the identity of rows.
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
    fills: frozenset[str] = frozenset()
    content_id: str = ""
    maps_columns: bool = False
    marks_rows: bool = False
    updates_matter: bool = False

    @property
    def content(self) -> str:
        """Differs whenever its rows or columns may: what we have noted on it since changes neither.

        A number alone does not tell: a table that was copied back from an older copy gives the same numbers again.
        """
        return content_of(self.table_id, self.content_version, self.content_id)

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
    def versions_with_removals(self) -> tuple[int, ...]:
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


def counts_of(commit: Commit) -> Counts:
    """The counts of a commit of ours; of somebody else's, what its log tells."""
    return completed(commit.record, commit.seen) if commit.record else Counts(**commit.seen)


def completed(record: Record, seen: Mapping[str, int]) -> Counts:
    """`seen`, with what the record knew before its commit, and the remainder where the record says."""
    counts = {**seen, **record.counts}
    counted = sum(counts.get(name, 0) for name in ("inserted", "updated", "unchanged", "ignored"))
    rest = max(record.rows - counted, 0)
    counts[record.remainder] = counts.get(record.remainder, 0) + rest
    return Counts(**counts)


RESTORE_BEGINS = "restore begins"


def without_parts(commits: Iterable[Commit]) -> Iterator[Commit]:
    """The commits, newest first, without those that only prepare or carry a later one of the same run."""
    seen: set[str] = set()
    for commit in commits:
        record = commit.record
        if commit.prepares and commit.operation != COMPACTS:
            continue
        if record is not None:
            if record.strategy == RESTORE_BEGINS or record.run_id in seen:
                continue
            seen.add(record.run_id)
        yield commit
