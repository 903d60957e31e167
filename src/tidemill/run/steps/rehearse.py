"""What a step would do to its table; nothing is written."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidemill.contracts.operations import AppendRows
from tidemill.contracts.store import CommitResult
from tidemill.errors import ArgumentError
from tidemill.run.steps.step import Asked, Step, done
from tidemill.state.counting import completed
from tidemill.stores.parquet.store import ParquetStore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from tidemill.contracts.operations import Compiled, Operation
    from tidemill.contracts.records import Record
    from tidemill.declare.tables import Table
    from tidemill.run.results import StepResult
    from tidemill.sources.protocol import Connector


def rehearse_step(spark: SparkSession, table: Table, source: Connector) -> StepResult:
    """The result that `run_step` would have, with a notice of what it would do to files."""
    return done(Asked(spark, table, source, datetime.now(UTC)), _Rehearsal)


class _Rehearsal(Step):
    """A step whose commit only counts."""

    notices: tuple[str, ...] = ()
    _stages = False

    def run(self, began: float) -> StepResult:
        result = super().run(began)
        return replace(result, notices=(*result.notices, *self.notices))

    def _without(self, columns: Sequence[str]) -> Step:
        raise ArgumentError(
            "merge.dry_run",
            f"{', '.join(columns)} would leave {self.table.name} before the merge, in a commit of its own, and a dry "
            "run makes none.",
            "Ask with --schema-policy append_new_columns what the merge would do after that.",
        )

    def _commit(self, compiled: Compiled, record: Record) -> CommitResult | None:
        store, operation = self.store, compiled.operation
        files = self.snapshot.files if self.snapshot else 0
        if operation is None:
            stay = "file stays" if files == 1 else "files stay"
            self.notices = (f"would write nothing: {files:,} {stay}",)
            return None
        if not isinstance(store, ParquetStore):
            return self._counted(compiled, operation, record)
        result, read = store.rehearse(operation, record, self.snapshot)
        self.notices = (f"would read {read:,} of {files:,} files and rewrite {result.files_rewritten:,}",)
        return result

    def _counted(self, compiled: Compiled, operation: Operation, record: Record) -> CommitResult:
        """Of a Delta table only the rows are reported: which files it rewrites, Delta finds while it writes."""
        appends = isinstance(operation, AppendRows)
        counts = completed(record, {"inserted": operation.rows.count()}) if appends else compiled.counts
        before = self.snapshot.version if self.snapshot else -1
        self.notices = (f"would be version {before + 1}",)
        return CommitResult(max(before, 0), alone=True, counts=counts, files_rewritten=0, files_kept=0)
