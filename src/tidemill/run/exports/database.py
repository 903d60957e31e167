"""Exports to databases: PostgreSQL in one transaction, others as far as Spark's JDBC goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Observation
from pyspark.sql import functions as F

from tidemill.declare.strategies import Append
from tidemill.run.exports.options import Options
from tidemill.run.exports.postgres import PostgresTable
from tidemill.sources.addresses import read_address

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidemill.declare.exports import Export
    from tidemill.sources.addresses import Address


def write_database(spark: SparkSession, rows: DataFrame, export: Export) -> tuple[int, str]:  # noqa: ARG001  as others
    """How many rows were written, and to which table: the target, or the option `table` where that is the URL."""
    options = Options(export)
    url = export.target if "://" in export.target or export.target.startswith("jdbc:") else options.text("url")
    table = options.text("table") if url == export.target else export.target
    if not url or not table:
        raise export.wrong("export.no_url", "needs the url of its database and a table", "Give both in its OPTIONS.")
    address = read_address(url, options.text("user"), options.text("password"))
    if address.is_postgres:
        return PostgresTable(address, table, export).write(rows), table
    return _append(rows, export, address, table, options.left()), table


def _append(rows: DataFrame, export: Export, address: Address, table: str, options: dict[str, str]) -> int:
    """One partition, because Spark commits each by itself."""
    if not isinstance(export.mode, Append):
        raise export.wrong(
            "export.not_atomic",
            f"cannot {export.mode} a table of this database in one transaction",
            "Use MODE APPEND, or PostgreSQL.",
        )
    given = {"user": address.user, "password": address.password}
    counted = Observation()
    writer = rows.coalesce(1).observe(counted, F.count(F.lit(1)).alias("rows")).write.format("jdbc").mode("append")
    writer.options(**{name: value for name, value in given.items() if value is not None} | options)
    writer.option("url", address.jdbc).option("dbtable", table).save()
    return int(counted.get["rows"])
