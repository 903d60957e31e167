"""A table of several sources, against what all its LOADs give when they are applied to an empty table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.change.keys import held_twice
from tidemill.change.operation import has_rows
from tidemill.declare.strategies import Merge
from tidemill.plan.windows import known_of
from tidemill.run.producers.several import LoadsSource
from tidemill.run.steps.loads import lowest_start
from tidemill.run.steps.windows import window_of
from tidemill.sources.protocol import Reading
from tidemill.verify.rules import Rule
from tidemill.verify.verifying import Verifying

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidemill.plan.windows import WindowPlan
    from tidemill.run.steps.prepare import Prepared


class VerifyingLoads(Verifying):
    """Sources that have progress of their own; a table that is computed whole each run is verified as a query is."""

    def _full_run(self) -> tuple[Prepared, DataFrame, WindowPlan | None, WindowPlan | None]:
        assert isinstance(self.source, LoadsSource)  # noqa: S101  made only for such tables
        reading = Reading(self.spark, self.store.schema(self.spark))
        prepared = self.source.whole(reading).prepared
        here = self.store.read(self.spark, self.snapshot.version)
        return prepared, here, None, self._reach(self.source, reading)

    def _rule(self, prepared: Prepared) -> Rule:
        """By keys, unless APPENDs have brought rows that share one."""
        keys = prepared.strategy.keys if isinstance(prepared.strategy, Merge) else ()
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
