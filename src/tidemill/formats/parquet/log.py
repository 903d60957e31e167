"""The log of a Parquet dataset, as planning and metadata commands ask for it; the same questions as of a Delta log."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidemill.formats.base import Reach
from tidemill.formats.filesystem import unopened
from tidemill.formats.parquet.changes import EntryRange
from tidemill.formats.parquet.files import columns_of, footers, holding, is_whole_number, reading, values_of
from tidemill.formats.parquet.folder import Folder
from tidemill.formats.parquet.protocol import opening, walk
from tidemill.formats.parquet.worker.arrow import fitted, unified
from tidemill.formats.port import InputChanges, TableLog
from tidemill.formats.row_changes import UnknownChanges
from tidemill.model.record import Commit, Described, Record, Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tidemill.formats.base import KeyRange
    from tidemill.formats.parquet.files import Footer
    from tidemill.formats.parquet.folder import DataFile, Entry
    from tidemill.formats.parquet.protocol import State
    from tidemill.model.cursor import Cursor

DESCRIPTION = "comment"
BY_HAND = "files changed by others"
_COUNTED = ("inserted", "updated", "deleted")


class DatasetLog(TableLog):
    """The log of the dataset at one path. Opening it finishes a commit that was interrupted."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.folder = Folder(path)

    def state(self) -> State:
        try:
            return walk(opening(self.folder))
        except FileNotFoundError:
            raise
        except OSError as failure:
            raise unopened(self.path, failure) from failure

    def exists(self) -> bool:
        return self.state().is_there

    def snapshot(self) -> Snapshot | None:
        """The dataset as it is now, or None when nothing is at its path."""
        state = self.state()
        return self.snapshot_of(state) if state.is_there else None

    def snapshot_of(self, state: State) -> Snapshot:
        record, number, later = self._last_record(state)
        foreign = (*_by_hand(state), *later)
        snapshot = Snapshot(
            version=state.number,
            sequence=state.number,
            record=record,
            record_version=number,
            foreign=foreign,
            properties=dict(state.entry.properties) if state.entry else {},
            partition_columns=partition_columns(self.path, state),
            files=len(state.files),
            rows=_rows(state),
            table_id=_identity(state),
        )
        last = state.entry if snapshot.content_version == state.number else self.folder.entry(snapshot.content_version)
        return replace(snapshot, content_id=last.attempt if last else "")

    def identity(self) -> str:
        """Differs whenever the dataset has another commit, or other files."""
        state = self.state()
        return f"{_identity(state)}@{state.number}"

    def commits(self, limit: int | None = None) -> Iterator[Commit]:
        """The commits that the log holds, newest first; files that others have changed since stand before them."""
        state = self.state()
        yield from _by_hand(state)
        numbers = self.folder.numbers()
        for number in reversed(numbers if limit is None else numbers[-limit:]):
            entry = self.folder.entry(number)
            if entry is not None:
                yield commit_of(entry)

    def commit(self, version: int) -> Commit | None:
        """One commit, or None when it is not there."""
        entry = self.folder.entry(version)
        return commit_of(entry) if entry else None

    def version(self) -> int:
        return self.state().number

    def described(self) -> Described:
        """What the dataset says of itself."""
        state = self.state()
        properties = dict(state.entry.properties) if state.entry else {}
        schema = state.entry.schema if state.entry and state.entry.schema else ""
        columns = hashlib.sha256(schema.encode()).hexdigest()[:16]
        return Described(properties.get(DESCRIPTION), properties, partition_columns(self.path, state), columns)

    def column_types(self) -> dict[str, str]:
        """The types of its plain columns, as Delta calls them, by name in lower case; none before its first commit."""
        return {field["name"].lower(): field["type"] for field in self._fields() if isinstance(field["type"], str)}

    def columns(self) -> list[str]:
        """The names of its columns, as its last commit has them; none before its first."""
        return [field["name"] for field in self._fields()]

    def _fields(self) -> list[dict[str, Any]]:
        entry = self.state().entry
        return json.loads(entry.schema)["fields"] if entry and entry.schema else []

    def reach(self, ranges: Sequence[KeyRange]) -> Reach:
        """How much of the dataset may hold a row within all ranges."""
        found = self.near(self.state(), ranges)
        return Reach(len(found), sum(file.size for file in found))

    def times(self, column: str) -> tuple[Cursor, Cursor] | None:
        """Only its rows tell."""
        del column
        return None

    def changes_since(
        self,
        version: int,
        until: int | None = None,
        *,
        columns: Sequence[str] | None = None,
        content: str | None = None,
    ) -> InputChanges:
        """By the files that came and went; those that went are gone."""
        state = self.state()
        last = state.number if until is None else until
        try:
            return EntryRange.of(self.folder, state, version, last).summary(columns, content)
        except UnknownChanges as reason:
            return InputChanges(version, last, refusal=str(reason))

    def some_rows(self, limit: int) -> pa.Table:
        """Rows of the last commit; which come first is up to its files."""
        from pyarrow import dataset  # noqa: PLC0415  slow to import

        held = list(self.state().files.values())
        if not held:
            return pa.table({name: pa.nulls(0) for name in self.columns()})
        files = [str(self.folder.root / each.path) for each in held]
        hive = dataset.HivePartitioning(_partitions(self, [each.path for each in held]))
        kind = dataset.ParquetFileFormat(coerce_int96_timestamp_unit="us")
        with reading(self.path, files[0]):
            whole = dataset.dataset(files, format=kind, partitioning=hive, partition_base_dir=self.path)
        found, missing = [whole.schema.empty_table()], limit
        for part in whole.get_fragments():
            with reading(self.path, part.path):
                rows = part.head(missing)
            found.append(_placed(rows, dataset.get_partition_keys(part.partition_expression), whole.schema))
            missing -= rows.num_rows
            if not missing:
                break
        return _together([*found, _elsewhere(footers(self.folder.root, held), found)])

    def near(self, state: State, ranges: Sequence[KeyRange]) -> list[DataFile]:
        """The files that may hold a row within all ranges, by the statistics in their footers."""
        wanted = {
            span.column.lower(): [(value.value, value.value) for value in span.values]
            or [(low.value, high.value) for low, high in span.parts or [(span.low, span.high)]]
            for span in ranges
        }
        return holding(self.folder.root, state.files.values(), wanted)

    def last_schema(self, state: State) -> str | None:
        """The columns that the log names last; a commit after which nobody has looked at the rows names none."""
        entry = state.entry
        while entry is not None and entry.schema is None:
            entry = self.folder.entry(entry.number - 1)
        return entry.schema if entry else None

    def _last_record(self, state: State) -> tuple[Record | None, int | None, list[Commit]]:
        later: list[Commit] = []
        entry = state.entry
        while entry is not None:
            commit = commit_of(entry)
            if commit.record is not None:
                return commit.record, entry.number, later
            later.append(commit)
            entry = self.folder.entry(entry.number - 1)
        return None, None, later


