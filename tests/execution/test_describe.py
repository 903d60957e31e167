"""What a declaration says of a table is on the table, and a change of it is a commit without rows."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import deltalake
import pytest

from tidemill import Commit, Table
from tidemill.declarations import Replace
from tidemill.errors import ArgumentError, Origin
from tidemill.execution.record import described, differences
from tidemill.formats.delta.log import DeltaLog
from tidemill.model.record import Described, Snapshot, without_parts
from tidemill.planning.notices import layout_notices

if TYPE_CHECKING:
    from pipelines.conftest import Shop
    from pyspark.sql import SparkSession


def table(**more: Any) -> Table:
    return Table("main.daily", "daily", Replace(), origin=Origin("shop.sql", 3), **more)


def held(description: str | None = None, partition_by: tuple[str, ...] = (), **properties: str) -> Described:
    named = {name.replace("__", "."): value for name, value in properties.items()}
    return Described(description, named, partition_by, "c1")


def clustered(*columns: str, of: str = "c1") -> str:
    return json.dumps({"by": columns, "columns": of})


def test_a_table_is_laid_out_in_one_way_and_by_four_columns_at_most():
    with pytest.raises(ArgumentError, match="has both partition_by and cluster_by") as two:
        table(partition_by=("day",), cluster_by=("region",))
    assert (two.value.code, str(two.value.origin)) == ("table.two_layouts", "shop.sql:3")
    with pytest.raises(ArgumentError, match=r"has 5 columns in cluster_by\. Name those .* by most, 4 at most"):
        table(cluster_by=tuple("abcde"))


def test_a_property_that_spark_reserves_is_reported_where_the_table_is_declared():
    with pytest.raises(ArgumentError) as taken:
        table(properties={"owner": "bi", "team": "bi", "location": "here"})
    assert str(taken.value) == (
        "[table.reserved_property] main.daily has the properties owner, location, which Spark keeps for itself. "
        "Choose another name, such as our.owner."
    )
    assert str(taken.value.origin) == "shop.sql:3"


def test_only_what_differs_is_written():
    declared = table(description="per day", properties={"team": "bi", "delta.appendOnly": "true"}, cluster_by=("day",))
    assert differences(declared, held()) == {
        "team": "bi",
        "delta.appendOnly": "true",
        "comment": "per day",
        "tidemill.cluster_by": clustered("day"),
    }
    same = {"team": "bi", "delta__appendonly": "true", "tidemill__cluster_by": clustered("day"), "theirs": "x"}
    assert differences(declared, held("per day", **same)) == {}
    assert differences(replace(declared, description="by day"), held("per day", **same)) == {"comment": "by day"}
    none = {"tidemill.cluster_by": clustered()}
    assert differences(replace(declared, cluster_by=()), held("per day", **same)) == none
    other_columns = same | {"tidemill__cluster_by": clustered("day", of="c0")}
    assert differences(declared, held("per day", **other_columns)) == {"tidemill.cluster_by": clustered("day")}


def test_what_is_not_declared_or_kept_elsewhere_is_left_alone():
    assert differences(table(), held("theirs", team="them")) == {}
    assert differences(table(properties={"delta.feature.timestampNtz": "supported"}), held()) == {}
    assert differences(table(properties={"comment": "per day"}), held("per day")) == {}
    assert differences(table(cluster_by=("day",)), held(partition_by=("region",))) == {}


def test_that_a_table_must_not_be_reset_is_noted_and_taken_back():
    assert differences(table(reset_allowed=False), held()) == {"tidemill.reset_allowed": "false"}
    assert differences(table(reset_allowed=False), held(tidemill__reset_allowed="false")) == {}
    assert differences(table(), held(tidemill__reset_allowed="false")) == {"tidemill.reset_allowed": "true"}
    assert differences(table(), held(tidemill__reset_allowed="true")) == {}


def test_a_table_that_cannot_be_laid_out_as_declared_says_what_would():
    again = "tidemill run -s main.daily --full-refresh"
    assert layout_notices(table(partition_by=("Day",)), ("day",)) == ()
    assert layout_notices(table(), ("day",)) == ()
    assert layout_notices(table(cluster_by=("region",)), ()) == ()
    assert layout_notices(table(partition_by=("day", "region")), ("day",)) == (
        f"main.daily stays partitioned by day; {again} partitions it by day, region",
    )
    assert layout_notices(table(partition_by=("day",)), ()) == (
        f"main.daily stays without partitions; {again} partitions it by day",
    )
    assert layout_notices(table(cluster_by=("region",)), ("day",)) == (
        f"main.daily stays partitioned by day; {again} clusters it by region",
    )


def test_what_is_noted_on_a_table_does_not_change_it_for_what_reads_it():
    def commit(version: int, operation: str, *, ours: bool = True) -> Commit:
        return Commit(version, "", operation, {}, None, prepares=ours)

    notes = (commit(5, "SET TBLPROPERTIES"), commit(4, "CLUSTER BY"))
    assert Snapshot(5, 1, None, 3, notes, table_id="t").content == "t@3"
    assert Snapshot(5, 1, None, 3, (notes[0], commit(4, "DROP COLUMNS")), table_id="t").content == "t@4"
    assert Snapshot(5, 1, None, 3, (commit(5, "SET TBLPROPERTIES", ours=False),), table_id="t").content == "t@5"


PIPELINE = """
SOURCE s TYPE CSV PARAMS { "path": "data/s.csv" };
LOAD raw FROM s MODE MERGE ON id OPTIONS { "cluster_by": ["region"], "description": "it's ours; -- all" };
CREATE TABLE after MODE MERGE ON id AS SELECT * FROM raw;
LOAD laid FROM s OPTIONS { "partition_by": ["region"] };
"""


def detail(spark: SparkSession, shop: Shop, name: str) -> dict[str, Any]:
    found = spark.sql(f"DESCRIBE DETAIL delta.`{shop.path(name)}`").first()
    assert found is not None
    return found.asDict()


def test_description_clustering_and_properties_are_kept_without_touching_rows_or_progress(
    spark: SparkSession, shop: Shop
):
    shop.says(PIPELINE).data("s.csv", "id region amount", (1, "eu", 10), (2, "us", 20))
    shop.run()
    made = detail(spark, shop, "raw")
    assert (made["description"], made["clusteringColumns"]) == ("it's ours; -- all", ["region"])
    log = DeltaLog(str(shop.path("raw")))
    assert [(commit.version, commit.record is not None) for commit in without_parts(log.commits())] == [(0, True)]

    before = {name: shop.version(name) for name in ("raw", "after", "laid")}
    again = shop.run()
    assert [outcome.result.status for outcome in again.values()] == ["up to date"] * 3
    assert {name: shop.version(name) for name in before} == before

    changed = PIPELINE.replace("it's ours; -- all", "theirs").replace('["region"], "desc', '["id", "amount"], "desc')
    shop.says(changed.replace('"partition_by": ["region"]', '"partition_by": ["id"]'))
    notes = shop.run()
    assert notes["raw"].result.notices == ("raw has its new description, cluster_by",)
    stays = "laid stays partitioned by region"
    anew = f"tidemill run {shop.file} -s laid --full-refresh partitions it by id"
    assert notes["laid"].result.notices == (f"{stays}; {anew}",)
    assert [outcome.result.status for outcome in notes.values()] == ["up to date"] * 3
    now = detail(spark, shop, "raw")
    assert (now["description"], now["clusteringColumns"]) == ("theirs", ["id", "amount"])
    snapshot = log.snapshot()
    assert snapshot is not None
    assert (snapshot.rows, snapshot.record_version, snapshot.content_version) == (2, 0, 0)

    raw = replace(shop.load().tables[0], properties={"team": "bi"}, cluster_by=())
    kept = described(lambda: spark, raw, notes["raw"].result)
    assert kept.notices[-1] == "main.raw has its new team, cluster_by"
    assert deltalake.DeltaTable(str(shop.path("raw"))).metadata().configuration["team"] == "bi"
    assert detail(spark, shop, "raw")["clusteringColumns"] == []


def test_a_clustered_table_is_replaced_with_new_columns_and_stays_clustered(spark: SparkSession, shop: Shop):
    shop.says(
        """
        SOURCE s TYPE CSV PARAMS { "path": "data/s.csv", "columns": ["id", "region"] };
        LOAD raw FROM s OPTIONS { "cluster_by": ["region"] };
        """
    ).data("s.csv", "id region amount", (1, "eu", 10), (2, "us", 20))
    shop.run()
    shop.says(shop.file.read_text().replace(', "columns": ["id", "region"]', ""))
    assert shop.step("raw").status == "changed"
    assert shop.rows("raw") == [(1, "eu", 10), (2, "us", 20)]
    assert detail(spark, shop, "raw")["clusteringColumns"] == ["region"]


def test_a_layout_by_a_column_that_is_not_there_is_refused_before_anything_is_written(shop: Shop):
    shop.says(PIPELINE.replace('"cluster_by": ["region"]', '"cluster_by": ["regoin"]'))
    shop.data("s.csv", "id region amount", (1, "eu", 10))
    error = shop.run()["raw"].error
    assert str(error) == (
        "[columns.missing] The cluster_by column 'regoin' is not a column of raw. "
        "Did you mean region? It has: id, region, amount."
    )
    assert not shop.path("raw").exists()
