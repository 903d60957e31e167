"""A query as the source of a table: it goes to Spark as written, with literals in the place of its @names."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

from tidemill.declare.cursors import Cursor, CursorKind
from tidemill.state.delta_log import DeltaLog

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from tidemill.declare.producers import Query
    from tidemill.run.catalog import Catalog
    from tidemill.sources.protocol import Reading

_BEGINNING = datetime(1900, 1, 1, tzinfo=UTC)


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
        paths = {name: self.catalog.path_of(name) for name in self.inputs}
        versions = {name: _table_version(path) for name, path in paths.items()}
        return None if None in versions.values() else json.dumps(versions, sort_keys=True)

    def _rows(self, reading: Reading, start: Cursor | None, columns: Sequence[str]) -> DataFrame:
        text = self.query.filled({**self._bounds(start), **self.given})
        rows = self.catalog.session(reading.spark, self.inputs).sql(text)
        return rows.select(*columns) if columns else rows

    def _bounds(self, start: Cursor | None) -> dict[str, str]:
        """`@start_*` and `@end_*` as typed literals: the start of the window, and the start of the run."""
        moment = _moment(start)
        tomorrow = self.now.astimezone(UTC).date() + timedelta(days=1)
        return {
            "start_dt": Cursor(CursorKind.TIMESTAMP, moment).literal(),
            "end_dt": Cursor(CursorKind.TIMESTAMP, self.now.astimezone(UTC)).literal(),
            "start_date": Cursor(CursorKind.DATE, moment.date()).literal(),
            "end_date": Cursor(CursorKind.DATE, tomorrow).literal(),
        }


def _moment(start: Cursor | None) -> datetime:
    match start.value if start else None:
        case datetime() as moment:
            return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        case date() as day:
            return datetime(day.year, day.month, day.day, tzinfo=UTC)
        case _:
            return _BEGINNING


def _table_version(path: str | None) -> str | None:
    snapshot = DeltaLog(path).snapshot() if path else None
    return snapshot.content if snapshot else None
