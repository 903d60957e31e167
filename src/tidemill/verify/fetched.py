"""Verifies a table that a function keeps: the dates asked for are fetched again, and nothing else can be verified."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.change.columns import require
from tidemill.change.cursors import time_kind
from tidemill.declare.cursors import CursorKind
from tidemill.declare.names import quote, quoted_text
from tidemill.declare.strategies import Append, Merge
from tidemill.plan.dates import Progress, fetches_of
from tidemill.run.steps.expecting import Expecting
from tidemill.run.steps.prepare import prepare
from tidemill.sources.protocol import Reading
from tidemill.sources.run import Run
from tidemill.verify.remedies import remedies
from tidemill.verify.result import WRONG, Kind, Verified
from tidemill.verify.rows import compared
from tidemill.verify.rules import rule_for
from tidemill.verify.verifying import Verifying

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from tidemill.declare.tables import Table
    from tidemill.plan.backfills import Backfill
    from tidemill.plan.dates import Fetch
    from tidemill.run.steps.prepare import Prepared
    from tidemill.verify.result import Found

AGAINST = "its function"


def not_verifiable(table: Table) -> Verified:
    """What is said of a table whose dates nobody asked for."""
    why = "name the dates to fetch again: --start 2024-01-01 --end 2024-01-31"
    return Verified(table.name, AGAINST, verifiable=False, notes=(why if table.window else "it has no time column",))


class FetchedAgain(Verifying):
    """One table on one snapshot of it, against what its function gives now."""

    def compared_dates(self, asked: Backfill) -> Verified:
        fetch = self._dates(asked)
        rows = self._fetched(fetch)
        here = held = self.store.read(rows.sparkSession, self.snapshot.version)
        within = self._within(here, fetch)
        if isinstance(self.table.strategy, Append):
            rows, here = rows.where(within), here.where(within)
        prepared = prepare(self.table, rows, fetch, here.schema, self.snapshot, settled=True)
        sides = self._sides(prepared, self._answered(here, prepared, within), fetch, None)
        found = compared(sides, rule_for(prepared.strategy))
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

    def _fetched(self, fetch: Fetch) -> DataFrame:
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

    def _answered(self, here: DataFrame, prepared: Prepared, within: str) -> DataFrame:
        """The rows of the table for which the fetch answers: those of its dates, and those of its keys."""
        if not isinstance(prepared.strategy, Merge):
            return here
        keys = prepared.strategy.keys
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
