"""One step: read a window of a source, make a change of it, commit it; plan again when another writer was first."""

from __future__ import annotations

import logging
import time
import uuid
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidemill.changes.compile import ALL_COUNTS, compile_change, compile_protected
from tidemill.changes.match import compile_matched, match_rows, small_match
from tidemill.changes.small import compile_whole
from tidemill.errors import SchemaError
from tidemill.execution.checks import check_change, warnings
from tidemill.execution.joins import JoinSource
from tidemill.execution.prepare import ONE_TASK, Prepared, prepare, profile_in_order
from tidemill.execution.producers import QuerySource
from tidemill.execution.reading import reading_of, window_of
from tidemill.execution.record import Recording, keep_anchor, told
from tidemill.execution.results import StepResult
from tidemill.execution.retry import with_retries
from tidemill.formats.base import HELD, AppendRows, Compiled, Expected, HeldRows, Target
from tidemill.formats.registry import attempting, store_of
from tidemill.model.names import of
from tidemill.model.query import Loaded
from tidemill.model.source import Loads
from tidemill.model.strategy import Merge, MergeStrategy
from tidemill.model.variables import NOTHING_GIVEN
from tidemill.planning.refusals import missing_variables, protection, refusals, refuse
from tidemill.planning.request import USUAL
from tidemill.planning.starts import table_for
from tidemill.planning.windows import known_of
from tidemill.sources.protocol import Reading, bytes_of
from tidemill.spark.session import pace, paced_session
from tidemill.spark.settings import in_zone_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from tidemill.formats.base import Change, CommitResult, Profile, Whole
    from tidemill.model.record import Record
    from tidemill.model.strategy import Strategy
    from tidemill.model.table import Table
    from tidemill.planning.request import Part
    from tidemill.planning.windows import WindowPlan
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
    return done(Asked(spark, table, source, now or datetime.now(UTC), variables), lambda asked: Step(asked, part))


@dataclass(frozen=True, slots=True)
class Asked:
    """What a step is to do. Each attempt at it has a run id of its own."""

    spark: SparkSession
    table: Table
    source: Connector
    now: datetime
    variables: Mapping[str, str] = field(default_factory=lambda: NOTHING_GIVEN)
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex)


def done(asked: Asked, step: Callable[[Asked], Step]) -> StepResult:
    """The step, attempted until no other writer is first."""
    began = time.monotonic()

    def attempted(attempt: int) -> StepResult:
        with attempting(asked.table, attempt):
            return step(replace(asked, run_id=f"{asked.run_id}-{attempt}")).run(began)

    return with_retries(asked.table.name, attempted)


