"""A full refresh: the table becomes what a first run gives, and its log goes on."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidemill.change.operation import ALL_COUNTS
from tidemill.contracts.changes import HeldRows, Target
from tidemill.contracts.operations import AppendRows, Compiled, OverwriteRows
from tidemill.declare.strategies import Merge, Replace
from tidemill.declare.variables import NOTHING_GIVEN
from tidemill.plan.dates import whole_of
from tidemill.plan.layout import layout_notices
from tidemill.plan.requests import Request
from tidemill.run.steps.fetching import FunctionStep
from tidemill.run.steps.loads import LoadsStep
from tidemill.run.steps.step import Asked, Step, done

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

    from tidemill.declare.tables import Table
    from tidemill.plan.windows import WindowPlan
    from tidemill.run.results import StepResult
    from tidemill.run.steps.prepare import Prepared
    from tidemill.sources.protocol import Connector

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
