"""A query as the source of a table: it goes to Spark as written, with literals in the place of its @names."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING

from tidemill.declare.cursors import Cursor, CursorKind
from tidemill.declare.producers import Loaded, Query
from tidemill.sources.registry import connector_for

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from tidemill.declare.tables import Table
    from tidemill.run.catalog import Catalog
    from tidemill.sources.protocol import Connector, Reading

_BEGINNING = datetime(1900, 1, 1, tzinfo=UTC)
_MIDNIGHT = time()


def source_of(table: Table, catalog: Catalog, now: datetime, given: Mapping[str, str]) -> Connector:
    """What gives a table its rows; asking for it starts no Spark."""
    match table.producer:
        case Loaded(source):
            return connector_for(source)
        case Query() as query:
            return QuerySource(table.name, query, table.inputs, catalog, now, given)
        case _:
            raise NotImplementedError(table.producer)


@dataclass(frozen=True)
class QuerySource:
    """The rows of a query over tables of the catalog.

    `now` is the start of the run, `given` are literals for the query's other @names.
    """

    name: str
    query: Query
    inputs: tuple[str, ...]
    catalog: Catalog
    now: datetime
    given: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"the query of {self.name}"

    @property
    def settled(self) -> bool:
        return False

    def schema(self, reading: Reading) -> StructType:
        return self.read(reading).schema

    def read(self, reading: Reading, columns: Sequence[str] = ()) -> DataFrame:
        return self._rows(reading, None, columns)

    def read_since(self, reading: Reading, column: str, value: Cursor, columns: Sequence[str] = ()) -> DataFrame:
        del column
        return self._rows(reading, value, columns)

    def version(self) -> str | None:
        """The versions of the tables that it reads; None where one is not ours to know, or the clock has a say."""
        if self.query.clock or self.query.parameters or not self.inputs:
            return None
        versions = {name: self.catalog.version(name) for name in self.inputs}
        return None if None in versions.values() else json.dumps(versions, sort_keys=True)

    def _rows(self, reading: Reading, start: Cursor | None, columns: Sequence[str]) -> DataFrame:
        text = self.query.filled({**self._bounds(start, reading.until), **self.given})
        rows = self.catalog.session(reading.spark, self.inputs).sql(text)
        return rows.select(*columns) if columns else rows

    def _bounds(self, start: Cursor | None, until: Cursor | None) -> dict[str, str]:
        """`@start_*` and `@end_*` as typed literals: the start of the window; its end, or the start of the run."""
        begins, ends = _moment(start) or _BEGINNING, _moment(until) or self.now.astimezone(UTC)
        last_day = ends.date() if until and ends.time() == _MIDNIGHT else ends.date() + timedelta(days=1)
        return {
            "start_dt": Cursor(CursorKind.TIMESTAMP, begins).literal(),
            "end_dt": Cursor(CursorKind.TIMESTAMP, ends).literal(),
            "start_date": Cursor(CursorKind.DATE, begins.date()).literal(),
            "end_date": Cursor(CursorKind.DATE, last_day).literal(),
        }


def _moment(bound: Cursor | None) -> datetime | None:
    match bound.value if bound else None:
        case datetime() as moment:
            return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        case date() as day:
            return datetime(day.year, day.month, day.day, tzinfo=UTC)
        case _:
            return None
