"""The log of a Delta table, read by delta-rs: its snapshot, and its commits with their counts in our words."""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import deltalake
import pyarrow as pa
from deltalake.exceptions import DeltaError
from pyarrow import fs

from tidemill.errors import TableError
from tidemill.formats.delta import COLUMN_MAPPING, rows_seen
from tidemill.formats.delta.opened import newest_version, open_table, opened_at
from tidemill.formats.filesystem import file_system, is_folder, is_hidden
from tidemill.formats.port import TableLog
from tidemill.model import local_path
from tidemill.model.record import PREPARES, Commit, Described, Record, Snapshot, content_of, counts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tidemill.formats.base import KeyRange, Reach
    from tidemill.formats.delta.statistics import FileStatistics
    from tidemill.formats.port import HistoryEnd, InputChanges
    from tidemill.model.cursor import Cursor

APP_ID = "tidemill"
ANCHOR = "tidemill.record"
ANCHOR_VERSION = "tidemill.record.version"
_HISTORIES = ("delta.enableChangeDataFeed", "delta.enableRowTracking")


_NUMBERS = re.compile(r"delta\.identity\.")  # in the metadata of a column whose values nobody gives
_FILLS = re.compile(rf"CURRENT_DEFAULT$|delta\.generationExpression$|{_NUMBERS.pattern}")
# delta-rs reads the first as the character of that code, and a backslash as a slash, which only Windows means by it.
_MISREAD = re.compile(r"%[0-9A-Fa-f]{2}" if os.sep == "\\" else r"%[0-9A-Fa-f]{2}|\\")


class _Last(NamedTuple):
    """Our last record, the version that holds it, the rows of the table where they are known, and what others did."""

    record: Record | None = None
    version: int | None = None
    rows: int | None = None
    foreign: tuple[Commit, ...] = ()


