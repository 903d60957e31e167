"""Several sources of one table, as a plan knows them: each with the table as if it were its only source."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidemill.errors import TidemillError
from tidemill.model.names import quote
from tidemill.model.source import Load, Loads
from tidemill.planning.loads import source_table
from tidemill.sources.protocol import bytes_of, sum_of_known
from tidemill.sources.registry import connector_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from pyspark.sql import DataFrame
    from pyspark.sql import types as t

    from tidemill.execution.load_rows import Whole
    from tidemill.model.cursor import Cursor
    from tidemill.model.table import Table
    from tidemill.planning.request import Part
    from tidemill.sources.protocol import Connector, Reading


@dataclass(frozen=True)
class LoadPart:
    """One LOAD with its connector; `table` is the table as if this LOAD were its only one."""

    load: Load
    table: Table
    source: Connector

    def __str__(self) -> str:
        return self.load.source.name

    @contextmanager
    def reading(self) -> Iterator[None]:
        """What goes wrong within it is of this source, and of the place of this LOAD."""
        from tidemill.execution.reading import reading_of  # noqa: PLC0415  it imports PySpark

        try:
            with reading_of(self.table, self.source):
                yield
        except TidemillError as failure:
            failure.origin = failure.origin or self.load.origin
            raise


@dataclass(frozen=True)
class LoadsSource:
    """All sources of a table. Its rows are what applying all LOADs to an empty table gives."""

    table: Table
    parts: tuple[LoadPart, ...]
    now: datetime

    @classmethod
    def of(cls, table: Table, loads: Loads, now: datetime) -> LoadsSource:
        return cls(table, tuple(_part(table, load) for load in loads.loads), now)

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

    @property
    def settled(self) -> bool:
        return False

    def version(self) -> str | None:
        """The versions of all sources; None where one of them cannot tell."""
        return version_of({part.load.input: part.source.version() for part in self.parts})

    def bytes_read(self, start: Cursor | None) -> int | None:
        """Of all sources, which are read whole."""
        del start
        return sum_of_known(bytes_of(part.source, None) for part in self.parts)

    def schema(self, reading: Reading) -> t.StructType:
        """The columns that any of the sources has."""
        from pyspark.sql import types as t  # noqa: PLC0415  plans ask for versions only

        found: dict[str, t.StructField] = {}
        for part in self.parts:
            with part.reading():
                for field in part.source.schema(reading).fields:
                    found.setdefault(field.name.lower(), field)
        return t.StructType(list(found.values()))

    def read(self, reading: Reading, columns: Sequence[str] = ()) -> DataFrame:
        rows = self.whole(reading).prepared.change.rows
        return rows.select(*map(quote, columns)) if columns else rows

    def read_since(self, reading: Reading, column: str, value: Cursor, columns: Sequence[str] = ()) -> DataFrame:
        del column, value
        return self.read(reading, columns)

    def whole(self, reading: Reading, batch: Part | None = None) -> Whole:
        """All LOADs applied to an empty table, with what each source gave; `batch` is a part of a backfill."""
        from tidemill.execution.load_rows import whole_of  # noqa: PLC0415  it imports PySpark

        return whole_of(self, reading, batch)


def version_of(versions: Mapping[str, str | None]) -> str | None:
    """The versions of all sources as one; None where one of them cannot tell."""
    return None if None in versions.values() else json.dumps(versions, sort_keys=True)


def _part(table: Table, load: Load) -> LoadPart:
    return LoadPart(load, source_table(table, load), connector_for(load.source))
