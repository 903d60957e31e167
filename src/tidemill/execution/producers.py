"""What gives a table its rows: a query, a function, outside data by its name. Spark is imported by its rows."""

from __future__ import annotations

import contextlib
import inspect
import json
import tempfile
import threading
import traceback
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidemill.errors import ArgumentError, SourceError, TidemillError, did_you_mean
from tidemill.execution.joins import JoinSource
from tidemill.execution.load_parts import LoadsSource
from tidemill.model.check import Relationships
from tidemill.model.function import Function
from tidemill.model.join import Join
from tidemill.model.query import Loaded, Query, through
from tidemill.model.source import Loads
from tidemill.model.variables import NOTHING_GIVEN
from tidemill.model.window import WINDOW_PARAMETERS
from tidemill.planning.starts import literals_of, start_variable
from tidemill.sources.protocol import Reading, sum_of_known
from tidemill.sources.registry import connector_for, failures_of, in_place, said
from tidemill.spark.errors import one_line, unparsed_at
from tidemill.spark.settings import in_zone_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from tidemill.execution.catalog import Catalog
    from tidemill.model.cursor import Cursor
    from tidemill.model.source import Source
    from tidemill.model.table import Table
    from tidemill.sources.protocol import Connector, Run

OURS = "outside data of a Tidemill run"  # how a table that a killed run has left is known


@dataclass
class Outside:
    """One outside source, for the length of a run.

    Files that hold their own types are read where they are, whenever a query asks. Rows of all else are read whole,
    once, when the first query asks, and kept in Spark's own warehouse until `drop`: all queries see the same ones.
    """

    source: Source
    _turn: threading.Lock = field(default_factory=threading.Lock)
    _named: tuple[SparkSession, str] | None = None
    _ready: bool = False

    @cached_property
    def _connector(self) -> Connector:
        return connector_for(self.source)

    @property
    def delta_path(self) -> str | None:
        """Where it is, if it is a Delta table, of which the catalog needs to know no more."""
        files = in_place(self.source)
        return files.place if files and files.format == "delta" else None

    def version(self) -> str | None:
        """Differs whenever its rows may; None where that cannot be known."""
        return self._connector.version()

    def register(self, spark: SparkSession, name: str) -> None:
        """Gives the name to its rows, unless a step before has done so, or the catalog knows it by its path."""
        with self._turn:
            if self._ready or self.delta_path:
                return
            self._make_room(spark, name)
            self._named = spark, name
            with failures_of(self.source):
                self._create(spark, name)
            self._ready = True

    def drop(self) -> None:
        """Takes the name away again, with the rows that were kept for it."""
        if self._named is not None:
            spark, name = self._named
            self._named, self._ready = None, False
            with contextlib.suppress(Exception):  # Spark may have ended; what stays goes when the next run makes room
                spark.sql(f"DROP TABLE IF EXISTS {name}")

    def _create(self, spark: SparkSession, name: str) -> None:
        rows, files = self._connector.read(Reading(spark)), in_place(self.source)
        if files and not files.has_nanoseconds:
            options = files.place_options
            spark.catalog.createTable(name, files.place, files.format, rows.schema, OURS, **options)
        else:
            spark.catalog.createTable(name, source="parquet", schema=rows.schema, description=OURS)
            rows.write.insertInto(name)

    def _make_room(self, spark: SparkSession, name: str) -> None:
        """What an earlier run has left goes; a table of the user's own stays, and is an error."""
        if not spark.catalog.tableExists(name):
            return
        if spark.catalog.getTable(name).description != OURS:
            raise ArgumentError(
                "source.name_taken",
                f"The Spark session has a table {self.source} of its own, which is not the one declared.",
                "Give one of them another name.",
                origin=self.source.origin,
            )
        spark.sql(f"DROP TABLE {name}")