class DeltaLog(TableLog):
    """The log of the Delta table at one path."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._commits: dict[int, Commit] = {}  # those read since the last snapshot

    def snapshot(self) -> Snapshot | None:
        """The table as it is now, or None when nothing is at its path."""
        self._commits.clear()  # another table may be at the path by now
        if not self.exists():
            return None
        snapshot = self._snapshot_of(self._open())
        return replace(snapshot, content_id=self._id(snapshot.content_version))

    def exists(self) -> bool:
        """Whether a table is at its path; anything else that is there is an error."""
        if "://" not in self.path and _MISREAD.search(self.path):
            raise TableError(
                "table.bad_path",
                f"{self.path} cannot be the path of a Delta table: its log would be looked for at another one.",
                "Use a path without a backslash, and without % before two digits.",
            )
        files, root = file_system(self.path)
        if is_folder(files, f"{root}/_delta_log"):
            return self._has_commits(files, root)
        if _is_used(files, root):
            raise TableError(
                "table.not_a_table",
                f"{self.path} is there, but it is not a Delta table.",
                "Give the path of a Delta table or of a folder of Parquet files, or a path where nothing is yet.",
            )
        return False

    def identity(self) -> str:
        """Differs whenever the table has another commit, or another table is at its path."""
        table = self._open()
        return content_of(str(table.metadata().id), table.version(), self._id(table.version()))

    def _id(self, version: int) -> str:
        commit = self.commit(version)
        return commit.id if commit else ""

    def commits(self, limit: int | None = None) -> Iterator[Commit]:
        """The commits that the log still holds, newest first."""
        newest = self.version()
        oldest = -1 if limit is None else newest - limit
        for version in range(newest, oldest, -1):
            commit = self.commit(version)
            if commit is None:
                return
            yield commit

    def commit(self, version: int) -> Commit | None:
        """One commit, or None when it is not there, or no longer."""
        if version not in self._commits:
            actions = self.actions(version)
            if actions is None:
                return None
            self._commits[version] = _commit_of(version, actions)
        return self._commits[version]

    def described(self) -> Described:
        """What the table says of itself."""
        table = self._open()
        metadata, columns = table.metadata(), hashlib.sha256(table.schema().to_json().encode()).hexdigest()[:16]
        return Described(metadata.description, dict(metadata.configuration), tuple(metadata.partition_columns), columns)

    def column_types(self) -> dict[str, str]:
        """The types of the table's plain columns, as Delta calls them, by name in lower case."""
        fields = json.loads(self._open().schema().to_json())["fields"]
        return {field["name"].lower(): field["type"] for field in fields if isinstance(field["type"], str)}

    def has_feature(self, name: str) -> bool:
        """Whether the table's protocol has this feature."""
        protocol = self._open().protocol()
        return name in {*(protocol.reader_features or ()), *(protocol.writer_features or ())}

    def columns(self) -> list[str]:
        """The names of its columns."""
        return [field.name for field in self._open().schema().fields]

    def files(self) -> list[str]:
        """The data files of the last version, as the log spells them."""
        return [str(path) for path in self._open().get_add_actions()["path"].to_pylist()]

    def numbering(self) -> tuple[str, ...]:
        """The columns by which the table numbers its rows."""
        return _marked(self._open(), _NUMBERS)

    def reach(self, ranges: Sequence[KeyRange]) -> Reach:
        """How much of the table may hold a row within all ranges."""
        return self._statistics().reach(ranges)

    def times(self, column: str) -> tuple[Cursor, Cursor] | None:
        """By the statistics of its files, which still know rows that were deleted."""
        return self._statistics().times(column)

    def changes_since(
        self,
        version: int,
        until: int | None = None,
        *,
        columns: Sequence[str] | None = None,
        content: str | None = None,
    ) -> InputChanges:
        """By the actions of its commits, and the change data feed where it has one."""
        from tidemill.formats.delta.changes import changes_of  # noqa: PLC0415  few ask

        return changes_of(self, version, self.version() if until is None else until, columns, content)

    def history_end(self, version: int, now: datetime) -> HistoryEnd | None:
        """By the times of its commits, and by what its properties say of keeping commits and files."""
        from tidemill.formats.delta.kept import history_end  # noqa: PLC0415  few ask

        return history_end(self, version, now)

    def some_rows(self, limit: int) -> pa.Table | None:
        """Without those that the commit marks as deleted."""
        try:
            return _first(pa.RecordBatchReader.from_stream(deltalake.DeltaTable(self.path).scan()), limit)
        except (DeltaError, pa.ArrowException, OSError):  # a feature that it does not know, or a file it cannot read
            return None

    def _statistics(self) -> FileStatistics:
        from tidemill.formats.delta.statistics import FileStatistics  # noqa: PLC0415  slow to import

        return FileStatistics(self._open())

    def _snapshot_of(self, table: deltalake.DeltaTable) -> Snapshot:
        version, metadata = table.version(), table.metadata()
        properties = dict(metadata.configuration)
        sequence = table.transaction_version(APP_ID)
        record, record_version, rows, foreign = self._last_record(version, sequence, properties)
        return Snapshot(
            version=version,
            sequence=sequence or 0,
            record=record,
            record_version=record_version,
            foreign=foreign,
            properties=properties,
            partition_columns=tuple(metadata.partition_columns),
            files=table.get_add_actions().num_rows,
            anchored=_anchored(properties),
            rows=rows,
            table_id=str(metadata.id),
            fills=frozenset(name.lower() for name in _marked(table, _FILLS)),
            maps_columns=properties.get(COLUMN_MAPPING, "none").lower() != "none",
            marks_rows=_is_on(properties, "delta.enableDeletionVectors"),
            updates_matter=any(_is_on(properties, name) for name in _HISTORIES),
        )

    def _last_record(self, version: int, sequence: int | None, properties: dict[str, str]) -> _Last:
        if sequence is None:
            return _Last()
        later: list[Commit] = []
        for number in range(version, -1, -1):
            commit = self.commit(number)
            if commit is None:
                return _from_anchor(properties, sequence, number, version, later)
            if commit.record is not None:
                foreign = (*later, *self._meanwhile(commit))
                return _Last(commit.record, number, _rows(commit, foreign), foreign)
            later.append(commit)
        return _Last(foreign=tuple(later))

    def _meanwhile(self, ours: Commit) -> list[Commit]:
        """What others committed between the version that our commit was planned on and our commit."""
        base = ours.record.base if ours.record else None
        if base is None:
            return []
        between = (self.commit(number) for number in range(ours.version - 1, base, -1))
        return [commit for commit in between if commit is not None and commit.record is None]

    def version(self) -> int:
        """The number of the last commit."""
        folder = local_path(self.path)
        newest = newest_version(folder) if folder else None
        return self._open().version() if newest is None else newest

    def moved_since(self, version: int) -> bool:
        """Whether rows were added or removed after a version."""
        latest = self.version()
        later = (self.commit(number) for number in range(version + 1, latest + 1))
        return any(commit is None or commit.adds_rows or commit.removes_rows for commit in later)

    @staticmethod
    def _has_commits(files: fs.FileSystem, root: str) -> bool:
        log = files.get_file_info(fs.FileSelector(f"{root}/_delta_log"))
        return any(entry.base_name.endswith((".json", ".parquet")) for entry in log)

    def _open(self) -> deltalake.DeltaTable:
        return self._read(lambda: open_table(self.path, local_path(self.path)))

    def opened(self, version: int) -> deltalake.DeltaTable:
        """The table as it was at a version, for its columns and its protocol."""
        return self._read(lambda: opened_at(self.path, version))

    def _read(self, opening: Callable[[], deltalake.DeltaTable]) -> deltalake.DeltaTable:
        try:
            return opening()
        except DeltaError as failure:
            raise TableError(
                "table.unreadable",
                f"The log of {self.path} cannot be read: {_first_line(failure)}",
                "Put its _delta_log back from a copy; or move the table away, and restore a backup or run it again.",
            ) from failure

    def actions(self, version: int) -> list[dict[str, Any]] | None:
        """What a commit says, line by line; None when it is not there, or no longer."""
        files, root = file_system(self.path)
        try:
            with files.open_input_stream(f"{root}/_delta_log/{version:020d}.json") as stream:
                return [json.loads(line) for line in stream.read().splitlines() if line.strip()]
        except FileNotFoundError:
            return None