def commit_of(entry: Entry) -> Commit:
    record = Record.from_json(entry.record)
    return Commit(
        version=entry.number,
        at=entry.at,
        operation=entry.operation,
        metrics={},
        record=record,
        read_version=entry.number - 1,
        numbered=record is not None,
        prepares=record is None,
        adds_rows=entry.foreign_came if entry.notes else bool(entry.add),
        removes_rows=entry.foreign_left if entry.notes else bool(entry.remove),
        id=entry.attempt,
        seen=_rows_seen(entry, keyed=bool(record and record.keys)),
    )


def _rows_seen(entry: Entry, *, keyed: bool) -> dict[str, int]:
    """What a commit did to rows; entries call that as Delta does. Of a write by keys, as many as left have changed."""
    came, gone = (entry.metrics.get(name, 0) for name in ("numOutputRows", "numDeletedRows"))
    if entry.operation == "WRITE":
        return {"inserted": came - gone, "updated": gone} if keyed else {"inserted": came, "deleted": gone}
    if entry.operation != "MERGE":
        return {}
    return {name: entry.metrics.get(f"numTargetRows{name.capitalize()}", 0) for name in _COUNTED}


def partition_columns(path: str, state: State) -> tuple[str, ...]:
    if state.entry is not None and not state.came:
        return state.entry.partition_by
    return columns_of(state.files, path)


def _by_hand(state: State) -> list[Commit]:
    """What others did to the files since the last entry, as a commit of theirs."""
    came, left = bool(state.came), bool(state.left)
    if state.entry is None or not (came or left):
        return []
    return [Commit(state.number, "", BY_HAND, {}, None, adds_rows=came, removes_rows=left)]


def _rows(state: State) -> int | None:
    """How many rows it holds, where nobody else touched its files since our last commit."""
    if state.entry is None or state.came or state.left:
        return None
    counted = [file.rows for file in state.entry.files if file.rows is not None]
    return sum(counted) if len(counted) == len(state.entry.files) else None


def _identity(state: State) -> str:
    if state.entry is not None and not state.came and not state.left:
        return state.entry.dataset_id
    seen = hashlib.sha256()
    for file in state.files.values():
        seen.update(f"{file.path}\0{file.size}\0{file.mtime}\n".encode())
    return seen.hexdigest()[:32]


def _partitions(log: DatasetLog, paths: Sequence[str]) -> pa.Schema:
    """The columns of its partitions: whole numbers where all values are, and the log does not know them as texts."""
    known = log.column_types()

    def kind(name: str) -> pa.DataType:
        texts = [text for path in paths if (text := values_of(path)[name]) is not None]
        numbers = bool(texts) and known.get(name.lower()) != "string" and all(map(is_whole_number, texts))
        return pa.int64() if numbers else pa.string()

    return pa.schema([(name, kind(name)) for name in columns_of(paths, log.path)])


def _elsewhere(held: Iterable[Footer], found: Iterable[pa.Table]) -> pa.Table:
    """The columns that only files have which were not read."""
    known = {name.lower() for rows in found for name in rows.column_names}
    others = {field.name.lower(): field for footer in held for field in footer.schema}
    return pa.schema([field for name, field in others.items() if name not in known]).empty_table()


def _placed(rows: pa.Table, values: Mapping[str, Any], schema: pa.Schema) -> pa.Table:
    """The rows of a file with the values that its folders tell."""
    for name, value in values.items():
        kept = [column for column in rows.column_names if column.lower() != name.lower()]
        rows = rows.select(kept).append_column(name, pa.array([value] * rows.num_rows, schema.field(name).type))
    return rows


def _together(found: list[pa.Table]) -> pa.Table:
    """Files may lack columns, or have them in other types; where no type holds both, Spark cannot read them either."""
    schema = unified([rows.schema for rows in found])
    return pa.concat_tables(fitted(rows, schema) for rows in found)
