"""A table that a function keeps: each batch of new dates is one commit, after its expectations are met."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from tidemill.changes.check_results import Expected, rejected_name
from tidemill.changes.checks import as_row, samples
from tidemill.changes.columns import require
from tidemill.changes.compile import ALL_COUNTS
from tidemill.changes.profile import decoded, exact, highest, time_kind
from tidemill.errors import ArgumentError, CheckError, TidemillError
from tidemill.execution.results import together
from tidemill.execution.step import Asked, Step, done, run_step
from tidemill.formats.base import AppendRows, Conflict
from tidemill.formats.registry import store_of
from tidemill.model.function import OnUnmet
from tidemill.model.names import quote, spelled
from tidemill.model.strategy import Append, Merge, MergeStrategy, Replace
from tidemill.model.table import SchemaPolicy, Table
from tidemill.planning.dates import Fetch, fetches_of, progress_of
from tidemill.planning.windows import known_of
from tidemill.sources.frames import FrameSource
from tidemill.sources.protocol import Run
from tidemill.spark.errors import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import date

    from pyspark.sql import Column, DataFrame, SparkSession

    from tidemill.execution.prepare import Prepared
    from tidemill.execution.producers import FunctionRows
    from tidemill.execution.results import StepResult
    from tidemill.formats.base import Compiled, HeldRows
    from tidemill.formats.port import Store
    from tidemill.model.cursor import Cursor
    from tidemill.model.function import Expectation
    from tidemill.model.record import Record, Snapshot
    from tidemill.planning.dates import Progress
    from tidemill.planning.request import Backfill
    from tidemill.planning.windows import WindowPlan
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

    @property
    def counts(self) -> dict[str, int]:
        """How many rows did not meet each."""
        return {each.expectation.name: each.unmet for each in self.results}

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
        keys = self.table.strategy.keys if isinstance(self.table.strategy, Merge) else ()
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
        run_step(spark, table, FrameSource(aside), now=now)


def _unmet(expectation: Expectation) -> Column:
    return F.expr(f"NOT coalesce(({expectation.condition}\n), false)")  # a comment at its end must not swallow the rest


def run_function(
    spark: SparkSession,
    table: Table,
    source: FunctionRows,
    asked: Backfill | None = None,
    *,
    now: datetime | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> StepResult:
    """Brings the table up to date with what its function gives; `asked` are dates that somebody wants.

    A function with dates is called once for each batch of them, and what is committed stays when a later one fails.
    `report` is called with each date as it is fetched.
    """
    started = now or datetime.now(UTC)
    if table.window is None:
        return _step(spark, table, source, None, started, lambda _: None)
    store = store_of(table)
    snapshot = known_of(table, store.snapshot())
    progress = progress_at(spark, store, table, snapshot, started)
    done = snapshot.record.backfill if snapshot and snapshot.record else {}
    fetches = fetches_of(table, progress, started, asked, done)
    return _fetched(spark, table, source, fetches, started, report)


def progress_at(spark: SparkSession, store: Store, table: Table, snapshot: Snapshot | None, now: datetime) -> Progress:
    """How far the table has been fetched."""

    def held_highest(version: int) -> Cursor | None:
        """By a query: file statistics still know deleted rows."""
        assert snapshot is not None  # noqa: S101  asked only of a table that is there
        assert table.window is not None  # noqa: S101
        held = store.read(spark, None if version == snapshot.version else version)
        column = require([table.window.time_column], held.columns, "The time column", table.name)[0]
        kind = time_kind(column, held.schema[column].dataType, table.name)
        found = held.agg(exact(F.max(quote(column)), kind).alias("highest")).first()
        return highest(found["highest"] if found else None, kind)

    return progress_of(table, snapshot, held_highest, now)


def _fetched(
    spark: SparkSession,
    table: Table,
    source: FunctionRows,
    fetches: list[Fetch],
    now: datetime,
    report: Callable[[str], None],
) -> StepResult:
    results: list[StepResult] = []
    for number, fetch in enumerate(fetches):
        dates = _Dates(report, fetches[0].first, sum(each.count for each in fetches))
        try:
            results.append(_step(spark, table, source, fetch, now, dates))
        except TidemillError as failure:
            failure.remedy += _kept(number, fetches)
            raise
    return replace(together(results), window=fetches[0].until(fetches[-1]))


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


def _step(
    spark: SparkSession,
    table: Table,
    source: FunctionRows,
    fetch: Fetch | None,
    now: datetime,
    report: Callable[[date], None],
) -> StepResult:
    return done(Asked(spark, table, source, now), lambda asked: FunctionStep(asked, fetch, report))


class FunctionStep(Step):
    """One call of a function, and the commit of what it gave."""

    def __init__(
        self, asked: Asked, fetch: Fetch | None = None, report: Callable[[date], None] = lambda _: None
    ) -> None:
        super().__init__(asked)
        self.fetch, self.report = fetch, report
        self.adopted = False
        assert self.table.function is not None  # noqa: S101
        self.expecting = Expecting(self.table, self.table.function.expectations)

    def run(self, began: float) -> StepResult:
        result = super().run(began)
        written = result.counts.written or result.counts.deleted
        status = result.status if written or result.first_run else "unchanged"
        notices = (*result.notices, *self._saving(result))
        return replace(result, status=status, notices=notices, expectations=self.expecting.results)

    def _again(self) -> Step:
        return FunctionStep(self.asked, self.fetch, self.report)

    def _window_of_rows(self, reading: Reading) -> tuple[DataFrame, WindowPlan | None]:
        rows = self.source.read(replace(reading, run=self._run()))
        window = self._planned(rows)
        return self.expecting.met(self.spark, rows, self.now), window

    def _run(self) -> Run:
        fetch, snapshot = self.fetch, self.snapshot

        def held() -> DataFrame | None:
            return self.store.read(self.spark, snapshot.version) if self.known and snapshot else None

        if fetch is None:
            return Run(mode="incremental" if self.known else "first", held=held)
        return Run(fetch.first, fetch.last, fetch.mode, held=held, told=self.report)

    def _planned(self, rows: DataFrame) -> Fetch | None:
        """The dates, with what is known of the table by the snapshot of this attempt."""
        if self.fetch is None or self.table.window is None:
            return None
        column = require([self.table.window.time_column], rows.columns, "The time column", f"{self.source}")[0]
        time_kind(column, rows.schema[column].dataType, self.table.name)
        progress = progress_at(self.spark, self.store, self.table, self.known, self.now)
        if progress.watermark is None and self.fetch.watermark is not None:
            raise Conflict(f"{self.table.name} was emptied or reset since its dates were planned")
        self.adopted = progress.adopted
        return replace(self.fetch, column=column, watermark=progress.watermark)

    def _compile(self, prepared: Prepared, held: HeldRows | None, window: WindowPlan | None) -> Compiled:
        compiled = super()._compile(prepared, held, window)
        if compiled.operation is None and held is not None and self._is_news(prepared, window):
            nothing = AppendRows(held.none)
            return replace(compiled, operation=nothing, known=ALL_COUNTS, unique=True)
        return compiled

    def _is_news(self, prepared: Prepared, window: WindowPlan | None) -> bool:
        """Whether the record has something new to say, though no row has changed."""
        record = self.known.record if self.known else None
        if self.adopted or record is None:
            return window is not None
        known = record.progress.get(self.table.input)
        next_one = window.next_watermark(prepared.change.profile.highest, self.now) if window else None
        return next_one != known or (
            window is not None and dict(record.backfill) != dict(self._recording(window).backfill())
        )

    def _met(self, prepared: Prepared, window: WindowPlan | None) -> str | None:
        """From the lowest time that was fetched on, which need not be one of the dates."""
        column = prepared.change.time_column
        if column is None or not isinstance(self.table.strategy, Append):
            return super()._met(prepared, window)
        kind = time_kind(column, prepared.change.rows.schema[column].dataType, self.table.name)
        found = prepared.change.rows.agg(exact(F.min(quote(column)), kind).alias("lowest")).first()
        low = decoded(found["lowest"], kind) if found else None
        return f"({quote(column)} >= {low.literal()} OR {quote(column)} IS NULL)" if low else "true"

    def _record(self, *given: Any) -> Record:
        return super()._record(*given).with_(expectations=self.expecting.counts)

    def _saving(self, result: StepResult) -> tuple[str, ...]:
        """What a table that is replaced as a whole would save by keys."""
        counts = result.counts
        if not isinstance(self.table.strategy, Replace) or result.first_run or not counts.written:
            return ()
        rows = f"{result.rows_read:,} rows were written for {counts.inserted:,} that are new or differ"
        return (f"{rows}; with keys=[…] the function may give only those, and a merge writes no others",)
