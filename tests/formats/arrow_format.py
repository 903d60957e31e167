"""A third table format, for the proof that one file is all it takes: a commit is an Arrow file, and a line of JSON.

It keeps the rows of each version whole, so it reads older ones; it has none of the capabilities for large tables.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.types import StructType

from tidemill import Commit, Record
from tidemill.changes.apply import rows_after
from tidemill.errors import ArgumentError
from tidemill.formats import Capability
from tidemill.formats.base import CommitResult, Conflict, KeyRange, Operation, Reach, Requirements
from tidemill.formats.port import WEIGHT, InputChanges, RowsBy, Store, TableFormat, TableLog
from tidemill.formats.row_changes import net_rows
from tidemill.formats.traits import FormatTraits
from tidemill.model.record import Described, Snapshot, completed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from tidemill import Cursor

ARROW = FormatTraits("arrow", "folder of Arrow files", frozenset({Capability.TIME_TRAVEL, Capability.ROW_CHANGES}))


@dataclass(frozen=True)
class Entry:
    """One commit, as its line of JSON has it; `rows` is the version whose Arrow file has the rows."""

    version: int
    sequence: int
    at: str
    table_id: str
    operation: str
    schema: str
    rows: int
    count: int
    record: str | None = None
    seen: dict[str, int] | None = None
    properties: dict[str, str] | None = None
    partition_by: tuple[str, ...] = ()


class ArrowLog(TableLog):
    def __init__(self, path: str) -> None:
        self.path = path
        self.folder = Path(path) / "_arrow"

    def entry(self, version: int) -> Entry | None:
        file = self.folder / f"{version}.json"
        return Entry(**json.loads(file.read_text())) if file.exists() else None

    def last(self) -> Entry | None:
        return self.entry(max((int(file.stem) for file in self.folder.glob("*.json")), default=-1))

    def known(self) -> Entry:
        found = self.last()
        if found is None:
            raise ArgumentError("table.missing", f"There is no table at {self.path}.", "Give the path of a table.")
        return found

    def exists(self) -> bool:
        return self.last() is not None

    def snapshot(self) -> Snapshot | None:
        last = self.last()
        if last is None:
            return None
        commits = list(self.commits())
        ours = next((commit for commit in commits if commit.record), None)
        foreign = tuple(commit for commit in commits if ours is None or commit.version > ours.version)
        return Snapshot(
            version=last.version,
            sequence=last.sequence,
            record=ours.record if ours else None,
            record_version=ours.version if ours else None,
            foreign=foreign,
            properties=last.properties or {},
            partition_columns=tuple(last.partition_by),
            rows=last.count,
            table_id=last.table_id,
            content_id=str(last.rows),
        )

    def version(self) -> int:
        return self.known().version

    def identity(self) -> str:
        last = self.known()
        return f"{last.table_id}@{last.version}"

    def commits(self, limit: int | None = None) -> Iterator[Commit]:
        newest = self.known().version
        for version in range(newest, -1 if limit is None else newest - limit, -1):
            if commit := self.commit(version):
                yield commit

    def commit(self, version: int) -> Commit | None:
        entry = self.entry(version)
        if entry is None:
            return None
        record = Record.from_json(entry.record)
        seen, ours = entry.seen or {}, record is not None
        return Commit(version, entry.at, entry.operation, {}, record, numbered=ours, prepares=not ours, seen=seen)

    def described(self) -> Described:
        last = self.known()
        properties = last.properties or {}
        return Described(properties.get("comment"), properties, tuple(last.partition_by), last.schema)

    def columns(self) -> list[str]:
        return StructType.fromJson(json.loads(self.known().schema)).names

    def column_types(self) -> dict[str, str]:
        fields = json.loads(self.known().schema)["fields"]
        return {field["name"].lower(): field["type"] for field in fields if isinstance(field["type"], str)}

    def reach(self, ranges: Sequence[KeyRange]) -> Reach:
        del ranges  # any row may be anywhere
        return Reach(1, (self.folder / f"{self.known().rows}.arrow").stat().st_size)

    def times(self, column: str) -> tuple[Cursor, Cursor] | None:
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
        del columns, content
        return InputChanges(version, self.version() if until is None else until, how=RowsBy.VERSIONS)


class ArrowStore(Store):
    traits = ARROW

    def __init__(
        self, path: str, *, properties: Mapping[str, str] | None = None, partition_by: Sequence[str] = ()
    ) -> None:
        self.path, self._log = path, ArrowLog(path)
        self._new = {"properties": dict(properties or {}), "partition_by": tuple(partition_by)}

    @property
    def log(self) -> ArrowLog:
        return self._log

    def read(self, spark: SparkSession, version: int | None = None) -> DataFrame:
        entry = self.log.known() if version is None else self.log.entry(version)
        assert entry is not None
        return spark.createDataFrame(self.rows_at(entry), StructType.fromJson(json.loads(entry.schema)))

    def row_changes(self, spark: SparkSession, since: int, until: int, columns: Sequence[str]) -> DataFrame:
        rows = net_rows([self.read(spark, until)], [self.read(spark, since)])
        assert rows is not None
        return rows.select(*columns, WEIGHT)

    def rows_at(self, entry: Entry) -> list[dict[str, Any]]:
        with pa.ipc.open_file(str(self.log.folder / f"{entry.rows}.arrow")) as file:
            rows: list[dict[str, Any]] = file.read_all().to_pylist()
        return rows

    def stage(
        self, spark: SparkSession, operation: Operation, snapshot: Snapshot | None, *, rows: int = 0
    ) -> StagedArrow:
        del rows
        after = rows_after(operation, self.read(spark, snapshot.version) if snapshot else None)
        return StagedArrow(self, after.toArrow(), after.schema.json(), snapshot)

    def commit_record(self, spark: SparkSession, record: Record, after: int) -> None:
        del spark
        last = self.log.known()
        if last.version != after and record.sequence != last.sequence + 1:
            raise Conflict(f"{self.path} was changed since it was looked at")
        self.write(replace(last, sequence=record.sequence, operation="WRITE", record=record.to_json(), seen={}))

    def set_properties(self, spark: SparkSession, properties: Mapping[str, str]) -> None:
        del spark
        last = self.log.known()
        held = {**(last.properties or {}), **properties}
        self.write(replace(last, properties=held, operation="SET TBLPROPERTIES", record=None, seen={}))

    def drop_columns(self, spark: SparkSession, columns: Sequence[str], snapshot: Snapshot) -> None:
        rows = self.read(spark).drop(*columns)
        StagedArrow(self, rows.toArrow(), rows.schema.json(), snapshot).put("DROP COLUMNS", None, {})

    def check_files(self, spark: SparkSession, version: int) -> None:
        del spark
        assert self.log.entry(version) is not None

    def restore(self, spark: SparkSession, version: int, record: Record) -> None:
        del spark
        then, last = self.log.entry(version), self.log.known()
        assert then is not None
        self.write(
            replace(then, version=last.version, sequence=last.sequence, operation="RESTORE", record=record.to_json())
        )

    def like(self, path: str, snapshot: Snapshot) -> ArrowStore:
        return ArrowStore(path, partition_by=snapshot.partition_columns)

    def write(self, entry: Entry) -> Entry:
        """The next commit after that of the entry; the file decides who is first."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        entry = replace(entry, version=entry.version + 1, at=now)
        try:
            with (self.log.folder / f"{entry.version}.json").open("x") as file:
                file.write(json.dumps(asdict(entry)))
        except FileExistsError:
            raise Conflict(f"{self.path} was changed since it was looked at") from None
        return entry

    def new(self) -> Entry:
        self.log.folder.mkdir(parents=True, exist_ok=True)
        more: dict[str, Any] = dict(self._new)
        return Entry(-1, 0, "", uuid.uuid4().hex, "CREATE", "", 0, 0, **more)


