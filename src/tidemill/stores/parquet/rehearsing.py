"""What an operation would do to a dataset: the same look at its rows, and nothing written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from tidemill.stores.parquet.staging import Staged, Staging
from tidemill.stores.parquet.worker.originals import local_path
from tidemill.stores.parquet.worker.rewriting import DROP, FATE, FILE, MOVE, REPLACE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Rehearsal(Staging):
    """Counts what would be rewritten and written, file by file."""

    def _splice(self, actions: DataFrame | None, spark: SparkSession, staged: Staged) -> None:
        del spark
        if self._reshapes:
            staged.remove = list(self.state.files.values())
        if actions is None:
            return
        counted = actions.groupBy(FILE).agg(
            *[F.count_if(F.col(FATE) == fate).alias(fate) for fate in (REPLACE, MOVE, DROP)]
        )
        for row in counted.collect():
            old = self.state.files[local_path(row[FILE]).removeprefix(f"{self.root}/")]
            staged.remove += [] if self._reshapes else [old]
            staged.replaced += row[REPLACE]
            staged.moved += row[MOVE]
            staged.dropped += row[DROP]

    def _write(self, rows: DataFrame, staged: Staged) -> None:
        staged.arrived += rows.count()
