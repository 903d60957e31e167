"""What `tidemill compile` prints is what a run does: sent to Spark as it stands, it gives the same table."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidemill.api.workspace import Workspace
from tidemill.execution.catalog import Catalog
from tidemill.execution.outside import Outside
from tidemill.formats.delta.log import DeltaLog
from tidemill.planning.statements import statements_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tidemill import Table
    from tidemill.planning.statements import RunStatements

PROJECT = 'name = "shop"\n[sources."t_project.orders"]\ntype = "parquet"\npath = "data"\n'
QUERY = "SELECT id, region, amount, at FROM t_project.orders"
MODELS = {
    "merged": '"merge", "merge": {"unique_key": "id", "time_column": "at", "lookback": "3 hours"}',
    "newest": '"merge", "merge": {"unique_key": "id", "time_column": "at", "lookback": "30 days", "only_newer": True}',
    "appended": '"append", "append": {"time_column": "at", "start_date": "2024-01-01", "lookback": "3 hours"}',
    "reloaded": '"delete_insert", "delete_insert": {"time_column": "at", "lookback": "1 day"}',
    "of_eu": '"delete_insert", "delete_insert": {"where_condition": "region = \'eu\'"}',
}
FIRST = [(1, "eu", 5, 1), (2, "us", 6, 2), (3, "eu", 7, 30), (4, None, 8, 30)]
# 3 is corrected, 4 is gone, 5 is new, 6 ties with the watermark, 7 is two hours late, 8 is later than the lookback
SECOND = [(1, "eu", 5, 1), (2, "us", 6, 2), (3, "eu", 70, 31), (5, "us", 9, 40), (6, "eu", 1, 30), (7, "eu", 2, 28)]
LATE = [(8, "eu", 3, 3)]


def write_source(rows: list[tuple[int, str | None, int, int]]) -> None:
    moments = [datetime.fromtimestamp(1_704_067_200 + hour * 3600, UTC) for *_, hour in rows]
    ids, regions, amounts, _ = zip(*rows, strict=True)
    at = pa.array(moments, pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"id": ids, "region": regions, "amount": amounts, "at": at}), "data/orders.parquet")


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "models" / "my_schema"
    folder.mkdir(parents=True)
    (tmp_path / "data").mkdir()
    (tmp_path / "tidemill.toml").write_text(PROJECT)
    for name, strategy in MODELS.items():
        kept = f'{{"materialization": "incremental", "incremental": {{"strategy": {strategy}}}}}'
        (folder / f"{name}.sql").write_text(QUERY)
        (folder / f"{name}.py").write_text(f"metadata = {kept}\n")
    (folder / "report.sql").write_text("SELECT region, sum(amount) AS amount FROM t_project.orders GROUP BY region")
    return Workspace.load()


@pytest.fixture
def catalog(shop: Workspace) -> Iterator[Catalog]:
    """The names of the project's data, for statements that are sent by hand."""
    outside = {name: Outside(source) for name, source in shop.outside.items()}
    found = Catalog(lambda _: None, outside=outside)
    yield found
    found.close()


def sent(spark: SparkSession, statements: RunStatements, table: Table) -> None:
    """Both statements as they stand, but into a copy of the table."""
    spark.sql(statements.reads).createOrReplaceTempView("change")
    assert statements.writes is not None
    spark.sql(statements.writes.replace(table.name, f"copies.{table.name.partition('.')[2]}"))


def rows_of(spark: SparkSession, name: str) -> list[str]:
    return sorted(str(row.asDict()) for row in spark.sql(f"SELECT * FROM {name}").collect())


def test_the_statements_of_both_runs_make_the_table_that_the_runs_make(
    spark: SparkSession, shop: Workspace, catalog: Catalog
):
    now = datetime(2024, 3, 1, tzinfo=UTC)
    for part, rows in enumerate((FIRST, [*SECOND, *LATE])):
        write_source(rows)
        session = catalog.session(spark, ["t_project.orders"])
        session.sql("CREATE SCHEMA IF NOT EXISTS copies")
        for table in shop.tables:
            sent(session, statements_of(table, DeltaLog(table.path).snapshot(), {}, now)[part], table)
        catalog.close()
        assert shop.run(spark).ok
    for table in shop.tables:
        copy = f"copies.{table.name.partition('.')[2]}"
        assert rows_of(spark, copy) == rows_of(spark, f"delta.`{table.path}`"), table.name
        spark.sql(f"DROP TABLE {copy}")
