"""Columns that a run will refuse, as far as they are known without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.declare.mismatches import schema_changed
from tidemill.declare.names import spelled
from tidemill.declare.producers import Loaded, Query
from tidemill.declare.strategies import Replace
from tidemill.declare.tables import SchemaPolicy
from tidemill.errors import TidemillError
from tidemill.language.volatile import output_columns
from tidemill.state.logs import log_of

if TYPE_CHECKING:
    from tidemill.contracts.snapshots import Snapshot
    from tidemill.declare.tables import Table


def refused_columns(table: Table, snapshot: Snapshot | None) -> tuple[str, ...]:
    """What `plan` says of a table whose run will stop at its columns; nothing where they fit or are not known."""
    strict = table.schema_policy is SchemaPolicy.FAIL and not isinstance(table.strategy, Replace)
    if snapshot is None or not strict:
        return ()
    return tuple(text for part in table.parts for text in _refused(part, snapshot))


def _refused(table: Table, snapshot: Snapshot) -> tuple[str, ...]:
    try:
        held, given = log_of(table).columns(), _given(table)
    except TidemillError:  # what cannot be looked at fails in its own step
        return ()
    if not held or given is None:
        return ()
    added = [name for name in given if not spelled(name, held)]
    missing = [name for name in held if not spelled(name, given) and name.lower() not in snapshot.fills]
    if not added and not missing:
        return ()
    error = schema_changed(table.name, added, missing)
    return (f"{table.name}: this run will fail with {error.code}. {error.problem} {error.remedy}",)


def _given(table: Table) -> tuple[str, ...] | None:
    """The columns that its source or its query gives, where they are known."""
    match table.producer:
        case Loaded(source):
            from tidemill.sources.registry import columns_of  # noqa: PLC0415  slow to import

            return columns_of(source)
        case Query() as query:
            return output_columns(query.text)
        case _:
            return None
