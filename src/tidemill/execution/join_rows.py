"""The two tables of a declared join in a Spark session: the rows of a window, and the first and last times."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from tidemill.changes.profile import exact, highest
from tidemill.errors import ArgumentError
from tidemill.execution.joins import Tally
from tidemill.join.call import Sides, named_columns, rows_of
from tidemill.join.rows import SINCE, STATUS, TARGET, WAITED
from tidemill.model import of, quote, spelled
from tidemill.model.join import WAITED as OWN_WAITED
from tidemill.model.join import JoinStatus, at_tick, waits_of
from tidemill.spark.errors import one_line
from tidemill.spark.session import settle

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from tidemill.execution.catalog import Catalog
    from tidemill.model.cursor import Cursor, CursorKind
    from tidemill.model.join import Join, JoinSide, Span


@dataclass(frozen=True)
class JoinRows:
    """`sides` are the tables under the names by which the condition calls them; `name` is that of the join's table."""

    join: Join
    name: str
    sides: Sides

    @classmethod
    def of(cls, join: Join, name: str, catalog: Catalog, spark: SparkSession) -> JoinRows:
        a, b = catalog.frames(spark, [join.a.table, join.b.table])
        return cls(join, name, Sides.of(a, b, (join.a.time, join.b.time), (join.a.alias, join.b.alias)))

    @property
    def kind(self) -> CursorKind:
        return self.sides.kind

    def window(self, span: Span) -> DataFrame:
        """The rows of a window, lazily."""
        return self._named(self._joined(span, waiting=False)).drop(SINCE)

    def counted(self, span: Span) -> tuple[DataFrame, Tally]:
        """The same, computed once, with what they are and what waits at the end. Rows without a time are an error."""
        self.sides.check_times()
        rows = settle(self._named(self._joined(span, waiting=True)))
        status = F.col(quote(self.join.status))
        return rows.where(status != JoinStatus.WAITING).drop(SINCE), self._tally(rows, status)

    def highest(self, sides: Sequence[JoinSide], since: Cursor | None) -> dict[JoinSide, Cursor]:
        """The last times of these sides; files before `since` are read only where there is nothing behind it."""
        newer = self._asked(sides, F.max, since) if since else {}
        return newer | self._asked([side for side in sides if side not in newer], F.max)

    def lowest(self) -> Cursor | None:
        """The first time of either side."""
        return min(self._asked((self.join.a, self.join.b), F.min).values(), default=None)

    def _asked(
        self, sides: Sequence[JoinSide], what: Callable[[str], Column], since: Cursor | None = None
    ) -> dict[JoinSide, Cursor]:
        """One time of each side that has any, by one job for all of them."""
        if not sides:
            return {}
        asked = [self._time(number, side, what, since) for number, side in enumerate(sides)]
        rows = reduce(lambda one, other: one.unionByName(other), asked).collect()
        found = {sides[row["side"]]: highest(row["found"], self.kind) for row in rows}
        return {side: each for side, each in found.items() if each is not None}

    def _time(self, number: int, side: JoinSide, what: Callable[[str], Column], since: Cursor | None) -> DataFrame:
        rows, time = (self.sides.a if side is self.join.a else self.sides.b).rows, quote(side.time)
        rows = rows.where(f"{time} >= {since.literal()}") if since else rows
        return rows.agg(F.lit(number).alias("side"), exact(what(time), self.kind).alias("found"))

    def _joined(self, span: Span, *, waiting: bool) -> DataFrame:
        join, sides = self.join, self.sides
        waits = waits_of(join.look_back, join.look_forward, self.kind)
        return rows_of(sides, lambda: sides.window(F.expr(join.on.text), join.how, span, waits, waiting=waiting))

    def _named(self, joined: DataFrame) -> DataFrame:
        """The columns that SELECT names, then the join's own."""
        own = {TARGET: self.join.time, STATUS: self.join.status, WAITED: OWN_WAITED}
        self._check_names(self._selected(joined).columns, tuple(own.values()))
        added = [f"{name} AS {quote(other)}" for name, other in own.items()]
        return joined.selectExpr(*self._columns, *added, SINCE)

    def _check_names(self, chosen: Sequence[str], own: Sequence[str]) -> None:
        """Each column has a name of its own; a mistake is reported in the words of SELECT."""
        problem, remedy = "", ""
        for number, name in enumerate(chosen):
            if spelled(name, own):
                problem = f"a column {name}, which is one of the join's own"
                remedy = f"Give it another name there, or leave it out: {self.join.a.alias}.* EXCEPT ({name})."
            elif spelled(name, chosen[:number]):
                problem = f"two columns of the name {name}"
                remedy = "Give one of them another name with AS, or write SELECT *, which gives suffixes to them."
            if problem:
                told = f"The SELECT of {self.name} gives {problem}."
                raise ArgumentError("join.column_taken", told, remedy, origin=self.join.origin)

    def _selected(self, joined: DataFrame) -> DataFrame:
        try:
            return joined.selectExpr(*self._columns)
        except AnalysisException as failure:
            raise ArgumentError(
                "join.bad_select",
                f"The SELECT of {self.name} cannot be read: {one_line(failure)}",
                f"Its columns are those of {self.join.a.alias} and {self.join.b.alias}.",
                origin=self.join.origin,
            ) from failure

    @property
    def _columns(self) -> list[str]:
        """What SELECT says; its `*` stands for the columns of both sides, and not for those that are ours."""
        items = [item.text.strip() for item in self.join.select]
        return [column for item in items for column in (self._all if item == "*" else [item])]

    @property
    def _all(self) -> list[str]:
        """The columns of both sides; those that both have get suffixes."""
        a, b = self.sides.of_result(self.join.how)
        alias = {"a": self.join.a.alias, "b": self.join.b.alias, None: ""}
        named = named_columns(a, b, self.join.suffixes, ())
        return [f"{of(alias[each.side], each.column)} AS {quote(each.name)}" for each in named]

    def _tally(self, rows: DataFrame, status: Column) -> Tally:
        counts = rows.groupBy(status.alias("status")).agg(F.count(F.lit(1)).alias("rows"), F.min(SINCE).alias("first"))
        found = {row["status"]: row for row in counts.collect()}
        count = {each: found[each]["rows"] if each in found else 0 for each in JoinStatus}
        late = count[JoinStatus.A_LATE] + count[JoinStatus.B_LATE]
        oldest = at_tick(self.kind, found[JoinStatus.WAITING]["first"]) if count[JoinStatus.WAITING] else None
        return Tally(
            matched=count[JoinStatus.SAME_TIME] + late,
            late=late,
            outdated=count[JoinStatus.OUTDATED],
            waiting=count[JoinStatus.WAITING],
            oldest=oldest.text() if oldest else None,
        )