_LENT = "__tidemill_lent_spark__"


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
        declared = self._declared(reading.spark)
        return self.read(reading).schema if declared is None else declared

    def read(self, reading: Reading, columns: Sequence[str] = ()) -> DataFrame:
        from tidemill.execution.function_rows import rows_given  # noqa: PLC0415  needs Spark

        session = self.catalog.session(reading.spark, [*self.table.inputs, self.table.name])
        declared = self._declared(session)
        own = replace(reading, spark=session, like=declared or reading.like)
        run = self._run(reading.run, session)
        with tempfile.TemporaryDirectory(prefix="tidemill-function-") as folder:
            rows = rows_given(
                self._given(run),
                own,
                Path(folder),
                teller=str(self),
                schema=declared,
                policy=self.table.schema_policy,
            )
        return rows.select(*columns) if columns else rows

    def read_since(self, reading: Reading, column: str, value: Cursor, columns: Sequence[str] = ()) -> DataFrame:  # noqa: ARG002
        """All that it gives: the function has the dates of its run to go by."""
        return self.read(reading, columns)

    def version(self) -> str | None:
        """Nobody knows what it would give."""
        return None

    def _declared(self, spark: SparkSession) -> StructType | None:
        ddl = self.function.schema
        if ddl is None:
            return None
        try:
            return spark.createDataFrame([], ddl).schema
        except Exception as bad:
            raise ArgumentError(
                "functions.bad_schema", f"Spark does not know the schema {ddl!r}: {said(bad)}", "Correct its types."
            ) from bad

    def _run(self, run: Run, session: SparkSession) -> Run:
        return replace(run, vars=self.vars, session=lambda: session, table=lambda name: self._input(name, session))

    def _input(self, name: str, session: SparkSession) -> DataFrame:
        key, own = self.catalog.naming.key(name), self.table.name.lower()
        if key not in {each.lower() for each in (*self.table.inputs, own)}:
            close = did_you_mean(key, self.table.inputs)
            raise ArgumentError(
                "functions.undeclared_read",
                f"{self.table.name} reads {name}, which is not in its reads.",
                f"Did you mean {close}?" if close else f'Add it to the decorator: reads=["{name}"].',
                origin=self.table.origin,
            )
        return self.catalog.frame(session, key)

    def _given(self, run: Run) -> Iterator[Any]:
        """What the function gives; whatever it raises names it, and the table is as it was."""
        from tidemill.sources.functions import called  # noqa: PLC0415  with pyarrow

        _lend(self.function.call, run.spark)
        try:
            yield from called(self.function.call, run)
        except TidemillError:
            raise
        except Exception as failure:
            name, where = self.function.call.__name__, _line(failure, self.function.call)
            raise SourceError(
                "functions.failed",
                f"The function {name} of {self.table.name} failed: {said(failure)}{where}",
                f"Fix it, or what it asks, and run again. {self.table.name} is unchanged.",
                origin=self.table.origin,
            ) from failure


def _lend(call: Callable[..., Any], spark: SparkSession) -> None:
    """Code that comes from a notebook finds `spark` where it looks for it, unless its file has one."""
    names = inspect.unwrap(call).__globals__
    if "spark" not in names or _LENT in names:
        names.update({"spark": spark, _LENT: True})


def _line(failure: Exception, call: Callable[..., Any]) -> str:
    """The last line of the function's own file that had a part in it."""
    file = inspect.unwrap(call).__code__.co_filename
    lines = [frame.lineno for frame in traceback.extract_tb(failure.__traceback__) if frame.filename == file]
    return f" ({file}:{lines[-1]})" if lines else ""


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

    @property
    def is_bounded(self) -> bool:
        """Whether its text depends on the bounds of a window; the rows of others are filtered."""
        return not {*WINDOW_PARAMETERS, self.variable}.isdisjoint(self.query.parameters)

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
        problem = f"{self} cannot be parsed: {one_line(failure)}"
        remedy = "Correct the query and run again."
        return ArgumentError("query.syntax", problem, remedy, origin=self.query.at(*place))
