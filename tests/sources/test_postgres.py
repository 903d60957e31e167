"""Reading a real PostgreSQL through Spark's JDBC; what it was asked comes from the server's own log."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tidemill.declarations import Source
from tidemill.errors import ConnectorError, Origin
from tidemill.model.cursor import cursor
from tidemill.sources import Reading
from tidemill.sources.registry import connector_for, failures_of
from tidemill.spark.jars import POSTGRES, ensure_jars

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession


def source(postgres, **params: Any) -> Source:
    given = {
        "url": postgres.url,
        "user": "postgres",
        **({} if "query" in params else {"table": "shop.orders"}),
        **params,
    }
    return Source("orders", "POSTGRES", given, origin=Origin("shop.sql", 4))


def listed(rows: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in rows.collect()), key=str)


@pytest.fixture
def orders(postgres) -> None:
    postgres.run(
        "DROP TABLE IF EXISTS shop.orders",
        'CREATE TABLE shop.orders (id bigint, "Odd Name" text, at timestamptz, local timestamp)',
        "INSERT INTO shop.orders SELECT n, 'n' || n, TIMESTAMPTZ '2024-01-01Z' + n * INTERVAL '1 microsecond', "
        "TIMESTAMP '2024-01-01' + n * INTERVAL '1 hour' FROM generate_series(1, 100) AS n",
        "INSERT INTO shop.orders VALUES (999, NULL, NULL, NULL)",
    )


@contextmanager
def zone_of_the_jvm(spark: SparkSession, name: str) -> Iterator[None]:
    zones = spark._jvm.java.util.TimeZone  # type: ignore[union-attr]
    before = zones.getDefault()
    zones.setDefault(zones.getTimeZone(name))
    try:
        yield
    finally:
        zones.setDefault(before)


@pytest.mark.usefixtures("orders")
def test_a_table_is_read_with_its_types(spark, postgres):
    connector = connector_for(source(postgres))
    assert connector.schema(Reading(spark)).simpleString() == (
        "struct<id:bigint,Odd Name:string,at:timestamp,local:timestamp_ntz>"
    )
    rows = connector.read(Reading(spark))
    assert rows.schema == connector.schema(Reading(spark))
    assert rows.count() == 101
    first = rows.where("id = 1").first()
    assert first is not None
    assert tuple(first) == (
        1,
        "n1",
        datetime.fromisoformat("2024-01-01T00:00:00.000001"),
        datetime.fromisoformat("2024-01-01T01:00:00"),
    )


def test_every_common_type_is_read_exactly(spark, postgres):
    postgres.run(
        "DROP TABLE IF EXISTS shop.types",
        "CREATE TABLE shop.types (a boolean, b smallint, c integer, d bigint, e real, f double precision, "
        "g numeric(12,4), h text, i varchar(5), j date, k bytea, l uuid, m jsonb, n integer[])",
        "INSERT INTO shop.types VALUES (true, 1, 2, 9007199254740993, 1.5, 0.1, 12345678.9012, 'é', 'abc', "
        "'2024-02-29', "
        "'\\x00ff', '6ec0bd7f-11c0-43da-975e-2a8ad9ebae0b', '{\"a\": 1}', '{1,2}')",
    )
    row = connector_for(source(postgres, table="shop.types")).read(Reading(spark)).first()
    assert tuple(row) == (
        True,
        1,
        2,
        9007199254740993,
        1.5,
        0.1,
        Decimal("12345678.9012"),
        "é",
        "abc",
        date(2024, 2, 29),
        b"\x00\xff",
        "6ec0bd7f-11c0-43da-975e-2a8ad9ebae0b",
        '{"a": 1}',
        [1, 2],
    )


@pytest.mark.usefixtures("orders")
def test_the_cursor_is_in_the_where_that_postgres_receives(spark, postgres):
    value = cursor("timestamp", "2024-01-01T00:00:00.000098Z")
    rows = connector_for(source(postgres)).read_since(Reading(spark), "AT", value, ["id"])
    before = len(postgres.statements())
    assert listed(rows) == [(100,), (98,), (99,), (999,)]
    asked = [line for line in postgres.statements()[before:] if "shop.orders" in line]
    assert len(asked) == 1
    assert 'FROM shop.orders WHERE "at" >= TIMESTAMPTZ \'2024-01-01T00:00:00.000098Z\' OR "at" IS NULL' in asked[0]


@pytest.mark.usefixtures("orders")
def test_the_callers_own_filter_is_exact_in_every_zone_of_the_jvm(spark, postgres):
    """01:30 comes twice on the day that New York leaves summer time."""
    postgres.run(
        "DELETE FROM shop.orders",
        "INSERT INTO shop.orders (id, at) VALUES (1, '2024-11-03 05:30Z'), (2, '2024-11-03 06:30Z'), "
        "(3, '2024-11-03 05:00Z')",
    )
    with zone_of_the_jvm(spark, "America/New_York"):
        value = cursor("timestamp", "2024-11-03T05:30:00Z")
        rows = connector_for(source(postgres)).read_since(Reading(spark), "at", value)
        assert listed(rows.where(f"at >= {value.literal()} OR at IS NULL").select("id")) == [(1,), (2,)]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kathmandu"])
def test_timestamps_are_exact_to_the_microsecond_in_every_zone_of_the_jvm(spark, postgres, zone):
    """02:30 does not exist on the day that New York enters summer time; for a `timestamp` it does."""
    postgres.run(
        "DROP TABLE IF EXISTS shop.times",
        "CREATE TABLE shop.times (local timestamp, at timestamptz)",
        "INSERT INTO shop.times VALUES ('2024-03-10 02:30:00.123456', '2024-11-03 05:30:00.654321Z'), "
        "('1969-12-31 23:59:59.999999', '1969-12-31 23:59:59.999999Z')",
    )
    with zone_of_the_jvm(spark, zone):
        rows = connector_for(source(postgres, table="shop.times")).read(Reading(spark))
        assert listed(rows.selectExpr("CAST(local AS STRING)", "unix_micros(at)")) == [
            ("1969-12-31 23:59:59.999999", -1),
            ("2024-03-10 02:30:00.123456", 1730611800654321),
        ]
        value = cursor("timestamp_ntz", "2024-03-10T02:30:00.123456")
        since = connector_for(source(postgres, table="shop.times")).read_since(Reading(spark), "local", value)
        assert since.count() == 1


def test_texts_are_compared_by_their_bytes_as_spark_does(spark, postgres):
    postgres.run(
        "DROP TABLE IF EXISTS shop.texts",
        "CREATE TABLE shop.texts (code text)",
        "INSERT INTO shop.texts VALUES ('a'), ('B'), ('c'), ('é'), (NULL)",
    )
    connector = connector_for(source(postgres, table="shop.texts"))
    rows = connector.read_since(Reading(spark), "code", cursor("string", "a"))
    assert rows.count() == 4
    assert 'WHERE "code"::text COLLATE "C" >= \'a\'' in postgres.log.read_text()
    assert listed(rows) == [("a",), ("c",), ("é",), (None,)]


@pytest.mark.usefixtures("orders")
def test_a_query_is_read_and_only_its_columns(spark, postgres):
    query = 'SELECT id, at, upper("Odd Name") AS "Upper" FROM shop.orders WHERE id < 4;'
    connector = connector_for(source(postgres, query=query))
    assert listed(connector.read(Reading(spark), ["upper"])) == [("N1",), ("N2",), ("N3",)]
    value = cursor("timestamp", "2024-01-01T00:00:00.000003Z")
    assert listed(connector.read_since(Reading(spark), "at", value, ["id", "at"]).select("id")) == [(3,)]


@pytest.mark.usefixtures("orders")
def test_rows_are_fetched_in_batches(spark, postgres):
    before = len(postgres.statements())
    declared = Source(
        "orders", "JDBC", {"url": f"jdbc:{postgres.url}", "user": "postgres", "table": "shop.orders"}, batch_size=10
    )
    assert connector_for(declared).read(Reading(spark)).count() == 101
    fetched = [line for line in postgres.statements()[before:] if "execute fetch from" in line or "execute" in line]
    assert len(fetched) >= 10


@pytest.mark.usefixtures("orders")
def test_passwords_are_in_no_error(spark, postgres):
    postgres.run("GRANT USAGE ON SCHEMA shop TO guarded", "GRANT SELECT ON shop.orders TO guarded")
    good = source(postgres, user="guarded", password=postgres.PASSWORD)
    assert connector_for(good).read(Reading(spark)).count() == 101
    in_url = source(postgres, url=postgres.url.replace("//", f"//guarded:{postgres.PASSWORD}@"), user=None)
    assert connector_for(in_url).read(Reading(spark)).count() == 101
    for bad in (
        source(postgres, user="guarded", password="wr0ng-p4ss"),
        source(postgres, url=postgres.url.replace("//", "//guarded:wr0ng-p4ss@"), user=None),
        source(postgres, url=f"jdbc:{postgres.url}?user=guarded&password=wr0ng-p4ss&nonsense=%", user=None),
    ):
        with pytest.raises(ConnectorError) as error:
            connector_for(bad).read(Reading(spark))
        chain = [str(error.value), repr(error.value), str(error.value.__cause__), str(error.value.origin)]
        assert not any("wr0ng" in text for text in chain)
        assert "The source orders could not be read: " in error.value.problem
        assert str(error.value.origin) == "shop.sql:4"


@pytest.mark.parametrize(
    ("params", "problem"),
    [
        ({"table": "shop.nothing"}, 'relation "shop.nothing" does not exist'),
        ({"query": "SELECT FROM WHERE"}, "syntax error"),
        ({"url": "postgresql://127.0.0.1:9/x"}, "Connection to 127.0.0.1:9 refused"),
    ],
)
def test_what_postgres_says_reaches_the_user(spark, postgres, params, problem):
    with pytest.raises(ConnectorError) as error:
        connector_for(source(postgres, **params)).schema(Reading(spark))
    assert problem in error.value.problem


def test_an_error_while_rows_are_computed_names_the_source_too(spark, postgres):
    declared = source(postgres, query="SELECT 1 / (n - 3) AS x FROM generate_series(1, 5) AS n")
    rows = connector_for(declared).read(Reading(spark))
    with (
        pytest.raises(ConnectorError, match=r"The source orders could not be read: .*division by zero"),
        failures_of(declared),
    ):
        rows.collect()


@pytest.mark.usefixtures("orders")
def test_a_database_has_no_version_and_is_not_settled(postgres):
    connector = connector_for(source(postgres))
    assert connector.version() is None
    assert not connector.settled


def test_the_driver_is_fetched_at_need_into_an_engine_that_runs(postgres, tmp_path):
    driver = ensure_jars([POSTGRES])[0]
    shutil.copytree(driver.parent, tmp_path / "jars", ignore=lambda *_: [POSTGRES.file])
    settings = tmp_path / "ivysettings.xml"
    pattern = f"{driver.parent}/[artifact]-[revision].[ext]"
    settings.write_text(
        '<ivysettings><settings defaultResolver="from"/><resolvers><filesystem name="from">'
        f'<artifact pattern="{pattern}"/></filesystem></resolvers></ivysettings>'
    )
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("late_driver.py"), postgres.url],
        env={**os.environ, "TIDEMILL_HOME": str(tmp_path), "TIDEMILL_IVY_SETTINGS": str(settings)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == ["at hand before: 0", "rows: 1 1", "rows: 1 1 1", "at hand after: 1"], (
        done.stderr
    )
