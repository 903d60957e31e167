"""Expectations on the rows that a function gives: they are counted, put aside, or stop the step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from tidemill.change.samples import as_row, samples
from tidemill.declare.functions import OnUnmet
from tidemill.declare.names import quote, spelled
from tidemill.declare.strategies import Merge, MergeStrategy
from tidemill.declare.tables import SchemaPolicy, Table
from tidemill.engine.translate import one_line
from tidemill.errors import ArgumentError, CheckError
from tidemill.run.steps.expected import Expected, rejected_name
from tidemill.run.steps.step import run_step
from tidemill.sources.frames import FrameSource

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import Column, DataFrame, SparkSession

    from tidemill.declare.functions import Expectation

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