def _is_used(files: fs.FileSystem, root: str) -> bool:
    """Whether something of others is at a path; a writer's lock is there before its table."""
    if files.get_file_info(root).type == fs.FileType.File:
        return True
    inside = files.get_file_info(fs.FileSelector(root, allow_not_found=True))
    return any(not is_hidden(entry.base_name) for entry in inside)


def _rows(ours: Commit, foreign: tuple[Commit, ...]) -> int | None:
    """The rows that the table holds, by our last commit, where nobody else touched them since."""
    if ours.record is None or ours.record.held is None:
        return None
    if any(other.adds_rows or other.removes_rows for other in foreign):
        return None
    counts = counts_of(ours)
    return ours.record.held + counts.inserted - counts.deleted


def _commit_of(version: int, actions: list[dict[str, Any]]) -> Commit:
    info: dict[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
    said = None if info.get("operation") == "OPTIMIZE" else info.get("userMetadata")  # what its session was about
    removed = {a["remove"]["path"] for a in actions if "remove" in a and a["remove"].get("dataChange", True)}
    added = {a["add"]["path"] for a in actions if "add" in a and a["add"].get("dataChange", True)}
    operation, metrics = info.get("operation", "unknown"), info.get("operationMetrics", {})
    record = Record.from_json(said)
    return Commit(
        version=version,
        at=_moment(info.get("timestamp")),
        operation=operation,
        metrics=metrics,
        record=record,
        read_version=info.get("readVersion"),
        prepares=info.get("userMetadata") == PREPARES,
        numbered=any(action["txn"]["appId"] == APP_ID for action in actions if "txn" in action),
        adds_rows=bool(added - removed),  # a file that stays, with rows marked as deleted, is in both
        removes_rows=bool(removed),
        id=str(info.get("txnId") or _digest(info, added, removed)),  # not every writer gives the first
        seen=rows_seen(operation, metrics, keyed=bool(record and record.keys)),
    )


def _digest(info: dict[str, Any], added: set[str], removed: set[str]) -> str:
    """What tells a commit from another one of the same number: its files have names that nobody gives twice."""
    said = json.dumps([info.get("timestamp"), sorted(added), sorted(removed)])
    return hashlib.sha256(said.encode()).hexdigest()[:16]


def _from_anchor(properties: dict[str, str], sequence: int, gap: int, newest: int, later: list[Commit]) -> _Last:
    """The record from the table property, where it is of the last commit; the log is gone from `gap` down.

    What others did in the gap is not known, so it may have been anything. The commit after the one that the copy
    was made of is the copying itself.
    """
    record, version = Record.from_json(properties.get(ANCHOR)), _anchored(properties)
    if record is None or version is None or record.sequence != sequence:
        return _Last(foreign=tuple(later))
    if gap > version + 1:
        later.append(Commit(newest, "", "cleaned up", {}, None, adds_rows=True, removes_rows=True))
    return _Last(record, version, foreign=tuple(commit for commit in later if commit.version > version))


def _marked(table: deltalake.DeltaTable, mark: re.Pattern[str]) -> tuple[str, ...]:
    """The columns that have such a thing in their metadata."""
    fields = json.loads(table.schema().to_json())["fields"]
    return tuple(field["name"] for field in fields if any(map(mark.match, field["metadata"])))


def _is_on(properties: dict[str, str], name: str) -> bool:
    return properties.get(name, "false").lower() == "true"


def _anchored(properties: dict[str, str]) -> int | None:
    version = properties.get(ANCHOR_VERSION)
    return int(version) if version else None


def _moment(milliseconds: int | None) -> str:
    if milliseconds is None:
        return ""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _first_line(failure: Exception) -> str:
    return str(failure).splitlines()[0] if str(failure) else type(failure).__name__


def _first(batches: pa.RecordBatchReader, limit: int) -> pa.Table:
    """Stops reading once there are enough."""
    found: list[pa.RecordBatch] = []
    for batch in batches:
        found.append(batch)
        if sum(each.num_rows for each in found) >= limit:
            break
    return pa.Table.from_batches(found, batches.schema).slice(0, limit)
