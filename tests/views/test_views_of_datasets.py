"""Views over Parquet datasets, and views that are datasets themselves: by the files that came, or whole."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

import tidemill
from tidemill.cli.main import tidemill as command
from tidemill.formats.parquet.folder import Folder

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tidemill.api.results import RunStep

INPUTS = ("orders", "customers", "products")
VIEWS = {
    "eu": "SELECT id, customer, v FROM orders WHERE v > 2",
    "per_customer": "SELECT customer, count(*) AS n, sum(v) AS v FROM orders GROUP BY customer",
    "wide": """SELECT o.id, o.v, c.name AS customer, p.name AS product
        FROM orders o JOIN customers c ON c.id = o.customer JOIN products p ON p.id = o.product""",
}
PROJECT = 'name = "p"\n[warehouse]\npath = "warehouse"\nformat = "parquet"\n'


@dataclass
class Shop:
    """Datasets that `tidemill.merge` maintains outside of the project, and views over them."""

    spark: SparkSession
    folder: Path
    steps: dict[str, RunStep] = field(default_factory=dict)

    def path(self, name: str) -> str:
        return str(self.folder / ("lake" if name in INPUTS else "warehouse/main") / name)

    def merge(self, name: str, rows: pa.Table, strategy: str = "insert") -> None:
        tidemill.merge(rows, self.path(name), on="id", strategy=strategy, format="parquet", spark=self.spark)

    def run(self) -> None:
        project = tidemill.Project.load(str(self.folder))
        self.steps = {step.table: step for step in project.run(spark=self.spark).steps}
        assert {name: step.error for name, step in self.steps.items()} == dict.fromkeys(self.steps)
        for name, query in VIEWS.items():
            held, right = self.rows(self.path(name)), self.answer(query)
            assert held == right, f"{name}: {held - right} too much, {right - held} missing"

    def rows(self, path: str) -> Counter[Any]:
        return Counter(map(tuple, tidemill.read(path, spark=self.spark).collect()))

    def answer(self, query: str) -> Counter[Any]:
        session = self.spark.newSession()
        for name in INPUTS:
            tidemill.read(self.path(name), spark=session).createOrReplaceTempView(name)
        return Counter(map(tuple, session.sql(query).collect()))

    @property
    def modes(self) -> dict[str, str]:
        """How each view was refreshed."""
        return {name: str((step.refresh or {}).get("mode", step.status)) for name, step in self.steps.items()}

    def interrupt(self, name: str) -> None:
        """The last commit of a dataset becomes one whose files are not in their places yet."""
        folder = Folder(self.path(name))
        entry = folder.entry(folder.newest() or 0)
        assert entry is not None
        staged = folder.staging / entry.attempt
        staged.mkdir()
        for added in entry.add:
            (folder.root / added.file.path).rename(staged / added.staged)


def orders(*rows: tuple[int, int, int, int]) -> pa.Table:
    return pa.table(dict(zip(("id", "customer", "product", "v"), map(list, zip(*rows, strict=True)), strict=True)))


def named(**names: int) -> pa.Table:
    return pa.table({"id": list(names.values()), "name": list(names)})


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> Shop:
    sources = "".join(f'[sources.{name}]\ntype = "parquet"\npath = "lake/{name}"\n' for name in INPUTS)
    (tmp_path / "tidemill.toml").write_text(PROJECT + sources + '[flags]\ntable_refresh = "auto"\n')
    (tmp_path / "pipelines").mkdir()
    views = "".join(f"CREATE MATERIALIZED VIEW {name} AS {query};\n" for name, query in VIEWS.items())
    (tmp_path / "pipelines" / "p.sql").write_text(views)
    found = Shop(spark, tmp_path)
    found.merge("orders", orders((1, 1, 1, 1), (2, 1, 2, 2), (3, 2, 1, 3)))
    found.merge("customers", named(ann=1, bob=2))
    found.merge("products", named(pen=1, ink=2))
    return found


@pytest.mark.usefixtures("_small_is_large")
def test_views_over_datasets_and_in_datasets_stay_exact_whatever_happens_to_these(shop: Shop) -> None:
    shop.run()
    shop.merge("orders", orders((4, 2, 3, 4), (5, 3, 2, 5)))
    shop.run()
    assert shop.modes == dict.fromkeys(VIEWS, "incremental")

    shop.merge("customers", named(cid=3))  # each with rows of orders that waited for it
    shop.merge("products", named(nib=3))
    shop.run()
    assert shop.modes == {"eu": "up to date", "per_customer": "up to date", "wide": "incremental"}
    assert (shop.steps["wide"].refresh or {})["rule"] == "telescoped"

    shop.merge("orders", orders((2, 1, 2, 20)), "upsert")  # rewrites files, which are not kept
    shop.run()
    assert shop.modes == dict.fromkeys(VIEWS, "full")
    assert "rows have changed or left since version" in (shop.steps["eu"].refresh or {})["reason"]

    shop.merge("orders", orders((6, 1, 1, 6)))
    shop.interrupt("orders")
    shop.interrupt("customers")
    assert CliRunner().invoke(command, ["recover", shop.path("customers")]).exit_code == 0
    shop.run()
    assert shop.modes == dict.fromkeys(VIEWS, "incremental")
    shop.run()
    assert shop.modes == dict.fromkeys(VIEWS, "up to date")
