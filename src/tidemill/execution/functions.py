"""A table that a function gives: each batch of new dates is one commit, after its expectations are met."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from tidemill.changes.check_results import Expected
from tidemill.changes.checks import as_row, samples
from tidemill.changes.columns import require
from tidemill.changes.profile import decoded, exact, time_kind
from tidemill.errors import ArgumentError, CheckError, TidemillError
from tidemill.execution.attempt import Task
from tidemill.execution.commit import commit
from tidemill.execution.reading import RowsRead, gather, table_facts
from tidemill.execution.results import together
from tidemill.formats.base import Conflict
from tidemill.formats.registry import store_of
from tidemill.model.function import OnUnmet
from tidemill.model.names import quote, rejected_name, spelled
from tidemill.model.strategy import Merge, MergeStrategy
from tidemill.model.table import SchemaPolicy, Table
from tidemill.planning.dates import progress_of
from tidemill.planning.plan import plan_step
from tidemill.planning.refusals import refusals, refuse
from tidemill.planning.windows import known_of
from tidemill.sources.frames import FrameSource
from tidemill.sources.protocol import Run
from tidemill.spark.errors import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import date, datetime

    from pyspark.sql import Column, DataFrame, SparkSession

    from tidemill.execution.attempt import Attempt, Gathered
    from tidemill.execution.producers import FunctionRows
    from tidemill.execution.results import StepResult
    from tidemill.model.function import Expectation
    from tidemill.planning.dates import Fetch
    from tidemill.planning.plan import StepPlan
    from tidemill.sources.protocol import Reading

WHY, WHEN, WHICH = (
    "rejected_because",
    "rejected_at",
    "rejected_row",
)  # the columns that a rejected row has beside its own
_FEW_COLUMNS = 5


@dataclass
class Expecting:
    """What is expected of the rows of one step; `results` tell how they fared once they have been looked at."""

    table: Table
    expectations: tuple[Expectation, ...]
    results: tuple[Expected, ...] = field(default=())

    def met(self, spark: SparkSession, rows: DataFrame, now: datetime | None) -> DataFrame:
        """The rows that may enter. Those that may not are kept in a table of their own, each once; without a time
        they are not kept.
        """
        if not self.expectations:
            return rows
        self.results = self._counted(rows)
        self._refuse(rows)
        dropping = [each for each in self.results if each.unmet and each.expectation.on_unmet is OnUnmet.DROP]
        if not dropping:
            return rows
        conditions = [_unmet(each.expectation) for each in dropping]
        unmet = F.coalesce(*(F.when(condition, F.lit(True)) for condition in conditions))  # noqa: FBT003
        if now is not None:
            self._keep(spark, rows.where(unmet), [each.expectation for each in dropping], now)
        return rows.where(unmet.isNull())

    def _counted(self, rows: DataFrame) -> tuple[Expected, ...]:
        for each in self.expectations:
            self._analyse(rows, each)
        counts = [F.count_if(_unmet(each)).alias(f"unmet {n}") for n, each in enumerate(self.expectations)]
        found = rows.agg(F.count(F.lit(1)).alias("rows"), *counts).first()
        assert found is not None  # noqa: S101  a global aggregate has one row
        numbered = enumerate(self.expectations)
        return tuple(Expected(each, found["rows"], found[f"unmet {n}"]) for n, each in numbered)

    def _analyse(self, rows: DataFrame, expectation: Expectation) -> None:
        try:
            _ = rows.where(_unmet(expectation)).schema
        except AnalysisException as failure:
            raise ArgumentError(
                "expectations.bad_condition",
                f"The expectation {expectation} of {self.table.name} is no condition on its rows: {one_line(failure)}",
                f"Their columns are: {', '.join(rows.columns)}. {self.table.name} is unchanged.",
                origin=expectation.origin,
            ) from failure

    def _refuse(self, rows: DataFrame) -> None:
        broken = [each for each in self.results if each.unmet and each.expectation.on_unmet is OnUnmet.FAIL]
        if not broken:
            return
        first = broken[0]
        shown, more = samples(rows.where(_unmet(first.expectation)), self._telling(rows), as_row)
        problems = "; ".join(f"{each.unmet:,} of {each.rows:,} rows do not meet {each.expectation}" for each in broken)
        some = ", ".join([*shown, "…"] if more else shown)
        raise CheckError(
            "expectations.failed",
            f"{self.table.name}: {problems} ({first.expectation.condition}): {some}",
            f"Correct what the function gives; with expect_or_drop such rows go to {rejected_name(self.table.name)}. "
            f"{self.table.name} is unchanged.",
            origin=first.expectation.origin,
        )

    def _telling(self, rows: DataFrame) -> list[str]:
        """The columns that tell a row from others."""
        keys = self.table.strategy.keys
        names = [name for key in keys if (name := spelled(key, rows.columns))]
        return names or rows.columns[:_FEW_COLUMNS]

    def _keep(self, spark: SparkSession, rows: DataFrame, dropping: list[Expectation], now: datetime) -> None:
        """Adds the rows that are not there yet; a row is known by all its values, NULLs aside."""
        reasons = [F.when(_unmet(each), F.lit(f"{each.name}: {each.condition}")) for each in dropping]
        values = F.to_json(F.struct(*(quote(name) for name in sorted(rows.columns, key=str.lower))))
        aside = rows.withColumns(
            {
                WHY: F.concat_ws("; ", *reasons),
                WHEN: F.lit(now).cast("timestamp"),
                WHICH: F.sha2(values, 256),
            }
        ).dropDuplicates([WHICH])
        table = Table(
            name=rejected_name(self.table.name),
            path=rejected_name(self.table.path),
            strategy=Merge((WHICH,), MergeStrategy.INSERT),
            schema_policy=SchemaPolicy.APPEND_NEW_COLUMNS,
            origin=self.table.origin,
        )
        commit(Task(spark, plan_step(table, None, now=now), FrameSource(aside), gather))


def _unmet(expectation: Expectation) -> Column:
    return F.expr(f"NOT coalesce(({expectation.condition}\n), false)")  # a comment at its end must not swallow the rest


def run_function(
    spark: SparkSession, plan: StepPlan, source: FunctionRows, report: Callable[[str], None] = lambda _: None
) -> StepResult:
    """Executes the plan of a function's table.

    A function with dates is called once for each batch of them, and what is committed stays when a later one fails.
    `report` is called with each date as it is fetched.
    """
    if plan.table.window is None:
        return _commit_call(spark, plan, source, None)
    plan = _filled(spark, plan)
    results: list[StepResult] = []
    for number, fetch in enumerate(plan.fetches):
        dates = _Dates(report, plan.fetches[0].first, sum(each.count for each in plan.fetches))
        try:
            results.append(_commit_call(spark, plan, source, fetch, dates))
        except TidemillError as failure:
            failure.remedy += _kept(number, plan.fetches)
            raise
    window = plan.fetches[0].until(plan.fetches[-1])
    return replace(together(results), window=window, mode=plan.mode, reason=plan.reason)


def _filled(spark: SparkSession, plan: StepPlan) -> StepPlan:
    """The plan with its dates, where only the rows of the table tell how far it was fetched."""
    with closing(store_of(plan.table)) as store:
        snapshot = known_of(plan.table, store.snapshot())
        refuse(refusals(plan.table, snapshot, plan.request))
        return plan.on(snapshot, table_facts(spark, store, plan.table, snapshot))


@dataclass(frozen=True, slots=True)
class _Dates:
    """Reports each date that is fetched, counted over all batches."""

    report: Callable[[str], None]
    first: date
    count: int

    def __call__(self, day: date) -> None:
        number = (day - self.first).days + 1
        self.report(f"fetching {number} of {self.count} date{'' if self.count == 1 else 's'} · {day}")


def _kept(done: int, fetches: Sequence[Fetch]) -> str:
    """What to know about the batches before one that failed."""
    if len(fetches) == 1:
        return ""
    who = "the same command" if fetches[0].is_backfill else "the next run"
    return f" {done} of {len(fetches)} batches are in the table and stay; {who} goes on behind them."


def _commit_call(
    spark: SparkSession,
    plan: StepPlan,
    source: FunctionRows,
    fetch: Fetch | None,
    report: Callable[[date], None] = lambda _: None,
) -> StepResult:
    """One call of the function, and the commit of what it gave."""
    read = partial(_read_fetched, fetch=fetch, report=report)
    result = commit(Task(spark, plan, source, partial(_gather_fetched, read=read)))
    written = result.counts.written or result.counts.deleted
    status = result.status if written or result.first_run else "unchanged"
    return replace(result, status=status, notices=(*result.notices, *_saving(plan.table, result)))


def _gather_fetched(attempt: Attempt, read: Callable[[Attempt, Reading], RowsRead]) -> Gathered:
    gathered = gather(attempt, read)
    return replace(gathered, met=_rows_met(attempt.table, gathered))


def _read_fetched(attempt: Attempt, reading: Reading, fetch: Fetch | None, report: Callable[[date], None]) -> RowsRead:
    """What the function gives for its dates, without the rows that do not meet its expectations."""
    rows = attempt.source.read(replace(reading, run=_run(attempt, fetch, report)))
    window, adopted = _window(attempt, rows, fetch)
    assert attempt.table.function is not None  # noqa: S101
    expecting = Expecting(attempt.table, attempt.table.function.expectations)
    met = expecting.met(attempt.spark, rows, attempt.now)
    return RowsRead(met, attempt.plan, window, expecting.results, adopted)


def _run(attempt: Attempt, fetch: Fetch | None, report: Callable[[date], None]) -> Run:
    store, snapshot, spark = attempt.store, attempt.base, attempt.spark

    def held() -> DataFrame | None:
        return store.read(spark, snapshot.version) if snapshot else None

    if fetch is None:
        return Run(mode="incremental" if snapshot else "first", held=held)
    return Run(fetch.first, fetch.last, fetch.mode, held=held, report=report)


def _window(attempt: Attempt, rows: DataFrame, fetch: Fetch | None) -> tuple[Fetch | None, bool]:
    """The dates with what is known of the table by the snapshot of this attempt, and whether its rows say so."""
    table = attempt.table
    if fetch is None or table.window is None:
        return None, False
    column = require([table.window.time_column], rows.columns, "The time column", f"{attempt.source}")[0]
    time_kind(column, rows.schema[column].dataType, table.name)
    facts = table_facts(attempt.spark, attempt.store, table, attempt.base)
    progress = progress_of(table, attempt.base, facts.highest, attempt.now)
    if progress.watermark is None and fetch.watermark is not None:
        raise Conflict(f"{table.name} was emptied or reset since its dates were planned")
    return replace(fetch, column=column, watermark=progress.watermark), progress.adopted


def _rows_met(table: Table, gathered: Gathered) -> str | None:
    """From the lowest time that was fetched on, which need not be one of the dates."""
    change = gathered.prepared.change
    column = change.time_column
    if column is None or not table.strategy.appends:
        return gathered.met
    kind = time_kind(column, change.rows.schema[column].dataType, table.name)
    found = change.rows.agg(exact(F.min(quote(column)), kind).alias("lowest")).first()
    low = decoded(found["lowest"], kind) if found else None
    return f"({quote(column)} >= {low.literal()} OR {quote(column)} IS NULL)" if low else "true"


def _saving(table: Table, result: StepResult) -> tuple[str, ...]:
    """What a table that is replaced as a whole would save by keys."""
    counts = result.counts
    if not table.strategy.replaces or result.first_run or not counts.written:
        return ()
    rows = f"{result.rows_read:,} rows were written for {counts.inserted:,} that are new or differ"
    return (f"{rows}; with keys=[…] the function may give only those, and a merge writes no others",)
