"""Checks of a table or a view, run on all the rows that it has."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidemill.change.checked import Verdict
from tidemill.declare.checks import Relationships
from tidemill.declare.views import View
from tidemill.engine.translate import as_tidemill
from tidemill.errors import TidemillError
from tidemill.run.producers.query import QuerySource
from tidemill.run.steps.checks import check_rows
from tidemill.sources.protocol import Reading
from tidemill.stores.opened import store_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidemill.change.checked import Checked
    from tidemill.declare.tables import Table
    from tidemill.run.catalog import Catalog


@dataclass(frozen=True, slots=True)
class TableChecks:
    """How the checks of one table or view fared. Without checks and error it is not there yet."""

    table: str
    checks: tuple[Checked, ...] = ()
    error: TidemillError | None = None

    @property
    def there(self) -> bool:
        return bool(self.checks or self.error)

    @property
    def ok(self) -> bool:
        """Nothing has failed; checks of severity warn never do."""
        return self.error is None and all(each.verdict is not Verdict.FAILED for each in self.checks)


def table_checks(spark: SparkSession, node: Table | View, catalog: Catalog) -> TableChecks:
    """Runs the checks, and writes nothing; an error of the table is its result."""
    try:
        return TableChecks(node.name, check_rows(node, _rows(spark, node, catalog)))
    except TidemillError as failure:
        return TableChecks(node.name, error=failure)
    except Exception as failure:  # noqa: BLE001  Spark raises many kinds; each is this table's own
        return TableChecks(node.name, error=as_tidemill(failure, doing=f"Testing {node.name}"))


def _rows(spark: SparkSession, node: Table | View, catalog: Catalog) -> DataFrame:
    """Its rows, in a session that knows the tables which its checks name."""
    if isinstance(node, View):
        return QuerySource(node.name, node.query, node.inputs, catalog, datetime.now(UTC)).read(Reading(spark))
    named = [check.to for check in node.checks if isinstance(check, Relationships)]
    return store_of(node).read(catalog.session(spark, named))
