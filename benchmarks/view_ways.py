"""One query as several views, each refreshed as its declaration says, and as a table that a statement makes by hand."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import tidemill

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    Way = Callable[[], object]

HAND, REFUSED = "by_hand", "refused"
_NOT_INCREMENTAL = "view.not_incremental"


@dataclass(frozen=True)
class Ways:
    """`query` has `{name}` for each of the `tables` of the warehouse in this folder; `views` are its views' refreshes.

    The views stand in a pipeline file of this `name`.
    """

    spark: SparkSession
    folder: Path
    name: str
    query: str
    tables: Sequence[str]
    views: Mapping[str, str]

    def declare(self) -> None:
        """Writes the pipeline file; each view is made by the first run of its way."""
        query = self._query({name: name for name in self.tables})
        view = 'CREATE MATERIALIZED VIEW {} OPTIONS {{"refresh": "{}"}} AS\n{};\n'
        self._file.write_text("".join(view.format(*each, query) for each in self.views.items()))

    def all(self) -> dict[str, Way]:
        return {**{name: partial(self.refresh, name) for name in self.views}, HAND: self._by_hand}

    def refresh(self, view: str) -> str:
        """Runs the step of a view; how that was done, or that no rule does it by changes where nothing else may."""
        step = tidemill.Project.load(self._file).run(select=view, spark=self.spark).steps[0]
        if step.error is not None:
            if step.error.code == _NOT_INCREMENTAL:
                return REFUSED
            raise RuntimeError(step.error)
        refresh = step.refresh or {"mode": step.status}
        return f"{refresh['mode']} {refresh.get('rule') or ''}".rstrip()

    def clean(self) -> None:
        """Versions that nobody reads any more; the disk is small."""
        shutil.rmtree(self.held(HAND), ignore_errors=True)
        own = self.spark.newSession()
        own.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
        for view in self.views:
            own.sql(f"VACUUM delta.`{self.held(view)}` RETAIN 0 HOURS")

    def check(self) -> None:
        """Figures of ways that do not end with the same rows would say nothing."""
        found = {self._sum_of(self.held(table)) for table in (*self.views, HAND)}
        if len(found) != 1:
            raise RuntimeError(f"{self.name}: the ways do not end with the same rows: {found}")

    def held(self, table: str) -> Path:
        return table_at(self.folder, f"{self.name}_{HAND}" if table == HAND else table)

    @property
    def _file(self) -> Path:
        return self.folder / f"{self.name}.sql"

    def _by_hand(self) -> None:
        query = self._query({name: f"delta.`{table_at(self.folder, name)}`" for name in self.tables})
        self.spark.sql(f"CREATE OR REPLACE TABLE delta.`{self.held(HAND)}` USING delta AS {query}")

    def _sum_of(self, table: Path) -> tuple[object, ...]:
        rows = self.spark.read.format("delta").load(str(table))
        columns = ", ".join(f"`{name}`" for name in sorted(rows.columns))
        found = rows.selectExpr("count(*)", f"sum(CAST(xxhash64({columns}) AS DECIMAL(20,0)))").first()
        return tuple(found or ())

    def _query(self, names: Mapping[str, str]) -> str:
        return self.query.format(**names)


def table_at(folder: Path, name: str) -> Path:
    """A table of the pipelines in this folder."""
    return folder / "warehouse" / "main" / name
