"""Exports to a real PostgreSQL."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tidemill.declarations import Append, Merge, Replace
from tidemill.errors import ArgumentError, ExportError, MergeError, SchemaError
from tidemill.execution.exports.export import write_export
from tidemill.model.query import Export

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def export(postgres, mode: Any = None, target: str = "shop.daily", **options: Any) -> Export:
    given = {"url": postgres.url, "user": "postgres", **options}
    return Export("daily", target, "POSTGRES", table="daily", mode=mode or Replace(), options=given)


def rows(spark: SparkSession, *values: tuple[int, str]) -> DataFrame:
    return spark.createDataFrame(list(values), "id BIGINT, name STRING").repartition(3)


def held(postgres) -> list[tuple[Any, ...]]:
    return postgres.run("SELECT id, name FROM shop.daily ORDER BY 1, 2")


@pytest.fixture(autouse=True)
def fresh(postgres) -> None:
    postgres.run("DROP TABLE IF EXISTS shop.daily")


def test_a_table_is_made_replaced_and_appended_to(spark, postgres):
    done = write_export(spark, rows(spark, (1, "a"), (2, "b")), export(postgres))
    assert (done.rows_written, done.path) == (2, "shop.daily")
    write_export(spark, rows(spark, (3, "c")), export(postgres))
    assert held(postgres) == [(3, "c")]
    write_export(spark, rows(spark, (3, "c"), (4, "d")), export(postgres, Append()))
    assert held(postgres) == [(3, "c"), (3, "c"), (4, "d")]


def test_a_merge_updates_inserts_and_leaves_equal_rows_untouched(spark, postgres):
    write_export(spark, rows(spark, (1, "a"), (2, "b")), export(postgres, Merge(("ID",))))
    before = dict(postgres.run("SELECT id, xmin::text FROM shop.daily"))
    done = write_export(spark, rows(spark, (1, "a"), (2, "B"), (3, None)), export(postgres, Merge(("id",))))
    assert done.rows_written == 3
    assert held(postgres) == [(1, "a"), (2, "B"), (3, None)]
    after = dict(postgres.run("SELECT id, xmin::text FROM shop.daily"))
    assert after[1] == before[1]
    assert after[2] != before[2]


def test_a_merge_needs_no_index_and_compares_nulls_and_json(spark, postgres):
    postgres.run("CREATE TABLE shop.daily (name text, id bigint, data json, kept text DEFAULT 'mine')")
    postgres.run("INSERT INTO shop.daily VALUES (NULL, 1, '{\"a\":1}', 'other'), ('x', 2, NULL, 'other')")
    new = spark.sql(
        "SELECT 1L AS id, named_struct('a', 1) AS data, CAST(NULL AS STRING) AS name UNION ALL SELECT 3L, NULL, 'new'"
    )
    write_export(spark, new, export(postgres, Merge(("id",))))
    assert postgres.run("SELECT id, name, data::text, kept FROM shop.daily ORDER BY id") == [
        (1, None, '{"a":1}', "other"),
        (2, "x", None, "other"),
        (3, "new", None, "mine"),
    ]


def test_every_type_arrives_exactly(spark, postgres):
    values = spark.sql(
        "SELECT true a, CAST(1 AS SMALLINT) b, 2 c, 9007199254740993L d, CAST('NaN' AS DOUBLE) e, 0.1D f, "
        "12345678.9012BD g, 'tab\\t line\\n back\\\\slash \\\\N é' h, "
        "'' i, CAST(NULL AS STRING) j, DATE '2024-02-29' k, "
        "TIMESTAMP '2024-11-03T05:30:00.123456Z' l, TIMESTAMP_NTZ '2024-03-10 02:30:00.000001' m, X'00FF' n, "
        "array(1, 2) o, map('k', 'v') p"
    )
    write_export(spark, values, export(postgres))
    found = postgres.run("SELECT * FROM shop.daily")[0]
    assert str(found[4]) == "nan"
    assert found[:4] + found[5:] == (
        *(True, 1, 2, 9007199254740993, 0.1, Decimal("12345678.9012"), "tab\t line\n back\\slash \\N é", "", None),
        date(2024, 2, 29),
        datetime(2024, 11, 3, 5, 30, 0, 123456, tzinfo=UTC),
        datetime.fromisoformat("2024-03-10T02:30:00.000001"),
        *(b"\x00\xff", [1, 2], {"k": "v"}),
    )


def test_when_it_fails_the_table_is_as_it_was_and_nothing_is_left(spark, postgres):
    write_export(spark, rows(spark, (1, "a")), export(postgres))
    bad = spark.sql("SELECT id, concat('x', assert_true(id < 900)) AS name FROM range(0, 1000, 1, 4)")
    with pytest.raises(ExportError, match=r"The export daily to shop.daily failed: .*"):
        write_export(spark, bad, export(postgres))
    postgres.run("ALTER TABLE shop.daily ALTER name TYPE varchar(3)")
    with pytest.raises(ExportError, match="value too long"):
        write_export(spark, rows(spark, (2, "b"), (3, "too long")), export(postgres))
    assert held(postgres) == [(1, "a")]
    assert postgres.run("SELECT count(*) FROM pg_class WHERE relname LIKE 'tidemill%'") == [(0,)]


def test_keys_that_are_null_or_come_twice_are_refused(spark, postgres):
    write_export(spark, rows(spark, (1, "a")), export(postgres))
    with pytest.raises(MergeError, match=r"1 row has no id; keys cannot be NULL"):
        write_export(spark, rows(spark, (None, "a")), export(postgres, Merge(("id",))))  # type: ignore[arg-type]
    with pytest.raises(MergeError, match=r"1 key comes more than once in this export: \(2,\)"):
        write_export(spark, rows(spark, (2, "a"), (2, "b")), export(postgres, Merge(("id",))))
    assert held(postgres) == [(1, "a")]


def test_columns_that_the_table_does_not_have_are_refused(spark, postgres):
    postgres.run("CREATE TABLE shop.daily (id bigint)")
    with pytest.raises(SchemaError, match=r"shop.daily has no column name"):
        write_export(spark, rows(spark, (1, "a")), export(postgres))


def test_readers_see_the_old_rows_until_the_new_ones_are_there(spark, postgres):
    write_export(spark, rows(spark, (1, "a")), export(postgres))
    with psycopg.connect(postgres.url, user="postgres") as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        assert reader.execute("SELECT count(*) FROM pg_class").fetchone()
        write_export(spark, rows(spark, (2, "b"), (3, "c")), export(postgres))
        assert reader.execute("SELECT id FROM shop.daily").fetchall() == [(1,)]
    assert held(postgres) == [(2, "b"), (3, "c")]


def test_the_target_may_be_the_url_and_passwords_are_in_no_error(spark, postgres):
    url = postgres.url.replace("//", "//postgres@")
    write_export(spark, rows(spark, (1, "a")), export(postgres, target=url, table="shop.daily"))
    assert held(postgres) == [(1, "a")]
    with pytest.raises(ExportError) as error:
        write_export(spark, rows(spark, (1, "a")), export(postgres, user="guarded", password="wr0ng-p4ss"))
    assert "password authentication failed" in error.value.problem
    assert "wr0ng" not in f"{error.value!r} {error.value.__cause__}"
    with pytest.raises(ArgumentError, match="needs the url of its database and a table"):
        write_export(spark, rows(spark, (1, "a")), Export("daily", "t", "jdbc", table="daily"))


def test_other_databases_take_appended_rows_in_one_transaction(spark, tmp_path):
    url = f"jdbc:derby:{tmp_path}/db;create=true"
    values = spark.range(0, 10, 1, 4)
    for _ in range(2):
        done = write_export(
            spark, values, Export("daily", "daily", "JDBC", table="t", mode=Append(), options={"url": url})
        )
        assert done.rows_written == 10
    assert spark.read.jdbc(url, "daily").count() == 20
    with pytest.raises(ArgumentError, match="cannot replace a table of this database in one transaction"):
        write_export(spark, values, Export("daily", "daily", "JDBC", table="t", options={"url": url}))
