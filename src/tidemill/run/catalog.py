"""Tables and views by their names, in a Spark session: a query finds what the project declares."""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidemill.declare.formats import PARQUET
from tidemill.declare.names import name_key, qualified, quote, quoted_name, quoted_text
from tidemill.declare.views import through
from tidemill.engine.session import step_session
from tidemill.run.views import drop_view, is_name_of, make_view
from tidemill.state.logs import format_at, log_at
from tidemill.stores.parquet.naming import refresh_dataset, register_dataset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyspark.sql import SparkSession

    from tidemill.declare.tables import Table
    from tidemill.declare.views import View
    from tidemill.run.producers.outside import Outside


_registered: dict[str, str] = {}  # what this process has put into its Spark's catalog, and where that is


@dataclass
class Catalog:
    """Registers tables when a run needs them. `path_of` tells where a table of ours is, None for others'.

    `outside` has the data that others keep, `views` the declared views, by name in lower case; a name there is not
    looked for anywhere else. `tables` are those that are declared, whether a run is about them or not.
    """

    path_of: Callable[[str], str | None]
    schema: str
    outside: Mapping[str, Outside] = field(default_factory=dict)
    views: Mapping[str, View] = field(default_factory=dict)
    tables: Mapping[str, Table] = field(default_factory=dict)
    _known: set[str] = field(default_factory=set)
    _made: list[tuple[SparkSession, str]] = field(default_factory=list)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def session(self, spark: SparkSession, names: Iterable[str]) -> SparkSession:
        """A session in which these tables and views have their names, and names without a schema are in ours.

        Views are made once in a run, by the first who asks: by then all that they read is made.
        """
        own = step_session(spark)
        wanted = through((qualified(name, self.schema) for name in names), self.views)
        with self._turn:
            self._make_schema(own, self.schema)
            for name in wanted:
                self._register(own, name)
                self._look_again(own, name)
        for name in wanted:  # not in turn: reading may take long, and others need not wait for it
            if name.lower() in self.outside:
                self.outside[name.lower()].register(own, quoted_name(name))
        own.sql(f"USE {quote(self.schema)}")
        with self._turn:
            for name in wanted:
                self._make_view(own, name)
        return own

    def version(self, name: str) -> str | None:
        """Differs whenever the rows of a table or view may; None where that cannot be known. Asked without Spark."""
        key = name_key(name, self.schema)
        if key in self.views:
            return self._version_of(self.views[key])
        outside = self.outside.get(key)
        return outside.version() if outside else _version_at(self.path_of(name))

    def size(self, name: str) -> int | None:
        """The bytes of a table's files, or of all that a view reads; None where that is not known without Spark."""
        key = name_key(name, self.schema)
        if key in self.views:
            sizes = [self.size(each) for each in self.views[key].inputs]
            return None if None in sizes else sum(size or 0 for size in sizes)
        path = None if key in self.outside else self.path_of(name)
        return log_at(path).reach(()).size if path else None

    def close(self) -> None:
        """Takes views and outside data out of the session's catalog again."""
        while self._made:
            spark, name = self._made.pop()
            self._known.discard(name.lower())
            with contextlib.suppress(Exception):  # Spark may have ended; the next run takes the place of what stays
                drop_view(spark, name)
        for outside in self.outside.values():
            outside.drop()

    def _version_of(self, view: View) -> str | None:
        """Of a view's query, and of all that it reads."""
        versions = {name: self.version(name) for name in view.inputs}
        if view.query.clock or None in versions.values():
            return None
        return f"{view.sql_hash}@{hashlib.sha256(json.dumps(versions, sort_keys=True).encode()).hexdigest()[:16]}"

    def _register(self, spark: SparkSession, name: str) -> None:
        key = name.lower()
        outside = self.outside.get(key)
        path = outside.delta_path if outside else self.path_of(name)
        if key in self._known or key in self.views or (path is None and outside is None):
            return
        self._make_schema(spark, name.partition(".")[0])
        if _registered.get(key, path) != path:  # another project of this process has such a table
            _unregister(spark, name)
        if path is not None:
            _register_at(spark, name, path)
        self._known.add(key)

    def _look_again(self, spark: SparkSession, name: str) -> None:
        """Spark keeps a dataset's files in mind, and a step before may have changed them."""
        path = None if name.lower() in self.views or name.lower() in self.outside else self.path_of(name)
        if path is not None and format_at(path) == PARQUET:
            refresh_dataset(spark, quoted_name(name), path)

    def _make_view(self, spark: SparkSession, name: str) -> None:
        view = self.views.get(name.lower())
        if view is None or name.lower() in self._known:
            return
        self._make_schema(spark, name.partition(".")[0])
        if name.lower() in _registered:  # it was a table before, or is one of another project of this process
            _unregister(spark, name)
        make_view(spark, view)
        self._made.append((spark, name))
        self._known.add(name.lower())

    def _make_schema(self, spark: SparkSession, schema: str) -> None:
        if f"{schema}.*".lower() not in self._known:
            spark.sql(f"CREATE SCHEMA IF NOT EXISTS {quote(schema)}")
            self._known.add(f"{schema}.*".lower())


def _register_at(spark: SparkSession, name: str, path: str) -> None:
    if name.lower() not in _registered:
        drop_view(spark, name)  # of a run that was killed
        if not spark.catalog.tableExists(quoted_name(name)) or is_name_of(spark, quoted_name(name), path):
            _registered[name.lower()] = path  # else it is the user's own, which is not ours to drop
    if format_at(path) == PARQUET:
        if name.lower() in _registered:  # its columns may have changed since
            spark.sql(f"DROP TABLE IF EXISTS {quoted_name(name)}")
        register_dataset(spark, quoted_name(name), path)
    else:
        spark.sql(f"CREATE TABLE IF NOT EXISTS {quoted_name(name)} USING delta LOCATION {quoted_text(path)}")


def _unregister(spark: SparkSession, name: str) -> None:
    spark.sql(f"DROP TABLE IF EXISTS {quoted_name(name)}")
    del _registered[name.lower()]


def _version_at(path: str | None) -> str | None:
    snapshot = log_at(path).snapshot() if path else None
    return snapshot.content if snapshot else None
