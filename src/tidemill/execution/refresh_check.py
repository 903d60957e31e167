"""`refresh_check = always`: the rows that a refresh by changes would leave, beside those of the whole query.

Both are compared before the commit, so that a view which would be wrong stays as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from tidemill.changes.apply import rows_after
from tidemill.changes.bags import NUMBER, surplus
from tidemill.changes.compare import shown_keys
from tidemill.errors import StateError
from tidemill.model import quote, spelled
from tidemill.spark.session import settle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from tidemill.execution.attempt import Attempt, Gathered
    from tidemill.execution.query_source import ViewSource
    from tidemill.model.table import Table


def difference_of(attempt: Attempt, source: ViewSource, gathered: Gathered) -> StateError | None:
    """The error of a refresh after which the view would not be what its query gives; a whole one is what that gives."""
    refreshed, held, table = gathered.refreshed, gathered.held, attempt.table
    if refreshed is None or refreshed.compiled is None or held is None:
        return None
    operation = refreshed.compiled.operation
    here = rows_after(operation, held.rows) if operation else held.rows
    _, bound = source.bound(attempt.spark, source.query.text)
    whole = held.rows.sparkSession.sql(bound).select(*map(quote, held.columns))
    found = settle(surplus(whole, here, frozenset(name.lower() for name in table.volatile)))
    totals = found.agg(
        F.count_if(F.col(NUMBER) > 0).alias("missing"), F.count_if(F.col(NUMBER) < 0).alias("extra")
    ).first()
    assert totals is not None  # noqa: S101  a global aggregate has one row
    if not totals["missing"] and not totals["extra"]:
        return None
    return _differs(table, totals["missing"], totals["extra"], _shown(found, table.strategy.row_key))


def _shown(found: DataFrame, row_key: Sequence[str]) -> str:
    """A few of the rows that differ, by the columns that tell them apart."""
    columns = [name for name in found.columns if not name.startswith("__tidemill_")]
    keys = [name for each in row_key if (name := spelled(each, columns))] or columns
    return f"{', '.join(keys)} = {shown_keys(found.select(*map(quote, keys)).distinct(), keys)}"


def _differs(table: Table, missing: int, extra: int, shown: str) -> StateError:
    counts = [f"{count:,} {what}" for count, what in ((missing, "missing"), (extra, "too many")) if count]
    return StateError(
        "view.refresh_differs",
        f"An incremental refresh would leave {table.name} with other rows than its query gives, "
        f"{' and '.join(counts)}: {shown}.",
        f"Compute it whole ({table.command} --full-refresh), set refresh = full for it, and report its query: "
        f"it should not be. {table.name} is unchanged.",
        origin=table.origin,
    )
