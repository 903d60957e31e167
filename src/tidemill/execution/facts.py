"""What is known of a step before Spark is asked: versions of its inputs, columns as declared, ends of logs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tidemill.errors import TidemillError
from tidemill.execution.joins import JoinSource
from tidemill.execution.load_parts import LoadsSource, version_of
from tidemill.frontends.sql.volatile import output_columns
from tidemill.model.query import Loaded, Query
from tidemill.planning.gaps import Facts
from tidemill.sources.registry import columns_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidemill.model.record import Snapshot
    from tidemill.model.table import Table
    from tidemill.sources.protocol import Connector


def facts_by_log(table: Table, source: Connector, snapshot: Snapshot | None) -> Facts:
    """What logs and declarations say about a step; no rows are asked."""
    parts = source.parts if isinstance(source, LoadsSource) else ()
    return replace(
        facts_by_version(source),
        columns=_columns(table),
        sides=source.facts_by_log(snapshot) if isinstance(source, JoinSource) else None,
        sources={part.load.input: Facts(columns=_columns(part.table)) for part in parts},
    )


def facts_by_version(source: Connector) -> Facts:
    """The versions of what a step reads: all that decides whether Spark has to be asked."""
    if not isinstance(source, LoadsSource):
        return Facts(version=source.version())
    versions = {part.load.input: part.source.version() for part in source.parts}
    return Facts(version=version_of(versions), versions=versions)


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
