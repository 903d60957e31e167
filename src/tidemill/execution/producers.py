"""What gives a table its rows: a source, several, a query, a function, a join. Spark is imported by its rows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tidemill.errors import TidemillError
from tidemill.execution.joins import JoinSource
from tidemill.execution.query_source import QuerySource, ViewSource, all_known
from tidemill.frontends.sql.scopes import output_columns
from tidemill.model import quote
from tidemill.model.check import Relationships
from tidemill.model.function import Function
from tidemill.model.join import Join
from tidemill.model.project import NOTHING_GIVEN
from tidemill.model.query import Query
from tidemill.model.source import Loaded, Loads
from tidemill.planning.loads import source_table
from tidemill.planning.notices import Facts
from tidemill.planning.starts import start_variable
from tidemill.sources import bytes_of, sum_of_known
from tidemill.sources.registry import columns_of, connector_for

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from tidemill.execution.catalog import Catalog
    from tidemill.execution.functions import FunctionCall
    from tidemill.execution.load_rows import LoadRows
    from tidemill.model.cursor import Cursor
    from tidemill.model.record import Snapshot
    from tidemill.model.source import Load
    from tidemill.model.table import Table
    from tidemill.sources import Connector, Reading


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
            return LoadsSource.of(table, loads, now)
        case Query() as query:
            variable = start_variable(table)
            name = variable.name if variable else None
            named = tuple(check.to for check in table.checks if isinstance(check, Relationships))
            if table.strategy.refresh is not None:
                return ViewSource(table.name, query, table.inputs, catalog, now, given, name, named, table.input)
            return QuerySource(table.name, query, table.inputs, catalog, now, given, name, named)
        case Function() as function:
            return FunctionRows(table, function, catalog, variables)
        case Join() as join:
            return JoinSource(table, join, catalog, given)
        case _:
            raise NotImplementedError(table.producer)


@dataclass(frozen=True)
class FunctionRows:
    """What the function of a table gives, read again at each call; its rows are kept. `vars` are what the run has."""

    table: Table
    function: Function
    catalog: Catalog
    vars: Mapping[str, str] = field(default_factory=dict)
    settled: bool = True

    def __str__(self) -> str:
        return f"the function {self.function.call.__name__}"

    def schema(self, reading: Reading) -> StructType:
        """Calls the function, unless its columns are declared."""
        return self._call(reading).schema()

    def read(self, reading: Reading, columns: Sequence[str] = ()) -> DataFrame:
        rows = self._call(reading).rows()
        return rows.select(*columns) if columns else rows

    def read_since(self, reading: Reading, column: str, value: Cursor, columns: Sequence[str] = ()) -> DataFrame:  # noqa: ARG002
        """All that it gives: the function has the dates of its run to go by."""
        return self.read(reading, columns)

    def version(self) -> str | None:
        """Nobody knows what it would give."""
        return None

    def _call(self, reading: Reading) -> FunctionCall:
        from tidemill.execution.functions import FunctionCall  # noqa: PLC0415  it imports PySpark

        return FunctionCall(self, reading)


@dataclass(frozen=True)
class LoadPart:
    """One LOAD with its connector; `table` is the table as if this LOAD were its only one."""

    load: Load
    table: Table
    source: Connector

    def __str__(self) -> str:
        return self.load.source.name


@dataclass(frozen=True)
class LoadsSource:
    """All sources of a table. Its rows are what applying all LOADs to an empty table gives."""

    table: Table
    parts: tuple[LoadPart, ...]
    now: datetime
    settled: bool = False

    @classmethod
    def of(cls, table: Table, loads: Loads, now: datetime) -> LoadsSource:
        parts = (LoadPart(load, source_table(table, load), connector_for(load.source)) for load in loads.loads)
        return cls(table, tuple(parts), now)

    def __str__(self) -> str:
        return f"The sources of {self.table.name}"

    @property
    def loads(self) -> Loads:
        assert isinstance(self.table.producer, Loads)  # noqa: S101  made only for such tables
        return self.table.producer

    @property
    def rounds(self) -> tuple[tuple[LoadPart, ...], ...]:
        """The LOADs that enter as one change, in the order in which these are applied."""
        by_input = {part.load.input: part for part in self.parts}
        return tuple(tuple(by_input[load.input] for load in together) for together in self.loads.rounds)

    def versions(self) -> dict[str, str | None]:
        """The versions of all sources, by input; None for one that cannot tell."""
        return {part.load.input: part.source.version() for part in self.parts}

    def version(self) -> str | None:
        """The same as one; None where one of them cannot tell."""
        return all_known(self.versions())

    def bytes_read(self, start: Cursor | None) -> int | None:
        """Of all sources, which are read whole."""
        del start
        return sum_of_known(bytes_of(part.source, None) for part in self.parts)

    def schema(self, reading: Reading) -> StructType:
        """The columns that any of the sources has."""
        return self.rows(reading).schema()

    def read(self, reading: Reading, columns: Sequence[str] = ()) -> DataFrame:
        rows = self.rows(reading).whole().prepared.change.rows
        return rows.select(*map(quote, columns)) if columns else rows

    def read_since(self, reading: Reading, column: str, value: Cursor, columns: Sequence[str] = ()) -> DataFrame:
        del column, value
        return self.read(reading, columns)

    def rows(self, reading: Reading) -> LoadRows:
        """The sources as they are now, in Spark."""
        from tidemill.execution.load_rows import LoadRows  # noqa: PLC0415  it imports PySpark

        return LoadRows(self, reading)


def facts_by_log(table: Table, source: Connector, snapshot: Snapshot | None) -> Facts:
    """What logs and declarations say about a step; no rows are asked."""
    parts = source.parts if isinstance(source, LoadsSource) else ()
    return replace(
        facts_by_version(source, snapshot),
        columns=_columns(table),
        sides=source.facts_by_log(snapshot) if isinstance(source, JoinSource) else None,
        sources={part.load.input: Facts(columns=_columns(part.table)) for part in parts},
    )


def facts_by_version(source: Connector, snapshot: Snapshot | None = None) -> Facts:
    """The versions of what a step reads: all that decides whether Spark has to be asked.

    Of a view, what its inputs' logs know about the rows since its `snapshot`, too.
    """
    if isinstance(source, ViewSource):
        return Facts(version=source.version(), inputs=source.view_inputs(snapshot))
    if not isinstance(source, LoadsSource):
        return Facts(version=source.version())
    versions = source.versions()
    return Facts(version=all_known(versions), versions=versions)


def _columns(table: Table) -> Sequence[str] | None:
    """The columns that a source or a query gives, where an append has to know whether they are what they were."""
    return columns_given(table) if table.window and table.strategy.appends else None


def columns_given(table: Table) -> Sequence[str] | None:
    """The columns that its source or its query gives, where they are known."""
    match table.producer:
        case Loaded(source):
            try:
                return columns_of(source)
            except TidemillError:  # what cannot be looked at fails when it is read
                return None
        case Query() as query:
            return output_columns(query.text)
        case _:
            return None
