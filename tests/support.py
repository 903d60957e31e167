"""Small pieces that several test files use."""

from __future__ import annotations

import hashlib
import shutil
import threading
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from delta_rows import delta_table

from tidemill import Table
from tidemill.declarations import Append, Merge, Window
from tidemill.execution.step import run_step
from tidemill.formats.delta.store import DeltaStore
from tidemill.model.table import lookback

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from tidemill import Cursor
    from tidemill.execution import StepResult
    from tidemill.model.strategy import Strategy
    from tidemill.sources import Reading

NOW = datetime(2024, 6, 1, 12, tzinfo=UTC)
EVENTS = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", tz="UTC")), ("value", pa.string())])


def moment(hour: float) -> datetime:
    """So many hours after the start of 2024-01-01."""
    return datetime.fromtimestamp(datetime(2024, 1, 1, tzinfo=UTC).timestamp() + hour * 3600, UTC)


def events(*rows: tuple[int, float, str]) -> pa.Table:
    """Rows of (id, hour, value)."""
    return pa.Table.from_pylist(
        [{"id": key, "at": moment(hour), "value": value} for key, hour, value in rows], schema=EVENTS
    )


@dataclass
class Rows:
    """A source of Arrow rows that may do something else first, once: that is how a test gets between two steps."""

    table: pa.Table
    meanwhile: Callable[[], object] | None = None
    settled: bool = False
    _done: threading.Event = field(default_factory=threading.Event)

    def read(self, reading: Reading, columns: Sequence[str] = ()) -> DataFrame:
        del columns
        if self.meanwhile is not None and not self._done.is_set():
            self._done.set()
            self.meanwhile()
        return reading.spark.createDataFrame(self.table)

    def schema(self, reading: Reading) -> StructType:
        return self.read(reading).schema

    def read_since(self, reading: Reading, column: str, value: Cursor, columns: Sequence[str] = ()) -> DataFrame:
        del column, value
        return self.read(reading, columns)

    def version(self) -> str | None:
        return None


def events_table(path: Path, strategy: Strategy | None = None, back: str | None = "3 hours", **more: Any) -> Table:
    """A table of events with a window on `at`."""
    return Table(
        name="events",
        path=str(path),
        strategy=strategy or Append(),
        window=Window("at", lookback=lookback(back)),
        **more,
    )


def keyed(path: Path, **more: Any) -> Table:
    """A table of events that merges on `id`, without a window."""
    return Table(name="events", path=str(path), strategy=Merge(("id",), **more))


def feed(
    spark: SparkSession, table: Table, rows: pa.Table, meanwhile: Callable[[], object] | None = None
) -> StepResult:
    return run_step(spark, table, Rows(rows, meanwhile), now=NOW)


def fed(spark: SparkSession, table: Table, *loads: pa.Table) -> None:
    """The table after these loads. They are made once and copied: a test is about what comes after them."""
    path = Path(table.path)
    made = path.parent.parent / f"made-{_fingerprint(table, loads)}"
    if not made.exists():
        for rows in loads:
            feed(spark, table, rows)
        shutil.copytree(path, made)
    else:
        shutil.copytree(made, path)


def _fingerprint(table: Table, loads: Sequence[pa.Table]) -> str:
    told = (replace(table, path=""), [rows.to_pylist() for rows in loads])
    return hashlib.sha256(repr(told).encode()).hexdigest()[:16]


def held(path: Path) -> list[tuple[int, float, str]]:
    """The rows of an events table as (id, hour, value), in order."""
    found = (delta_table(path) if (path / "_delta_log").exists() else pq.read_table(path)).to_pylist()
    return sorted((row["id"], (row["at"] - moment(0)).total_seconds() / 3600, row["value"]) for row in found)


def version(path: Path) -> int:
    snapshot = DeltaStore(str(path)).snapshot()
    assert snapshot is not None
    return snapshot.version


def together(*jobs: Callable[[], object]) -> list[BaseException]:
    """Runs the jobs at the same time, from one signal on; the errors they ended with."""
    failures: list[BaseException] = []
    ready = threading.Barrier(len(jobs))

    def run(job: Callable[[], object]) -> None:
        ready.wait()
        try:
            job()
        except BaseException as failure:  # noqa: BLE001  handed to the test
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures


def ids(rows: Iterable[tuple[int, float, str]]) -> list[int]:
    return [row[0] for row in rows]
