"""A backfill of one table: its batches one after the other, each in a commit of its own."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidemill.declare.variables import NOTHING_GIVEN
from tidemill.engine.zone import in_zone_of
from tidemill.errors import TidemillError
from tidemill.run.results import together
from tidemill.run.steps.loads import run_any
from tidemill.run.steps.windows import cursor_of
from tidemill.sources.protocol import Reading
from tidemill.stores.opened import store_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

    from tidemill.declare.tables import Table
    from tidemill.plan.backfills import Backfill, Part
    from tidemill.run.results import StepResult
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
