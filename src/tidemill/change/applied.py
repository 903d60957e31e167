"""What rows become when a change is applied to them: the same as in a table, and no table is written."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tidemill.change import merge as _merge  # noqa: F401  registers how merges compile
from tidemill.change.entering import entering
from tidemill.change.operation import compile_change
from tidemill.change.settled import settle
from tidemill.contracts.changes import Reach, Target
from tidemill.contracts.operations import COMING, UpsertRows
from tidemill.contracts.snapshots import Snapshot
from tidemill.declare.names import quote
from tidemill.declare.strategies import Replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from tidemill.contracts.changes import Change
    from tidemill.contracts.operations import Operation
    from tidemill.declare.strategies import Strategy

_UNKNOWN = Snapshot(version=0, sequence=0, record=None, record_version=None)
_ANYWHERE = Reach(files=1, size=1)


def applied(strategy: Strategy, change: Change, held: DataFrame | None, name: str) -> DataFrame:
    """The rows of a table that held these, or nothing, after the change. Errors are those that the table would have."""
    if held is None or isinstance(strategy, Replace):
        return change.rows
    target = Target(name, held, _UNKNOWN, lambda _: _ANYWHERE)
    operation = compile_change(strategy, change, target).operation
    if operation is None:
        return held
    entered = entering(_complete(operation, held), held)
    if entered.beside is None:
        return entered.rows
    return settle(entered.rows.unionByName(entered.beside, allowMissingColumns=True))


def _complete(operation: Operation, held: DataFrame) -> Operation:
    """Rows that replace others keep what these have in columns which they lack."""
    if not isinstance(operation, UpsertRows):
        return operation
    lacking = [name for name in held.columns if name not in operation.rows.columns]
    return _with(operation, held, lacking) if lacking else operation


def _with(operation: UpsertRows, held: DataFrame, lacking: Sequence[str]) -> UpsertRows:
    keys = list(operation.keys)
    stored = held.select(*map(quote, [*keys, *lacking]))
    return replace(operation, rows=operation.rows.join(stored, keys, "left").alias(COMING))
