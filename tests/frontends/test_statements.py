"""What stands in a pipeline file is what comes out of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemill import Duration, MergeStrategy, SchemaPolicy
from tidemill.declarations import Append, DeleteInsert, Masking, Merge, NullTime, Replace, Source, Window
from tidemill.errors import Origin
from tidemill.frontends.pipeline.declarations import Declared
from tidemill.frontends.pipeline.files import read_pipelines

SHOP = """\
-- pipelines/shop.sql
SET region = "${region|eu}";
INCLUDE "common.sql";

SOURCE orders TYPE POSTGRES PARAMS {
  "url": "postgresql://localhost/shop", "table": "public.orders",
  "user": "${env:DB_USER}", "password": "${env:DB_PASSWORD}"
} INCREMENTAL BY updated_at LOOKBACK 2 HOURS;
SOURCE events FROM "json" OPTIONS { "path": "data/events" } INCREMENTAL BY seen_at;

LOAD raw_orders FROM orders MODE MERGE ON order_id, region;
LOAD raw_customers FROM customers;                              -- REPLACE is the default
LOAD raw_events FROM events MODE APPEND;

CREATE TABLE daily MODE INCREMENTAL_MERGE ON day, region AS
SELECT date(created_at) AS day, region, sum(amount) AS amount FROM raw_orders GROUP BY 1, 2;
CREATE TABLE sessions MODE INCREMENTAL BY started_at LOOKBACK 1 DAY AS
SELECT * FROM raw_events WHERE started_at >= @start_dt AND started_at < @end_dt;

IF ${env|dev} == "prod" THEN
  EXPORT SELECT * FROM daily TO "out/daily" TYPE PARQUET OPTIONS { "partition_by": ["day"] };
ELSE IF ${env|dev} == "test" THEN
  EXPORT daily TO "out/daily.csv" TYPE CSV OPTIONS { "header": true };
