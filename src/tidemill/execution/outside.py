"""Data that others keep outside of the warehouse, as queries of a run see it: in place, or read whole and once."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from tidemill.errors import ArgumentError
from tidemill.execution.pins import FilesPlace, TablePlace
from tidemill.formats import TEMPORARY_FORMAT
from tidemill.sources import Reading
from tidemill.sources.registry import connector_for, failures_of, files_of, in_place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemill.execution.pins import Place
    from tidemill.model.source import Source
    from tidemill.sources import Connector
    from tidemill.sources.files.versions import FilesLog


_OURS = "outside data of a Tidemill run"  # how a table that a killed run has left is known


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
    _read: FilesLog | None = None  # the files whose rows are kept
    _keeps_rows: bool = False

    @cached_property
    def _connector(self) -> Connector:
        return connector_for(self.source)

    @property
    def table_path(self) -> str | None:
        """Where it is, if it is a table that queries read at its path, of which the catalog needs to know no more."""
        files = in_place(self.source)
        return files.place if files and files.is_table else None

    @cached_property
    def place(self) -> Place | None:
        """Where it is, if it may have versions: a table with a log of whatever format, or files."""
        files = files_of(self.source)
        if files is None:
            return None
        if files.is_table or files.is_kept:
            return TablePlace(files.paths[0]) if files.place else None
        return FilesPlace(files.paths[0], self._files)

    def version(self) -> str | None:
        """Differs whenever its rows may; None where that cannot be known."""
        return self._connector.version()

    def register(self, spark: SparkSession, name: str) -> None:
        """Gives the name to its rows, unless a step before has done so, or the catalog knows it by its path."""
        with self._turn:
            if self._ready or self.table_path:
                return
            self._make_room(spark, name)
            self._named = spark, name
            with failures_of(self.source):
                self._create(spark, name)
            self._ready = True

    def renew(self) -> None:
        """Who asks next gets a name for what is there by then, which may have other columns; kept rows stay."""
        self._ready = self._ready and self._keeps_rows

    def drop(self) -> None:
        """Takes the name away again, with the rows that were kept for it."""
        if self._named is not None:
            spark, name = self._named
            self._named, self._ready = None, False
            self._read, self._keeps_rows = None, False
            with contextlib.suppress(Exception):  # Spark may have ended; what stays goes when the next run makes room
                spark.sql(f"DROP TABLE IF EXISTS {name}")

    def _create(self, spark: SparkSession, name: str) -> None:
        before = self._files()
        rows, files = self._connector.read(Reading(spark)), in_place(self.source)
        if files and not files.has_nanoseconds:
            options = files.place_options
            spark.catalog.createTable(name, files.place, files.format, rows.schema, _OURS, **options)
            return
        spark.catalog.createTable(name, source=TEMPORARY_FORMAT, schema=rows.schema, description=_OURS)
        rows.write.insertInto(name)
        after = self._files()
        self._read = before if before and after and before.content == after.content else None
        self._keeps_rows = True

    def _files(self) -> FilesLog | None:
        """The files whose rows queries get; None where that is not known, or it is none of files."""
        if self._keeps_rows:
            return self._read
        files = files_of(self.source)
        if files is None or files.is_table:
            return None
        from tidemill.sources.files.versions import FilesLog  # noqa: PLC0415  slow to import, and few need it

        return FilesLog(files)

    def _make_room(self, spark: SparkSession, name: str) -> None:
        """What an earlier run has left goes; a table of the user's own stays, and is an error."""
        if not spark.catalog.tableExists(name):
            return
        if spark.catalog.getTable(name).description != _OURS:
            raise ArgumentError(
                "source.name_taken",
                f"The Spark session has a table {self.source} of its own, which is not the one declared.",
                "Give one of them another name.",
                origin=self.source.origin,
            )
        spark.sql(f"DROP TABLE {name}")
