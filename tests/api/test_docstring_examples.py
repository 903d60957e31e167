"""The examples in the docstrings of public names do what stands there: on the starter project, and on a few tables."""

from __future__ import annotations

import contextlib
import doctest
import shutil
from datetime import date
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import tidemill
from tidemill.cli.main import tidemill as command

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

ORDERS = [{"order_id": number, "amount": 10.0 * number} for number in (1, 2, 3)]
CHANGES = "order_id,amount\n1,10.0\n2,21.0\n4,40.0\n"
NAMES = [name for name in tidemill.__all__ if name != "__version__"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Path]:
    """The starter, run once; `lake/orders` in two commits, `lake/sales` in one; and a file of changes."""
    folder = tmp_path_factory.mktemp("examples")
    with contextlib.chdir(folder):
        assert CliRunner().invoke(command, ["init", "shop"]).exit_code == 0
        assert tidemill.Project.load("shop").run(spark=spark).ok
        (folder / "changes.csv").write_text(CHANGES)
        for name in ("orders", "sales"):
            tidemill.merge(ORDERS, f"made/{name}", on="order_id", spark=spark)
        tidemill.merge("changes.csv", "made/orders", on="order_id", spark=spark)
        shutil.copytree("made/sales", "shop/warehouse/main/old_orders")
        yield folder


@pytest.mark.parametrize("name", NAMES)
def test_the_example_of_a_public_name_does_what_stands_there(name: str, folder: Path, spark: SparkSession):
    shutil.rmtree(folder / "lake", ignore_errors=True)
    shutil.copytree(folder / "made", folder / "lake")
    text = getattr(tidemill, name).__doc__ or ""
    example = doctest.DocTestParser().get_doctest(
        text, {"tidemill": tidemill, "spark": spark, "date": date}, name, "", 0
    )
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert runner.run(example, out=said.append).failed == 0, "".join(said)
