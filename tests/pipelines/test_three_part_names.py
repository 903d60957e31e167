"""`[warehouse] catalog`: names with that catalog are those of the project's own tables, wherever users write them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from delta_rows import delta_rows

from tidemill.api.workspace import Workspace
from tidemill.cli.main import tidemill
from tidemill.model import FileErrors

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

FILES = {
    "tidemill.toml": '[warehouse]\ncatalog = "lr_nhl_demo"\n',
    "data/s.csv": "id,v\n1,10\n2,20\n",
    "pipelines/p.sql": """
SOURCE s TYPE CSV PARAMS { "path": "data/s.csv" };
LOAD lr_nhl_demo.dev.orders FROM s MODE REPLACE;
CREATE TABLE lr_nhl_demo.dev.doubled AS
SELECT orders.id, lr_nhl_demo.dev.orders.v * 2 AS v FROM lr_nhl_demo.dev.orders;
""",
    "models/dev/large.sql": "SELECT id, v FROM `lr_nhl_demo`.`dev`.`orders` WHERE v > 10",
    "models/dev/large.py": 'metadata = {"materialization": "view"}',
    "models/dev/checked.sql": "SELECT l.id, d.v FROM LR_NHL_DEMO.dev.large l JOIN lr_nhl_demo.dev.doubled d USING (id)",
    "models/dev/checked.py": """metadata = {"checks": [
    {"relationships": {"column": "id", "to": "lr_nhl_demo.dev.orders"}}]}""",
    "models/dev/seen.py": """
import tidemill

@tidemill.table(name="lr_nhl_demo.dev.seen", keys="id", reads=["lr_nhl_demo.dev.orders"])
def seen(run):
    assert (run.existing() is None) == (run.mode == "first")
    return run.read("lr_nhl_demo.dev.orders")
""",
}


def written(folder: Path, **changed: str) -> Path:
    for name, text in (FILES | changed).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_they_mean_the_projects_own_tables(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Workspace.load(written(tmp_path))
    assert {table.name: table.inputs for table in shop.tables} == {
        "dev.orders": (),
        "dev.doubled": ("dev.orders",),
        "dev.checked": ("dev.large", "dev.doubled", "dev.orders"),
        "dev.seen": ("dev.orders",),
    }
    outcome = shop.run(spark)
    assert [str(each.error) for each in outcome.outcomes if each.error] == []
    found = {name: sorted(delta_rows(tmp_path / "warehouse/dev" / name)) for name in ("doubled", "checked", "seen")}
    assert found == {"doubled": [(1, 20), (2, 40)], "checked": [(2, 40)], "seen": [(1, 10), (2, 20)]}
    selected = shop.choose(["lr_nhl_demo.dev.doubled+"], ["lr_nhl_demo.dev.chec*"])
    assert [table.name for table in selected.tables] == ["dev.doubled"]
    monkeypatch.chdir(tmp_path)
    for command in (["history", "lr_nhl_demo.dev.doubled"], ["state", "LR_NHL_DEMO.dev.doubled"]):
        shown = CliRunner().invoke(tidemill, command)
        assert (shown.exit_code, shown.stderr) == (0, "")


def test_another_catalog_stays_foreign_and_cannot_hold_a_table_of_a_pipeline(tmp_path: Path) -> None:
    shop = Workspace.load(written(tmp_path, **{"models/dev/checked.sql": "SELECT * FROM other.dev.orders"}))
    assert {table.name: table.inputs for table in shop.tables}["dev.checked"] == ("other.dev.orders", "dev.orders")
    with pytest.raises(FileErrors, match=r"other.dev.orders cannot be a name here: other is not the catalog of this"):
        Workspace.load(
            written(tmp_path, **{"pipelines/p.sql": FILES["pipelines/p.sql"].replace("LOAD lr_nhl_demo", "LOAD other")})
        )


def test_a_table_declared_in_a_catalog_that_is_not_the_projects_is_one_error_that_says_how_to_name_the_catalog(
    tmp_path: Path,
) -> None:
    function = FILES["models/dev/seen.py"].replace('name="lr_nhl_demo', 'name="other')
    pipeline = FILES["pipelines/p.sql"] + 'EXPORT lr_nhl_demo.dev.doubled TO "out.csv" TYPE CSV;\n'
    for statement in ("LOAD", "TABLE", "EXPORT"):
        pipeline = pipeline.replace(f"{statement} lr_nhl_demo", f"{statement} other")
    with pytest.raises(FileErrors) as refused:
        Workspace.load(written(tmp_path, **{"pipelines/p.sql": pipeline, "models/dev/seen.py": function}))
    errors = refused.value.errors
    assert [(error.code, error.origin.line) for error in errors if error.origin] == [
        ("language.bad_name", 3),
        ("language.bad_name", 4),
        ("language.bad_name", 6),
        ("table.bad_name", 4),
    ]
    assert all('[warehouse] catalog = "other" in tidemill.toml' in error.remedy for error in errors)


def test_a_catalog_that_spark_does_not_know_is_named_with_what_to_do(spark: SparkSession, tmp_path: Path) -> None:
    function = FILES["models/dev/seen.py"].replace(
        'return run.read("lr_nhl_demo.dev.orders")', 'return run.spark.table("lr_nhl_demo.dev.orders")'
    )
    query = "SELECT * FROM elsewhere.dev.orders"
    shop = Workspace.load(written(tmp_path, **{"models/dev/checked.sql": query, "models/dev/seen.py": function}))
    errors = {each.name: each.error.problem for each in shop.run(spark).outcomes if each.error}
    assert sorted(errors) == ["dev.checked", "dev.seen"]
    for table, catalog in (("dev.checked", "elsewhere"), ("dev.seen", "lr_nhl_demo")):
        said = f'Spark has no catalog {catalog}; for tables of this project SQL needs catalog = "{catalog}" under'
        assert f"{said} [warehouse] in tidemill.toml, and a function run.read" in errors[table]


def test_a_catalog_is_an_identifier(tmp_path: Path) -> None:
    with pytest.raises(FileErrors, match=r"warehouse.catalog is 'lr-demo', which is no identifier"):
        Workspace.load(written(tmp_path, **{"tidemill.toml": '[warehouse]\ncatalog = "lr-demo"\n'}))
