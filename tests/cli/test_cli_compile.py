"""`tidemill compile`: the statements of a first run and of the next, known without Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from pace import second

from tidemill.api.workspace import Workspace
from tidemill.model.cursor import cursor

PROJECT = 'name = "shop"\n[sources."t_project.source_table"]\ntype = "parquet"\npath = "data/source"\n'
MERGE = """{"materialization": "incremental", "incremental": {"strategy": "merge", "merge":
    {"unique_key": ["id", "region"], "time_column": "updated_at", "lookback": "3 hours"}}}"""
APPEND = """{"materialization": "incremental", "incremental": {"strategy": "append", "append":
    {"time_column": "created_at", "start_date": "2024-01-01", "lookback": "7 days"}}}"""
RELOAD = """{"materialization": "incremental", "incremental": {"strategy": "delete_insert", "delete_insert":
    {"where_condition": "updated_at >= @start_date", "time_column": "updated_at", "start_date": "@start_date"}}}"""
QUERY = "SELECT id, region, amount, updated_at\nFROM t_project.source_table\nWHERE active\n"
MOMENT = datetime(2024, 1, 31, 21, tzinfo=UTC)
ROWS = pa.table(
    {"id": [1], "region": ["eu"], "amount": [5], "updated_at": pa.array([MOMENT], pa.timestamp("us", "UTC"))}
)
WATERMARK = {"query": cursor("timestamp", "2024-01-31T21:00:00Z")}


def condition(literal: str) -> str:
    """The condition of RELOAD with a value; a row without a time matches it too, so that it is found."""
    given = f"(updated_at >= {literal})"
    return f"({given} OR ({given} IS NULL AND `updated_at` IS NULL))"


RUN_KEYS = ["run", "reason", "reads", "filter", "writes", "notes"]


@pytest.fixture
def model(folder: Path):
    """A project with one model: its query, and its metadata as JSON."""
    (folder / "tidemill.toml").write_text(PROJECT)
    (folder / "models" / "my_schema").mkdir(parents=True)

    def write(metadata: str, query: str = QUERY, name: str = "orders") -> None:
        (folder / "models" / "my_schema" / f"{name}.sql").write_text(query)
        (folder / "models" / "my_schema" / f"{name}.py").write_text(f"metadata = {metadata}\n")

    return write


@pytest.fixture
def pipeline(folder: Path):
    def write(text: str) -> None:
        (folder / "tidemill.toml").write_text('name = "shop"\n')
        (folder / "pipelines").mkdir()
        (folder / "pipelines" / "shop.sql").write_text(text)

    return write


@pytest.fixture
def runs(cli):
    """The runs of a table, as JSON has them."""

    def found(table: str = "my_schema.orders", *args: str) -> list[dict[str, object]]:
        result = cli("compile", table, *args, "--format", "json")
        assert (result.exit_code, result.stderr) == (0, "")
        return json.loads(result.stdout)["runs"]

    return found


def test_a_merge_is_a_script_of_sql_with_the_watermark_of_the_log(cli, model, make_table):
    model(MERGE)
    make_table("my_schema.orders", ROWS, progress=WATERMARK)
    result = cli("compile", "my_schema.orders")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == (
        "-- my_schema.orders · merge upsert · models/my_schema/orders.sql:1:1\n"
        "\n"
        "-- the first run: it reads everything\n"
        "SELECT id, region, amount, updated_at\nFROM t_project.source_table\nWHERE active;\n"
        "\n"
        "-- and with these rows as change, in one commit:\n"
        "CREATE TABLE my_schema.orders USING delta AS\nSELECT * FROM change;\n"
        "-- the table is there: a full refresh puts these rows in the place of those that it holds\n"
        "-- different rows with the same id, region are an error, and so is a NULL in a key\n"
        "\n"
        "-- the next run: since 2024-01-31 21:00:00 UTC, lookback 3 hours\n"
        "SELECT * FROM (\n"
        "SELECT id, region, amount, updated_at\nFROM t_project.source_table\nWHERE active\n"
        ")\n"
        "WHERE (`updated_at` >= TIMESTAMP '2024-01-31T18:00:00.000000Z' OR `updated_at` IS NULL);\n"
        "\n"
        "-- and with these rows as change, in one commit:\n"
        "MERGE INTO my_schema.orders AS held\n"
        "USING change AS coming\n"
        "ON held.`id` = coming.`id` AND held.`region` = coming.`region`\n"
        "WHEN MATCHED AND NOT (\n"
        "  held.`amount` <=> coming.`amount` AND\n"
        "  held.`updated_at` <=> coming.`updated_at`\n"
        ") THEN UPDATE SET *\n"
        "WHEN NOT MATCHED THEN INSERT *;\n"
        "-- different rows with the same id, region are an error, and so is a NULL in a key\n"
        "-- files that cannot hold a key of the change are not read; new keys alone are appended\n"
    )
    assert cli("compile", "my_schema.orders", "--quiet").stdout == ""


def test_json_has_the_same_with_stable_keys(cli, model, make_table):
    model(MERGE)
    make_table("my_schema.orders", ROWS, progress=WATERMARK)
    found = json.loads(cli("compile", "my_schema.orders", "--format", "json").stdout)
    assert list(found) == ["project", "table", "strategy", "origin", "runs"]
    assert [list(run) for run in found["runs"]] == [RUN_KEYS, RUN_KEYS]
    first, later = found["runs"]
    assert (first["run"], first["filter"]) == ("first", None)
    assert later["run"] == "next"
    assert later["filter"] == "(`updated_at` >= TIMESTAMP '2024-01-31T18:00:00.000000Z' OR `updated_at` IS NULL)"


def test_before_the_first_run_a_placeholder_stands_for_the_watermark(runs, model):
    model(MERGE)
    _, later = runs()
    assert later["reason"] == "since <watermark>, lookback 3 hours"
    assert later["filter"] == "(`updated_at` >= <watermark> - INTERVAL 3 HOURS OR `updated_at` IS NULL)"
    assert later["notes"][0] == (
        "<watermark> is the highest updated_at that is committed, and the table is not made yet"
    )


def test_an_append_bounds_both_runs_by_its_start_and_looks_at_the_window_of_the_table(runs, model):
    model(APPEND, "SELECT id, created_at FROM t_project.source_table")
    first, later = runs()
    taken = "the type of created_at is not known yet: its start, 2024-01-01, is treated as a date"
    assert (first["reason"], first["filter"]) == (
        "it reads from its start on",
        "(`created_at` >= DATE '2024-01-01' OR `created_at` IS NULL)",
    )
    assert first["notes"] == [taken]
    window = "(`created_at` >= greatest(DATE '2024-01-01', <watermark> - INTERVAL 7 DAYS) OR `created_at` IS NULL)"
    assert later["filter"] == window
    assert later["writes"] == (
        f"INSERT INTO my_schema.orders\nSELECT * FROM change\nEXCEPT ALL\nSELECT * FROM my_schema.orders WHERE {window}"
    )
    assert later["notes"][0] == taken


def test_the_type_of_the_time_column_is_that_of_the_log(runs, model, make_table):
    model(APPEND, "SELECT id, created_at FROM t_project.source_table")
    rows = pa.table({"id": [1], "created_at": pa.array([MOMENT], pa.timestamp("us", "UTC"))})
    early = {"query": cursor("timestamp", "2024-01-02T00:00:00Z")}
    make_table("my_schema.orders", rows, progress=early, sql_hash=Workspace.load().tables[0].sql_hash)
    first, later = runs()
    bound = "(`created_at` >= TIMESTAMP '2024-01-01T00:00:00.000000Z' OR `created_at` IS NULL)"
    assert (first["filter"], later["filter"]) == (bound, bound), "the start is later than the watermark minus 7 days"


@pytest.mark.parametrize(
    ("start", "literal"),
    [
        ("2024-01-01", "DATE '2024-01-01'"),
        ("2024-01-01T10:00:00Z", "TIMESTAMP '2024-01-01T10:00:00.000000Z'"),
        ("20240101", "20240101"),
        ("12.50", "12.50BD"),
    ],
)
def test_else_it_is_what_the_declared_start_looks_like(runs, model, start: str, literal: str):
    metadata = APPEND.replace("2024-01-01", start).replace(', "lookback": "7 days"', "")
    model(metadata, "SELECT * FROM t_project.source_table")
    assert runs()[0]["filter"] == f"(`created_at` >= {literal} OR `created_at` IS NULL)"


def test_the_current_date_is_that_of_the_run(runs, model):
    model(APPEND.replace("2024-01-01", "CURRENT_DATE"), "SELECT * FROM t_project.source_table")
    assert runs()[0]["filter"] == f"(`created_at` >= DATE '{datetime.now(UTC).date()}' OR `created_at` IS NULL)"


def test_a_delete_insert_has_one_predicate_with_the_value_of_its_variable(runs, model, make_table):
    model(RELOAD)
    make_table("my_schema.orders", ROWS, progress=WATERMARK)
    first, later = runs("my_schema.orders", "--var", "start_date=2024-01-20")
    window = "(`updated_at` >= TIMESTAMP '2024-01-20T00:00:00.000000Z' OR `updated_at` IS NULL)"
    assert (first["filter"], first["reason"]) == (None, "it reads everything")
    assert later["reason"] == "since 2024-01-20 00:00:00 UTC (from @start_date)"
    matched = condition("DATE '2024-01-20'")
    assert later["filter"] == f"{window}\n  AND {matched}"
    assert later["writes"] == (
        f"INSERT INTO my_schema.orders REPLACE WHERE {matched} AND ({window})\nSELECT * FROM change"
    )


def test_the_variable_at_which_runs_start_stands_for_the_start_of_the_window(runs, model, make_table):
    model(RELOAD.replace("start_date", "since").replace('"since":', '"start_date":'))
    make_table("my_schema.orders", ROWS, progress=WATERMARK)
    _, later = runs("my_schema.orders", "--var", "since=2024-01-20T10:00:00Z")
    literal = "TIMESTAMP '2024-01-20T10:00:00.000000Z'"
    assert later["filter"] == f"(`updated_at` >= {literal} OR `updated_at` IS NULL)\n  AND {condition(literal)}"


def test_a_variable_that_is_not_given_is_a_placeholder_and_a_note_says_how_to_give_it(runs, model):
    model(RELOAD)
    first, later = runs("my_schema.orders", "--var", "strat_date=2024-01-20")
    assert first["notes"] == []
    assert later["filter"] == (
        f"(`updated_at` >= <start_date> OR `updated_at` IS NULL)\n  AND {condition('<start_date>')}"
    )
    assert later["notes"][0] == (
        "my_schema.orders needs @start_date. strat_date is given: did you mean start_date? Give it on the command "
        'line: tidemill run -s my_schema.orders --vars \'{"start_date": "2024-02-01"}\''
    )


def test_a_value_with_a_quote_and_a_semicolon_stays_a_value(runs, model):
    model("{}", "SELECT id FROM t_project.source_table WHERE region = @region")
    first, later = runs("my_schema.orders", "--vars", json.dumps({"region": "x'; DROP TABLE t; --"}))
    expected = "SELECT id FROM t_project.source_table WHERE region = 'x\\'; DROP TABLE t; --'"
    assert (first["reads"], later["reads"]) == (expected, expected)
    assert later["writes"] == "INSERT OVERWRITE my_schema.orders\nSELECT * FROM change"


def test_secrets_are_masked(runs, cli, model, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SHOP_KEY", "swordfish-7h")
    model(MERGE, "SELECT *, '${env:SHOP_KEY}' AS key, '${SHOP_KEY}' AS again FROM t_project.source_table")
    assert runs()[0]["reads"] == "SELECT *, '***' AS key, '***' AS again FROM t_project.source_table"
    assert "swordfish" not in cli("compile", "my_schema.orders").stdout


def test_a_view_is_its_query(cli, model):
    model('{"materialization": "view"}', "SELECT id FROM t_project.source_table")
    assert cli("compile", "my_schema.orders").stdout == (
        "-- my_schema.orders · view · models/my_schema/orders.sql:1:1\n"
        "\n"
        "-- whenever it is read: a view keeps no rows, so its query runs then\n"
        "SELECT id FROM t_project.source_table;\n"
    )


def test_a_table_of_a_pipeline_reads_its_source(runs, pipeline, make_table):
    pipeline(
        'SOURCE orders TYPE CSV PARAMS { "path": "o.csv" } INCREMENTAL BY updated_at LOOKBACK 2 HOURS;\n'
        "LOAD raw_orders FROM orders MODE MERGE ON id;\n"
    )
    make_table("main.raw_orders", ROWS, progress={"shop.orders": WATERMARK["query"]})
    _, later = runs("raw_orders")
    assert later["reads"] == (
        "SELECT * FROM (\nSELECT * FROM orders\n)\n"
        "WHERE (`updated_at` >= TIMESTAMP '2024-01-31T19:00:00.000000Z' OR `updated_at` IS NULL)"
    )
    assert later["writes"].startswith("MERGE INTO main.raw_orders AS held\n")
    assert later["notes"][:2] == [
        "orders is the source of that name, CSV",
        "of rows with the same id the newest by updated_at enters; different ones are an error",
    ]


def test_a_materialized_view_is_its_query_and_what_an_incremental_refresh_does_is_said(runs, pipeline):
    views = [
        f'CREATE MATERIALIZED VIEW by_{refresh} OPTIONS {{"refresh": "{refresh}"}} AS SELECT id FROM raw_orders;'
        for refresh in ("auto", "incremental", "full")
    ]
    pipeline("\n".join(['SOURCE orders TYPE CSV PARAMS { "path": "o.csv" }; LOAD raw_orders FROM orders;', *views]))
    follows = "computes only the rows that depend on what changed: tidemill explain main.{0} shows how"
    by_logs = "what has changed in its inputs is read, where their logs say"
    whole = "everything is read, and only what differs is written"
    said = {
        "by_auto": (by_logs, "this is a full refresh; an incremental one " + follows),
        "by_incremental": (by_logs, "an incremental refresh " + follows),
        "by_full": (whole, "only if the rows are not those that it holds"),
    }
    for name, (reason, note) in said.items():
        _, later = runs(name)
        assert (later["reason"], later["notes"][0]) == (reason, note.format(name))
        assert later["writes"] == f"INSERT OVERWRITE main.{name}\nSELECT * FROM change"


def test_a_query_that_takes_charge_of_its_window_is_given_its_bounds_and_no_filter(runs, pipeline, make_table):
    pipeline(
        "CREATE TABLE hourly MODE INCREMENTAL BY hour LOOKBACK 1 HOUR AS\n"
        "SELECT date_trunc('HOUR', at) AS hour, count(*) AS n FROM main.events WHERE at >= @start_dt GROUP BY 1;\n"
    )
    make_table("main.events", ROWS)
    first, later = runs("hourly")
    asked = "SELECT date_trunc('HOUR', at) AS hour, count(*) AS n FROM main.events WHERE at >= {} GROUP BY 1"
    assert first["reads"] == asked.format("TIMESTAMP '1900-01-01T00:00:00.000000Z'")
    assert later["reads"] == asked.format("<watermark> - INTERVAL 1 HOUR")
    assert later["notes"][-1] == "the query bounds its rows itself: one outside of the predicate is an error"
    hours = pa.table({"hour": pa.array([MOMENT], pa.timestamp("us", "UTC")), "n": [1]})
    make_table("main.hourly", hours, progress={"shop": WATERMARK["query"]})
    _, later = runs("hourly")
    assert later["reads"] == asked.format("TIMESTAMP '2024-01-31T20:00:00.000000Z'")
    assert later["filter"] is None
    assert later["writes"] == (
        "INSERT INTO main.hourly REPLACE WHERE "
        "(`hour` >= TIMESTAMP '2024-01-31T20:00:00.000000Z' OR `hour` IS NULL)\nSELECT * FROM change"
    )


def test_a_table_that_others_made_or_took_rows_from_is_asked_by_the_run(runs, model, make_table):
    model(MERGE)
    adopted = Path("warehouse/my_schema/orders")
    deltalake.write_deltalake(adopted, ROWS)
    _, later = runs()
    assert later["filter"].startswith("(`updated_at` >= <watermark> - INTERVAL 3 HOURS")
    holds = "<watermark> is the highest updated_at that the table holds: "
    assert later["notes"][0] == f"{holds}the table was made by others, so the run asks its rows"
    model(MERGE, name="versions_with_removals")
    versions_with_removals = make_table("my_schema.versions_with_removals", ROWS, progress=WATERMARK)
    deltalake.DeltaTable(versions_with_removals).delete("id = 1")
    _, later = runs("my_schema.versions_with_removals")
    assert later["notes"][0] == f"{holds}somebody else removed rows, so the run asks its rows"


def test_an_append_whose_query_changed_starts_after_its_watermark(runs, model, make_table):
    model(APPEND, "SELECT id, created_at FROM t_project.source_table")
    rows = pa.table({"id": [1], "created_at": pa.array([MOMENT], pa.timestamp("us", "UTC"))})
    make_table("my_schema.orders", rows, progress=WATERMARK, sql_hash="0123456789abcdef")
    _, later = runs()
    assert later["filter"] == "(`created_at` > TIMESTAMP '2024-01-31T21:00:00.000000Z' OR `created_at` IS NULL)"
    assert later["notes"][0].startswith("its query or its columns changed: rows up to 2024-01-31 21:00:00 UTC stay")


def test_a_misspelled_table_is_an_error_with_the_right_one_and_a_target_is_another_project(cli, model, folder: Path):
    model(MERGE)
    wrong = cli("compile", "my_schema.ordres")
    assert (wrong.exit_code, wrong.stdout, wrong.stderr) == (
        2,
        "",
        "error[table.unknown] No table my_schema.ordres is declared.\n  Did you mean my_schema.orders?\n",
    )
    assert cli("compile", "orders").stderr.endswith("  Did you mean my_schema.orders?\n")
    lone = folder / "lone.sql"
    lone.write_text("CREATE TABLE one AS SELECT 1 AS id;\n")
    assert cli("compile", "one", lone).stdout.startswith("-- one · replace · ")


def test_no_spark_is_imported_and_it_takes_less_than_a_second_of_work(model):
    model(MERGE)
    code = (
        "import resource, sys; from tidemill.cli.main import tidemill\n"
        "try: tidemill.main(['compile', 'my_schema.orders'])\n"
        "finally:\n"
        "    used = resource.getrusage(resource.RUSAGE_SELF)\n"
        "    found = sorted({'pyspark', 'py4j', 'pandas', 'rich'} & set(sys.modules))\n"
        f"    print(used.ru_utime + used.ru_stime < {second()}, found, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "True []\n"
