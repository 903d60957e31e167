"""A pipeline as a user has it: a folder with a file of SQL and some data, run by the library."""

from __future__ import annotations

import csv
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from delta_rows import delta_rows

from tidemill.api.workspace import Workspace
from tidemill.execution import StepResult
from tidemill.formats.delta.log import DeltaLog

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tidemill.execution import Outcome, RunOutcome


@dataclass
class Shop:
    """A lone pipeline file `shop.sql` in a folder of its own."""

    spark: SparkSession
    folder: Path
    last: RunOutcome | None = None
    given: dict[str, str] = field(default_factory=dict)

    @property
    def file(self) -> Path:
        return self.folder / "shop.sql"

    def says(self, text: str) -> Shop:
        self.file.write_text(text)
        return self

    def data(self, name: str, columns: str, *rows: tuple[Any, ...]) -> None:
        """A CSV file under data/; None is an empty cell."""
        path = self.folder / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([columns.split(), *rows])

    def load(self) -> Workspace:
        return Workspace.load(self.file, given=self.given)

    def run(self) -> dict[str, Outcome]:
        self.last = self.load().run(self.spark)
        return {outcome.name.removeprefix("main."): outcome for outcome in self.last.outcomes}

    def step(self, table: str) -> StepResult:
        """Runs all, and gives the result of one table's step."""
        result = self.run()[table].result
        assert isinstance(result, StepResult)
        return result

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        return sorted(delta_rows(self.path(table)), key=repr)

    def path(self, table: str) -> Path:
        return self.folder / "warehouse" / "main" / table

    def version(self, table: str) -> int:
        snapshot = DeltaLog(str(self.path(table))).snapshot()
        assert snapshot is not None
        return snapshot.version


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> Shop:
    return Shop(spark, tmp_path)


@pytest.fixture
def counts() -> Callable[[StepResult], tuple[int, ...]]:
    def of(result: StepResult) -> tuple[int, ...]:
        c = result.counts
        return c.inserted, c.updated, c.deleted, c.unchanged

    return of
