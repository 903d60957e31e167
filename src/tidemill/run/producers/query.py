"""A query as the source of a table: bound to its tables, with literals in the place of its @names; else as written."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidemill.declare.checks import Relationships
from tidemill.declare.functions import Function
from tidemill.declare.joins import Join
from tidemill.declare.loads import Loads
from tidemill.declare.producers import Loaded, Query
from tidemill.declare.text import offset_of
from tidemill.declare.variables import NOTHING_GIVEN
from tidemill.declare.views import through
from tidemill.engine.translate import one_line, unparsed_at
from tidemill.engine.zone import in_zone_of
from tidemill.errors import ArgumentError, Origin
from tidemill.plan.bounds import literals_of
from tidemill.plan.starts import start_variable
from tidemill.run.producers.function import FunctionRows
from tidemill.run.producers.join import JoinSource
from tidemill.sources.measured import sum_of_known
from tidemill.sources.registry import connector_for

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from tidemill.declare.cursors import Cursor
    from tidemill.declare.tables import Table
    from tidemill.run.catalog import Catalog
    from tidemill.sources.protocol import Connector, Reading


def source_of(
    table: Table,
    catalog: Catalog,
    now: datetime,
    given: Mapping[str, str],
    variables: Mapping[str, str] = NOTHING_GIVEN,
) -> Connector:
    """What gives a table its rows; asking for it starts no Spark.

    `given` are the literals of a query's @names, `variables` what a function finds in the `vars` of its run.
    """
    match table.producer:
        case Loaded(source):
            return connector_for(source)
        case Loads() as loads:
            from tidemill.run.producers.loads import LoadsSource  # noqa: PLC0415  it imports Spark

            return LoadsSource.of(table, loads, now)
        case Query() as query:
            variable = start_variable(table)
            name = variable.name if variable else None
            named = tuple(check.to for check in table.checks if isinstance(check, Relationships))
            return QuerySource(table.name, query, table.inputs, catalog, now, given, name, named)
        case Function() as function:
            return FunctionRows(table, function, catalog, variables)
        case Join() as join:
            return JoinSource(table, join, catalog, given)
        case _:
            raise NotImplementedError(table.producer)


@dataclass(frozen=True)
class QuerySource:
    """The rows of a query over tables of the catalog.

    `now` is the start of the run, `given` are literals for the query's @names; of these, `variable` is the start of
    the window. `named` are tables that others look for by their names in the session of the rows.
    """

    name: str
    query: Query
    inputs: tuple[str, ...]
    catalog: Catalog
    now: datetime
    given: Mapping[str, str] = field(default_factory=dict)
    variable: str | None = None
    named: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"The query of {self.name}"

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

    def versions(self) -> dict[str, str]:
        """The versions of the tables that it reads, through views too, where they are several and known."""
        names = [name for name in through(self.inputs, self.catalog.views) if name.lower() not in self.catalog.views]
        known = {name.lower(): self.catalog.version(name) for name in names} if len(names) > 1 else {}
        return {name: version for name, version in known.items() if version is not None}

    def bytes_read(self, start: Cursor | None) -> int | None:
        """The size of all tables that it reads; of a window, nobody knows which of their files Spark opens."""
        return None if start else sum_of_known(self.catalog.size(name) for name in self.inputs)

    def _rows(self, reading: Reading, start: Cursor | None, columns: Sequence[str]) -> DataFrame:
        now = in_zone_of(reading.spark, self.now)
        text = self.query.filled(literals_of(start, reading.until, now, self.given, self.variable))
        try:
            rows = self.catalog.query(reading.spark, text, self.inputs, self.named)
        except Exception as failure:
            if wrong := self._misread(failure):
                raise wrong from failure
            raise
        return rows.select(*columns) if columns else rows

    def _misread(self, failure: Exception) -> ArgumentError | None:
        """The error for a query that Spark cannot parse, at the place where it stopped."""
        place = unparsed_at(failure)
        if place is None:
            return None
        line, column, word = place
        written, origin = self.query.text.splitlines(), self.query.origin
        if origin and line <= len(written):
            column = offset_of(word, written[line - 1], column) + ((origin.column or 1) if line == 1 else 1)
            origin = Origin(origin.file, (origin.line or 1) + line - 1, column)
        problem = f"{self} cannot be parsed: {one_line(failure)}"
        return ArgumentError("query.syntax", problem, "Correct the query and run again.", origin=origin)
