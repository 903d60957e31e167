"""The two tables of a declared join in a Spark session: the rows of a window, and the first and last times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from tidemill.change.cursors import exact, highest
from tidemill.change.settled import settle
from tidemill.declare.joins import JoinStatus, JoinType
from tidemill.declare.names import quote, quoted_name, spelled
from tidemill.declare.ticks import at_tick, waits_of
from tidemill.engine.translate import one_line
from tidemill.errors import ArgumentError
from tidemill.join.call import rows_of
from tidemill.join.rows import SINCE, STATUS, TARGET, WAITED
from tidemill.join.sides import Sides
from tidemill.run.join import Tally

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from tidemill.declare.cursors import Cursor, CursorKind
    from tidemill.declare.joins import Join, JoinSide, Span
    from tidemill.run.catalog import Catalog

_WAITED = "waited"


@dataclass(frozen=True)
class JoinRows:
    """`sides` are the tables under the names by which the condition calls them; `name` is that of the join's table."""

    join: Join
    name: str
    sides: Sides

    @classmethod
    def of(cls, join: Join, name: str, catalog: Catalog, spark: SparkSession) -> JoinRows:
        session = catalog.session(spark, (join.a.table, join.b.table))
        a, b = (session.table(quoted_name(side.table)) for side in (join.a, join.b))
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

    def highest(self, side: JoinSide, since: Cursor | None) -> Cursor | None:
        """The last time of a side; files that lie before `since` are read only where there is nothing behind it."""
        rows, time = (self.sides.a if side is self.join.a else self.sides.b).rows, quote(side.time)
        newer = self._asked(rows.where(f"{time} >= {since.literal()}"), F.max(time)) if since else None
        return newer or self._asked(rows, F.max(time))

    def lowest(self) -> Cursor | None:
        """The first time of either side."""
        found = [self._asked(side.rows, F.min(quote(side.time))) for side in (self.sides.a, self.sides.b)]
        return min((each for each in found if each is not None), default=None)

    def _asked(self, rows: DataFrame, what: Column) -> Cursor | None:
        row = rows.agg(exact(what, self.kind).alias("found")).first()
        return highest(row["found"] if row else None, self.kind)

    def _joined(self, span: Span, *, waiting: bool) -> DataFrame:
        join, sides = self.join, self.sides
        waits = waits_of(join.look_back, join.look_forward, self.kind)
        return rows_of(sides, lambda: sides.window(F.expr(join.on), join.how, span, waits, waiting=waiting))

    def _named(self, joined: DataFrame) -> DataFrame:
        """The columns that SELECT names, then the join's own."""
        own = {TARGET: self.join.time, STATUS: self.join.status, WAITED: _WAITED}
        chosen = self._selected(joined)
        taken = [name for name in own.values() if spelled(name, chosen.columns)]
        if taken:
            raise ArgumentError(
                "join.column_taken",
                f"The SELECT of {self.name} gives a column {taken[0]}, which is one of the join's own.",
                f"Give it another name there, or leave it out: {self.join.a.alias}.* EXCEPT ({taken[0]}).",
                origin=self.join.origin,
            )
        added = [f"{name} AS {quote(other)}" for name, other in own.items()]
        return joined.selectExpr(*self._columns, *added, SINCE)

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
        a, b = f"{quote(self.join.a.alias)}.*", f"{quote(self.join.b.alias)}.*"
        whole = {JoinType.LEFT_ANTI: [a], JoinType.RIGHT_ANTI: [b]}.get(self.join.how, [a, b])
        return [column for item in self.join.select for column in (whole if item.strip() == "*" else [item])]

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