@dataclass(frozen=True)
class StagedArrow:
    """The rows of the next version, in memory."""

    store: ArrowStore
    rows: pa.Table
    schema: str
    snapshot: Snapshot | None

    def commit(self, record: Record, required: Requirements) -> CommitResult:
        last = self.store.log.last()
        if (last.version if last else None) != required.version or (last.sequence if last else 0) != required.sequence:
            raise Conflict(f"{self.store.path} was changed since it was looked at")
        seen = self._counts(last, record.keys)
        entry = self.put("WRITE", record, seen)
        return CommitResult(entry.version, alone=True, counts=completed(record, seen), files_rewritten=0, files_kept=0)

    def put(self, operation: str, record: Record | None, seen: dict[str, int]) -> Entry:
        last = self.store.log.last() or self.store.new()
        number = last.version + 1
        with (
            pa.OSFile(str(self.store.log.folder / f"{number}.arrow"), "w") as file,
            pa.ipc.new_file(file, self.rows.schema) as sink,
        ):
            sink.write_table(self.rows)
        told = {"record": record.to_json() if record else None, "seen": seen, "operation": operation}
        sequence = record.sequence if record else last.sequence
        return self.store.write(
            replace(last, sequence=sequence, schema=self.schema, rows=number, count=self.rows.num_rows, **told)
        )

    def _counts(self, last: Entry | None, keys: Sequence[str]) -> dict[str, int]:
        """Rows that came and rows that went; of one key, a row that came for one that went has changed."""
        before = self.store.rows_at(last) if last else []
        old, new = (Counter(tuple(row.items()) for row in rows) for rows in (before, self.rows.to_pylist()))
        came, went = [*(new - old).elements()], [*(old - new).elements()]
        both = [{tuple(dict(row)[key] for key in keys) for row in rows} for rows in (came, went)] if keys else [set()]
        changed = len(set.intersection(*both))
        return {"inserted": len(came) - changed, "updated": changed, "deleted": len(went) - changed}


class ArrowFormat(TableFormat):
    traits = ARROW

    def is_at(self, path: str) -> bool:
        return (Path(path) / "_arrow").is_dir()

    def log(self, path: str) -> ArrowLog:
        return ArrowLog(path)

    def store(
        self,
        path: str,
        *,
        properties: Mapping[str, str] | None = None,
        partition_by: Sequence[str] = (),
        single_writer: bool = False,
    ) -> ArrowStore:
        del single_writer
        return ArrowStore(path, properties=properties, partition_by=partition_by)
