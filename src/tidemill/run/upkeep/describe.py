"""A table's description, properties and clustering follow its declaration, in commits without rows."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from tidemill.declare.names import KEPT_FROM_RESET
from tidemill.plan.layout import layout_notices
from tidemill.run.retry import with_retries
from tidemill.stores.opened import store_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from tidemill.contracts.snapshots import Described
    from tidemill.declare.tables import Table
    from tidemill.run.results import StepResult

CLUSTERED = "tidemill.cluster_by"  # what the table was clustered by, known without Spark
COMMENT = "comment"  # Delta takes the property of this name for the table's description
_PROTOCOL = ("delta.feature.", "delta.minreaderversion", "delta.minwriterversion")  # Delta keeps them elsewhere


def described(spark: Callable[[], SparkSession], table: Table, result: StepResult) -> StepResult:
    """The result of a step, once its table says of itself what its declaration does; asks for Spark if it does not.

    Properties that are no longer declared stay: somebody may have come to rely on them.
    """
    found, changed = with_retries(table.name, lambda _: _describe(spark, table))
    news = [f"{table.name} has its new {', '.join(changed)}"] if changed and not result.first_run else []
    version = store_of(table).log.version() if changed else result.version
    notices = (*result.notices, *news, *layout_notices(table, found.partition_by))
    return replace(result, version=version, notices=notices)


def _describe(spark: Callable[[], SparkSession], table: Table) -> tuple[Described, list[str]]:
    store = store_of(table)
    found = store.log.described()
    news = differences(table, found)
    if CLUSTERED in news:
        store.cluster(spark(), table.cluster_by)
    if news:
        store.set_properties(spark(), news)
    return found, [_told(name) for name in news]


def differences(table: Table, found: Described) -> dict[str, str]:
    """The properties, description included, that the declaration has and the table has not, or has otherwise."""
    held = {name.lower(): value for name, value in found.properties.items()} | {COMMENT: found.description}
    declared = {name: value for name, value in table.properties.items() if not name.lower().startswith(_PROTOCOL)}
    if not table.reset_allowed or KEPT_FROM_RESET in held:
        declared[KEPT_FROM_RESET] = str(table.reset_allowed).lower()
    if table.description:
        declared[COMMENT] = table.description
    if (table.cluster_by or CLUSTERED in held) and not found.partition_by:
        # Delta forgets the clustering of a table that is overwritten with other columns.
        declared[CLUSTERED] = json.dumps({"by": table.cluster_by, "columns": found.columns})
    return {name: value for name, value in declared.items() if held.get(name.lower()) != value}


def _told(name: str) -> str:
    return {COMMENT: "description", CLUSTERED: "cluster_by", KEPT_FROM_RESET: "reset_allowed"}.get(name, name)
