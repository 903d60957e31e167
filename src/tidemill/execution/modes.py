"""Other ways through a step: a backfill in batches, a full refresh, and a rehearsal that writes nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidemill.changes.compile import ALL_COUNTS
from tidemill.errors import ArgumentError, TidemillError
from tidemill.execution.functions import FunctionStep
from tidemill.execution.loads import LoadsStep, run_any
from tidemill.execution.reading import cursor_of
from tidemill.execution.results import together
from tidemill.execution.step import Asked, Step, done
from tidemill.formats.base import AppendRows, CommitResult, Compiled, HeldRows, OverwriteRows, Target
from tidemill.formats.history import completed
from tidemill.formats.registry import store_of
from tidemill.model.format import Capability
from tidemill.model.strategy import Merge, Replace
from tidemill.model.variables import NOTHING_GIVEN
from tidemill.planning.dates import whole_of
from tidemill.planning.request import Request
from tidemill.planning.steps import layout_notices
from tidemill.sources.protocol import Reading
from tidemill.spark.settings import in_zone_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from tidemill.execution.prepare import Prepared
    from tidemill.execution.results import StepResult
    from tidemill.formats.base import Operation
    from tidemill.model.record import Record
    from tidemill.model.table import Table
    from tidemill.planning.request import Backfill, Part
    from tidemill.planning.windows import WindowPlan
    from tidemill.sources.protocol import Connector


def run_backfill(
    spark: SparkSession,
    table: Table,
    source: Connector,
    asked: Backfill,
    *,
    now: datetime | None = None,
    report: Callable[[str], None] = lambda _: None,
    variables: Mapping[str, str] = NOTHING_GIVEN,
) -> StepResult:
    """Reads what was asked for; an earlier try of the same that was cut short is taken up where it stopped.

    `report` is called with each batch before it begins.
    """
    started = in_zone_of(spark, now or datetime.now(UTC))
    parts, skipped = _parts(spark, table, source, asked, started)
    results: list[StepResult] = []
    for number, part in enumerate(parts, 1):
        report(f"{number} of {len(parts)} · {part}")
        try:
            results.append(run_any(spark, table, source, now=started, part=part, variables=variables))
        except TidemillError as failure:
            failure.remedy += _kept(number - 1, len(parts), part)
            raise
    return _together(results, asked, skipped)


def _parts(
    spark: SparkSession, table: Table, source: Connector, asked: Backfill, now: datetime
) -> tuple[list[Part], int]:
    store = store_of(table)
    snapshot = store.snapshot()
    reading = Reading(spark, store.schema(spark) if snapshot else None)
    _, kind = cursor_of(table, source.schema(reading))
    done = snapshot.record.backfill if snapshot and snapshot.record else {}
    every, parts = asked.parts(kind, now, {}), asked.parts(kind, now, done)
    return parts, len(every) - len(parts)


def _together(results: list[StepResult], asked: Backfill, skipped: int) -> StepResult:
    """The batches as one result."""
    last = results[-1]
    done = "1 batch was" if skipped == 1 else f"{skipped} batches were"
    taken_up = (f"taken up where it stopped: {done} done already",) if skipped else ()
    window = replace(last.window, reason=f"backfill {asked}") if last.window else None
    made = together(results)
    return replace(made, window=window, notices=(*taken_up, *made.notices))


def _kept(done: int, count: int, part: Part) -> str:
    """What to know about the batches before one that failed."""
    if count == 1:
        return ""
    return f" {done} of {count} batches are in the table and stay; the same command goes on at {part.start}."


FULL_REFRESH = "full refresh"  # what records call it


def rebuild(
    spark: SparkSession,
    table: Table,
    source: Connector,
    *,
    now: datetime | None = None,
    variables: Mapping[str, str] = NOTHING_GIVEN,
) -> StepResult:
    """Makes the table what a first run over its source as it is now gives, in one commit or none.

    Its log goes on, so that `restore` can go back to what it held. A table that must not be reset is refused.
    """
    asked = Asked(spark, table, source, now or datetime.now(UTC), variables)
    result = done(asked, _kind_of(table))
    return replace(result, rebuilt=not result.first_run)


def _kind_of(table: Table) -> Callable[[Asked], Step]:
    if table.function:
        return _FunctionRebuild
    return _LoadsRebuild if len(table.parts) > 1 else _Rebuild


class _Rebuild(Step):
    """A step that takes the table's rows for nothing, and puts a first run's in their place."""

    request = Request(full_refresh=True)

    def __init__(self, asked: Asked) -> None:
        super().__init__(asked)
        self.known = None

    @property
    def _what(self) -> str:
        return super()._what if self.snapshot is None else FULL_REFRESH

    def _compile(self, prepared: Prepared, held: HeldRows | None, window: WindowPlan | None) -> Compiled:
        if held is None or self.snapshot is None:
            return super()._compile(prepared, held, window)
        target = Target(self.table.name, held.rows, self.snapshot, self.store.log.reach)
        compiled = self._compiled_by_spark(Replace(), prepared.change, target)
        if layout_notices(self.table, self.snapshot.partition_columns):
            rows = OverwriteRows(prepared.change.rows, self.table.partition_by)
            compiled = replace(compiled, operation=rows, known=ALL_COUNTS)
        elif compiled.operation is None and self._says_otherwise():
            compiled = replace(compiled, operation=AppendRows(held.none), known=ALL_COUNTS)
        return replace(compiled, unique=isinstance(self.table.strategy, Merge))

    def _says_otherwise(self) -> bool:
        """The rows are right, and the record still has another declaration: windows would go by that."""
        record = self.snapshot.record if self.snapshot else None
        now = (self.table.sql_hash, self.table.config_hash, None, (), self.read_versions)
        if record is None:
            return True
        return (record.sql_hash, record.config_hash, record.floor, record.reset, record.read_versions) != now


class _FunctionRebuild(_Rebuild, FunctionStep):
    """The function is asked for all dates that the table can have, in one call."""

    def __init__(self, asked: Asked) -> None:
        super().__init__(asked)
        self.fetch = whole_of(asked.table, asked.now) if asked.table.window else None


class _LoadsRebuild(_Rebuild, LoadsStep):
    """All sources are read whole, and their progress begins again."""


def rehearse_step(spark: SparkSession, table: Table, source: Connector) -> StepResult:
    """The result that `run_step` would have, with a notice of what it would do to files."""
    return done(Asked(spark, table, source, datetime.now(UTC)), _Rehearsal)


class _Rehearsal(Step):
    """A step whose commit only counts."""

    notices: tuple[str, ...] = ()
    _stages = False

    def run(self, began: float) -> StepResult:
        result = super().run(began)
        return replace(result, notices=(*result.notices, *self.notices))

    def _without(self, columns: Sequence[str]) -> Step:
        raise ArgumentError(
            "merge.dry_run",
            f"{', '.join(columns)} would leave {self.table.name} before the merge, in a commit of its own, and a dry "
            "run makes none.",
            "Ask with --schema-policy append_new_columns what the merge would do after that.",
        )

    def _commit(self, compiled: Compiled, record: Record) -> CommitResult | None:
        store, operation = self.store, compiled.operation
        files = self.snapshot.files if self.snapshot else 0
        if operation is None:
            stay = "file stays" if files == 1 else "files stay"
            self.notices = (f"would write nothing: {files:,} {stay}",)
            return None
        if not store.can(Capability.REHEARSAL):
            return self._counted(compiled, operation, record)
        result, read = store.rehearse(operation, record, self.snapshot)
        self.notices = (f"would read {read:,} of {files:,} files and rewrite {result.files_rewritten:,}",)
        return result

    def _counted(self, compiled: Compiled, operation: Operation, record: Record) -> CommitResult:
        """Only the rows are reported where the store finds the files that it rewrites while it writes."""
        appends = isinstance(operation, AppendRows)
        counts = completed(record, {"inserted": operation.rows.count()}) if appends else compiled.counts
        before = self.snapshot.version if self.snapshot else -1
        self.notices = (f"would be version {before + 1}",)
        return CommitResult(max(before, 0), alone=True, counts=counts, files_rewritten=0, files_kept=0)
