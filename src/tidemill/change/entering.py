"""What an operation brings into a table, and what of the table stays beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from tidemill.contracts.operations import HELD, AppendRows, OverwriteRows, ReplaceRows, UpsertRows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidemill.contracts.operations import Operation


@dataclass(frozen=True, slots=True)
class Entering:
    """Together they are the table after the commit. Without a table, and where nothing of it stays, `beside` is None.

    Both are lazy: nothing is read here.
    """

    rows: DataFrame
    beside: DataFrame | None = None


def entering(operation: Operation, held: DataFrame | None) -> Entering:
    """What enters a table that holds the rows `held`; None where it is made by this commit."""
    if held is None:
        return Entering(operation.rows)
    match operation:
        case AppendRows(rows):
            return Entering(rows, held)
        case OverwriteRows(rows):
            return Entering(rows)
        case ReplaceRows(rows, predicate):
            return Entering(rows, held.where(~F.coalesce(F.expr(predicate), F.lit(False))))  # noqa: FBT003
        case UpsertRows():
            return _upserted(operation, held.alias(HELD))
        case _:
            raise NotImplementedError(operation)


def _upserted(operation: UpsertRows, held: DataFrame) -> Entering:
    if operation.collapses:  # a full merge
        return Entering(operation.rows)
    same_key = F.expr(operation.match)
    if not operation.delete_missing:
        return Entering(operation.rows, held.join(operation.rows, same_key, "left_anti"))
    stays = same_key & ~F.coalesce(operation.changed, F.lit(False))  # noqa: FBT003
    return Entering(operation.rows.join(held, stays, "left_anti"), held.join(operation.rows, stays, "left_semi"))