END IF;
"""
COMMON = 'SOURCE customers TYPE CSV PARAMS { "path": "data/customers/*.csv", "header": true };\n'


def test_the_pipeline_of_the_guide_is_read_whole(read):
    shop = read(SHOP, files={"common": COMMON}, dotenv={"DB_USER": "ann"}, environment={"DB_PASSWORD": "pa\"ss;'"})
    assert (shop.pipeline, shop.secrets) == ("shop", {"ann", "pa\"ss;'"})
    own = {"folder": Path(), "secrets": shop.secrets}
    assert shop.sources == (
        Source(
            "customers",
            "csv",
            {"path": "data/customers/*.csv", "header": True},
            origin=Origin("common.sql", 1, 1),
            **own,
        ),
        Source(
            "orders",
            "postgres",
            {
                "url": "postgresql://localhost/shop",
                "table": "public.orders",
                "user": "ann",
                "password": "pa\"ss;'",
            },
            cursor="updated_at",
            lookback=Duration(2, "hour"),
            origin=Origin("shop.sql", 5, 1),
            **own,
        ),
        Source("events", "json", {"path": "data/events"}, cursor="seen_at", origin=Origin("shop.sql", 9, 1), **own),
    )
    assert [(table.name, table.strategy, table.window, table.origin) for table in shop.tables] == [
        (
            "main.raw_orders",
            Merge(("order_id", "region"), newest_by="updated_at"),
            Window("updated_at", lookback=Duration(2, "hour")),
            Origin("shop.sql", 11, 1),
        ),
        ("main.raw_customers", Replace(), None, Origin("shop.sql", 12, 1)),
        ("main.raw_events", Append(), Window("seen_at"), Origin("shop.sql", 13, 1)),
        ("main.daily", Merge(("day", "region")), None, Origin("shop.sql", 15, 1)),
        (
            "main.sessions",
            DeleteInsert(),
            Window("started_at", lookback=Duration(1, "day")),
            Origin("shop.sql", 17, 1),
        ),
    ]
    assert [[load.source for load in table.loads] for table in shop.tables[:3]] == [
        [shop.sources[1]],
        [shop.sources[0]],
        [shop.sources[2]],
    ]
    assert [(table.producer.text, table.producer.origin) for table in shop.tables[3:]] == [
        (
            "SELECT date(created_at) AS day, region, sum(amount) AS amount FROM raw_orders GROUP BY 1, 2",
            Origin("shop.sql", 16, 1),
        ),
        (
            "SELECT * FROM raw_events WHERE started_at >= @start_dt AND started_at < @end_dt",
            Origin("shop.sql", 18, 1),
        ),
    ]


def test_secrets_are_not_in_what_python_shows_of_a_pipeline(read):
    shop = read(SHOP, files={"common": COMMON}, environment={"DB_USER": "ann-of-shop", "DB_PASSWORD": "hunter2"})
    assert "hunter2" not in repr(shop)
    assert "ann-of-shop" not in repr(shop)
    assert Masking(shop.secrets).mask("jdbc said: hunter2 is wrong") == "jdbc said: *** is wrong"


@pytest.mark.parametrize(
    ("env", "exported"),
    [
        ("dev", []),
        (
            "prod",
            [("SELECT * FROM daily", "out/daily", "parquet", {"partition_by": ["day"]}, Origin("shop.sql", 21, 3))],
        ),
        ("test", [("SELECT * FROM daily", "out/daily.csv", "csv", {"header": True}, Origin("shop.sql", 23, 3))]),
    ],
)
def test_a_block_gives_the_statements_of_the_branch_that_holds(read, env, exported):
    places = {"environment": {"DB_USER": "a", "DB_PASSWORD": "b"}, "given": {"env": env}}
    found = read(SHOP, files={"common": COMMON}, **places).exports
    assert [(each.query.text, each.target, each.kind, each.options, each.origin) for each in found] == exported
    assert all(each.mode == Replace() and each.inputs == ("main.daily",) for each in found)


def test_keywords_may_be_in_any_case(read):
    shop = read(
        'source s Type Csv params {"path": "x"} incremental By at lookback 3 Days;\nload t from s mode merge on id;'
    )
    assert shop.sources[0].lookback == Duration(3, "day")
    assert shop.tables[0].strategy == Merge(("id",), newest_by="at")


@pytest.mark.parametrize(
    ("written", "mode"),
    [
        ("", Replace()),
        ("MODE REPLACE", Replace()),
        ("MODE APPEND", Append()),
        ("MODE MERGE ON id", Merge(("id",))),
        ("MODE MERGE ON (id, region)", Merge(("id", "region"))),
        ("MODE MERGE ON `order id`, `a``b`", Merge(("order id", "a`b"))),
        ("MODE FULL_MERGE ON id", Merge(("id",), MergeStrategy.FULL_MERGE)),
        ("UPSERT KEY (id, region)", Merge(("id", "region"))),
        ("MODE UPSERT KEY (id)", Merge(("id",))),
    ],
)
def test_a_load_has_its_mode(read, written, mode):
    assert read(f"SOURCE s TYPE CSV;\nLOAD t FROM s {written};").tables[0].strategy == mode


def by(column, lookback=None):
    return DeleteInsert(), Window(column, lookback=lookback)


@pytest.mark.parametrize(
    ("written", "mode"),
    [
        ("", (Replace(), None)),
        ("MODE APPEND", (Append(), None)),
        ("MODE MERGE ON id", (Merge(("id",)), None)),
        ("MODE INCREMENTAL_MERGE ON id, day", (Merge(("id", "day")), None)),
        ("UPSERT KEY (id)", (Merge(("id",)), None)),
        ("MODE INCREMENTAL BY at", by("at")),
        ("MODE INCREMENTAL BY at LOOKBACK 90 minutes", by("at", Duration(90, "minute"))),
        ("MODE INCREMENTAL BY number LOOKBACK 500", by("number", 500)),
        ("MODE INCREMENTAL BY at LOOKBACK 1month", by("at", Duration(1, "month"))),
        ("MODE INCREMENTAL BY at LOOKBACK ${back|2} days", by("at", Duration(2, "day"))),
    ],
)
@pytest.mark.parametrize("create", ["CREATE TABLE", "CREATE OR REPLACE TABLE", "create or replace table"])
def test_a_query_table_has_its_mode(read, create, written, mode):
    (table,) = read(f"{create} t {written} AS SELECT 1 AS id;").tables
    assert (table.strategy, table.window) == mode


def test_options_are_checked_and_in_one_form(read):
    shop = read(
        """SOURCE s TYPE CSV INCREMENTAL BY at;
