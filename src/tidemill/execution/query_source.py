"""The rows of queries over tables of a run: as these are, or at the versions that it has pinned. Imports no Spark."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tidemill.errors import ArgumentError
from tidemill.execution import in_zone_of
from tidemill.execution.pins import version_in
from tidemill.formats.registry import log_at
from tidemill.frontends.sql.inlining import inline_views
from tidemill.frontends.sql.scopes import inputs_of
from tidemill.model.cursor import WINDOW_PARAMETERS
from tidemill.model.query import through
from tidemill.planning.refresh import InputState, ViewInputs, recorded_versions
from tidemill.planning.starts import literals_of
from tidemill.sources import sum_of_known
from tidemill.spark.errors import one_line, unparsed_at

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from tidemill.execution.catalog import Catalog
    from tidemill.execution.pins import Pin
    from tidemill.formats.port import InputChanges
    from tidemill.model.cursor import Cursor
    from tidemill.model.query import Query
    from tidemill.model.record import Record, Snapshot
    from tidemill.sources import Reading


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
        return all_known({name: self.catalog.version(name) for name in self.inputs})

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


_SQL_TYPES = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}


@dataclass(frozen=True)
class ViewSource(QuerySource):
    """The rows of the query of a materialized view, over tables as the run has pinned them, or as `pins` say."""

    input_name: str = ""
    pins: Mapping[str, Pin] = field(default_factory=dict)

    @property
    def is_bounded(self) -> bool:
        return False

    def version(self) -> str | None:
        """The content of each table that it reads, and the text of each view; None where one is not ours to know."""
        if self.query.clock or self.query.parameters or not self.inputs:
            return None
        found = {name: self._content(name) for name in self.read_tables}
        views = {name: self.catalog.views[name.lower()].sql_hash for name in self._read_views}
        return all_known({**found, **views})

    @property
    def read_tables(self) -> list[str]:
        """All tables that it reads, through views too."""
        return [name for name in through(self.inputs, self.catalog.views) if name.lower() not in self.catalog.views]

    @property
    def _read_views(self) -> list[str]:
        return [name for name in through(self.inputs, self.catalog.views) if name.lower() in self.catalog.views]

    def pin(self, name: str) -> Pin | None:
        """The version of a table that the run reads; None where it has none that could be read again."""
        if name in self.pins:
            return self.pins[name]
        place = self.catalog.place(name)
        return self.catalog.pins.at(place) if place else None

    def view_inputs(self, snapshot: Snapshot | None) -> ViewInputs:
        """What it reads, and what the logs know about the rows since the versions that its record names."""
        recorded = recorded_versions(snapshot.record if snapshot else None, self.input_name)
        text = inline_views(self.query.text, self._view_text)
        written: dict[str, list[str]] = {}
        for name in inputs_of(text) or ():
            written.setdefault(self.catalog.naming.key(name), []).append(name.lower())
        names = self.read_tables
        states = [self._state(name, tuple(written.get(self.catalog.naming.key(name), ())), recorded) for name in names]
        views = {name: self.catalog.views[name.lower()].sql_hash for name in self._read_views}
        changed = tuple(name for name in views if views[name] != recorded.get(name))
        return ViewInputs(text, tuple(states), changed, self._own_changes(snapshot))

    def _own_changes(self, snapshot: Snapshot | None) -> InputChanges | None:
        """The rows that others changed in the table of the view itself."""
        path = self.catalog.path_of(self.name)
        if path is None or snapshot is None or snapshot.record_version is None:
            return None
        if not snapshot.foreign_adds and not snapshot.versions_with_removals:
            return None
        return log_at(path).changes_since(snapshot.record_version, snapshot.version)

    def bound(self, spark: SparkSession, text: str) -> tuple[SparkSession, str]:
        """A query over these tables with their paths at the pinned versions, and a session for it."""
        return self.catalog.bound(spark, text, self.inputs, at=self._pinned_paths())

    def release_moved(self, *, by_changes: bool) -> str | None:
        """A table that was only read as it is, and has other rows by now: the next look at it sees these."""
        named = {} if self._read_views else self._pinned_paths()
        pins = {name: pin for name in self.read_tables if name not in named and (pin := self.pin(name))}
        moved = {name: pin for name, pin in pins.items() if pin.has_moved(by_changes=by_changes)}
        for name, pin in moved.items():
            self.catalog.release(name, pin.path)
        return next(iter(moved), None)

    def _rows(self, reading: Reading, start: Cursor | None, columns: Sequence[str]) -> DataFrame:
        del start, columns
        try:
            literals = literals_of(None, None, in_zone_of(reading.spark, self.now), self.given, None)
            session, bound = self.bound(reading.spark, self.query.filled(literals))
            return session.sql(bound)
        except Exception as failure:
            if wrong := self._misread(failure):
                raise wrong from failure
            raise

    def _pinned_paths(self) -> dict[str, str]:
        """The tables that can be read at older versions, by their paths with these; without views in between."""
        pins = {name: self.pin(name) for name in self.inputs}
        return {name: f"{pin.path}@v{pin.version}" for name, pin in pins.items() if pin and pin.is_read_by_path}

    def as_recorded(self, record: Record | None) -> ViewSource:
        """The same over its tables as the last run saw them, as far as they can still be read so."""
        recorded = recorded_versions(record, self.input_name)
        pins = {name: pin for name in self.read_tables if (pin := self.pin(name)) and not self._read_views}
        found = {name: older for name, pin in pins.items() if (older := pin.before(recorded.get(name)))}
        return replace(self, pins=found)

    def _pin_not_before(self, name: str, recorded: str | None) -> Pin | None:
        """No older version than the last run has read: another run may have come further since this one began."""
        pin = self.pin(name)
        if pin and recorded and pin.is_older_than(recorded):
            self.catalog.pins.release(pin.path)
            return self.pin(name)
        return pin

    def _content(self, name: str) -> str | None:
        pin = self.pin(name)
        return pin.content if pin else None

    def _view_text(self, name: str) -> str | None:
        view = self.catalog.views.get(self.catalog.naming.key(name))
        return view.query.text if view else None

    def _state(self, name: str, written: tuple[str, ...], recorded: Mapping[str, str]) -> InputState:
        pin = self._pin_not_before(name, recorded.get(name))
        state = InputState(name, written, pin.content if pin else None, recorded.get(name))
        if pin is None:
            return replace(state, pending=self.catalog.naming.key(name) in self.catalog.tables)
        state = replace(
            state,
            rows=pin.snapshot.rows,
            size=pin.log.reach(()).size,
            types={column: _SQL_TYPES.get(kind, kind) for column, kind in _types(pin).items()} or None,
        )
        since = version_in(state.recorded)
        if since is None or not state.is_changed:
            return state
        changes = pin.log.changes_since(since, pin.version, content=state.recorded)
        return replace(state, changes=changes)


def _types(pin: Pin) -> dict[str, str]:
    """All columns, those that are not plain without a type."""
    known = pin.log.column_types()
    return {name.lower(): known.get(name.lower(), "") for name in pin.log.columns()}


def all_known(versions: Mapping[str, str | None]) -> str | None:
    """Versions as one text; None where one is not known."""
    return None if None in versions.values() else json.dumps(versions, sort_keys=True)
