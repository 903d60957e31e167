"""One step: read a window of a source, make a change of it, commit it; plan again when another writer was first."""

from __future__ import annotations

import logging
import time
import uuid
from contextlib import closing, contextmanager, nullcontext
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from tidemill.change import merge as _merge  # noqa: F401  registers how merges compile
from tidemill.change.operation import ALL_COUNTS, compile_change
from tidemill.contracts.changes import Target
from tidemill.contracts.operations import HELD, AppendRows, Compiled
from tidemill.contracts.records import Record
from tidemill.contracts.store import Conflict
from tidemill.declare.names import of
from tidemill.declare.producers import Loaded, Query
from tidemill.declare.strategies import Append, Merge, MergeStrategy
from tidemill.declare.variables import NOTHING_GIVEN
from tidemill.engine.session import pace, step_session
from tidemill.engine.translate import one_line
from tidemill.engine.zone import in_zone_of
from tidemill.errors import FileError, FilesGoneError, SchemaError, SourceError
from tidemill.plan.conditions import table_for
from tidemill.plan.ground import refuse
from tidemill.plan.refusals import refusals
from tidemill.plan.requests import USUAL
from tidemill.plan.starts import follows_variables
from tidemill.plan.variables import missing_variables
from tidemill.plan.windows import known_of
from tidemill.run.anchor import keep_anchor
from tidemill.run.checks import check_change, warnings
from tidemill.run.in_order import profile_in_order
from tidemill.run.join import JoinSource
from tidemill.run.prepare import ONE_TASK, Prepared, prepare
from tidemill.run.results import StepResult
from tidemill.run.retry import with_retries
from tidemill.run.windows import window_of
from tidemill.sources.failures import failures_of
from tidemill.sources.protocol import Reading
from tidemill.stores.opened import attempting, store_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from tidemill.contracts.changes import Change, Profile
    from tidemill.contracts.store import CommitResult
    from tidemill.declare.cursors import Cursor
    from tidemill.declare.tables import Table
    from tidemill.plan.backfills import Part
    from tidemill.plan.windows import WindowPlan
    from tidemill.sources.protocol import Connector

logger = logging.getLogger("tidemill")

NEAR = 8 * 1024 * 1024  # bytes of a table that are met sooner than code for it is generated


def run_step(
    spark: SparkSession,
    table: Table,
    source: Connector,
    *,
    now: datetime | None = None,
    part: Part | None = None,
    variables: Mapping[str, str] = NOTHING_GIVEN,
) -> StepResult:
    """Brings the table up to date with its source, or with a part of it, in one commit or none."""
    began = time.monotonic()
    run_id, started = uuid.uuid4().hex, now or datetime.now(UTC)

    def attempted(attempt: int) -> StepResult:
        with attempting(table, attempt):
            return Step(spark, table, source, f"{run_id}-{attempt}", started, part, variables).run(began)

    return with_retries(table.name, attempted)


