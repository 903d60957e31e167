"""What a full run over the source of a table as it is now gives, against what the table holds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from tidemill.change.columns import align, widened
from tidemill.declare.names import quote, spelled
from tidemill.declare.tables import SchemaPolicy
from tidemill.engine.translate import one_line
from tidemill.engine.zone import in_zone_of
from tidemill.errors import SourceError
from tidemill.plan.conditions import table_for
from tidemill.plan.starts import start_variable, without_moving_start
from tidemill.run.producers.join import JoinSource
from tidemill.run.steps.prepare import Prepared, prepare
from tidemill.run.steps.rebuild import FULL_REFRESH
from tidemill.run.steps.windows import window_of
from tidemill.sources.protocol import Reading
from tidemill.verify.closeness import TOLERANCE, has_floats
from tidemill.verify.remedies import remedies
from tidemill.verify.result import WRONG, Found, Verified
from tidemill.verify.rows import Sides, compared
from tidemill.verify.rules import bounds_of, rule_for

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from tidemill.contracts.snapshots import Snapshot
    from tidemill.declare.tables import Table
    from tidemill.plan.windows import WindowPlan
    from tidemill.sources.protocol import Connector
    from tidemill.stores.opened import AnyStore
    from tidemill.verify.result import Kind
    from tidemill.verify.rules import Rule


class Verifying:
    """One table, on one snapshot of it."""

    def __init__(
        self,
        spark: SparkSession,
        table: Table,
        source: Connector,
        store: AnyStore,
        snapshot: Snapshot,
        now: datetime,
        variables: Mapping[str, str],
    ) -> None:
        self.spark, self.table, self.source, self.store = spark, table, source, store
        self.snapshot, self.now, self.variables = snapshot, in_zone_of(spark, now), variables

    def result(self, against: str) -> Verified:
        prepared, here, whole, reach = self._full_run()
        sides = self._sides(prepared, here, whole, reach)
        found = compared(sides, self._rule(prepared))
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
            if commit.record and commit.record.strategy == FULL_REFRESH:
                return False
        return False

    def _read(self, window: WindowPlan | None = None) -> DataFrame:
        reading = Reading(self.spark, self.store.schema(self.spark))
        try:
            if window is None or window.start is None:
                return self.source.read(reading)
            return self.source.read_since(replace(reading, until=window.end), window.column, window.start)
        except (PySparkException, Py4JError) as failure:
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
        asked = (snapshot, self.now, None, self.variables, self.source)
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
