"""What a step would do to a dataset; nothing is written."""

from __future__ import annotations

import time
import uuid
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidemill.errors import ArgumentError
from tidemill.run.retry import with_retries
from tidemill.run.step import Step
from tidemill.stores.opened import attempting
from tidemill.stores.parquet.store import ParquetStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemill.contracts import CommitResult, Compiled, Record
    from tidemill.declare.tables import Table
    from tidemill.run.results import StepResult
    from tidemill.sources.protocol import Connector


def rehearse_step(spark: SparkSession, table: Table, source: Connector) -> StepResult:
    """The result that `run_step` would have, with a notice of how many files it would read."""
    began = time.monotonic()

    def attempted(attempt: int) -> StepResult:
        with attempting(table, attempt):
            step = _Rehearsal(spark, table, source, uuid.uuid4().hex, datetime.now(UTC))
            result = step.run(began)
            return replace(result, notices=(*result.notices, *step.told))

    return with_retries(table.name, attempted)


class _Rehearsal(Step):
    """A step whose commit only counts."""

    told: tuple[str, ...] = ()
    _stages = False

    def _commit(self, compiled: Compiled, record: Record) -> CommitResult | None:
        store = self.store
        if not isinstance(store, ParquetStore):
            raise ArgumentError(
                "merge.dry_run",
                f"{self.table.name} is a Delta table, and a dry run is for Parquet datasets.",
                "Merge it; tidemill restore takes it back.",
            )
        files = self.snapshot.files if self.snapshot else 0
        if compiled.operation is None:
            self.told = (f"would write nothing: {files:,} files stay",)
            return None
        result, read = store.rehearse(compiled.operation, record, self.snapshot)
        self.told = (f"would read {read:,} of {files:,} files and rewrite {result.files_rewritten:,}",)
        return result
