"""A table that several LOADs give whole: compared by the keys of its MERGEs where these tell its rows apart."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidemill.change.operation import column_types
from tidemill.change.profile import profile
from tidemill.declare.names import spelled
from tidemill.declare.strategies import Merge, MergeStrategy, Replace
from tidemill.declare.variables import NOTHING_GIVEN
from tidemill.run.steps.step import Asked, Step, done

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from tidemill.contracts.changes import HeldRows
    from tidemill.contracts.operations import Compiled
    from tidemill.declare.tables import Table
    from tidemill.plan.backfills import Part
    from tidemill.plan.windows import WindowPlan
    from tidemill.run.producers.loads import LoadsSource
    from tidemill.run.results import StepResult
    from tidemill.run.steps.prepare import Prepared


def run_recomputed(
    spark: SparkSession,
    table: Table,
    source: LoadsSource,
    *,
    now: datetime | None = None,
    part: Part | None = None,
    variables: Mapping[str, str] = NOTHING_GIVEN,
) -> StepResult:
    """Makes the table what all its LOADs give to an empty one, in one commit or none."""
    asked = Asked(spark, table, source, now or datetime.now(UTC), variables)
    return done(asked, lambda again: RecomputedStep(again, part))


class RecomputedStep(Step):
    """Rows that are unique by the keys of the MERGEs are compared by these, and only those that differ are written."""

    def _again(self) -> Step:
        return RecomputedStep(self.asked, self.part)

    def _compile(self, prepared: Prepared, held: HeldRows | None, window: WindowPlan | None) -> Compiled:
        by_key = self._by_key(prepared, held) if held is not None else None
        return super()._compile(by_key or prepared, held, window)

    def _by_key(self, prepared: Prepared, held: HeldRows) -> Prepared | None:
        rows, strategy = prepared.change.rows, prepared.strategy
        keys = self._keys(rows)
        if not keys or not isinstance(strategy, Replace) or column_types(rows.schema) != column_types(held.schema):
            return None
        found = profile(rows, keys=keys)
        if found.null_keys or found.rows > found.keys:
            return None
        merge = Merge(keys, MergeStrategy.FULL_MERGE, max_shrink=strategy.max_shrink)
        return replace(prepared, strategy=merge, change=replace(prepared.change, profile=found))

    def _keys(self, rows: DataFrame) -> tuple[str, ...]:
        """The keys on which all MERGEs are, as the rows spell them."""
        merges = [load.strategy.keys for load in self.table.loads if isinstance(load.strategy, Merge)]
        alike = len({frozenset(key.lower() for key in keys) for keys in merges}) == 1
        return tuple(name for key in merges[0] if (name := spelled(key, rows.columns))) if alike else ()