class Step:
    """One attempt at a step, on one snapshot of the table. `known` is what of it counts for its rows."""

    request = USUAL
    _stages = True  # may write what is not committed yet

    def __init__(
        self,
        spark: SparkSession,
        table: Table,
        source: Connector,
        run_id: str,
        now: datetime,
        part: Part | None = None,
        variables: Mapping[str, str] = NOTHING_GIVEN,
    ) -> None:
        self.spark, self.table, self.source, self.run_id = spark, table, source, run_id
        self.now = in_zone_of(spark, now)
        self.part, self.variables = part, variables
        self.store = store_of(table)
        self.snapshot = self.known = known_of(table, self.store.snapshot())
        refuse(refusals(table, self.snapshot, self.request))

    def run(self, began: float) -> StepResult:
        with closing(self.store):
            return self._attempted(began)

    def _attempted(self, began: float) -> StepResult:
        # Asked before its rows are read: what comes in between is then seen by the next run.
        input_version = self.source.version() if self.table.producer else None
        reading = Reading(self._session(), self.store.schema(self.spark) if self.known else None)
        with self._reading():
            rows, window = self._window_of_rows(reading)
        held = self.store.read(rows.sparkSession) if self.snapshot else None
        with self._reading():
            known = held if self.known else None
            table = table_for(self.table, window, self.variables, self.now, first_run=self.known is None)
            seen = self._seen(rows, window)
            prepared = prepare(table, rows, window, known, self.known, settled=self.source.settled, seen=seen)
        if prepared.dropped:
            return self._without(prepared.dropped).run(began)
        logger.info("%s: %s, %s", self.table.name, self.table.strategy, window.reason if window else "all rows")
        pace(prepared.change.rows.sparkSession, small=self._is_small(prepared))
        compiled = self._compile(prepared, held, window)
        record = self._record(prepared, compiled, window, input_version)
        checks = check_change(self.table, prepared, compiled, record, held)
        committed = self._commit(compiled, record) or self._note(compiled, record, held)
        result = self._result(prepared, compiled, committed, record, window, time.monotonic() - began)
        return replace(result, checks=checks, notices=(*result.notices, *warnings(checks)))

    def _session(self) -> SparkSession:
        """Where the rows are read; queries, functions and joins make a session for themselves."""
        return step_session(self.spark) if isinstance(self.table.producer, Loaded | None) else self.spark

    def _is_small(self, prepared: Prepared) -> bool:
        """Whether few rows come, and meet little of the table."""
        strategy, change = prepared.strategy, prepared.change.profile
        if change.rows > ONE_TASK or self.source.settled:
            return False
        by_key = isinstance(strategy, Merge) and strategy.form is not MergeStrategy.FULL_MERGE and not self.table.checks
        return self.snapshot is None or self.store.log.reach(change.ranges if by_key else ()).size <= NEAR

    def _seen(self, rows: DataFrame, window: WindowPlan | None) -> Profile | None:
        strategy = self.table.strategy
        if self.known is not None or window is not None or not isinstance(strategy, Merge):
            return None
        return profile_in_order(self.source, rows, strategy.keys)

    def _window_of_rows(self, reading: Reading) -> tuple[DataFrame, WindowPlan | None]:
        whole = self.known is None and self.part is None and not self.table.owns_window
        if whole or not self.table.reads_windows:
            rows = self.source.read(reading)
            return rows, self._window(rows.schema)
        window = self._window(self.source.schema(reading))
        if window is None:
            return self.source.read(reading), window
        reading = replace(reading, until=window.end)
        if window.start is None:
            return self.source.read(reading), window
        return self.source.read_since(reading, window.column, window.start), window

    def _without(self, columns: Sequence[str]) -> Step:
        """The step again, on a table that has lost the columns which its source has lost (sync_all_columns)."""
        if self.snapshot is None or self.snapshot.record is None:
            raise SchemaError(
                "schema.cannot_drop",
                f"{self.table.name} was made elsewhere, and dropping {', '.join(columns)} would change its protocol.",
                "Drop the columns yourself, or use append_new_columns. The table is unchanged.",
            )
        self.store.drop_columns(self.spark, columns, self.snapshot)
        return self._again()

    def _again(self) -> Step:
        """The same step, on the table as it is now."""
        return Step(self.spark, self.table, self.source, self.run_id, self.now, self.part, self.variables)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Spark's errors while the rows are read and profiled are the source's; a declared one hides its secrets."""
        producer = self.table.producer
        try:
            with failures_of(producer.source) if isinstance(producer, Loaded) else nullcontext():
                yield
        except FileError as failure:
            if failure.is_of(self.table.path):
                raise
            if isinstance(failure, FilesGoneError) and producer:  # another attempt reads the source again
                raise Conflict(failure.problem) from failure
            raise self._unreadable(failure.problem, failure.remedy) from failure
        except (PySparkException, Py4JError) as failure:
            what = "query, or what it reads," if isinstance(producer, Query) else "source"
            raise self._unreadable(one_line(failure), f"Mend the {what} and run again.") from failure

    def _unreadable(self, why: str, remedy: str) -> SourceError:
        return SourceError(
            "source.unreadable",
            f"{self.source} could not be read: {why}",
            f"{remedy} {self.table.name} is unchanged.",
        )

    def _window(self, schema: StructType) -> WindowPlan | None:
        started = self.part is not None and self.part.start is not None
        for missing in missing_variables(self.table, self.variables, first_run=self.known is None, started=started):
            raise missing
        asked = (self.known, self.now, self.part, self.variables, self.source)
        return window_of(self.spark, self.store, self.table, schema, *asked)

    def _compile(self, prepared: Prepared, held: DataFrame | None, window: WindowPlan | None) -> Compiled:
        if self.snapshot is None or held is None:
            keyed = isinstance(self.table.strategy, Merge)
            return Compiled(AppendRows(prepared.change.rows), unique=keyed)
        record = self.snapshot.record
        known = record.highest if record and not self.snapshot.foreign_adds else None
        target = Target(
            name=self.table.name,
            rows=held,
            snapshot=self.snapshot,
            reach=self.store.log.reach,
            window=self._met(prepared, window),
            since=window.start if window else None,
            highest=known,
            beyond=f"{of(HELD, window.column)} >= {window.beyond.literal()}" if window and window.beyond else None,
            near=self.store.nearby(held.sparkSession),
            bring=self.store.bring if self._stages and not self.table.checks else None,
        )
        compiled = compile_change(prepared.strategy, prepared.change, target)
        if compiled.operation is None and window and window.moves_on:
            return replace(compiled, operation=AppendRows(held.where("false")), known=ALL_COUNTS)
        return compiled

    def _met(self, prepared: Prepared, window: WindowPlan | None) -> str | None:  # noqa: ARG002  others ask the rows
        """The rows of the table that those of an append may be the same as."""
        return window.predicate if window else None

    def _record(
        self, prepared: Prepared, compiled: Compiled, window: WindowPlan | None, input_version: str | None
    ) -> Record:
        change, strategy = prepared.change, prepared.strategy
        before = self.known.record if self.known else None
        progress = dict(before.progress) if before else {}
        watermark = window.next_watermark(change.profile.highest, self.now) if window else None
        is_part = window is not None and window.is_partial
        if watermark is not None:
            progress[self.table.input] = watermark
        elif self.table.window is None:
            progress.pop(self.table.input, None)
        return Record(
            run_id=self.run_id,
            table=self.table.name,
            sequence=(self.snapshot.sequence if self.snapshot else 0) + 1,
            strategy=self._what,
            at=self.now.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            rows=change.profile.rows,
            counts=compiled.record_counts(),
            remainder=compiled.remainder,
            keys=strategy.keys if isinstance(strategy, Merge) else (),
            unique=self._stays_unique(compiled),
            window=window.to_json() if window else {},
            progress=progress,
            highest=self._highest(change),
            floor=window.floor if window else None,
            sql_hash=self.table.sql_hash,
            config_hash=self.table.config_hash,
            kept_by=self.table.kept_by,
            input_versions={self.table.input: input_version} if input_version and self._stands_for(window) else {},
            columns=tuple(prepared.columns),
            reset=tuple(name for name in (before.reset if before else ()) if is_part or name != self.table.input),
            backfill=self._backfill(window),
            base=self.snapshot.version if self.snapshot else None,
            held=self._held_rows(),
            joined=self._joined(window),
        )

    def _joined(self, window: WindowPlan | None) -> Mapping[str, int | str]:
        """What a join has met in its newest window; a window of the past leaves that as it is."""
        if not isinstance(self.source, JoinSource) or self.source.tally is None:
            return {}
        before = self.known.record.joined if self.known and self.known.record else {}
        past = window is not None and window.is_backfill and not window.moves_on
        return before if before and past else self.source.tally.to_json()

    def _stands_for(self, window: WindowPlan | None) -> bool:
        """Whether inputs that are the same mean that the next run has nothing to do."""
        bounded = window is not None and window.is_partial
        return not bounded and not follows_variables(self.table, self.variables, first_run=self.known is None)

    def _backfill(self, window: WindowPlan | None) -> Mapping[str, str]:
        """How far a backfill in batches has come; other runs keep what is known of it."""
        if window is not None and window.is_backfill:
            return window.mark or {}
        return self.known.record.backfill if self.known and self.known.record else {}

    @property
    def _what(self) -> str:
        """What the record calls this commit."""
        return str(self.table.strategy)

    def _held_rows(self) -> int:
        """How many rows the table holds before this step; counted only where its log does not tell."""
        if self.snapshot is None:
            return 0
        return self.store.count(self.spark) if self.snapshot.rows is None else self.snapshot.rows

    def _total(self, held: int | None, committed: CommitResult | None) -> int:
        if held is None or (committed and not committed.alone):
            return self.store.count(self.spark)
        return held + committed.counts.inserted - committed.counts.deleted if committed else held

    def _stays_unique(self, compiled: Compiled) -> bool:
        strategy = self.table.strategy
        if not compiled.unique or not isinstance(strategy, Merge):
            return False
        whole = self.known is None or strategy.form is MergeStrategy.FULL_MERGE
        return whole or (self.known is not None and self.known.unique_on(strategy.keys))

    def _highest(self, change: Change) -> Cursor | None:
        """The highest time that the table can hold after this commit, where that is known."""
        if self.known is None or self.table.window is None:
            return change.profile.highest
        record = self.known.record
        if record is None or self.known.foreign_adds or record.highest is None:
            return None
        found = change.profile.highest
        return record.highest if found is None else max(record.highest, found)

    def _commit(self, compiled: Compiled, record: Record) -> CommitResult | None:
        if compiled.operation is None:
            if self.snapshot is not None:
                keep_anchor(self.store, self.spark, self.snapshot)
            return None
        result = self.store.commit(self.spark, compiled.operation, record, self.snapshot)
        keep_anchor(self.store, self.spark, self.store.snapshot())
        return result

    def _note(self, compiled: Compiled, record: Record, held: DataFrame | None) -> CommitResult | None:
        """A commit without rows, where the last record tells otherwise than this one: else it would be news forever."""
        before = self.snapshot.record if self.snapshot else None
        if compiled.operation is not None or held is None or before is None or self.table.producer is None:
            return None
        if _told(before, self.table) == _told(record, self.table):
            return None
        assert self.snapshot is not None  # noqa: S101  its record is there
        noted = record.with_(counts=asdict(compiled.counts), same_rows_as=self.snapshot.content_version)
        return self.store.commit(self.spark, AppendRows(held.where("false")), noted, self.snapshot)

    def _result(
        self,
        prepared: Prepared,
        compiled: Compiled,
        committed: CommitResult | None,
        record: Record,
        window: WindowPlan | None,
        seconds: float,
    ) -> StepResult:
        before = self.snapshot
        return StepResult(
            table=self.table.name,
            status="created" if before is None else "changed" if compiled.operation else "unchanged",
            strategy=str(self.table.strategy),
            version=committed.version if committed else before.version if before else 0,
            counts=committed.counts if committed else compiled.counts,
            total=self._total(record.held, committed),
            rows_read=prepared.rows_read,
            seconds=seconds,
            first_run=before is None,
            window=window,
            watermark=record.progress.get(self.table.input),
            files_rewritten=committed.files_rewritten if committed else 0,
            files_kept=committed.files_kept if committed else before.files if before else 0,
            commit_id=record.run_id if committed else None,
            joined=self.source.tally if isinstance(self.source, JoinSource) else None,
            notices=(
                *prepared.notices,
                *compiled.notices,
                *((window.notice,) if window and window.notice else ()),
            ),
        )


def _told(record: Record, table: Table) -> tuple[object, ...]:
    """What a record says that bounds or explains the runs after it."""
    columns = {name.lower() for name in record.columns} if isinstance(table.strategy, Append) else set()
    return record.sql_hash, record.config_hash, record.floor, record.reset, columns
