"""`refresh_check`: an incremental refresh that would leave other rows than the whole query gives is not committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from tidemill.changes.net import net_changes
from tidemill.execution import relations
from tidemill.formats.port import WEIGHT

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import DataFrame
    from views.conftest import Lake

CHECKED = '{"refresh": "incremental", "refresh_check": "always"}'
QUERIES = {
    "wide": "SELECT o.id, o.k, o.v, n.name FROM orders AS o JOIN names AS n ON n.k = o.k",
    "sums": "SELECT k, count(*) AS n, sum(v) AS v, sum(w) AS w, max(m['a']) AS a FROM orders GROUP BY k",
    "maps": "SELECT id, k, m FROM orders WHERE v > 0",
}


def test_refreshes_that_are_right_pass_and_one_that_would_be_wrong_leaves_the_view_as_it_was(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = "id long, k long, v decimal(10,2), w double, m map<string,int>"
    lake.spark_table("orders", columns)
    lake.sql(
        "INSERT INTO {orders} SELECT id, nullif(id % 7, 0), id % 5, id / 7, map('a', cast(id AS int)) FROM range(60)"
    )
    lake.table("names", "k long, name string", *((n, f"n{n}") for n in range(6)))
    for name, query in QUERIES.items():
        lake.view(name, query, CHECKED)
    lake.run()

    lake.sql("UPDATE {orders} SET v = 9, w = w + 1 WHERE id IN (3, 4, 7)")
    lake.sql("DELETE FROM {orders} WHERE id IN (5, 14)")
    lake.sql("INSERT INTO {orders} VALUES (70, NULL, 1, 0.1, NULL), (71, 3, NULL, double('NaN'), NULL)")
    lake.sql("INSERT INTO {orders} SELECT 71, 3, 2, 0, map('a', 1) FROM range(2)")
    steps = lake.run()
    assert {name: str(step.error) for name, step in steps.items() if step.error} == {}
    assert {name: step.refresh and step.refresh["mode"] for name, step in steps.items()} == dict.fromkeys(
        QUERIES, "incremental"
    )
    lake.check(steps["wide"])

    lake.sql("DELETE FROM {orders} WHERE id = 12")
    lake.sql("INSERT INTO {orders} VALUES (80, 4, 1, 1, NULL)")
    versions = {name: lake.version(name) for name in QUERIES}
    with monkeypatch.context() as wrong:
        wrong.setattr(relations, "net_changes", _without_what_went)
        steps = lake.run()
    assert {name: step.error.code for name, step in steps.items() if step.error} == {
        "wide": "view.refresh_differs",
        "maps": "view.refresh_differs",
        "sums": "view.refresh_differs",
    }
    error = steps["wide"].error
    assert error is not None
    assert error.problem == (
        "An incremental refresh would leave wide with other rows than its query gives, 1 too many: "
        "id, k, v, name = (12, 5, 2.00, 'n5')."
    )
    assert {name: lake.version(name) for name in QUERIES} == versions
    steps = lake.run()
    lake.check(steps["wide"])
    assert [step.error for step in steps.values()] == [None] * 3


def _without_what_went(rows: DataFrame) -> DataFrame:
    """A planted mistake: nothing ever leaves."""
    return net_changes(rows).where(F.col(WEIGHT) > 0)


def test_a_project_checks_all_of_its_views(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.table("orders", "id long, k long", (1, 1), (2, 1), (3, 2))
    lake.view("counts", "SELECT k, count(*) AS n FROM orders GROUP BY k")
    flags = '[flags]\nrefresh_check = "always"\n'
    lake.run(flags)
    lake.overwrite("orders", (1, 1), (2, 1))
    monkeypatch.setattr(relations, "net_changes", _without_what_went)
    step = lake.run(flags)["counts"]
    error = step.error
    assert error is not None, step
    assert error.code == "view.refresh_differs"
    assert error.problem.endswith("than its query gives, 1 too many: k = 2.")
    assert lake.run()["counts"].error is None, "without it nobody knows"
