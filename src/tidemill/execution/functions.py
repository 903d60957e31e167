"""A table that a function gives: each batch of new dates is one commit, after its expectations are met."""

from __future__ import annotations

import inspect
import tempfile
import traceback
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from tidemill.changes import require
from tidemill.changes.checks import as_row, samples
from tidemill.changes.profile import decoded, exact, time_kind
from tidemill.errors import ArgumentError, CheckError, SourceError, TidemillError, did_you_mean
from tidemill.execution.attempt import Task
from tidemill.execution.commit import commit
from tidemill.execution.function_rows import rows_given
from tidemill.execution.step import RowsRead, gather, plan_on_table, run_parts, table_facts
from tidemill.formats.base import Conflict
from tidemill.model import quote, rejected_name, spelled
from tidemill.model.check import Expected
from tidemill.model.function import OnUnmet
from tidemill.model.strategy import Merge, MergeStrategy
from tidemill.model.table import SchemaPolicy, Table
from tidemill.planning import plan_step
from tidemill.planning.dates import progress_of
from tidemill.sources import Run
from tidemill.sources.frames import FrameSource
from tidemill.sources.functions import called
from tidemill.sources.registry import said
from tidemill.spark.errors import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import date, datetime

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from tidemill.execution import StepResult
    from tidemill.execution.attempt import Attempt, Gathered
    from tidemill.execution.producers import FunctionRows
    from tidemill.model.function import Expectation
    from tidemill.planning import StepPlan
    from tidemill.planning.dates import Fetch
    from tidemill.sources import Reading

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
    plan = plan_on_table(spark, plan)
    fetches = plan.fetches
    dates = _Dates(report, fetches[0].first, sum(each.count for each in fetches))
    who = "the same command" if fetches[0].is_backfill else "the next run"

    def run(number: int) -> StepResult:
        return _commit_call(spark, plan, source, fetches[number], dates)

    made = run_parts(len(fetches), run, lambda _: f"{who} goes on behind them")
    return replace(made, window=fetches[0].until(fetches[-1]), mode=plan.mode, reason=plan.reason)


@dataclass(frozen=True, slots=True)
class _Dates:
    """Reports each date that is fetched, counted over all batches."""

    report: Callable[[str], None]
    first: date
    count: int

    def __call__(self, day: date) -> None:
        number = (day - self.first).days + 1
        self.report(f"fetching {number} of {self.count} date{'' if self.count == 1 else 's'} · {day}")


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


_LENT = "__tidemill_lent_spark__"


@dataclass(frozen=True)
class FunctionCall:
    """One call of a function, in a session where the tables that it reads have their names."""

    source: FunctionRows
    reading: Reading

    def schema(self) -> StructType:
        declared = self._declared(self.reading.spark)
        return self.rows().schema if declared is None else declared

    def rows(self) -> DataFrame:
        """All that it gives, computed and kept."""
        table = self.source.table
        session = self.source.catalog.session(self.reading.spark, [*table.inputs, table.name])
        declared = self._declared(session)
        own = replace(self.reading, spark=session, like=declared or self.reading.like)
        with tempfile.TemporaryDirectory(prefix="tidemill-function-") as folder:
            return rows_given(
                self._given(self._run(session)),
                own,
                Path(folder),
                teller=str(self.source),
                schema=declared,
                policy=table.schema_policy,
            )

    def _declared(self, spark: SparkSession) -> StructType | None:
        ddl = self.source.function.schema
        if ddl is None:
            return None
        try:
            return spark.createDataFrame([], ddl).schema
        except Exception as bad:
            raise ArgumentError(
                "functions.bad_schema", f"Spark does not know the schema {ddl!r}: {said(bad)}", "Correct its types."
            ) from bad

    def _run(self, session: SparkSession) -> Run:
        run: Run = self.reading.run
        read = partial(self._input, session=session)
        return replace(run, vars=self.source.vars, session=lambda: session, table=read)

    def _input(self, name: str, session: SparkSession) -> DataFrame:
        table, catalog = self.source.table, self.source.catalog
        key, own = catalog.naming.key(name), table.name.lower()
        if key not in {each.lower() for each in (*table.inputs, own)}:
            close = did_you_mean(key, table.inputs)
            raise ArgumentError(
                "functions.undeclared_read",
                f"{table.name} reads {name}, which is not in its reads.",
                f"Did you mean {close}?" if close else f'Add it to the decorator: reads=["{name}"].',
                origin=table.origin,
            )
        return catalog.frame(session, key)

    def _given(self, run: Run) -> Iterator[Any]:
        """What the function gives; whatever it raises names it, and the table is as it was."""
        table, call = self.source.table, self.source.function.call
        _lend(call, run.spark)
        try:
            yield from called(call, run)
        except TidemillError:
            raise
        except Exception as failure:
            raise SourceError(
                "functions.failed",
                f"The function {call.__name__} of {table.name} failed: {said(failure)}{_line(failure, call)}",
                f"Fix it, or what it asks, and run again. {table.name} is unchanged.",
                origin=table.origin,
            ) from failure


def _lend(call: Callable[..., Any], spark: SparkSession) -> None:
    """Code that comes from a notebook finds `spark` where it looks for it, unless its file has one."""
    names = inspect.unwrap(call).__globals__
    if "spark" not in names or _LENT in names:
        names.update({"spark": spark, _LENT: True})


def _line(failure: Exception, call: Callable[..., Any]) -> str:
    """The last line of the function's own file that had a part in it."""
    file = inspect.unwrap(call).__code__.co_filename
    lines = [frame.lineno for frame in traceback.extract_tb(failure.__traceback__) if frame.filename == file]
    return f" ({file}:{lines[-1]})" if lines else ""
