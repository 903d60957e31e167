"""Big, empty, failing and shared sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.api.workspace import Workspace
from tidemill.formats.delta.log import DeltaLog

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pipelines.conftest import Shop
    from pyspark.sql import SparkSession

    from tidemill.execution import StepResult

    Counted = Callable[[StepResult], tuple[int, ...]]

ROWS = 25_000


def test_a_big_file_an_empty_one_and_load_times_are_moved_once(shop: Shop, counts: Counted) -> None:
    shop.says(
        """
        SOURCE big TYPE CSV PARAMS { "path": "data/big/*.csv" } INCREMENTAL BY at;
        SOURCE nobody TYPE CSV PARAMS { "path": "data/nobody.csv" };
        LOAD kept FROM big MODE MERGE ON id;
        LOAD none FROM nobody;
        LOAD none_merged FROM nobody MODE MERGE ON id;
        CREATE TABLE appended MODE APPEND AS
        SELECT id, at, current_timestamp() AS loaded_at FROM kept WHERE id < 5;
        CREATE TABLE merged MODE MERGE ON id AS
        SELECT id, at, current_timestamp() AS loaded_at FROM kept WHERE id < 5;
        """
    )
    shop.data("big/1.csv", "id at", *((n, f"2024-01-{n % 28 + 1:02} 10:00:00") for n in range(ROWS)))
    shop.data("nobody.csv", "id name")
    first = {name: outcome.result for name, outcome in shop.run().items()}
    assert {name: result.total for name, result in first.items()} == {
        "kept": ROWS,
        "none": 0,
        "none_merged": 0,
        "appended": 5,
        "merged": 5,
    }
    before = {name: shop.version(name) for name in first}
    again = shop.run()
    assert {outcome.result.status for outcome in again.values()} == {"up to date"}
    assert {name: shop.version(name) for name in first} == before
    shop.data("big/2.csv", "id at", (ROWS, "2024-01-28 10:00:00"), (ROWS + 1, "2024-01-29 10:00:00"))
    more = shop.run()
    assert more["kept"].result.rows_read == ROWS // 28 + 2
    assert counts(more["kept"].result)[:2] == (2, 0)
    assert counts(more["merged"].result) == (0, 0, 0, 5)


FAILING = '''
def rows(run):
    """Fails after some rows, as long as the file `broken` is there."""
    from pathlib import Path

    yield [{"id": 1, "at": "2024-01-01"}, {"id": 2, "at": "2024-01-02"}]
    if Path(__file__).with_name("broken").exists():
        raise RuntimeError("the line went dead")
    yield [{"id": 3, "at": "2024-01-03"}]
'''


def test_a_source_that_fails_midway_leaves_the_table_and_its_watermark(shop: Shop) -> None:
    shop.says(
        """
        SOURCE feed TYPE PYTHON PARAMS { "function": "feed.py:rows" } INCREMENTAL BY at;
        LOAD kept FROM feed MODE MERGE ON id;
        """
    )
    (shop.folder / "feed.py").write_text(FAILING)
    shop.run()
    before = DeltaLog(str(shop.path("kept"))).snapshot()
    (shop.folder / "broken").touch()
    error = shop.run()["kept"].error
    assert error is not None
    assert "feed" in error.problem
    assert "the line went dead" in error.problem
    assert DeltaLog(str(shop.path("kept"))).snapshot() == before
    assert [row[0] for row in shop.rows("kept")] == [1, 2, 3]


def test_pipelines_that_share_a_source_keep_a_watermark_each(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "tidemill.toml").write_text('name = "shop"\n')
    (tmp_path / "pipelines").mkdir()
    source = 'SOURCE events TYPE CSV PARAMS { "path": "data/*.csv" } INCREMENTAL BY at;\n'
    for name in ("one", "two"):
        (tmp_path / "pipelines" / f"{name}.sql").write_text(f"{source}LOAD {name}_kept FROM events MODE MERGE ON id;")
    data = tmp_path / "data"
    data.mkdir()
    (data / "1.csv").write_text("id,at\n1,2024-01-01 10:00:00\n")
    Workspace.load(tmp_path).choose(["one_kept"]).run(spark)
    (data / "2.csv").write_text("id,at\n2,2024-01-02 10:00:00\n")
    Workspace.load(tmp_path).choose(["two_kept"]).run(spark)
    marks = {name: _progress(tmp_path / "warehouse" / "main" / f"{name}_kept") for name in ("one", "two")}
    assert marks == {
        "one": {"one.events": "2024-01-01 10:00:00 UTC"},
        "two": {"two.events": "2024-01-02 10:00:00 UTC"},
    }


def _progress(path: Path) -> dict[str, str]:
    snapshot = DeltaLog(str(path)).snapshot()
    assert snapshot is not None
    assert snapshot.record is not None
    return {name: str(value) for name, value in snapshot.record.progress.items()}
