"""What stands in a pipeline file is what comes out of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemill.errors import Origin
from tidemill.frontends.pipeline import (
    Append,
    CreateTable,
    Export,
    FullMerge,
    Include,
    IncrementalBy,
    Load,
    Merge,
    Query,
    Replace,
    SetVariable,
    SourceStatement,
    read_pipeline,
)
from tidemill.model.cursor import Duration

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
    assert (shop.name, shop.path, shop.folder) == ("shop", Path("shop.sql"), Path())
    assert shop.secrets == {"ann", "pa\"ss;'"}
    assert shop.statements == (
        SetVariable("region", "eu", Origin("shop.sql", 2, 1)),
        Include("common.sql", Origin("shop.sql", 3, 1)),
        SourceStatement(
            "customers", "csv", {"path": "data/customers/*.csv", "header": True}, Origin("common.sql", 1, 1)
        ),
        SourceStatement(
            "orders",
            "postgres",
            {
                "url": "postgresql://localhost/shop",
                "table": "public.orders",
                "user": "ann",
                "password": "pa\"ss;'",
            },
            Origin("shop.sql", 5, 1),
            cursor="updated_at",
            lookback=Duration(2, "hour"),
        ),
        SourceStatement("events", "json", {"path": "data/events"}, Origin("shop.sql", 9, 1), cursor="seen_at"),
        Load("raw_orders", "orders", Merge(("order_id", "region")), {}, Origin("shop.sql", 11, 1)),
        Load("raw_customers", "customers", Replace(), {}, Origin("shop.sql", 12, 1)),
        Load("raw_events", "events", Append(), {}, Origin("shop.sql", 13, 1)),
        CreateTable(
            "daily",
            Merge(("day", "region")),
            {},
            Query(
                "SELECT date(created_at) AS day, region, sum(amount) AS amount FROM raw_orders GROUP BY 1, 2",
                Origin("shop.sql", 16, 1),
            ),
            Origin("shop.sql", 15, 1),
        ),
        CreateTable(
            "sessions",
            IncrementalBy("started_at", Duration(1, "day")),
            {},
            Query(
                "SELECT * FROM raw_events WHERE started_at >= @start_dt AND started_at < @end_dt",
                Origin("shop.sql", 18, 1),
            ),
            Origin("shop.sql", 17, 1),
        ),
    )
    assert [table.table for table in shop.tables] == ["raw_orders", "raw_customers", "raw_events", "daily", "sessions"]
    assert list(shop.sources) == ["customers", "orders", "events"]


def test_secrets_are_not_in_what_python_shows_of_a_pipeline(read):
    shop = read(SHOP, files={"common": COMMON}, environment={"DB_USER": "ann-of-shop", "DB_PASSWORD": "hunter2"})
    assert "hunter2" not in repr(shop)
    assert "ann-of-shop" not in repr(shop)
    assert shop.masking.mask("jdbc said: hunter2 is wrong") == "jdbc said: *** is wrong"


@pytest.mark.parametrize(
    ("env", "exported"),
    [
        ("dev", []),
        (
            "prod",
            [
                Export(
                    Query("SELECT * FROM daily", Origin("shop.sql", 21, 10)),
                    None,
                    "out/daily",
                    "parquet",
                    Replace(),
                    {"partition_by": ["day"]},
                    Origin("shop.sql", 21, 3),
                )
            ],
        ),
        (
            "test",
            [Export(None, "daily", "out/daily.csv", "csv", Replace(), {"header": True}, Origin("shop.sql", 23, 3))],
        ),
    ],
)
def test_a_block_gives_the_statements_of_the_branch_that_holds(read, env, exported):
    places = {"environment": {"DB_USER": "a", "DB_PASSWORD": "b"}, "given": {"env": env}}
    assert list(read(SHOP, files={"common": COMMON}, **places).exports) == exported


def test_keywords_may_be_in_any_case(read):
    shop = read(
        'source s Type Csv params {"path": "x"} incremental By at lookback 3 Days;\nload t from s mode merge on id;'
    )
    assert shop.sources["s"].lookback == Duration(3, "day")
    assert shop.tables[0].mode == Merge(("id",))


@pytest.mark.parametrize(
    ("written", "mode"),
    [
        ("", Replace()),
        ("MODE REPLACE", Replace()),
        ("MODE APPEND", Append()),
        ("MODE MERGE ON id", Merge(("id",))),
        ("MODE MERGE ON (id, region)", Merge(("id", "region"))),
        ("MODE MERGE ON `order id`, `a``b`", Merge(("order id", "a`b"))),
        ("MODE FULL_MERGE ON id", FullMerge(("id",))),
        ("UPSERT KEY (id, region)", Merge(("id", "region"))),
        ("MODE UPSERT KEY (id)", Merge(("id",))),
    ],
)
def test_a_load_has_its_mode(read, written, mode):
    assert read(f"SOURCE s TYPE CSV;\nLOAD t FROM s {written};").tables[0].mode == mode


@pytest.mark.parametrize(
    ("written", "mode"),
    [
        ("", Replace()),
        ("MODE APPEND", Append()),
        ("MODE MERGE ON id", Merge(("id",))),
        ("MODE INCREMENTAL_MERGE ON id, day", Merge(("id", "day"))),
        ("UPSERT KEY (id)", Merge(("id",))),
        ("MODE INCREMENTAL BY at", IncrementalBy("at")),
        ("MODE INCREMENTAL BY at LOOKBACK 90 minutes", IncrementalBy("at", Duration(90, "minute"))),
        ("MODE INCREMENTAL BY number LOOKBACK 500", IncrementalBy("number", 500)),
        ("MODE INCREMENTAL BY at LOOKBACK 1month", IncrementalBy("at", Duration(1, "month"))),
        ("MODE INCREMENTAL BY at LOOKBACK ${back|2} days", IncrementalBy("at", Duration(2, "day"))),
    ],
)
@pytest.mark.parametrize("create", ["CREATE TABLE", "CREATE OR REPLACE TABLE", "create or replace table"])
def test_a_query_table_has_its_mode(read, create, written, mode):
    assert read(f"{create} t {written} AS SELECT 1 AS id;").tables[0].mode == mode


def test_options_are_checked_and_in_one_form(read):
    shop = read(
        """SOURCE s TYPE CSV;
