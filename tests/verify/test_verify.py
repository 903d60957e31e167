"""`verify` finds every row by which a table is not what one full run would give, and nothing else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cli.conftest import Cli
    from pipelines.conftest import Shop

    from tidemill import Verified

COLUMNS = "id at v"
PIPELINE = """
SOURCE orders TYPE CSV PARAMS { "path": "data/orders/*.csv" } INCREMENTAL BY at LOOKBACK 2 HOURS;
SOURCE events TYPE CSV PARAMS { "path": "data/orders/*.csv", "start_date": "2023-12-31" }
INCREMENTAL BY at LOOKBACK 2 HOURS;
SOURCE names TYPE CSV PARAMS { "path": "data/names.csv" };
LOAD merged FROM orders MODE MERGE ON id;
LOAD appended FROM events MODE APPEND;
LOAD kept FROM names MODE MERGE ON id;
LOAD synced FROM names MODE FULL_MERGE ON id;
CREATE TABLE hourly MODE INCREMENTAL BY hour LOOKBACK 2 HOURS AS
SELECT date_trunc('HOUR', at) AS hour, count(*) AS n, sum(cast(v AS DOUBLE)) AS v FROM appended
WHERE at >= @start_dt AND at < @end_dt GROUP BY 1;
CREATE TABLE daily MODE INCREMENTAL_MERGE ON day AS
SELECT date(at) AS day, count(*) AS n, current_timestamp() AS made_at FROM merged GROUP BY 1;
"""


def verified(shop: Shop, *names: str) -> dict[str, Verified]:
    return {each.table.removeprefix("main."): each for each in shop.load().verify(names, shop.spark)}


def counts(found: Verified) -> tuple[int, int, int, int]:
    return found.missing.count, found.extra.count, found.different.count, found.kept.count


def test_tables_equal_a_full_run_until_rows_come_late_are_corrected_or_go_and_then_each_is_reported(shop: Shop) -> None:
    shop.says(PIPELINE).data("names.csv", "id name", (1, "a"), (2, None), (3, "c"))
    shop.data("orders/1.csv", COLUMNS, (1, "2024-01-01 10:00:00", 1), (2, "2024-01-02 10:00:00", 2))
    nothing = verified(shop)
    assert [(each.outcome, each.equal, each.ok) for each in nothing.values()] == [("not there yet", None, True)] * 6

    shop.run()
    first = verified(shop)
    assert [name for name, each in first.items() if not each.equal] == []
    assert {name: each.rows for name, each in first.items()} == {
        "merged": 2, "appended": 2, "kept": 3, "synced": 3, "hourly": 2, "daily": 2
    }  # fmt: skip
    assert first["daily"].notes == ("not compared, as every run gives other values: made_at",)
    assert first["daily"].against == "its query"
    assert first["hourly"].notes == ("floats are the same within 1e-09 of their size",)

    shop.data("names.csv", "id name", (2, "b"), (3, "c"))
    shop.data("orders/1.csv", COLUMNS, (1, "2024-01-01 10:00:00", 9), (2, "2024-01-02 10:00:00", 2))
    shop.data("orders/2.csv", COLUMNS, (3, "2024-01-01 00:00:00", 3), (4, "2024-01-02 09:00:00", 4))
    behind = verified(shop, "merged", "main.Synced")
    assert {name: counts(each) for name, each in behind.items()} == {
        "merged": (2, 0, 1, 0),
        "synced": (0, 1, 1, 0),
    }
    assert (behind["merged"].missing.late, behind["merged"].different.late) == (1, 1)
    assert [sample.row["id"] for sample in behind["merged"].missing.samples] == ["3", "4"]
    (different,) = behind["merged"].different.samples
    assert (different.row, different.instead) == ({"id": "1", "v": "1"}, {"v": "9"})

    shop.run()
    after = verified(shop, "merged", "appended", "kept", "synced")
    assert {name: counts(each) for name, each in after.items()} == {
        "merged": (1, 0, 1, 0),
        "appended": (2, 1, 0, 0),
        "kept": (0, 0, 0, 1),
        "synced": (0, 0, 0, 0),
    }
    kept = after["kept"]
    assert (kept.outcome, kept.equal, kept.ok, kept.rows, kept.total) == ("kept", False, True, 2, 3), "of a LOAD"
    assert kept.remedies == ("1 row kept: FULL_MERGE ON id removes them",)
    late = "what a run reads (at from 2024-01-02 08:00:00 UTC on)"
    came_late = "a longer lookback takes such rows in time, a backfill (tidemill run --start) takes these"
    assert after["merged"].remedies == (
        f"1 row came later than the lookback, below {late}: {came_late}",
        f"1 row changed without a newer at, below {late}: a backfill (tidemill run --start) writes them again",
    )
    assert "corrected there (then both versions are here)" in after["appended"].remedies[-1]


def test_doubled_and_foreign_rows_are_extra_and_floats_differ_only_beyond_the_tolerance(shop: Shop) -> None:
    shop.says(
        """
        SOURCE s TYPE PARQUET PARAMS { "path": "data/s" };
        LOAD plain FROM s;
        LOAD keyed FROM s MODE MERGE ON id;
        """
    )
    columns = "id INT, f DOUBLE, m MAP<STRING,DOUBLE>"
    nan = float("nan")
    rows = [(1, 0.3, {"a": 1.0, "b": 0.3}), (2, nan, None), (3, None, {"a": nan}), (4, 5.0, {}), (5, 100.0, {})]
    source = str(shop.folder / "data" / "s")
    shop.spark.createDataFrame(rows, columns).write.parquet(source)
    shop.run()
    assert all(each.equal for each in verified(shop).values())
    noisy = [(1, 0.1 + 0.2, {"b": 0.1 + 0.2, "a": 1.0}), *rows[1:3], (4, float("inf"), {}), (5, 100.001, {})]
    shop.spark.createDataFrame(noisy, columns).write.mode("overwrite").parquet(source)
    for table in ("plain", "keyed"):
        again = shop.spark.createDataFrame([rows[0]], columns)
        again.write.format("delta").mode("append").save(str(shop.path(table)))
    found = verified(shop)
    assert {name: counts(each) for name, each in found.items()} == {"plain": (2, 3, 0, 0), "keyed": (0, 1, 2, 0)}
    assert found["keyed"].extra.copies == 1
    assert [(each.row["id"], each.instead["f"]) for each in found["keyed"].different.samples] == [
        ("4", "Infinity"),
        ("5", "100.001"),
    ]


def test_the_command_shows_what_is_equal_what_differs_and_what_cannot_be_read(
    shop: Shop, cli: Cli, monkeypatch
) -> None:
    monkeypatch.setenv("WHO", "hunter2secret")
    shop.says(
        """
        SOURCE orders TYPE CSV PARAMS { "path": "data/orders.csv" };
        SOURCE gone TYPE CSV PARAMS { "path": "data/gone.csv" };
        LOAD raw_orders FROM orders MODE MERGE ON id;
        LOAD raw_gone FROM gone;
        CREATE TABLE daily AS SELECT id, v FROM raw_orders WHERE v <> '${env:WHO}';
        """
    ).data("orders.csv", "id v", (1, "x"), (2, "y"))
    shop.data("gone.csv", "id", (1,))
    shop.run()
    (shop.folder / "data/gone.csv").unlink()
    shop.data("orders.csv", "id v", (1, "hunter2secret"), (3, "z"))
    text = cli("verify", shop.file)
    assert text.exit_code == 1
    lines = text.output.splitlines()
    assert lines[:4] == [
        "  ✗ raw_orders differs from a full load: 1 row missing, 1 different, 1 kept",
        "    missing  id=3 v=z",
        "    different  id=1: v x → ***",
        "    kept  id=2 v=y",
    ]
    assert "  ✓ daily equals its query (2 rows)" in lines
    assert any(line.startswith("  ✗ raw_gone  error[") for line in lines)
    document = json.loads(cli("verify", "daily", "--target", shop.file, "--format", "json").output)
    assert [(each["table"], each["status"], each["rows"]) for each in document["tables"]] == [("daily", "equal", 2)]
    hushed = cli("verify", shop.file, "--quiet")
    assert (hushed.exit_code, hushed.stdout) == (1, "")
    assert (
        "  ✗ raw_orders differs from a full load: 1 row missing, 1 different, 1 kept\n    missing  id=3 v=z\n"
        in hushed.stderr
    )
    assert "daily" not in hushed.stderr, "it is equal"
    wrong = cli("verify", "dayly", shop.file)
    assert (wrong.exit_code, "Did you mean daily?" in wrong.output) == (2, True)


GROUPED = """
SOURCE orders TYPE CSV PARAMS {{ "path": "data/orders.csv" }};
LOAD raw FROM orders MODE MERGE ON id;
CREATE TABLE daily MODE {mode} ON day {options} AS SELECT day, count(*) AS n FROM raw GROUP BY day;
"""


def test_rows_that_a_query_no_longer_returns_fail_verify_unless_they_are_intended_or_deleted(
    shop: Shop, cli: Cli
) -> None:
    def command(*flags: str, mode: str = "MERGE", options: str = "") -> tuple[int, str]:
        shop.says(GROUPED.format(mode=mode, options=options))
        found = cli("verify", "--target", shop.file, *flags)
        return found.exit_code, found.output

    shop.says(GROUPED.format(mode="MERGE", options=""))
    shop.data("orders.csv", "id day", (1, "mon"), (2, "mon"), (3, "tue"))
    shop.run()
    shop.data("orders.csv", "id day", (1, "wed"), (2, "wed"))
    shop.run()
    code, text = command()
    assert (code, text.splitlines()) == (
        1,
        [
            "  ! raw equals a full load (2 rows) but for 1 row that the source no longer returns · 3 rows in all",
            "    kept  id=3 day=tue",
            "    1 row kept: FULL_MERGE ON id removes them",
            "  ! daily equals its query (2 rows) but for 1 row that the query no longer returns · 3 rows in all",
            "    kept  day=mon n=2",
            '    1 row kept: FULL_MERGE ON day removes them; kept_rows = "intended" accepts them',
        ],
    )
    code, text = command("--format", "json")
    document = json.loads(text)
    keys = ("table", "status", "equal", "ok", "rows", "total", "missing", "extra", "different", "kept", "ignored")
    assert (code, document["ok"]) == (1, False)
    assert [tuple(each[key] for key in keys) for each in document["tables"]] == [
        ("raw", "kept", False, True, 2, 3, 0, 0, 0, 1, 0),
        ("daily", "kept", False, False, 2, 3, 0, 0, 0, 1, 0),
    ]
    code, text = command(options='OPTIONS { "kept_rows": "intended" }')
    assert (code, text.splitlines()[-2:]) == (
        0,
        [
            "  ! daily equals its query (2 rows) but for 1 row that the query no longer returns · 3 rows in all",
            "    kept  day=mon n=2",
        ],
    )
    assert command("daily", mode="FULL_MERGE")[1].startswith("  ✗ daily differs from its query: 1 row extra\n")
    shop.run()
    assert command("daily", mode="FULL_MERGE") == (0, "  ✓ daily equals its query (2 rows)\n")
    assert shop.rows("daily") == [("tue", 1), ("wed", 2)]
