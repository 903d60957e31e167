"""One call of `incremental_join`, from its arguments to its rows: columns, keys and the two sides."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemill.changes import require, unambiguous
from tidemill.changes.profile import kind_of
from tidemill.errors import ArgumentError, JoinError, did_you_mean
from tidemill.join.rows import STATUS, TARGET, WAITED, Joining, Side, Ticks
from tidemill.model import of, quote, spelled
from tidemill.model.join import JoinType, at_tick, check_kinds, join_type, scope_of, span_of, waits_of
from tidemill.spark.errors import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tidemill.join import On
    from tidemill.model.cursor import CursorKind
    from tidemill.model.join import Length, Moment, Span, Waits


@dataclass(frozen=True, slots=True)
class Named:
    """A column of the join: which side has it (None for the join itself), how it is called there, and here."""

    side: str | None
    column: str
    name: str


def named_columns(
    a: Sequence[str], b: Sequence[str], suffixes: tuple[str, str], own: Sequence[str]
) -> tuple[Named, ...]:
    """All columns: those of `a`, of `b` and the join's own; names that both sides have get their suffixes."""
    if len(suffixes) != len(("a", "b")) or not all(isinstance(each, str) for each in suffixes):
        problem = f"suffixes is {suffixes!r}."
        raise ArgumentError("join.bad_suffixes", problem, 'Give two texts, one for each side: ("", "_b").')
    found = [*_of_side("a", a, b, suffixes[0]), *_of_side("b", b, a, suffixes[1])]
    found += [Named(None, name, name) for name in own]
    seen: dict[str, Named] = {}
    for each in found:
        twin = seen.setdefault(each.name.lower(), each)
        if twin is not each:
            raise ArgumentError(
                "join.ambiguous_columns",
                f"The join would have two columns of the name {each.name}: {_label(twin)} and {_label(each)}.",
                "Rename one of them before, give other suffixes, or name the join's own by time= and status=.",
            )
    return tuple(found)


def selected(columns: Sequence[Named], select: Sequence[str] | None) -> tuple[Named, ...]:
    """The columns of these names, in this order; all where none are named."""
    if select is None:
        return tuple(columns)
    if not select:
        raise ArgumentError("join.no_columns", "select names no column.", "Name some, or leave it out to have all.")
    names = [each.name for each in columns]
    select = [select] if isinstance(select, str) else select
    return tuple(columns[names.index(_known(name, names))] for name in select)


def _known(name: str, names: Sequence[str]) -> str:
    found = spelled(name, names)
    if found is not None:
        return found
    close = did_you_mean(name, names)
    hint = f"Did you mean {close}? " if close else ""
    raise ArgumentError(
        "join.unknown_column", f"The join has no column {name}.", f"{hint}Its columns are: {', '.join(names)}."
    )


def _of_side(side: str, own: Sequence[str], other: Sequence[str], suffix: str) -> Iterator[Named]:
    for name in own:
        yield Named(side, name, f"{name}{suffix}" if spelled(name, other) is not None else name)


def _label(column: Named) -> str:
    return f"{column.side}.{column.column}" if column.side else f"the join's own {column.column}"


_NAME = re.compile(r"\w+")


def condition_of(on: On, sides: Sides) -> Column:
    """The condition as a column. NULLs are equal to nothing, so a row without a key is in no pair."""
    if isinstance(on, Column):
        return on
    if isinstance(on, str):
        is_name = _NAME.fullmatch(on) or all(spelled(on, side.rows.columns) for side in (sides.a, sides.b))
        return _equal(on, on, sides) if is_name else F.expr(on)
    if not isinstance(on, list | tuple):
        raise _bad_keys(f"`on` is {on!r}", ", which names no columns")
    pairs = [(each, each) if isinstance(each, str) else _pair(each) for each in on]
    if not pairs:
        raise ArgumentError("join.no_keys", "A join needs a condition, and `on` is empty.", 'Name a column: on="id".')
    return reduce(lambda one, other: one & other, (_equal(a, b, sides) for a, b in pairs))


def _pair(given: object) -> tuple[str, str]:
    match given:
        case (str() as a, str() as b):
            return a, b
        case _:
            raise _bad_keys(f"{given!r} in `on`", " is neither a column nor a pair of columns")


def _bad_keys(what: str, why: str) -> ArgumentError:
    remedy = 'Write on=["id"], on=[("id", "order_id")], or a condition: on="a.id = b.order_id".'
    return ArgumentError("join.bad_keys", f"{what}{why}.", remedy)


def _equal(a: str, b: str, sides: Sides) -> Column:
    (first,) = require([a], sides.a.rows.columns, "The key column", sides.a.name)
    (second,) = require([b], sides.b.rows.columns, "The key column", sides.b.name)
    return sides.a.column(first) == sides.b.column(second)


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
        return cls(first, second, check_kinds(_kind(first), _kind(second), (_time_label(first), _time_label(second))))

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


def _time_label(side: Side) -> str:
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