LOAD t FROM s OPTIONS {
  "dedup_order_by": "at", "only_newer": true, "null_time": "SKIP", "on_schema_change": "append_new_columns",
  "volatile": ["loaded_at"], "partition_by": ["a", "b"], "cluster_by": "c", "format": "Parquet", /* a tenth */
  "max_shrink": 0.1,
  "reset_allowed": false, "description": "it's -- not; a comment", "tags": ["raw"]   -- one
} MODE MERGE ON id;"""
    )
    assert shop.tables[0].mode == Merge(("id",))
    assert shop.tables[0].options == {
        "dedup_order_by": ("at",),
        "only_newer": True,
        "null_time": "skip",
        "on_schema_change": "append_new_columns",
        "volatile": ("loaded_at",),
        "partition_by": ("a", "b"),
        "cluster_by": ("c",),
        "format": "parquet",
        "max_shrink": 0.1,
        "reset_allowed": False,
        "description": "it's -- not; a comment",
        "tags": ("raw",),
    }


def test_a_source_takes_its_key_cursor_and_start_from_its_params(read):
    source = read(
        """SOURCE s TYPE CSV PARAMS {
          "path": "x", "primary_key": ["a", "b"], "cursor_field": "at", "start_date": "2024-01-01"
        };"""
    ).sources["s"]
    assert source.params == {"path": "x"}
    assert (source.primary_key, source.cursor, source.start) == (("a", "b"), "at", "2024-01-01")


def test_kinds_are_in_lower_case_but_for_names_of_classes(read):
    shop = read('SOURCE a TYPE DELTA;\nSOURCE b FROM "JSON";\nSOURCE c FROM "com.shop.Feed";\nSOURCE d TYPE "kafka";')
    assert [source.kind for source in shop.sources.values()] == ["delta", "json", "com.shop.Feed", "kafka"]


def test_an_export_has_its_mode_and_a_schema(read):
    shop = read(
        """CREATE TABLE mart.daily AS SELECT 1 AS day;
EXPORT mart.daily TO "out" TYPE DELTA MODE MERGE ON day OPTIONS {"a": {"b": [1, null]}};
EXPORT WITH x AS (SELECT interval '1-2' year to month) SELECT * FROM x TO 'out/x' TYPE parquet MODE APPEND;
EXPORT (SELECT 'TO "y"' AS t) TO "out/z" TYPE csv;"""
    )
    assert [(export.table, export.mode) for export in shop.exports] == [
        ("mart.daily", Merge(("day",))),
        (None, Append()),
        (None, Replace()),
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
    assert [table.query.text for table in shop.tables] == [query, query]
    assert shop.tables[0].query.origin == Origin("shop.sql", 2, 3)


def test_lines_may_end_as_on_windows_and_begin_with_a_mark(folder):
    (folder / "shop.sql").write_bytes(b"\xef\xbb\xbfSET a = 1;\r\nCREATE TABLE t AS\r\nSELECT 1;\r\n")
    shop = read_pipeline(Path("shop.sql"))
    assert [statement.origin for statement in shop.statements] == [Origin("shop.sql", 1, 1), Origin("shop.sql", 2, 1)]


def test_an_empty_file_and_empty_statements_are_no_error(read):
    assert read("").statements == ()
    assert read("-- nothing\n;; /* more */ ;").statements == ()


def test_a_file_is_included_once_and_from_its_own_folder(read, folder):
    (folder / "parts").mkdir()
    (folder / "parts" / "a.sql").write_text('INCLUDE "b.sql"; SET from_a = 1;')
    (folder / "parts" / "b.sql").write_text('SOURCE s TYPE CSV PARAMS {"path": "${where}"};')
    shop = read('SET where = "x/y";\nINCLUDE "parts/a.sql";\nINCLUDE "parts/b.sql";\nLOAD t${from_a} FROM s;')
    assert [type(statement).__name__ for statement in shop.statements] == [
        *("SetVariable", "Include", "Include", "SourceStatement", "SetVariable", "Include", "Load")
    ]
    assert shop.sources["s"].params == {"path": "x/y"}
    assert shop.sources["s"].origin == Origin("parts/b.sql", 1, 1)
    assert shop.tables[0].table == "t1"


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
SET out = "${out|none}";
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
    assert read(BLOCKS, given={"a": a, "b": b, "c": c}).statements[-1].value == out


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
    assert [type(statement).__name__ for statement in shop.statements] == ["SourceStatement", "Load"]


def test_sources_may_stand_after_what_loads_them(read):
    assert read("LOAD t FROM s;\nSOURCE s TYPE CSV;").tables[0].source == "s"
