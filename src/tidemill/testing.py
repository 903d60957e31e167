"""For tests of table functions: what one gives when it is called, without a warehouse."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from tidemill.errors import ArgumentError
from tidemill.model.function import decoration_of
from tidemill.sources import Run
from tidemill.sources.frames import as_arrow, is_spark_frame
from tidemill.sources.functions import called
from tidemill.sources.http.fetch import remembering
from tidemill.spark.session import session_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

    from tidemill.sources import Mode

    Rows = list[dict[str, Any]]
    Frame: TypeAlias = DataFrame | pa.Table | pd.DataFrame | Rows


def run_table(
    function: Callable[..., Any],
    *,
    start: date | str | None = None,
    end: date | str | None = None,
    existing: Frame | None = None,
    reads: Mapping[str, Frame] | None = None,
    mode: Mode | None = None,
    vars: Mapping[str, str] | None = None,  # noqa: A002  the word that users know
    spark: SparkSession | None = None,
) -> Rows:
    """The rows that a table function gives for the dates from `start` to `end`, both included, as dicts.

    They are as the function gave them: nothing is merged, checked or written. Without a start it is asked for yesterday
    and today, as a first run is, or for no dates where it has no time column. `existing` is what `run.existing()` is
    to give, `reads` what `run.read(name)` is: frames, or lists of dicts. Spark starts only if the function uses it.
    """
    if not callable(function):
        raise ArgumentError(
            "testing.no_function", f"{function!r} is no function.", "Give the decorated function itself."
        )
    frames = _Frames(spark)
    begins, ends = _dates(function, _day("start", start), _day("end", end))
    run = Run(
        start=begins,
        end=ends,
        mode=mode or ("first" if existing is None else "incremental"),
        vars=vars or {},
        session=frames.session,
        held=lambda: None if existing is None else frames.made(existing),
        table=lambda name: frames.made(_named(name, reads or {})),
    )
    with remembering():
        return list(_rows(function, run))


class _Frames:
    """Frames of Spark, which starts when the first one is asked for."""

    def __init__(self, spark: SparkSession | None) -> None:
        self._spark = spark

    def session(self) -> SparkSession:
        return session_for(self._spark, small=True)

    def made(self, frame: Frame) -> DataFrame:
        if is_spark_frame(frame):
            return frame
        table = as_arrow(frame)
        return self.session().createDataFrame(_table_of(frame) if table is None else table)


def _table_of(rows: Any) -> pa.Table:
    return pa.Table.from_pylist(_listed(rows))


def _rows(function: Callable[..., Any], run: Run) -> Iterator[dict[str, Any]]:
    for given in called(function, run):
        if is_spark_frame(given):
            yield from (row.asDict(recursive=True) for row in given.collect())
        elif (table := as_arrow(given)) is not None:
            yield from table.to_pylist()
        elif given is not None:
            yield from _listed(given)


def _listed(rows: Any) -> Rows:
    if isinstance(rows, list | tuple) and all(isinstance(row, Mapping) for row in rows):
        return [dict(row) for row in rows]
    raise ArgumentError(
        "testing.unknown_rows",
        f"A {type(rows).__name__} is given where rows are expected.",
        "Give a Spark, Arrow or pandas frame, or a list of dicts.",
    )


def _named(name: str, reads: Mapping[str, Frame]) -> Frame:
    if name not in reads:
        raise ArgumentError(
            "testing.no_table",
            f"The function reads {name}, and run_table is not given it.",
            f'Give its rows: reads={{"{name}": […]}}',
        )
    return reads[name]


def _dates(function: Callable[..., Any], start: date | None, end: date | None) -> tuple[date | None, date | None]:
    """The dates of the run: those given, else yesterday and today for a table that has a time column."""
    declared = decoration_of(function)
    given = declared.given if declared else {}
    if start is None and end is None and not given.get("time_column"):
        return None, None
    today = datetime.now(ZoneInfo(str(given["timezone"])) if given.get("timezone") else UTC).date()
    ends = end or max(today, start or today)
    begins = start or ends - timedelta(days=1)
    if ends < begins:
        raise ArgumentError("testing.no_dates", f"There are no dates from {begins} to {ends}.", "Give a later end.")
    return begins, ends


def _day(name: str, given: date | str | None) -> date | None:
    if isinstance(given, datetime):
        return given.date()
    if given is None or isinstance(given, date):
        return given
    try:
        return date.fromisoformat(given)
    except ValueError as bad:
        raise ArgumentError("testing.bad_date", f"{name} is {given!r}, which is no date.", "Write 2026-02-04.") from bad