class Step:
    """One attempt at a step, on one snapshot of the table. `known` is what of it counts for its rows."""

    request = USUAL
    whole: Whole | None = None  # the table in memory, once its rows are gathered and where it is small
    _stages = True  # may write what is not committed yet

    def __init__(self, asked: Asked, part: Part | None = None) -> None:
        self.asked, self.part = asked, part
        self.spark, self.table, self.source = asked.spark, asked.table, asked.source
        self.now, self.variables = in_zone_of(asked.spark, asked.now), asked.variables
        self.store = store_of(self.table)
        self.store.check_writer(self.spark)
        self.snapshot = self.known = known_of(self.table, self.store.snapshot())
        refuse(refusals(self.table, self.snapshot, self.request))

    def run(self, began: float) -> StepResult:
        with closing(self.store):
            return self._attempted(began)

    def _attempted(self, began: float) -> StepResult:
        prepared, held, window, input_version = self._gathered()
        logger.info("%s: %s, %s", self.table.name, self.table.strategy, window.reason if window else "all rows")
        pace(prepared.change.rows.sparkSession, small=self._is_small(prepared))
        compiled = self._compile(prepared, held, window)
        record = self._record(prepared, compiled, window, input_version)
        checks = check_change(self.table, prepared, compiled, record, held)
        if prepared.dropped:  # only now, when nothing refuses the change
            return _told_of(prepared.dropped, self._without(prepared.dropped).run(began))
        committed = self._commit(compiled, record) or self._note(compiled, record, held)
        result = self._result(prepared, compiled, committed, record, window, time.monotonic() - began)
        return replace(result, checks=checks, notices=(*result.notices, *warnings(checks)))

    def _versions(self) -> Mapping[str, str]:
        """Of all tables that a query with a window reads: a later run says which of them it will not see change."""
        if not self.table.reads_windows or not isinstance(self.source, QuerySource):
            return {}
        return self.source.versions()

    def _gathered(self) -> tuple[Prepared, HeldRows | None, WindowPlan | None, str | None]:
        """The change, the rows that the table holds, the window that was read, and the version of the input."""
        # Asked before its rows are read: what comes in between is then seen by the next run.
        input_version = self.source.version() if self.table.producer else None
        self.read_versions = self._versions()
        self.whole = self._whole()
        session = self._session()
        held = self._held(session)
        with self._reading():
            rows, window = self._window_of_rows(Reading(session, held.schema if held and self.known else None))
        held = held if rows.sparkSession is session else self._held(rows.sparkSession)
        with self._reading():
            known = held.schema if held and self.known else None
            table = table_for(self.table, window, self.variables, self.now, first_run=self.known is None)
            seen = self._seen(rows, window)
            measured = self._meets_in_memory and (self.whole is not None or isinstance(table.strategy, Merge))
            prepared = prepare(
                table, rows, window, known, self.known, settled=self.source.settled, seen=seen, measured=measured
            )
        return prepared, held, window, input_version

    def _session(self) -> SparkSession:
        """Where the rows are read; queries, functions and joins make a session for themselves."""
        return paced_session(self.spark) if isinstance(self.table.producer, Loaded | Loads | None) else self.spark

    @property
    def _meets_in_memory(self) -> bool:
        """Whether Spark may be left out where rows are few: what the declaration checks or protects, Spark does."""
        protects = not self.table.reset_allowed or (self.known is not None and self.known.resists_reset)
        return self.known is not None and not self.table.checks and not protects and not self.source.settled

    def _whole(self) -> Whole | None:
        """The table itself, where it is small enough to be met and written without Spark."""
        return self.store.in_memory(self.known) if self.known and self._meets_in_memory else None

    def _part(self, prepared: Prepared) -> Whole | None:
        """What of the table the change can meet, where that is small enough."""
        by_key = isinstance(prepared.strategy, Merge) and prepared.strategy.form is not MergeStrategy.FULL_MERGE
        ranges = prepared.change.profile.ranges
        if self.known is None or not by_key or not ranges or not self._meets_in_memory:
            return None
        return self.store.in_memory(self.known, ranges)

    def _held(self, spark: SparkSession) -> HeldRows | None:
        """The table's rows in the session of the change. Those of a small table may never be asked of Spark."""
        if self.snapshot is None:
            return None
        if self.whole is not None:
            return HeldRows(self.whole.schema, lambda: self.store.read(spark))
        rows = self.store.read(spark)
        return HeldRows(rows.schema, lambda: rows)

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
        return Step(self.asked, self.part)

    def _reading(self) -> AbstractContextManager[None]:
        """Spark's errors while the rows are read and profiled are the source's."""
        return reading_of(self.table, self.source)

    def _window(self, schema: StructType) -> WindowPlan | None:
        started = self.part is not None and self.part.start is not None
        for missing in missing_variables(self.table, self.variables, first_run=self.known is None, started=started):
            raise missing
        asked = (self.known, self.now, self.part, self.variables, self.source)
        return window_of(self.spark, self.store, self.table, schema, *asked)

    def _compile(self, prepared: Prepared, held: HeldRows | None, window: WindowPlan | None) -> Compiled:
        if self.snapshot is None or held is None:
            keyed = isinstance(self.table.strategy, Merge)
            return Compiled(AppendRows(prepared.change.rows), unique=keyed)
        compiled = self._compiled(prepared, held, window)
        if compiled.operation is None and window and window.moves_on:
            return replace(compiled, operation=AppendRows(held.none), known=ALL_COUNTS)
        return compiled

    def _compiled(self, prepared: Prepared, held: HeldRows, window: WindowPlan | None) -> Compiled:
        """What is small is compared in memory; tables with a protected history are not."""
        beyond = window.beyond if window else None
        met = (self.whole or self._part(prepared)) if beyond is None else None
        compiled = compile_whole(prepared.strategy, prepared.change, met, self.table.name) if met else None
        if compiled is not None:
            return compiled
        return self._compiled_by_spark(prepared.strategy, prepared.change, self._target(prepared, held.rows, window))

    def _compiled_by_spark(self, strategy: Strategy, change: Change, target: Target) -> Compiled:
        """Every operation of Spark's on a table that is there: where its history is protected, none loses any of it."""
        matched = self._matched(strategy, change, target)
        if matched is not None:
            return matched
        found = protection(target.snapshot, self.table)
        if found is None:
            return compile_change(strategy, change, target)
        return compile_protected(strategy, change, target, found[0])

    def _matched(self, strategy: Strategy, change: Change, target: Target) -> Compiled | None:
        """A small change that the store matches and stages by itself, where it can; that removes no row."""
        matched = small_match(strategy, change, target) if self._stages and not self.table.checks else None
        result = self.store.match(match_rows(matched), target.snapshot) if matched else None
        return compile_matched(matched, result) if matched and result else None

    def _target(self, prepared: Prepared, held: DataFrame, window: WindowPlan | None) -> Target:
        assert self.snapshot is not None  # noqa: S101  it holds rows
        record = self.snapshot.record
        known = record.highest if record and not self.snapshot.foreign_adds else None
        return Target(
            name=self.table.name,
            rows=held,
            snapshot=self.snapshot,
            reach=self.store.log.reach,
            window=self._met(prepared, window),
            since=window.start if window else None,
            highest=known,
            beyond=f"{of(HELD, window.column)} >= {window.beyond.literal()}" if window and window.beyond else None,
            near=self.store.near(held.sparkSession),
        )

    def _met(self, prepared: Prepared, window: WindowPlan | None) -> str | None:  # noqa: ARG002  others ask the rows
        """The rows of the table that those of an append may be the same as."""
        return window.predicate if window else None

    def _record(
        self, prepared: Prepared, compiled: Compiled, window: WindowPlan | None, input_version: str | None
    ) -> Record:
        recording = self._recording(window)
        stands = input_version is not None and recording.stands_for_its_inputs(self.variables)
        return recording.record(
            prepared,
            compiled,
            run_id=self.asked.run_id,
            what=self._what,
            now=self.now,
            held=self._held_rows(),
            input_version=input_version if stands else None,
            read_versions=self.read_versions,
            tally=self.source.tally if isinstance(self.source, JoinSource) else None,
        )

    def _recording(self, window: WindowPlan | None) -> Recording:
        return Recording(self.table, self.snapshot, self.known, window)

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

    def _commit(self, compiled: Compiled, record: Record) -> CommitResult | None:
        if compiled.operation is None:
            if self.snapshot is not None:
                keep_anchor(self.store, self.spark, self.snapshot)
            return None
        staged = compiled.staged or self.store.stage(self.spark, compiled.operation, self.snapshot, rows=record.rows)
        result = staged.commit(record, Expected.of(self.snapshot))
        keep_anchor(self.store, self.spark, self.store.snapshot())
        return result

    def _note(self, compiled: Compiled, record: Record, held: HeldRows | None) -> CommitResult | None:
        """A commit without rows, where the last record tells otherwise than this one: else it would be news forever."""
        before = self.snapshot.record if self.snapshot else None
        if compiled.operation is not None or held is None or before is None or self.table.producer is None:
            return None
        again = self.part is not None and before.read_versions != record.read_versions
        if told(before, self.table) == told(record, self.table) and not again:
            return None
        assert self.snapshot is not None  # noqa: S101  its record is there
        noted = record.with_(counts=asdict(compiled.counts), same_rows_as=self.snapshot.content_version)
        return self.store.commit(self.spark, AppendRows(held.none), noted, self.snapshot)

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
            bytes_read=self._bytes_read(window),
            seconds=seconds,
            first_run=before is None,
            window=window,
            watermark=record.reached(self.table.input_names),
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

    def _bytes_read(self, window: WindowPlan | None) -> int | None:
        """Of the source, by its files."""
        return bytes_of(self.source, window.start if window else None)


def _told_of(dropped: Sequence[str], result: StepResult) -> StepResult:
    """A table that has lost columns has changed, whatever its rows did."""
    lost = f"{', '.join(dropped)} dropped from {result.table}: its source does not have {_them(dropped)}"
    return replace(result, status="changed", notices=(lost, *result.notices))


def _them(things: Sequence[str]) -> str:
    return "it" if len(things) == 1 else "them"
