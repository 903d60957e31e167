"""Parquet datasets: a step's rows and its record in one commit of the dataset's own log."""

from __future__ import annotations

import json
import re
import uuid
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as t

from tidemill.errors import TableError
from tidemill.formats.base import (
    CommitResult,
    Conflict,
    MatchResult,
    OverwriteRows,
    ReplaceByKey,
    UpsertRows,
)
from tidemill.formats.filesystem import attempting
from tidemill.formats.parquet import COMPRESSION, PARQUET
from tidemill.formats.parquet.changes import EntryRange
from tidemill.formats.parquet.direct import Direct
from tidemill.formats.parquet.files import footers, unread
from tidemill.formats.parquet.folder import DataFile, Entry, not_written
from tidemill.formats.parquet.log import DatasetLog, commit_of, partition_columns
from tidemill.formats.parquet.protocol import Moved, beginning, committing, walk
from tidemill.formats.parquet.reading import rows_of, schema_of, watch
from tidemill.formats.parquet.staging import Rehearsal, StagedFiles, Staging, called, schema_after
from tidemill.formats.parquet.worker.files import UNREADABLE
from tidemill.formats.port import WEIGHT, Store
from tidemill.formats.row_changes import UnknownChanges, no_row_changes
from tidemill.model import quote, quoted_text, spelled
from tidemill.model.record import counts_of
from tidemill.spark.errors import file_is_gone, one_line
from tidemill.spark.session import SPARK_FAILURES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from pyspark.sql import DataFrame, SparkSession

    from tidemill.errors import DatasetFileError
    from tidemill.formats.base import KeyRange, MatchRows, Operation, Requirements
    from tidemill.formats.parquet.folder import Attempt
    from tidemill.formats.parquet.protocol import State
    from tidemill.model.record import Record, Snapshot


