"""Names in Spark's catalog belong to one run: two projects of one process never see each other's rows."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from delta_rows import delta_rows

from tidemill.api.workspace import Workspace
from tidemill.execution.catalog import Names, NameUser

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tidemill.execution import RunOutcome

PIPELINE = """
SOURCE s TYPE CSV PARAMS { "path": "data/s.csv" };
LOAD t FROM s MODE REPLACE;
CREATE TABLE copied AS SELECT t.id FROM dev.t;
"""
SEEN = """
import tidemill

@tidemill.table(strategy="replace", reads=["dev.t"], max_shrink=1)
def seen(run):
    found = spark.table("dev.t")
    assert sorted(found.collect()) == sorted(run.read("dev.t").collect())
    FAILS
    return found
"""


def project(folder: Path, ids: list[int], fails: str = "") -> Workspace:
    files = {
        "tidemill.toml": '[warehouse]\nschema = "dev"\n',
        "data/s.csv": "\n".join(["id", *map(str, ids)]),
        "pipelines/p.sql": PIPELINE,
        "models/dev/seen.py": SEEN.replace("FAILS", fails),
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return Workspace.load(folder)


def rows(folder: Path) -> dict[str, list[int]]:
    return {name: sorted(row[0] for row in delta_rows(folder / "warehouse/dev" / name)) for name in ("seen", "copied")}


def errors(outcome: RunOutcome) -> dict[str, str]:
    return {each.name: each.error.code for each in outcome.outcomes if each.error}


@pytest.fixture
def taken(spark: SparkSession) -> Iterator[None]:
    spark.sql("CREATE SCHEMA IF NOT EXISTS dev")
    spark.sql("CREATE TABLE dev.t AS SELECT 5 AS id")
    yield
    spark.sql("DROP TABLE dev.t")


def test_one_project_after_the_other_and_both_at_once_see_their_own_rows(spark: SparkSession, tmp_path: Path) -> None:
    one, two = project(tmp_path / "one", [1, 2, 5]), project(tmp_path / "two", [77])
    assert errors(one.run(spark)) == {}
    assert not spark.catalog.tableExists("dev.t")
    assert errors(two.run(spark)) == {}
    assert rows(tmp_path / "one") == {"seen": [1, 2, 5], "copied": [1, 2, 5]}
    assert rows(tmp_path / "two") == {"seen": [77], "copied": [77]}
    with ThreadPoolExecutor() as pool:
        again = (
            project(tmp_path / "one", [1, 2, 5, 6]),
            project(tmp_path / "two", [78]),
            project(tmp_path / "two", [78]),
        )
        assert [errors(outcome) for outcome in pool.map(lambda each: each.run(spark), again)] == [{}, {}, {}]
    assert rows(tmp_path / "one") == {"seen": [1, 2, 5, 6], "copied": [1, 2, 5, 6]}
    assert rows(tmp_path / "two") == {"seen": [78], "copied": [78]}
    assert not spark.catalog.tableExists("dev.t")


def test_names_are_removed_when_a_function_fails(spark: SparkSession, tmp_path: Path) -> None:
    assert errors(project(tmp_path, [1], fails="raise ValueError").run(spark)) == {"dev.seen": "functions.failed"}
    assert not spark.catalog.tableExists("dev.t")


def test_a_table_of_the_users_own_keeps_its_name(spark: SparkSession, tmp_path: Path, taken: None) -> None:  # noqa: ARG001
    outcome = project(tmp_path, [1, 2]).run(spark)
    (error,) = [each.error for each in outcome.outcomes if each.error]
    assert str(error).startswith("[table.name_taken] The Spark session has a table or view t of its own")
    assert [row.id for row in spark.table("dev.t").collect()] == [5]
    copied = sorted(row[0] for row in delta_rows(tmp_path / "warehouse/dev/copied"))
    assert copied == [1, 2]  # a query reads the project's table, whatever the session calls so


def test_a_run_inside_of_a_function_may_share_names_and_is_an_error_where_it_would_wait_for_ever(
    spark: SparkSession, tmp_path: Path
) -> None:
    inner = "import tidemill as t; done = t.Project.load({!r}).run(spark=spark); assert done.ok, done.steps[-1].error"
    project(tmp_path / "two", [77])
    outcome = project(tmp_path / "one", [1], fails=inner.format(str(tmp_path / "two"))).run(spark)
    (error,) = [each.error for each in outcome.outcomes if each.error]
    why = "The run whose function started this one has other tables called copied, seen, t: each would wait for the"
    assert f"[table.name_in_use] {why} other." in str(error)
    assert not spark.catalog.tableExists("dev.t")
    same = inner.format(str(tmp_path / "two")).replace(".run(", '.run(select=["dev.copied"], ')
    assert errors(project(tmp_path / "two", [78], fails=same).run(spark)) == {}
    assert rows(tmp_path / "two") == {"seen": [78], "copied": [78]}


def test_a_name_is_shared_by_runs_that_mean_the_same_and_waited_for_by_others() -> None:
    names, removed, other = Names(), [], threading.Event()
    one, same, two = NameUser(), NameUser(), NameUser()
    names.reserve({"dev.t": "/one", "dev.u": "/one/u"}, one)
    names.reserve({"dev.t": "/one"}, same)
    names.give("dev.t", lambda: lambda: removed.append("dev.t"))
    names.give("dev.t", lambda: pytest.fail("it is given once"))

    def reserve() -> None:
        names.reserve({"dev.u": "/two/u", "dev.t": "/two"}, two)
        other.set()

    waiting = threading.Thread(target=reserve, daemon=True)
    waiting.start()
    names.release(["dev.t", "dev.u"], one)
    assert (removed, other.wait(0.1)) == ([], False)
    names.release(["dev.t"], same)
    assert (removed, other.wait(10)) == (["dev.t"], True)
