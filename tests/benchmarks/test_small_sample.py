"""The benchmarks work: a small sample of them, whose figures say nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from delta_rows import delta_rows

import tidemill

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
ROWS = 20_000


@pytest.fixture
def _on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(BENCHMARKS)])


def _rows(held: DataFrame) -> dict[str, list[object]]:
    return held.toArrow().sort_by("k").to_pydict()


@pytest.mark.usefixtures("_on_path")
def test_both_ways_of_a_benchmark_end_with_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    from stage import Stage, our_merge, plain_merge  # noqa: PLC0415  the folder of benchmarks is no package

    stage = Stage(spark, tmp_path, ROWS)
    stage.build()
    for kind in ("tail", "spread", "new"):
        change = stage.change(kind, 1, 100)
        plain, ours = stage.copy(stage.plain, "plain_copy"), stage.copy(stage.ours, "ours_copy")
        plain_merge(spark, change, plain)
        result = our_merge(spark, change, ours)
        assert (result.inserted, result.updated) == {"tail": (50, 50), "spread": (0, 100), "new": (100, 0)}[kind]
        assert _rows(tidemill.read(plain, spark=spark)) == _rows(tidemill.read(ours, spark=spark))
    assert our_merge(spark, stage.change("spread", 0, 100), stage.copy(stage.ours, "ours_copy")).unchanged == 100


@pytest.mark.usefixtures("_on_path")
def test_both_ways_on_one_table_of_spark_end_with_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    from same_table import _change  # noqa: PLC0415  the folder of benchmarks is no package
    from stage import Stage, our_merge, plain_merge  # noqa: PLC0415

    stage = Stage(spark, tmp_path, ROWS)
    stage.build()
    for kind in ("tail", "tenth"):
        change = _change(stage, kind, 1)
        plain, ours = stage.copy(stage.plain, "plain_same"), stage.copy(stage.plain, "ours_same")
        plain_merge(spark, change, plain)
        our_merge(spark, change, ours)
        assert _rows(tidemill.read(plain, spark=spark)) == _rows(tidemill.read(ours, spark=spark))


@pytest.mark.usefixtures("_on_path")
def test_small_tables_have_the_rows_of_their_sources(spark: SparkSession, tmp_path: Path) -> None:
    from small_tables import Project  # noqa: PLC0415  the folder of benchmarks is no package

    project = Project(tmp_path / "p", tables=3, rows=20)
    project.build()
    for changed in (-1, 4):
        project.write_sources(changed)
        assert tidemill.Project.load(project.folder).run(spark=spark).ok
    for n in range(3):
        names = delta_rows(project.folder / f"warehouse/main/t{n}", "id", "name")
        assert sorted(names) == [(i, f"{'changed' if i - n == 4 else 'name'} {i}") for i in range(20)]


@pytest.mark.usefixtures("_on_path")
def test_one_day_of_a_join_reads_its_scope_and_no_more(spark: SparkSession, tmp_path: Path) -> None:
    from joins import FIRST, Feeds, bytes_read  # noqa: PLC0415  the folder of benchmarks is no package

    feeds = Feeds(spark, tmp_path, 1_000, 24)
    feeds.build()
    assert bytes_read(feeds, feeds.last).figure == 1.0
    assert 0 < feeds.joined(feeds.last, feeds.last).count() < feeds.joined(FIRST, feeds.last).count()


@pytest.mark.usefixtures("_on_path")
def test_a_merge_into_a_dataset_ends_with_the_rows_of_a_full_rewrite(spark: SparkSession, tmp_path: Path) -> None:
    from datasets import Dataset  # noqa: PLC0415  the folder of benchmarks is no package

    data = Dataset(spark, tmp_path, 2_000, 4)
    data.build()
    for kind in ("one partition", "spread"):
        change, plain, ours = data.change(kind, 1), data.copy("plain"), data.copy("ours")
        data.rewrite(change, plain)
        data.merge(change, ours)
        assert _rows(spark.read.parquet(str(plain))) == _rows(tidemill.read(ours, spark=spark))
    assert len(data.torn) == 2


@pytest.mark.usefixtures("_on_path")
def test_views_of_a_benchmark_have_the_rows_of_their_queries(spark: SparkSession, tmp_path: Path) -> None:
    from refreshes import Views, cases  # noqa: PLC0415  the folder of benchmarks is no package

    for number, case in enumerate(cases(2_000)[::3]):  # a join, and an aggregate
        views = Views(spark, tmp_path / f"v{number}", 2_000, case)
        views.build()
        views.change(0)
        for way in views.ways.all().values():
            way()
        views.ways.check()
