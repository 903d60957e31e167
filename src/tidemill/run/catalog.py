"""Tables by their names, in a Spark session: a query finds what the project declares."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidemill.declare.names import qualified, quote, quoted_text
from tidemill.engine.session import step_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql import SparkSession


_registered: dict[str, str] = {}  # what this process has put into its Spark's catalog, and where that is


@dataclass
class Catalog:
    """Registers tables when a run needs them. `path_of` tells where a table of ours is, None for others'."""

    path_of: Callable[[str], str | None]
    schema: str
    _known: set[str] = field(default_factory=set)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def session(self, spark: SparkSession, names: Iterable[str]) -> SparkSession:
        """A session in which these tables have their names, and names without a schema are in ours."""
        own = step_session(spark)
        with self._turn:
            self._make_schema(own, self.schema)
            for name in names:
                self._register(own, qualified(name, self.schema))
        own.sql(f"USE {quote(self.schema)}")
        return own

    def _register(self, spark: SparkSession, name: str) -> None:
        path = self.path_of(name)
        if path is None or name.lower() in self._known:
            return
        schema, table = name.split(".")
        self._make_schema(spark, schema)
        full = f"{quote(schema)}.{quote(table)}"
        if _registered.get(name.lower(), path) != path:  # another project of this process has such a table
            spark.sql(f"DROP TABLE IF EXISTS {full}")
        spark.sql(f"CREATE TABLE IF NOT EXISTS {full} USING delta LOCATION {quoted_text(path)}")
        _registered[name.lower()] = path
        self._known.add(name.lower())

    def _make_schema(self, spark: SparkSession, schema: str) -> None:
        if f"{schema}.*".lower() not in self._known:
            spark.sql(f"CREATE SCHEMA IF NOT EXISTS {quote(schema)}")
            self._known.add(f"{schema}.*".lower())