class ParquetStore(Store):
    """The dataset at one path, as it was when `snapshot` was last asked for."""

    traits = PARQUET

    def __init__(
        self, path: str, *, properties: Mapping[str, str] | None = None, partition_by: Sequence[str] = ()
    ) -> None:
        self.path = path
        self._log = DatasetLog(path)
        self._properties = dict(properties or {})
        self._partition_by = tuple(partition_by)
        self._seen: State | None = None
        self._columns: tuple[State, t.StructType] | None = None
        self._begun: Attempt | None = None

    @property
    def log(self) -> DatasetLog:
        return self._log

    def snapshot(self) -> Snapshot | None:
        self._seen = self.log.state()
        if not self._seen.is_there:
            return None
        found = self.log.snapshot_of(self._seen)
        return replace(found, anchored=found.record_version)

    def read(self, spark: SparkSession, version: int | None = None) -> DataFrame:
        """The rows of the last commit, and of files that others have put there; of older ones as long as none went."""
        state = self._state
        held: Iterable[DataFile] = state.files.values()
        if version is not None and version != state.number:
            try:
                held = EntryRange.of(self.log.folder, state, version, state.number).held_before
            except UnknownChanges:
                raise self.no_older_versions() from None
        return rows_of(spark, self.log.folder.root, held, self.schema(spark))

    def row_changes(self, spark: SparkSession, since: int, until: int, columns: Sequence[str]) -> DataFrame:
        """By the files that came, where none went."""
        try:
            found = EntryRange.of(self.log.folder, self._state, since, until)
            found.summary(columns, None)
            found.check_columns(json.loads(self.schema(spark).json())["fields"], columns)
        except UnknownChanges as reason:
            raise no_row_changes(self.path, reason) from None
        rows = rows_of(spark, self.log.folder.root, found.came, self.schema(spark))
        return rows.select(*map(quote, columns), F.lit(1).alias(WEIGHT))

    def count(self, spark: SparkSession) -> int:
        """How many rows there are, as the footers tell."""
        del spark
        return sum(file.rows or 0 for file in self._counted(list(self._state.files.values()), self._state))

    def near(self, spark: SparkSession) -> Callable[[Sequence[KeyRange]], DataFrame]:
        """By the statistics in their footers; all files for no ranges."""

        def near(ranges: Sequence[KeyRange]) -> DataFrame:
            files = self.log.near(self._state, ranges)
            return rows_of(spark, self.log.folder.root, files, self.schema(spark), placed=True)

        return near

    def register(self, spark: SparkSession, name: str) -> None:
        watch(self.path)
        snapshot = self.snapshot()
        assert snapshot is not None  # noqa: S101  only what is there is registered
        columns = ", ".join(f"{quote(item.name)} {item.dataType.simpleString()}" for item in self.schema(spark).fields)
        by = ", ".join(map(quote, snapshot.partition_columns))
        parts = f" PARTITIONED BY ({by})" if by else ""
        place = quoted_text(self.path)
        spark.sql(f"CREATE TABLE IF NOT EXISTS {name} ({columns}) USING parquet{parts} LOCATION {place}")
        self.refresh(spark, name)

    def refresh(self, spark: SparkSession, name: str) -> None:
        """Spark keeps its files in mind, and a step before may have changed them, or was interrupted."""
        state = self.log.state()
        if state.entry is not None and state.entry.partition_by:
            spark.sql(f"ALTER TABLE {name} RECOVER PARTITIONS")
        spark.catalog.refreshTable(name)

    def attempt(self, number: int) -> AbstractContextManager[None]:
        return attempting(self.path, number)

    def match(self, change: MatchRows, snapshot: Snapshot) -> MatchResult | None:
        """The change is taken to the files that may hold its keys.

        None where Spark has to match it, because of its types, or because a key occurs more than once.
        """
        state = self._planned_on(snapshot)
        direct = Direct(
            root=self.log.folder.root,
            state=state,
            held=self.schema(change.rows.sparkSession),
            schema=self.schema(change.rows.sparkSession),
            partition_by=partition_columns(self.path, state),
            folder="",
            near=self.log.near(state, change.ranges),
            rows=change.count,
            compression=self._properties.get(COMPRESSION),
        )
        if not direct.can(change):
            return None
        with self._attempt() as attempt:
            direct.folder = str(attempt.folder)
            found, files = direct.match(change, attempt.name)
        if found.rows != found.keys:
            self.close()
            return None
        staged = StagedCommit(self, state, attempt, files, "MERGE", direct.partition_by, direct.schema)
        return MatchResult(found.rows, found.keys, found.same, staged)

    def like(self, path: str, snapshot: Snapshot) -> ParquetStore:
        """Files are compressed by default: properties of another format mean nothing here."""
        return ParquetStore(path, partition_by=snapshot.partition_columns)

    def close(self) -> None:
        if self._begun is not None:
            self._begun.drop()
            self._begun = None

    def schema(self, spark: SparkSession) -> t.StructType:
        state = self._state
        if self._columns is None or self._columns[0] is not state:
            self._columns = state, schema_of(spark, self.log.folder.root, state, self.log.last_schema(state))
        return self._columns[1]

    def stage(
        self, spark: SparkSession, operation: Operation, snapshot: Snapshot | None, *, rows: int = 0
    ) -> StagedCommit:
        """New and rewritten files, in a folder of their own."""
        del spark  # the rows have their own
        state = self._planned_on(snapshot)
        with self._attempt() as attempt:
            staging = self._staging(Staging, state, operation, str(attempt.folder), rows)
            files = staging.stage(operation, attempt.name)
        return StagedCommit(self, state, attempt, files, called(operation), staging.partition_by, staging.schema)

    def commit_staged(self, staged: StagedCommit, record: Record | None, required: Requirements | None) -> CommitResult:
        """The staged files and the record become the next entry of the log, or `Conflict`."""
        state, files = staged.state, staged.files
        if required is not None and (required.version if state.is_there else None) != _version(state):
            raise Conflict(f"{self.path} was changed since it was looked at")
        if self._begun is not staged.attempt:
            raise Conflict(f"what was staged for {self.path} was given up")
        self._begun = None  # from here on it ends with its commit
        with self._failures(), self.log.folder.ending(staged.attempt):
            entry = replace(
                self._next(state, staged.operation, notes=record is None),
                attempt=staged.attempt.name,
                record=record.to_json() if record else None,
                add=tuple(files.add),
                remove=tuple(files.remove),
                files=self._files_after(state, files),
                partition_by=staged.partition_by,
                schema=staged.schema.json(),
                metrics=files.metrics,
            )
            walk(committing(self.log.folder, state, entry))
        self._seen = None
        return _result(entry, state, files)

    def set_properties(self, spark: SparkSession, properties: Mapping[str, str]) -> None:
        del spark
        state = self.log.state()
        entry = self._next(state, "SET TBLPROPERTIES", notes=True)
        self._note(state, replace(entry, properties={**entry.properties, **properties}))

    def drop_columns(self, spark: SparkSession, columns: Sequence[str], snapshot: Snapshot) -> None:
        """All its files are rewritten without them."""
        state = self._planned_on(snapshot)
        if parts := [name for name in partition_columns(self.path, state) if spelled(name, columns)]:
            raise TableError(
                "dataset.partition_column",
                f"{self.path} is partitioned by {', '.join(parts)}, which its source lacks, so it cannot lose it.",
                "Give the column in the source, or use append_new_columns. Nothing was changed.",
            )
        staged = self.stage(spark, OverwriteRows(self.read(spark).drop(*columns)), snapshot)
        self.commit_staged(staged, None, None)

    def commit_record(self, spark: SparkSession, record: Record, after: int) -> None:
        del spark
        state = self.log.state()
        if state.number != after:
            raise Conflict(f"{self.path} was changed since it was looked at")
        self._note(state, replace(self._next(state, "WRITE", notes=True), record=record.to_json()))

    def no_older_versions(self) -> TableError:
        return TableError(
            "dataset.no_older_versions",
            f"{self.path} is a Parquet dataset, which holds the rows of its last commit only.",
            "Keep copies of its folder to go back to, or use the format delta.",
        )

    @property
    def _state(self) -> State:
        if self._seen is None:
            self._seen = self.log.state()
        return self._seen

    def _planned_on(self, snapshot: Snapshot | None) -> State:
        state = self._state
        if state.is_there != (snapshot is not None) or (snapshot and snapshot.version != state.number):
            raise Conflict(f"{self.path} was changed since it was looked at")
        return state

    @contextmanager
    def _attempt(self) -> Iterator[Attempt]:
        """A folder to stage in. What was staged before and not committed is given up, and so is this if it fails."""
        with self._failures():
            self.close()
            self._begun = attempt = walk(beginning(self.log.folder))
            try:
                yield attempt
            except BaseException:
                self.close()
                raise

    def rehearse(self, operation: Operation, record: Record, snapshot: Snapshot | None) -> tuple[CommitResult, int]:
        self.log.folder.check_alone()
        state = self._planned_on(snapshot)
        with self._failures():
            staging = self._staging(Rehearsal, state, operation, "", 0)
            staged = staging.stage(operation, "")
        entry = replace(self._next(state, called(operation)), metrics=staged.metrics, record=record.to_json())
        return _result(replace(entry, number=state.number), state, staged), len(staging.near)

    def _staging(self, kind: type[Staging], state: State, operation: Operation, folder: str, rows: int) -> Staging:
        held = self.schema(operation.rows.sparkSession) if state.is_there else None
        if isinstance(operation, OverwriteRows):
            rows += sum(file.rows or 0 for file in state.known.values())
        return kind(
            root=self.log.folder.root,
            state=state,
            held=held,
            schema=schema_after(held, operation),
            partition_by=self._partitions(state, operation),
            folder=folder,
            near=self._near(state, operation),
            rows=rows,
            compression=self._properties.get(COMPRESSION),
        )

    def _note(self, state: State, entry: Entry) -> None:
        """An entry that leaves the files as they are."""
        with self._failures():
            attempt = walk(beginning(self.log.folder))
            with self.log.folder.ending(attempt):
                walk(committing(self.log.folder, state, replace(entry, attempt=attempt.name)))
        self._seen = None

    def _next(self, state: State, operation: str, *, notes: bool = False) -> Entry:
        before = state.entry
        return Entry(
            number=state.number + 1,
            dataset_id=before.dataset_id if before else uuid.uuid4().hex,
            attempt="",
            at=datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            operation=operation,
            files=self._counted(list(state.files.values()), state),
            partition_by=partition_columns(self.path, state) if state.is_there else (),
            schema=before.schema if before and not state.came else None,
            properties=before.properties if before else self._properties,
            notes=notes,
            foreign_came=bool(state.came),
            foreign_left=bool(state.left),
        )

    def _near(self, state: State, operation: Operation) -> list[DataFile]:
        match operation:
            case ReplaceByKey(ranges=ranges) | UpsertRows(ranges=ranges, delete_missing=False):
                return self.log.near(state, ranges)
            case _:
                return list(state.files.values())

    def _partitions(self, state: State, operation: Operation) -> tuple[str, ...]:
        wanted = operation.partition_by if isinstance(operation, OverwriteRows) else None
        asked = self._partition_by if not state.is_there else wanted
        if asked is None:
            return partition_columns(self.path, state)
        return tuple(spelled(name, operation.rows.columns) or name for name in asked)

    def _files_after(self, state: State, staged: StagedFiles) -> tuple[DataFile, ...]:
        gone = {file.path for file in staged.remove}
        kept = [file for file in state.files.values() if file.path not in gone]
        return (*self._counted(kept, state), *(added.file for added in staged.add))

    def _counted(self, files: list[DataFile], state: State) -> tuple[DataFile, ...]:
        """The files with how many rows each has."""
        known = {path: file.rows for path, file in state.known.items()}
        unknown = [file for file in files if known.get(file.path) is None or state.known[file.path] != file]
        counted = {
            file.path: footer.rows for file, footer in zip(unknown, footers(self.log.folder.root, unknown), strict=True)
        }
        return tuple(replace(file, rows=counted.get(file.path, known.get(file.path))) for file in files)

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """What goes wrong before the commit point leaves the dataset as it was."""
        try:
            yield
        except Moved as moved:
            raise Conflict(str(moved)) from moved
        except SPARK_FAILURES as failure:
            if file_is_gone(failure):
                raise Conflict(f"files of {self.path} have gone since it was looked at") from failure
            raise self._unread(one_line(failure)) or not_written(self.path, one_line(failure)) from failure
        except OSError as failure:
            raise not_written(self.path, failure) from failure

    def _unread(self, message: str) -> DatasetFileError | None:
        """What a worker reported of a file that it could not read."""
        found = re.match(rf"OSError: (.+?){UNREADABLE}(.*)", message)
        return unread(str(self.log.folder.root), found[1], found[2]) if found else None


@dataclass(frozen=True, slots=True)
class StagedCommit:
    """Files that were staged in an attempt on one state of a dataset, for its next entry."""

    store: ParquetStore
    state: State
    attempt: Attempt
    files: StagedFiles
    operation: str
    partition_by: tuple[str, ...]
    schema: t.StructType

    def commit(self, record: Record, required: Requirements) -> CommitResult:
        return self.store.commit_staged(self, record, required)


def _version(state: State) -> int | None:
    return state.number if state.is_there else None


def _result(entry: Entry, state: State, staged: StagedFiles) -> CommitResult:
    return CommitResult(
        version=entry.number,
        alone=True,
        counts=counts_of(commit_of(entry)),
        files_rewritten=len(staged.remove),
        files_kept=len(state.files) - len(staged.remove),
    )
