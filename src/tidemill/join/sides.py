"""The two sides of a join: their names and times, what is wrong with them, and their rows within a scope."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemill.change.columns import require, unambiguous
from tidemill.change.cursors import kind_of
from tidemill.declare.joins import JoinType, scope_of
from tidemill.declare.names import quote
from tidemill.declare.ticks import at_tick, check_kinds
from tidemill.errors import ArgumentError, JoinError
from tidemill.join.rows import Joining, Side, Ticks

if TYPE_CHECKING:
    from pyspark.sql import Column

    from tidemill.declare.cursors import CursorKind
    from tidemill.declare.joins import Span, Waits


@dataclass(frozen=True, slots=True)
class Sides:
    """Two frames whose times are of one kind."""

    a: Side
    b: Side
    kind: CursorKind

    @classmethod
    def of(cls, a: DataFrame, b: DataFrame, times: tuple[str, str], names: tuple[str, str] = ("a", "b")) -> Sides:
        """Raises whatever is wrong with columns and types; reads no rows."""
        first, second = _side(a, names[0], times[0]), _side(b, names[1], times[1])
        return cls(first, second, check_kinds(_kind(first), _kind(second), (_described(first), _described(second))))

    def of_result(self, how: JoinType) -> tuple[list[str], list[str]]:
        """The columns of either side that a join of this type has: an anti join has those of one."""
        a = [] if how is JoinType.RIGHT_ANTI else self.a.rows.columns
        return a, [] if how is JoinType.LEFT_ANTI else self.b.rows.columns

    def check_times(self) -> None:
        """Raises with the count where rows have no time. Files whose statistics say that they have one are not read."""
        both = enumerate((self.a, self.b))
        nulls = [_null_times(side, number) for number, side in both if side.rows.schema[side.time].nullable]
        if not nulls:
            return
        found = reduce(lambda one, other: one.unionByName(other), nulls)
        for row in found.take(1):  # counted only where there is one: looking for one takes no shuffle
            number = row["side"]
            raise _without_time(self.a if number == 0 else self.b, found.where(F.col("side") == number).count())

    def window(self, on: Column, how: JoinType, span: Span, waits: Waits, *, waiting: bool = False) -> Joining:
        """The join of one window, for which either side is read only as far as it matters."""
        scope = scope_of(how, span, waits, waiting=waiting)
        bounds = Ticks(*(F.lit(tick) for tick in (span.start, span.end, waits.look_back, waits.look_forward)))
        a, b = self._within(self.a, scope.a), self._within(self.b, scope.b)
        return Joining(a, b, on, how, self.kind, bounds, waiting)

    def _within(self, side: Side, span: Span) -> Side:
        """Plain comparisons with literals: what Spark can skip files and partitions by."""
        rows = side.rows
        for sign, tick in ((">=", span.start), ("<", span.end)):
            bound = at_tick(self.kind, tick)
            rows = rows if bound is None else rows.where(f"{quote(side.time)} {sign} {bound.literal()}")
        return Side(rows, side.name, side.time)


def _side(rows: DataFrame, name: str, time: str) -> Side:
    if not isinstance(rows, DataFrame):
        problem = f"{name} is a {type(rows).__name__}, and no DataFrame."
        raise ArgumentError("join.no_frame", problem, "Read it first: tidemill.read(path_or_name).")
    if not isinstance(time, str):
        problem = f"{name}_time is {time!r}, and no column."
        raise ArgumentError("join.no_time", problem, f"Name the column that says when a row of {name} came.")
    unambiguous(rows, name)
    return Side(rows, name, require([time], rows.columns, "The time column", name)[0])


def _kind(side: Side) -> CursorKind | None:
    return kind_of(side.rows.schema[side.time].dataType)


def _described(side: Side) -> str:
    return f"{side.name}.{side.time} ({side.rows.schema[side.time].dataType.simpleString()})"


def _null_times(side: Side, number: int) -> DataFrame:
    return side.rows.where(f"{quote(side.time)} IS NULL").select(F.lit(number).alias("side"))


def _without_time(side: Side, count: int) -> JoinError:
    rows = "1 row" if count == 1 else f"{count:,} rows"
    return JoinError(
        "join.null_times",
        f"{rows} of {side.name} {'has' if count == 1 else 'have'} no {side.time}: nobody can say when "
        f"{'it' if count == 1 else 'they'} came, and so which window {'it is' if count == 1 else 'they are'} in.",
        f"Give {'it' if count == 1 else 'them'} a time, or leave {'it' if count == 1 else 'them'} out "
        f"(where {side.time} is not null).",
    )
