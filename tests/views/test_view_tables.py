"""The table of a view: changed by others, made from a plain table, restored; and what makes it be computed whole."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from deltalake import write_deltalake

if TYPE_CHECKING:
    from views.conftest import Lake

AMOUNTS = "id long, k long, v long"
SUMS = "SELECT k, count(*) AS n, sum(v) AS v FROM amounts GROUP BY k"
GREAT = "SELECT v FROM amounts WHERE v > 1"


def amounts(lake: Lake, name: str = "amounts") -> None:
    lake.table(name, AMOUNTS, *((n, n % 4, n) for n in range(12)), (12, None, 12), (13, 1, None), (13, 1, None))


@pytest.mark.usefixtures("_small_is_large")
def test_rows_that_others_change_in_a_view_are_right_again_after_the_next_run(lake: Lake) -> None:
    amounts(lake)
    lake.view("sums", SUMS, "")
    lake.view("great", GREAT, "")
    lake.run()

    lake.sql("DELETE FROM {sums} WHERE k = 1")
    lake.sql("DELETE FROM {great} WHERE v = 2")
    lake.append("amounts", (20, 2, 20))
    steps = lake.run()
    lake.check(steps["sums"], "incremental")
    assert "somebody else changed" in steps["sums"].refresh["reason"]
    lake.check(steps["great"], "full")
    assert steps["great"].refresh["reason"].startswith("full refresh: somebody else changed its rows")

    lake.delta("sums").update(predicate="k = 2", updates={"n": "99", "k": "77"})
    lake.sql("INSERT INTO {sums} VALUES (NULL, 1, 1), (5, 5, 5), (0, 0, 0)")
    lake.sql("INSERT INTO {great} VALUES (1000), (NULL)")
    steps = lake.run()
    lake.check_all(steps, None)
    assert {name: step.status for name, step in steps.items()} == {"sums": "changed", "great": "changed"}
    lake.check_again()


@pytest.mark.usefixtures("_small_is_large")
def test_a_table_becomes_a_view_and_a_table_again_and_loses_nothing(lake: Lake) -> None:
    amounts(lake)
    lake.table_of_query("sums", SUMS)
    lake.run()
    before, version = lake.held("sums"), lake.version("sums")

    step = lake.run('[flags]\ntable_refresh = "auto"\n')["sums"]
    lake.check(step, "full")
    assert "its declaration changed" in step.refresh["reason"]
    assert (step.inserted, step.updated, step.deleted) == (0, 0, 0)
    lake.view("sums", SUMS, "")
    lake.check_again()

    lake.delta("amounts").delete("k = 3")
    lake.check(lake.run()["sums"], "incremental")

    lake.table_of_query("sums", SUMS)
    lake.append("amounts", (30, 3, 3))
    step = lake.run()["sums"]
    assert (step.refresh, lake.held("sums")) == (None, lake.right_now("sums"))
    assert lake.held("sums", version) == before


@pytest.mark.usefixtures("_small_is_large")
def test_a_restored_view_has_the_versions_of_its_inputs_from_then_and_catches_up(lake: Lake) -> None:
    amounts(lake)
    lake.view("sums", SUMS)
    lake.run()
    recorded = lake.recorded("sums")
    lake.append("amounts", (20, 2, 20), (21, 9, 21))
    lake.delta("amounts").delete("k = 1")
    lake.run()

    lake.project().restore("sums", to=0, spark=lake.spark)
    assert lake.recorded("sums") == recorded
    assert lake.held("sums") == lake.right("sums")
    lake.append("amounts", (22, 1, 22))
    step = lake.run()["sums"]
    lake.check(step, "incremental")
    assert lake.recorded("sums") == {"amounts": lake.version("amounts")}
    lake.check_again()

    assert lake.run(full_refresh=True)["sums"].status != "failed"
    assert lake.held("sums") == lake.right("sums")
    lake.delta("amounts").delete("k = 3")
    lake.check(lake.run()["sums"], "incremental")


@pytest.mark.usefixtures("_small_is_large")
def test_a_full_refresh_names_its_reason(lake: Lake) -> None:
    for name in ("amounts", "again", "vacuumed", "retyped"):
        amounts(lake, name)
    lake.model("looked_at", "SELECT k, v FROM amounts WHERE v > 1")
    lake.view("by_query", SUMS, "")
    lake.view("by_view", "SELECT k, sum(v) AS v FROM looked_at GROUP BY k", "")
    for name in ("again", "vacuumed", "retyped"):
        lake.view(f"of_{name}", f"SELECT k, sum(v) AS v FROM {name} GROUP BY k", "")
    lake.run()

    lake.view("by_query", SUMS.replace("count(*)", "count(v)"), "")
    lake.model("looked_at", "SELECT k, v FROM amounts WHERE v > 2")
    lake.append("amounts", (30, 1, 30))
    shutil.rmtree(lake.path("again"))
    amounts(lake, "again")
    lake.append("again", (31, 1, 31))
    lake.delta("vacuumed").delete("k = 2")
    lake.delta("vacuumed").vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    lake.tables["retyped"] = "id long, k long, v int"
    rows = lake.arrow("retyped", [(1, 1, 1)])
    write_deltalake(lake.path("retyped"), rows, mode="overwrite", schema_mode="overwrite")

    steps = lake.run()
    steps = {name: steps[name] for name in lake.queries}
    for step in steps.values():
        lake.check(step, "full")
    reasons = {name: step.refresh["reason"] for name, step in steps.items()}
    for name, why in {
        "by_query": "its query changed",
        "by_view": "looked_at, which it reads, changed",
        "of_again": "again: ",
        "of_vacuumed": "vacuumed: ",
        "of_retyped": "retyped: ",
    }.items():
        assert why in reasons[name], reasons
    lake.check_again()


@pytest.mark.usefixtures("_small_is_large")
def test_a_column_that_an_input_gains_is_a_full_refresh_where_the_query_takes_all_columns(lake: Lake) -> None:
    amounts(lake)
    lake.view("everything", "SELECT * FROM amounts", "")
    lake.view("sums", SUMS, "")
    lake.run()

    lake.sql("ALTER TABLE {amounts} ADD COLUMNS (extra STRING)")
    lake.tables["amounts"] += ", extra string"
    lake.append("amounts", (40, 2, 40, "new"))
    steps = lake.run()
    assert steps["everything"].refresh["mode"] == "full"
    assert "gives other columns" in steps["everything"].refresh["reason"]
    assert (lake.held("everything"), lake.held("sums")) == (lake.right_now("everything"), lake.right_now("sums"))
    assert steps["sums"].refresh["mode"] == "incremental"
    lake.check_again()