LOAD t FROM s OPTIONS {
  "dedup_order_by": "at", "only_newer": true, "null_time": "SKIP", "on_schema_change": "append_new_columns",
  "volatile": ["loaded_at"], "partition_by": ["a", "b"], "format": "Parquet", /* a tenth */
  "max_shrink": 0.1,
  "reset_allowed": false, "description": "it's -- not; a comment", "tags": ["raw"]   -- one
} MODE MERGE ON id;
CREATE TABLE u OPTIONS { "cluster_by": "c", "max_shrink": 0.1 } AS SELECT 1 AS c;"""
    )
    first, second = shop.tables
    assert first.strategy == Merge(("id",), MergeStrategy.DEDUPLICATE, ("at",), only_newer="at")
    assert first.window == Window("at", null_time=NullTime.SKIP)
    assert (first.schema_policy, first.volatile) == (SchemaPolicy.APPEND_NEW_COLUMNS, ("loaded_at",))
    assert (first.partition_by, first.format, first.reset_allowed) == (("a", "b"), "parquet", False)
    assert (first.description, first.tags) == ("it's -- not; a comment", ("raw",))
    assert (second.cluster_by, second.strategy) == (("c",), Replace(0.1))


def test_a_source_takes_its_key_cursor_and_start_from_its_params(read):
    source = read(
        """SOURCE s TYPE CSV PARAMS {
          "path": "x", "primary_key": ["a", "b"], "cursor_field": "at", "start_date": "2024-01-01"
        };"""
    ).sources[0]
    assert source.params == {"path": "x"}
    assert (source.primary_key, source.cursor, source.start) == (("a", "b"), "at", "2024-01-01")


def test_kinds_are_in_lower_case_but_for_names_of_classes(read):
    shop = read('SOURCE a TYPE DELTA;\nSOURCE b FROM "JSON";\nSOURCE c FROM "com.shop.Feed";\nSOURCE d TYPE "kafka";')
    assert [source.kind for source in shop.sources] == ["delta", "json", "com.shop.Feed", "kafka"]


def test_an_export_has_its_mode_and_a_schema(read):
    shop = read(
        """CREATE TABLE mart.daily AS SELECT 1 AS day;
