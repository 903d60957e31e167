"""The starter's tables equal a full rebuild also when groups of its query disappear."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

from tidemill.api.workspace import Workspace

if TYPE_CHECKING:
    from pathlib import Path

    from cli.conftest import Cli
    from pyspark.sql import SparkSession


def test_groups_that_disappear_leave_the_table_and_what_is_exported(
    spark: SparkSession, cli: Cli, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli("init", "shop").exit_code == 0
    shop = tmp_path / "shop"
    for file in (shop / "day2").iterdir():
        (shop / "data/orders" / file.name).write_bytes(file.read_bytes())
    assert Workspace.load(shop).run(spark).ok
    customers = shop / "data/customers.csv"
    customers.write_text(customers.read_text().replace(",us", ",eu"))
    run = Workspace.load(shop).run(spark)
    assert [getattr(each.result, "notices", ()) for each in run.outcomes] == [(), (), (), ()]
    with (shop / "out/daily.csv").open() as file:
        daily = list(csv.DictReader(file))
    assert (len(daily), {row["region"] for row in daily}) == (32, {"eu"})
    (found,) = Workspace.load(shop).verify(["daily"], spark)
    assert (found.outcome, found.rows, found.total) == ("equal", 32, 32)
