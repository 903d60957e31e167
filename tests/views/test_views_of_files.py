"""Views over folders of files: by the files that came, as long as those of before are as they were."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from delta_rows import delta_rows

import tidemill

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tidemill.api.results import RunStep

PROJECT = """name = "p"
[sources."landing.events"]
type = "parquet"
path = "data/events"
[sources.users]
type = "parquet"
path = "data/users/*.parquet"
[sources.zones]
type = "csv"
path = "data/zones"
[sources.notes]
type = "csv"
path = "data/notes"
schema = "id BIGINT, note STRING"
"""
VIEWS = {
    "big": "SELECT id, v FROM landing.events WHERE v > 1",
    "per_user": "SELECT user, count(*) AS n, max(v) AS v FROM landing.events GROUP BY user",
    "named": "SELECT e.id, u.name FROM landing.events e LEFT JOIN users u ON u.id = e.user",
    "three": "SELECT e.id, u.name, w.name AS other FROM landing.events e "
    "JOIN users u ON u.id = e.user JOIN users w ON w.id = e.v",
    "zoned": "SELECT e.id, z.zone FROM landing.events e JOIN zones z ON z.user = e.user",
    "noted": "SELECT id, note FROM notes WHERE id > 1",
}
SCHEMAS = {"zones": "user BIGINT, zone STRING", "notes": "id BIGINT, note STRING"}
NOT_FOLLOWED = "files that were read were changed or removed, or older ones were added"


@dataclass
class Shop:
    """Files, and views over them; `times` are those of the files, which tests do not wait for."""

    spark: SparkSession
    folder: Path
    time: int = 1_700_000_000
    steps: dict[str, RunStep] = field(default_factory=dict)

    def write(self, name: str, rows: pa.Table | str, *, older: bool = False) -> None:
        file = self.folder / "data" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(rows) if isinstance(rows, str) else pq.write_table(rows, file)
        self.time += 0 if older else 10
        os.utime(file, (self.time - 5 * older, self.time - 5 * older))

    def run(self) -> dict[str, str]:
        """How each view was refreshed, which is exact."""
        steps = tidemill.Project.load(str(self.folder)).run(spark=self.spark).steps
        self.steps = {step.table: step for step in steps}
        assert {name: step.error for name, step in self.steps.items()} == dict.fromkeys(self.steps)
        for name in self.steps:
            held, right = self.held(name), self.right(name)
            assert held == right, f"{name}: {held - right} too much, {right - held} missing"
        return {name: str((step.refresh or {}).get("mode", step.status)) for name, step in self.steps.items()}

    def held(self, name: str) -> Counter[Any]:
        return Counter(delta_rows(str(self.folder / "warehouse" / "main" / name)))

    def right(self, name: str) -> Counter[Any]:
        session = self.spark.newSession()
        for source in ("events", "users"):
            rows = session.read.option("mergeSchema", "true").option("recursiveFileLookup", "true")
            rows.parquet(str(self.folder / "data" / source)).createOrReplaceTempView(source)
        for source, schema in SCHEMAS.items():
            texts = session.read.option("header", "true").option("multiLine", "true").schema(schema)
            texts.csv(str(self.folder / "data" / source)).createOrReplaceTempView(source)
        return Counter(map(tuple, session.sql(VIEWS[name].replace("landing.", "")).collect()))

    def why(self, name: str) -> str:
        return str((self.steps[name].refresh or {})["reason"])


def events(*rows: tuple[int, int, int]) -> pa.Table:
    return pa.table(dict(zip(("id", "user", "v"), map(list, zip(*rows, strict=True)), strict=True)))


def users(**names: int) -> pa.Table:
    return pa.table({"id": list(names.values()), "name": list(names)})


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> Shop:
    (tmp_path / "tidemill.toml").write_text(PROJECT)
    (tmp_path / "pipelines").mkdir()
    views = "".join(f"CREATE MATERIALIZED VIEW {name} AS {query};\n" for name, query in VIEWS.items())
    (tmp_path / "pipelines" / "p.sql").write_text(views)
    found = Shop(spark, tmp_path)
    found.write("events/a.parquet", events((1, 1, 1), (2, 1, 2), (3, 2, 3)))
    found.write("users/a.parquet", users(ann=1, bob=2))
    found.write("zones/a.csv", "user,zone\n1,a\n2,b\n")
    found.write("notes/a.csv", "id,note\n1,x\n2,y\n")
    return found


@pytest.mark.usefixtures("_small_is_large")
def test_views_follow_files_that_come_and_are_computed_whole_where_others_changed(shop: Shop) -> None:
    of_events = {name: "incremental" for name in VIEWS if name != "noted"}
    assert shop.run() == dict.fromkeys(VIEWS, "full")
    assert shop.run() == dict.fromkeys(VIEWS, "up to date")

    shop.write("events/more [1]/b*.parquet", events((4, 2, 1), (2, 1, 2), (5, 9, 7)))
    assert shop.run() == {**of_events, "noted": "up to date"}
    assert (shop.steps["big"].refresh or {})["changed"] == {"landing.events": 3}

    shop.write("users/b.parquet", users(ida=7, eve=9))  # those of before waited for it
    shop.write("events/c.parquet", events((6, 7, 9)).append_column("extra", pa.array(["new"])))
    shop.write("notes/b.csv", 'id,note\n3,"two\nlines"\n2,y\n')
    assert shop.run() == {**of_events, "noted": "incremental"}
    assert (shop.steps["three"].refresh or {})["rule"] == "telescoped"

    shop.write("zones/b.csv", "user,zone\n7,c\n")
    assert shop.run() == {**dict.fromkeys(VIEWS, "up to date"), "zoned": "full"}
    assert "zones: types of its columns may depend on all of its files" in shop.why("zoned")

    shop.write("events/a.parquet", events((1, 1, 10)))
    assert set(shop.run().values()) == {"full", "up to date"}
    assert NOT_FOLLOWED in shop.why("big")
    (shop.folder / "data" / "events" / "c.parquet").unlink()
    (shop.folder / "data" / "notes" / "a.csv").unlink()
    assert set(shop.run().values()) == {"full"}
    shop.write("events/d.parquet", events((8, 1, 1)), older=True)
    assert shop.run() == {**dict.fromkeys(VIEWS, "full"), "noted": "up to date"}
    assert NOT_FOLLOWED in shop.why("per_user")
    assert shop.run() == dict.fromkeys(VIEWS, "up to date")