EXPORT mart.daily TO "out" TYPE DELTA MODE MERGE ON day OPTIONS {"a": {"b": [1, null]}};
EXPORT WITH x AS (SELECT interval '1-2' year to month) SELECT * FROM x TO 'out/x' TYPE parquet MODE APPEND;
EXPORT (SELECT 'TO "y"' AS t) TO "out/z" TYPE csv;"""
    )
    assert [(export.inputs, export.mode) for export in shop.exports] == [
        (("mart.daily",), Merge(("day",))),
        ((), Append()),
        ((), Replace()),
    ]
    assert shop.exports[0].options == {"a": {"b": [1, None]}}
    assert shop.exports[1].query.text == "WITH x AS (SELECT interval '1-2' year to month) SELECT * FROM x"
    assert shop.exports[2].query.text == "(SELECT 'TO \"y\"' AS t)"


QUERIES = [
    "SELECT 'a;b', \"c;d\", `e;f` FROM t",
    "SELECT '-- no comment', '/* nor this */'   ,\t'odd   spacing\n of lines' FROM t",
    "WITH a AS (SELECT 1), b AS (SELECT * FROM a) SELECT /*+ BROADCAST(b) */ * FROM a JOIN b",
    "SELECT 'it''s', 'it\\'s', r'\\d+\\', '\\\\', \"a\\\"b\" FROM t",
    "SELECT a, -- why; not\n  b /* ; */ FROM main.t",
    "SELECT sum(x) OVER (PARTITION BY a ORDER BY b ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM cat.main.t",
    "SELECT 1L, 2.5BD, 0x1F, X'AB', 1e3, -1 FROM t",
    "SELECT CASE WHEN a THEN 1\nELSE IF(b, 2, 3)\nEND AS c,\n load l\nFROM t",
    "SELECT é, '日本語 😀', `ünï`\r\nFROM t\r\nWHERE a <=> b",
    "FROM t SELECT transform(xs, x -> x + 1), map('a', 1)['a'], {fn now()}",
    "VALUES (1, 'a'), (2, 'b')",
    "SELECT a:b.c, t@v1, $1 FROM t WHERE x = @start_date",
    "(SELECT 1) UNION ALL (SELECT 2)",
    "SELECT '{\"a\": \"}\"}' AS json, '{{ x }}', '{% y %}'",
]


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_passes_through_untouched(read, query):
    shop = read(f"CREATE TABLE a AS\n  {query}  -- the end;\n ;\nCREATE TABLE b AS {query};")
    assert [table.producer.text for table in shop.tables] == [query, query]
    assert shop.tables[0].producer.origin == Origin("shop.sql", 2, 3)


def test_lines_may_end_as_on_windows_and_begin_with_a_mark(folder):
    (folder / "shop.sql").write_bytes(b"\xef\xbb\xbfSOURCE a TYPE CSV;\r\nCREATE TABLE t AS\r\nSELECT 1;\r\n")
    (shop,) = read_pipelines([Path("shop.sql")])
    assert [each.origin for each in (*shop.sources, *shop.tables)] == [
        Origin("shop.sql", 1, 1),
        Origin("shop.sql", 2, 1),
    ]


def test_an_empty_file_and_empty_statements_are_no_error(read):
    for text in ("", "-- nothing\n;; /* more */ ;"):
        assert read(text) == Declared("shop", ())


def test_a_file_is_included_once_and_from_its_own_folder(read, folder):
    (folder / "parts").mkdir()
    (folder / "parts" / "a.sql").write_text('INCLUDE "b.sql"; SET from_a = 1;')
    (folder / "parts" / "b.sql").write_text('SOURCE s TYPE CSV PARAMS {"path": "${where}"};')
    shop = read('SET where = "x/y";\nINCLUDE "parts/a.sql";\nINCLUDE "parts/b.sql";\nLOAD t${from_a} FROM s;')
    (source,) = shop.sources
    assert source.params == {"path": "x/y"}
    assert source.origin == Origin("parts/b.sql", 1, 1)
    assert shop.tables[0].name == "main.t1"


BLOCKS = """
IF ${a} == "1" THEN
  IF ${b} != "1" THEN SET out = a_not_b;
  ELSE SET out = a_and_b; END IF;
ELSEIF ${b} == 1 THEN
  SET out = only_b;
ELSE
  IF ${c|no} == yes THEN
    SET out = c;
  END IF;
END IF;
SOURCE s TYPE CSV PARAMS {"out": "${out|none}"};
"""


@pytest.mark.parametrize(
    ("a", "b", "c", "out"),
    [
        ("1", "2", "no", "a_not_b"),
        ("1", "1", "no", "a_and_b"),
        ("2", "1.0", "no", "only_b"),
        ("2", "two words", "no", "none"),
        ("2", "2", "yes", "c"),
    ],
)
def test_blocks_nest_and_compare_texts_and_numbers(read, a, b, c, out):
    assert read(BLOCKS, given={"a": a, "b": b, "c": c}).sources[0].params == {"out": out}


def test_a_branch_that_is_not_taken_asks_for_no_values_and_declares_nothing(read):
    shop = read(
        """IF ${env|dev} == "prod" THEN
  SOURCE s TYPE POSTGRES PARAMS {"password": "${env:PASSWORD}", "port": ${port}};
  LOAD ${table} FROM s MODE ${mode};
  INCLUDE "not there.sql";
ELSE
  SOURCE s TYPE CSV;
  LOAD t FROM s;
END IF;"""
    )
    assert [source.kind for source in shop.sources] == ["csv"]
    assert [table.name for table in shop.tables] == ["main.t"]


def test_sources_may_stand_after_what_loads_them(read):
    shop = read("LOAD t FROM s;\nSOURCE s TYPE CSV;")
    assert [load.source for load in shop.tables[0].loads] == [shop.sources[0]]
