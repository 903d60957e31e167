"""A query as a source: when it has to run again."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa

from tidemill import Table
from tidemill.declarations import Append, Query, Window
from tidemill.execution.catalog import Catalog
from tidemill.execution.producers import QuerySource
from tidemill.execution.step import run_step

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


def test_its_version_changes_with_a_commit_and_when_a_table_that_it_reads_is_dropped_and_created_again(tmp_path: Path):
    table, rows = tmp_path / "orders", pa.table({"id": [1]})
    catalog = Catalog(lambda _: str(table))
    query = QuerySource("main.daily", Query(("SELECT * FROM orders",)), ("orders",), catalog, datetime.now(UTC))

    def version_after(mode: str) -> str | None:
        deltalake.write_deltalake(str(table), rows, mode=mode)
        assert query.version() == query.version()
        return query.version()

    first, appended = version_after("error"), version_after("append")
    shutil.rmtree(table)
    again = version_after("error")
    assert None not in (first, appended, again)
    assert len({first, appended, again}) == 3


class CountingCatalog(Catalog):
    """Counts the queries that Spark has to analyse."""

    queries = 0

    def query(self, *given: Any, **more: Any) -> DataFrame:
        self.queries += 1
        return super().query(*given, **more)


def test_a_query_with_a_window_is_analysed_once_in_each_run(spark: SparkSession, tmp_path: Path):
    orders = tmp_path / "orders"
    catalog = CountingCatalog(lambda _: str(orders))
    query = Query(("SELECT id, at FROM orders",))
    source = QuerySource("main.seen", query, ("orders",), catalog, datetime.now(UTC))
    table = Table("main.seen", str(tmp_path / "seen"), Append(), Window("at"), producer=query, inputs=("orders",))
    for number in (1, 2):
        deltalake.write_deltalake(str(orders), pa.table({"id": [number], "at": [number]}), mode="append")
        catalog.queries = 0
        assert run_step(spark, table, source).counts.inserted == 1
        assert catalog.queries == 1
    catalog.close()
