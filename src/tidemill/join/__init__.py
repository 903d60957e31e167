"""The incremental join: two tables that grow by increments, joined once and for ever, however that is cut into runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.model.join import STATUS, TIME, WAITED, JoinType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from tidemill.model.join import Length, Moment

    On = str | Sequence[str | tuple[str, str]] | Column


def incremental_join(
    a: DataFrame,
    b: DataFrame,
    on: On,
    how: JoinType | str = JoinType.LEFT,
    *,
    a_time: str,
    b_time: str,
    look_back: Length,
    look_forward: Length,
    start: Moment,
    end: Moment,
    inclusive: str = "both",
    include_waiting: bool = False,
    select: Sequence[str] | None = None,
    suffixes: tuple[str, str] = ("", "_b"),
    time: str = TIME,
    status: str = STATUS,
) -> DataFrame:
    """The rows of a join whose target time lies from `start` to `end`. Windows without gaps give, in sum, one history.

    A row of `b` may lie from `look_back` before to `look_forward` after its `a`; a pair has the later of the two times.
    A row that was never in a pair is outdated `look_forward` (of `b`: `look_back`) after its own time. Nothing is read
    outside of what the window needs. `on` is a column, a list of columns or of pairs of columns, or a condition over
    `a.` and `b.`. Columns that both sides have get `suffixes`; `time`, `status` and `waited` come last. With
    `include_waiting` there are also rows that have no partner so far; they are no part of the history.

    >>> calls = spark.createDataFrame([(7, date(2024, 3, 1))], "reference INT, day DATE")
    >>> sales = spark.createDataFrame([(7, date(2024, 3, 5), 20)], "reference INT, day DATE, amount INT")
    >>> joined = tidemill.incremental_join(
    ...     calls, sales, on="reference", a_time="day", b_time="day", look_back="6 days", look_forward="10 days",
    ...     start="2024-03-01", end="2024-03-31",
    ... )
    >>> [(row.reference, row.amount, row.join_status) for row in joined.collect()]
    [(7, 20, 'b_late')]
    """
    from tidemill.join.call import call_of  # noqa: PLC0415  Spark is there when frames are

    call = call_of(a, b, on, how, (a_time, b_time), (look_back, look_forward))
    columns = call.columns(suffixes, (time, status, WAITED), select)
    return call.joined(start, end, inclusive, waiting=include_waiting).select(*columns)
