"""Outside data that queries read by its name: rows of any connector, as a table of the session's catalog."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from tidemill.errors import ArgumentError
from tidemill.sources.failures import failures_of
from tidemill.sources.protocol import Reading
from tidemill.sources.registry import connector_for, in_place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemill.declare.sources import Source
    from tidemill.sources.protocol import Connector

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
        if files:
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
