"""Verifies one table, however it is kept, and keeps what was found in the project's ledger."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tidemill.changes import align, require, widened
from tidemill.changes.bags import TOLERANCE, has_floats
from tidemill.changes.compare import held_twice
from tidemill.changes.compile import has_rows
from tidemill.changes.profile import time_kind
from tidemill.errors import SourceError, TidemillError
from tidemill.execution import in_zone_of
from tidemill.execution.functions import Expecting
from tidemill.execution.joins import JoinSource
from tidemill.execution.prepare import Prepared, prepare
from tidemill.execution.producers import LoadsSource
from tidemill.execution.query_source import ViewSource
from tidemill.execution.step import window_of
from tidemill.formats.registry import store_of
from tidemill.ivm import NotIncremental
from tidemill.model import quote, quoted_text, spelled
from tidemill.model.cursor import CursorKind
from tidemill.model.function import Function
from tidemill.model.join import Join
from tidemill.model.project import NOTHING_GIVEN
from tidemill.model.source import Loaded, Loads
from tidemill.model.table import SchemaPolicy
from tidemill.planning import Mode
from tidemill.planning.dates import Progress, fetches_of
from tidemill.planning.loads import lowest_start
from tidemill.planning.starts import start_variable, table_for, without_moving_start
from tidemill.planning.windows import known_of
from tidemill.sources import Reading, Run
from tidemill.spark.errors import as_tidemill, one_line
from tidemill.spark.session import SPARK_FAILURES
from tidemill.verify.result import WRONG, Found, Kind, Rule, Verified, bounds_of, remedies, rule_for
from tidemill.verify.rows import Sides, compare_rows
from tidemill.verify.sample import NO_VIEW, KeySample, sample_of
from tidemill.verify.share import share_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from tidemill.formats.port import Store
    from tidemill.model.record import Snapshot
    from tidemill.model.table import Table
    from tidemill.planning import Backfill
    from tidemill.planning.dates import Fetch
    from tidemill.planning.windows import WindowPlan
    from tidemill.sources import Connector


class Verification:
    """One table, on one snapshot of it."""

    def __init__(
        self,
        spark: SparkSession,
        table: Table,
        source: Connector,
        store: Store,
        snapshot: Snapshot,
        now: datetime,
        variables: Mapping[str, str],
    ) -> None:
        self.spark, self.table, self.source, self.store = spark, table, source, store
        self.snapshot, self.now, self.variables = snapshot, in_zone_of(spark, now), variables

    def verify(self, against: str) -> Verified:
        prepared, here, whole, reach = self._full_run()
        sides = self._sides(prepared, here, whole, reach)
        found = compare_rows(sides, self._rule(prepared))
        return Verified(
            self.table.name,
            against,
            rows=prepared.change.profile.rows,
            total=self._total(here),
            keeps_rows=self.table.keeps_rows,
            found=found,
            notes=self._notes(prepared, sides, here.columns),
            remedies=remedies(self.table, found, reach, requeried=self._requeried(found)),
        )

    def _full_run(self) -> tuple[Prepared, DataFrame, WindowPlan | None, WindowPlan | None]:
        """What a full run would write, what the table holds, the window of that run, and of the next."""
        rows = self._read()
        whole = self._window(rows.schema, None)
        if whole and whole.start and self.table.owns_window:
            rows = self._read(whole)
        here = self.store.read(rows.sparkSession, self.snapshot.version)
        reach = self._window(rows.schema, self.snapshot)
        table = table_for(self.table, whole, self.variables, self.now, first_run=True)
        prepared = prepare(table, rows, whole, here.schema, self.snapshot, settled=self.source.settled)
        return prepared, here, whole, reach

    def _rule(self, prepared: Prepared) -> Rule:
        return rule_for(prepared.strategy)

    def _total(self, here: DataFrame) -> int:
        """How many rows the table holds; counted only where its log does not say."""
        return here.count() if self.snapshot.rows is None else self.snapshot.rows

    def _requeried(self, found: Mapping[Kind, Found]) -> bool:
        """Whether rows of another query may be here, as far as the log reaches; asked only where it matters."""
        if not any(found.get(kind, Found()).count for kind in WRONG):
            return False
        for commit in self.store.commits():
            if commit.record and commit.record.sql_hash not in {None, self.table.sql_hash}:
                return True
            if commit.record and commit.record.strategy == Mode.FULL_REFRESH:
                return False
        return False

    def _read(self, window: WindowPlan | None = None) -> DataFrame:
        reading = Reading(self.spark, self.store.schema(self.spark))
        try:
            if window is None or window.start is None:
                return self.source.read(reading)
            return self.source.read_since(replace(reading, until=window.end), window.column, window.start)
        except SPARK_FAILURES as failure:
            raise SourceError(
                "source.unreadable",
                f"{self.source} could not be read: {one_line(failure)}",
                "Fix the source and verify again.",
            ) from failure

    def _window(self, schema: StructType, snapshot: Snapshot | None) -> WindowPlan | None:
        """The window of a run; where a run needs a start and none is given, from its watermark on."""
        if isinstance(self.source, JoinSource) and snapshot is None:
            return self.source.all_windows(self.spark, self.snapshot)
        start = start_variable(self.table)
        unknown = start is not None and start.name not in self.variables
        table = without_moving_start(self.table) if unknown else self.table
        asked = (snapshot, self.now, self.variables, self.source)
        return window_of(self.spark, self.store, table, schema, *asked)

    def _sides(self, prepared: Prepared, here: DataFrame, whole: WindowPlan | None, reach: WindowPlan | None) -> Sides:
        """Both sides with the columns that the source has: of others a full run would know nothing."""
        full, _ = align(prepared.change.rows, here.schema, SchemaPolicy.APPEND_NEW_COLUMNS, self.table.name)
        theirs = {name.lower() for name in prepared.columns}
        full = full.select(*[quote(name) for name in full.columns if name.lower() in theirs])
        bounded = here.where(bounds_of(prepared.strategy, whole.predicate if whole else None))
        return Sides(full, widened(bounded, full.schema), prepared.change.volatile, reach.predicate if reach else None)

    def _notes(self, prepared: Prepared, sides: Sides, held: Sequence[str]) -> tuple[str, ...]:
        notes = [*prepared.notices]
        unknown = [name for name in held if spelled(name, sides.full.columns) is None]
        if unknown:
            notes.append(f"not compared, as the source has no such column: {', '.join(unknown)}")
        left_out = [name for name in sides.full.columns if name.lower() in prepared.change.volatile]
        if left_out:
            notes.append(f"not compared, as every run gives other values: {', '.join(left_out)}")
        if any(has_floats(field.dataType) for field in sides.full.schema.fields):
            notes.append(f"floats are the same within {TOLERANCE:g} of their size")
        record = self.snapshot.record
        if record and None not in (record.sql_hash, self.table.sql_hash) and record.sql_hash != self.table.sql_hash:
            notes.append("its query changed since its last run")
        return tuple(notes)


class ViewVerification(Verification):
    """A materialized view, against its query over the tables as its last run saw them, where they still are."""

    def __init__(
        self,
        spark: SparkSession,
        table: Table,
        source: ViewSource,
        store: Store,
        snapshot: Snapshot,
        now: datetime,
        variables: Mapping[str, str],
        share: float | None = None,
    ) -> None:
        recorded = source.as_recorded(snapshot.record)
        super().__init__(spark, table, recorded, store, snapshot, now, variables)
        self.has_moved = recorded.version() != source.version()
        self.sample: KeySample | None = None
        self.compared = ""
        if share is not None:
            self._take_sample(share, recorded)

    def verify(self, against: str) -> Verified:
        found = super().verify(against)
        if self.sample is None:
            return found
        found = replace(found, sample=self.sample.share)
        if found.rows or found.found or not found.total:
            return found
        none = f"none of its {found.total:,} rows is in a sample of {share_text(self.sample.share)}"
        return replace(found, verifiable=False, notes=(none,))

    def _take_sample(self, share: float, recorded: ViewSource) -> None:
        given, held = self._read().schema, self.store.schema(self.spark)
        try:
            self.sample = sample_of(share, recorded.view_inputs(self.snapshot), given, held, self.table.volatile)
        except NotIncremental as why:
            self.compared = whole_note(why.reason)

    def _read(self, window: WindowPlan | None = None) -> DataFrame:
        return self._sampled(super()._read(window))

    def _sides(self, prepared: Prepared, here: DataFrame, whole: WindowPlan | None, reach: WindowPlan | None) -> Sides:
        return super()._sides(prepared, self._sampled(here), whole, reach)

    def _sampled(self, rows: DataFrame) -> DataFrame:
        return rows.where(self.sample.condition) if self.sample else rows

    def _notes(self, prepared: Prepared, sides: Sides, held: Sequence[str]) -> tuple[str, ...]:
        moved = "compared with its inputs as of its last run: they have changed since" if self.has_moved else ""
        return (*super()._notes(prepared, sides, held), *filter(None, [self.compared, moved]))


class LoadsVerification(Verification):
    """Sources that have progress of their own; a table that is computed whole each run is verified as a query is."""

    def _full_run(self) -> tuple[Prepared, DataFrame, WindowPlan | None, WindowPlan | None]:
        assert isinstance(self.source, LoadsSource)  # noqa: S101  made only for such tables
        reading = Reading(self.spark, self.store.schema(self.spark))
        prepared = self.source.rows(reading).whole().prepared
        here = self.store.read(self.spark, self.snapshot.version)
        return prepared, here, None, self._reach(self.source, reading)

    def _rule(self, prepared: Prepared) -> Rule:
        """By keys, unless APPENDs have brought rows that share one."""
        keys = prepared.strategy.keys
        several = len(self.table.loads) > 1 and keys and has_rows(held_twice(prepared.change.rows, keys))
        return Rule() if several else super()._rule(prepared)

    def _reach(self, source: LoadsSource, reading: Reading) -> WindowPlan | None:
        """The lowest window of the next run, where all sources have a common cursor."""
        if self.table.window is None:
            return None
        found = []
        for part in source.parts:
            schema, known = part.source.schema(reading), known_of(part.table, self.snapshot)
            window = window_of(self.spark, self.store, part.table, schema, known, self.now)
            found += [window] if window else []
        start = lowest_start(found)
        return next(window for window in found if window.start == start or window.start is None)


def whole_note(why: str) -> str:
    """Of a table of which no sample could be taken."""
    return f"compared whole: {why}"


AGAINST = "its function"


def not_verifiable(table: Table) -> Verified:
    """What is said of a table whose dates nobody asked for."""
    why = "name the dates to fetch again: --start 2024-01-01 --end 2024-01-31"
    return Verified(table.name, AGAINST, verifiable=False, notes=(why if table.window else "it has no time column",))


class FunctionVerification(Verification):
    """One table on one snapshot of it, against what its function gives now."""

    def compare_dates(self, asked: Backfill) -> Verified:
        fetch = self._dates(asked)
        rows = self._fetch(fetch)
        here = held = self.store.read(rows.sparkSession, self.snapshot.version)
        within = self._within(here, fetch)
        if self.table.strategy.appends:
            rows, here = rows.where(within), here.where(within)
        prepared = prepare(self.table, rows, fetch, here.schema, self.snapshot, settled=True)
        sides = self._sides(prepared, self._rows_asked_for(here, prepared, within), fetch, None)
        found = compare_rows(sides, rule_for(prepared.strategy))
        return Verified(
            self.table.name,
            f"{AGAINST} from {fetch.first} to {fetch.last}",
            rows=prepared.change.profile.rows,
            total=self._total(held),
            keeps_rows=self.table.keeps_rows,
            found=found,
            notes=self._notes(prepared, sides, here.columns),
            remedies=self._remedies(found, fetch),
        )

    def _dates(self, asked: Backfill) -> Fetch:
        fetches = fetches_of(self.table, Progress(None, "verify"), self.now, asked)
        return fetches[0].until(fetches[-1])

    def _fetch(self, fetch: Fetch) -> DataFrame:
        def held() -> DataFrame:
            return self.store.read(self.spark, self.snapshot.version)

        run = Run(fetch.first, fetch.last, "backfill", held=held)
        rows = self.source.read(Reading(self.spark, self.store.schema(self.spark), run))
        assert self.table.function is not None  # noqa: S101  it is one of a function
        return Expecting(self.table, self.table.function.expectations).met(self.spark, rows, None)

    def _within(self, here: DataFrame, fetch: Fetch) -> str:
        """The rows whose time lies on these dates, in the time zone of the function."""
        assert self.table.function is not None  # noqa: S101
        column = require([fetch.column], here.columns, "The time column", self.table.name)[0]
        kind, day = time_kind(column, here.schema[column].dataType, self.table.name), f"to_date({quote(column)})"
        if kind is CursorKind.STRING:
            day = f"try_cast(left({quote(column)}, 10) AS DATE)"
        elif kind is CursorKind.TIMESTAMP:
            day = f"to_date(from_utc_timestamp({quote(column)}, {quoted_text(self.table.function.timezone.key)}))"
        return f"{day} BETWEEN DATE '{fetch.first}' AND DATE '{fetch.last}'"

    def _rows_asked_for(self, here: DataFrame, prepared: Prepared, within: str) -> DataFrame:
        """The rows of the table for which the fetch answers: those of its dates, and those of its keys."""
        keys = prepared.strategy.keys
        if not keys:
            return here
        others = here.where(f"NOT coalesce({within}, false)")
        fetched = prepared.change.rows.select(*map(quote, keys))
        return here.where(within).unionByName(others.join(fetched, list(keys), "left_semi").select(here.columns))

    def _remedies(self, found: Mapping[Kind, Found], fetch: Fetch) -> tuple[str, ...]:
        kept = {kind: each for kind, each in found.items() if kind not in WRONG}
        again = f"fetch them again: {self.table.command} --start {fetch.first} --end {fetch.last}"
        return (
            *([again] if any(kind in WRONG and each.count for kind, each in found.items()) else []),
            *remedies(self.table, kept, None),
        )


def verify_table(
    spark: SparkSession,
    table: Table,
    source_of: Callable[[Table], Connector],
    now: datetime,
    variables: Mapping[str, str] = NOTHING_GIVEN,
    dates: Backfill | None = None,
    share: float | None = None,
) -> Verified:
    """How the table lies to a full run. Reads all of both, and writes nothing; an error of the table is its result.

    Of a table that a function keeps, `dates` are fetched again and compared; of a materialized view with a key, the
    rows of a `share` of its keys, and all rows of other tables.
    """
    found = _verified(spark, table, source_of, now, variables, dates, share)
    if share is None or table.strategy.refresh is not None or found.equal is None or found.error is not None:
        return found
    return replace(found, notes=(*found.notes, whole_note(NO_VIEW)))


def _verified(
    spark: SparkSession,
    table: Table,
    source_of: Callable[[Table], Connector],
    now: datetime,
    variables: Mapping[str, str],
    dates: Backfill | None,
    share: float | None,
) -> Verified:
    against = _against(table)
    try:
        store = store_of(table)
        snapshot = known_of(table, store.snapshot())
        if snapshot is None:
            return Verified(table.name, against, there=False)
        if table.strategy.refresh is not None:
            source = source_of(table)
            assert isinstance(source, ViewSource)  # noqa: S101  made for views only
            return ViewVerification(spark, table, source, store, snapshot, now, variables, share).verify(against)
        if table.function is None:
            kind = LoadsVerification if len(table.parts) > 1 else Verification
            return kind(spark, table, source_of(table), store, snapshot, now, variables).verify(against)
        if dates is None or table.window is None:
            return not_verifiable(table)
        return FunctionVerification(spark, table, source_of(table), store, snapshot, now, variables).compare_dates(
            dates
        )
    except TidemillError as failure:
        return Verified(table.name, against, error=failure)
    except Exception as failure:  # noqa: BLE001  Spark raises many kinds; each is this table's own
        return Verified(table.name, against, error=as_tidemill(failure, doing=f"Verifying {table.name}"))


def _against(table: Table) -> str:
    match table.producer:
        case Loaded() | Loads():
            return "a full load"
        case Join():
            return "one window over all of it"
        case Function():
            return AGAINST
        case _:
            return "its query"
