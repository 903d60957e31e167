"""Tables by their names, in a Spark session: a query finds what the project declares."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidemill.declare.names import name_key, qualified, quote, quoted_text
from tidemill.engine.session import step_session
from tidemill.state.delta_log import DeltaLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyspark.sql import SparkSession

    from tidemill.run.outside import Outside


_registered: dict[str, str] = {}  # what this process has put into its Spark's catalog, and where that is


@dataclass
class Catalog:
    """Registers tables when a run needs them. `path_of` tells where a table of ours is, None for others'.

    `outside` has the data that others keep, by name in lower case; a name there is not looked for anywhere else.
    """

    path_of: Callable[[str], str | None]
    schema: str
    outside: Mapping[str, Outside] = field(default_factory=dict)
    _known: set[str] = field(default_factory=set)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def session(self, spark: SparkSession, names: Iterable[str]) -> SparkSession:
        """A session in which these tables have their names, and names without a schema are in ours."""
        own = step_session(spark)
        wanted = [qualified(name, self.schema) for name in names]
        with self._turn:
            self._make_schema(own, self.schema)
            for name in wanted:
                self._register(own, name)
        for name in wanted:  # not in turn: reading may take long, and others need not wait for it
            if name.lower() in self.outside:
                self.outside[name.lower()].register(own, _quoted(name))
        own.sql(f"USE {quote(self.schema)}")
        return own

    def version(self, name: str) -> str | None:
        """Differs whenever the rows of a table may; None where that cannot be known. Asked without Spark."""
        outside = self.outside.get(name_key(name, self.schema))
        return outside.version() if outside else _version_at(self.path_of(name))

    def close(self) -> None:
        """Takes outside data out of the session's catalog again."""
        for outside in self.outside.values():
            outside.drop()

    def _register(self, spark: SparkSession, name: str) -> None:
        key = name.lower()
        outside = self.outside.get(key)
        path = outside.delta_path if outside else self.path_of(name)
        if key in self._known or (path is None and outside is None):
            return
        self._make_schema(spark, name.partition(".")[0])
        if _registered.get(key, path) != path:  # another project of this process has such a table
            spark.sql(f"DROP TABLE IF EXISTS {_quoted(name)}")
            del _registered[key]
        if path is not None:
            spark.sql(f"CREATE TABLE IF NOT EXISTS {_quoted(name)} USING delta LOCATION {quoted_text(path)}")
            _registered[key] = path
        self._known.add(key)

    def _make_schema(self, spark: SparkSession, schema: str) -> None:
        if f"{schema}.*".lower() not in self._known:
            spark.sql(f"CREATE SCHEMA IF NOT EXISTS {quote(schema)}")
            self._known.add(f"{schema}.*".lower())


def _quoted(name: str) -> str:
    return ".".join(map(quote, name.split(".")))


def _version_at(path: str | None) -> str | None:
    snapshot = DeltaLog(path).snapshot() if path else None
    return snapshot.content if snapshot else None
