"""What the acceptance tests share: small frames, tables to put them into, and looks at what is there."""

from __future__ import annotations

import contextlib
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pytest
from delta_rows import delta_rows

from tidemill import SchemaPolicy, Table
from tidemill.declarations import NullTime, Window
from tidemill.errors import TidemillError
from tidemill.execution.step import run_step
from tidemill.model.table import lookback
from tidemill.sources.frames import FrameSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tidemill.execution import StepResult
    from tidemill.model.strategy import Strategy

NOW = datetime(2024, 1, 20, tzinfo=UTC)
UTC_MICROS = pa.timestamp("us", tz="UTC")


def frame(types: dict[str, pa.DataType], *rows: tuple[Any, ...]) -> pa.Table:
    """A small frame: its columns with their types, then its rows."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(types)
    schema = pa.schema(list(types.items()))
    return pa.Table.from_arrays([_array(c, t) for c, t in zip(columns, types.values(), strict=True)], schema=schema)


def _array(values: tuple[Any, ...], kind: pa.DataType) -> pa.Array:
    return pa.array(list(values), kind)


def table(
    path: Path,
    strategy: Strategy,
    *,
    time: str | None = None,
    back: str | int | None = None,
    start: str | None = None,
    null_time: str = "fail",
    policy: str = "fail",
    **more: Any,
) -> Table:
    """A declared table at `path`, in the words of a user's declaration."""
    window = Window(time, start, lookback(back), NullTime(null_time)) if time else None
    return Table("orders", str(path), strategy, window, schema_policy=SchemaPolicy(policy), **more)


def step(spark: SparkSession, declared: Table, rows: Any, now: datetime = NOW) -> StepResult:
    return run_step(spark, declared, FrameSource(rows), now=now)


def version(path: Path) -> int:
    """The table's version, read without Spark and without our own code."""
    return deltalake.DeltaTable(str(path)).version()


def held(path: Path, *columns: str) -> Counter[tuple[Any, ...]]:
    """The rows of the table, each with how often it is there."""
    return Counter(delta_rows(path, *columns))


def bag(*rows: tuple[Any, ...]) -> Counter[tuple[Any, ...]]:
    return Counter(rows)


@contextlib.contextmanager
def commits_nothing(path: Path) -> Iterator[None]:
    before = version(path)
    yield
    assert version(path) == before, "the table's version has moved"


def refused(path: Path, attempt: Callable[[], object]) -> TidemillError:
    """The error that `attempt` ends in; the table, or that there is none, stays as it was."""
    before = _files(path)
    with pytest.raises(TidemillError) as caught:
        attempt()
    assert _files(path) == before, "a refused change has touched its target"
    return caught.value


def _files(path: Path) -> dict[str, int]:
    """Every file at the path with its size, Spark's checksums aside."""
    found = [path] if path.is_file() else path.rglob("*")
    return {str(f): f.stat().st_size for f in found if f.is_file() and f.suffix != ".crc"}
