"""Verifies one table, however it is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.declare.functions import Function
from tidemill.declare.joins import Join
from tidemill.declare.loads import Loads
from tidemill.declare.producers import Loaded
from tidemill.declare.variables import NOTHING_GIVEN
from tidemill.engine.translate import as_tidemill
from tidemill.errors import TidemillError
from tidemill.plan.windows import known_of
from tidemill.stores.opened import store_of
from tidemill.verify.fetched import AGAINST, FetchedAgain, not_verifiable
from tidemill.verify.loads import VerifyingLoads
from tidemill.verify.result import Verified
from tidemill.verify.verifying import Verifying

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from pyspark.sql import SparkSession

    from tidemill.declare.tables import Table
    from tidemill.plan.backfills import Backfill
    from tidemill.sources.protocol import Connector


def verify_table(
    spark: SparkSession,
    table: Table,
    source_of: Callable[[Table], Connector],
    now: datetime,
    variables: Mapping[str, str] = NOTHING_GIVEN,
    dates: Backfill | None = None,
) -> Verified:
    """How the table lies to a full run. Reads all of both, and writes nothing; an error of the table is its result.

    Of a table that a function keeps, `dates` are fetched again and compared.
    """
    against = _against(table)
    try:
        store = store_of(table)
        snapshot = known_of(table, store.snapshot())
        if snapshot is None:
            return Verified(table.name, against, there=False)
        if table.function is None:
            kind = VerifyingLoads if len(table.parts) > 1 else Verifying
            return kind(spark, table, source_of(table), store, snapshot, now, variables).result(against)
        if dates is None or table.window is None:
            return not_verifiable(table)
        return FetchedAgain(spark, table, source_of(table), store, snapshot, now, variables).compared_dates(dates)
    except TidemillError as failure:
        return Verified(table.name, against, error=failure)
    except Exception as failure:  # noqa: BLE001  Spark raises many kinds; each is this table's own
        return Verified(table.name, against, error=as_tidemill(failure, doing=f"Verifying {table.name}"))


def _against(table: Table) -> str:
    match table.producer:
        case Loaded() | Loads():
            return "a full load"
        case Join():
            return "one window over all of it"
        case Function():
            return AGAINST
        case _:
            return "its query"
