"""Sets a table's watermark by hand: a commit without rows in the table's own log."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidemill.contracts.records import Record
from tidemill.errors import StateError
from tidemill.run.retry import with_retries
from tidemill.stores.opened import store_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemill.contracts.snapshots import Snapshot
    from tidemill.declare.cursors import Cursor
    from tidemill.declare.tables import Table


def set_watermark(spark: SparkSession, table: Table, value: Cursor | None) -> None:
    """The next run of the table reads from `value` on, minus its lookback; from the beginning where it is None."""
    with_retries(table.name, lambda attempt: _commit(spark, table, value, attempt))


def _commit(spark: SparkSession, table: Table, value: Cursor | None, attempt: int) -> None:
    store = store_of(table)
    snapshot = store.snapshot()
    if snapshot is None:
        raise never_run(table)
    store.add_nothing(spark, _record(table, snapshot, value, attempt), after=snapshot.version)


def _record(table: Table, snapshot: Snapshot, value: Cursor | None, attempt: int) -> Record:
    """What the table knows of itself stays; of this input it only knows what was said by hand."""
    signed = {
        "run_id": f"{uuid.uuid4().hex}-{attempt}",
        "sequence": snapshot.sequence + 1,
        "strategy": "reset watermark" if value is None else "set watermark",
        "at": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    }
    before = snapshot.record or Record(table=table.name, **signed)  # type: ignore[arg-type]
    others = {name: cursor for name, cursor in before.progress.items() if name != table.input}
    versions = {name: version for name, version in before.input_versions.items() if name != table.input}
    reset = {name for name in before.reset if name != table.input} | ({table.input} if value is None else set())
    return before.with_(
        progress=others if value is None else {**others, table.input: value},
        reset=tuple(sorted(reset)),
        input_versions=versions,
        rows=0,
        counts={},
        window={},
        restored_from=None,
        base=snapshot.version,
        held=snapshot.rows,
        same_rows_as=snapshot.content_version,
        **signed,
    )


def never_run(table: Table) -> StateError:
    return StateError(
        "watermark.never_run",
        f"{table.name} has not been run yet, so there is no log to hold its watermark.",
        'Give its source "start_date" in its PARAMS to begin there, or run it first.',
        origin=table.origin,
    )
