"""One call of `incremental_join`, from its arguments to its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from tidemill.declare.joins import join_type
from tidemill.declare.names import of
from tidemill.declare.ticks import span_of, waits_of
from tidemill.engine.translate import one_line
from tidemill.errors import ArgumentError
from tidemill.join.columns import Named, named_columns, selected
from tidemill.join.conditions import condition_of
from tidemill.join.rows import STATUS, TARGET, WAITED
from tidemill.join.sides import Sides

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column, DataFrame

    from tidemill.declare.joins import JoinType
    from tidemill.declare.ticks import Length, Moment
    from tidemill.join import On
    from tidemill.join.rows import Joining

_OWN = (TARGET, STATUS, WAITED)


@dataclass(frozen=True, slots=True)
class Call:
    """What a caller says of a join, but for its window and the columns of its result."""

    sides: Sides
    on: On
    how: JoinType
    waits: tuple[Length, Length]

    def joined(self, start: Moment, end: Moment, inclusive: str, *, waiting: bool) -> DataFrame:
        """The rows of the window, with all columns under the names of their sides."""
        waits, span = waits_of(*self.waits, self.sides.kind), span_of(self.sides.kind, start, end, inclusive)
        on = condition_of(self.on, self.sides)
        rows = rows_of(self.sides, lambda: self.sides.window(on, self.how, span, waits, waiting=waiting))
        self.sides.check_times()
        return rows

    def columns(self, suffixes: tuple[str, str], own: Sequence[str], select: Sequence[str] | None) -> list[Column]:
        """The columns of the result."""
        a, b = self.sides.of_result(self.how)
        found = selected(named_columns(a, b, suffixes, own), select)
        return [_column(each, dict(zip(own, _OWN, strict=True))) for each in found]


def rows_of(sides: Sides, joining: Callable[[], Joining]) -> DataFrame:
    """The rows of a join; what Spark says to its condition becomes an error that names the columns."""
    try:
        return joining().rows
    except AnalysisException as failure:
        there = "; ".join(f"{side.name} has {', '.join(side.rows.columns)}" for side in (sides.a, sides.b))
        raise ArgumentError(
            "join.bad_condition",
            f"The condition of the join does not fit its rows: {one_line(failure)}",
            f"Write it over columns of both sides: {there}.",
        ) from failure


def call_of(a: DataFrame, b: DataFrame, on: On, how: str, times: tuple[str, str], waits: tuple[Length, Length]) -> Call:
    """Everything that can be wrong with the frames, their times and the type of the join is reported here."""
    return Call(Sides.of(a, b, times), on, join_type(how), waits)


def _column(column: Named, own: dict[str, str]) -> Column:
    source = own[column.column] if column.side is None else of(column.side, column.column)
    return F.col(source).alias(column.name)
