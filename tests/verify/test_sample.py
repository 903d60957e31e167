"""`verify --sample` computes and compares the rows of a share of a view's keys, and says so."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

import tidemill
from tidemill.errors import ArgumentError
from tidemill.verify.sample import KeySample
from tidemill.verify.share import share_of

if TYPE_CHECKING:
    from cli.conftest import Cli
    from pipelines.conftest import Shop
    from pyspark.sql import SparkSession

PIPELINE = """
SOURCE orders_csv TYPE CSV PARAMS { "path": "data/orders.csv" };
LOAD orders FROM orders_csv MODE MERGE ON id;
CREATE MATERIALIZED VIEW sums AS SELECT k, count(*) AS n, sum(cast(v AS double)) AS v FROM orders GROUP BY k;
CREATE MATERIALIZED VIEW wide AS SELECT id, v FROM orders WHERE v > 3;
CREATE MATERIALIZED VIEW one AS SELECT count(*) AS n FROM orders;
"""


@pytest.mark.parametrize(("text", "share"), [("1%", 0.01), ("0.5 %", 0.005), ("0.2", 0.2), (" 30%", 0.3)])
def test_a_share_is_a_part_or_a_percentage(text: str, share: float) -> None:
    assert share_of(text) == pytest.approx(share)


@pytest.mark.parametrize(
    ("text", "shown"),
    [("0%", "0%"), ("100%", "100%"), ("2", "200%"), ("much", "much"), ("1%x", "1%x"), ("nan", "nan%")],
)
def test_what_is_no_share_is_an_error(text: str, shown: str) -> None:
    with pytest.raises(ArgumentError) as failure:
        share_of(text)
    assert failure.value.code == "verify.bad_sample"
    assert failure.value.problem == f"A sample is a share above 0% and below 100%, not {shown}."


def test_a_sample_of_a_view_is_said_to_be_one_and_finds_what_is_wrong_in_it(shop: Shop, cli: Cli) -> None:
    shop.says(PIPELINE).data("orders.csv", "id k v", *((n, n % 200 or None, n % 9) for n in range(1000)))
    shop.run()
    result = cli("verify", shop.file, "--sample", "20%")
    assert result.exit_code == 0, result.output
    lines = [line.strip() for line in result.output.splitlines()]
    (sums,) = [line for line in lines if line.startswith("✓ sums")]
    in_sample = int(sums.split("(")[1].split()[0])
    assert sums == f"✓ sums equals its query in a sample of 20% ({in_sample} of 200 rows)"
    assert 20 <= in_sample <= 60
    assert "✓ orders equals a full load (1,000 rows)" in lines
    assert lines.count("compared whole: samples are of materialized views") == 1
    assert lines.count("compared whole: no column of it is a key by which its query falls into pieces") == 1
    (verified,) = json.loads(cli("runs", "--format", "json").output)["runs"]
    assert "in a sample of 20%" in [step["reason"] for step in verified["steps"]]

    document = json.loads(cli("verify", shop.file, "--sample", "20%", "--format", "json").output)
    assert {each["table"]: each["sample"] for each in document["tables"]} == {
        "orders": None, "sums": 0.2, "wide": 0.2, "one": None,
    }  # fmt: skip
    assert {each["rows"] for each in document["tables"] if each["table"] == "sums"} == {in_sample}

    DeltaTable(str(shop.path("sums"))).update(updates={"n": "n + 1"})
    project = tidemill.Project.load(str(shop.file))
    (found,) = results = project.verify("sums", sample=0.2, spark=shop.spark)
    assert "in a sample of 20%" in repr(results)
    assert (found.missing.count, found.extra.count, found.sample) == (in_sample, in_sample, 0.2)
    again = cli("verify", shop.file, "sums", "--sample", "20%")
    assert again.exit_code == 1
    assert f"✗ sums differs from its query in a sample of 20%: {in_sample} rows missing" in again.output
    nothing = cli("verify", shop.file, "sums", "--sample", "0.0001%")
    assert nothing.exit_code == 0
    assert "sums not verifiable: none of its 200 rows is in a sample of 0.0001%" in " ".join(nothing.output.split("\n"))


def test_a_sample_is_cut_where_the_tables_are_read(spark: SparkSession) -> None:
    """Else it would compute all that it does not compare."""
    session = spark.newSession()
    session.range(1000).selectExpr("id % 50 AS k", "id AS v").createOrReplaceTempView("orders")
    session.range(50).selectExpr("id AS k", "id AS name").createOrReplaceTempView("names")
    joined = "SELECT o.k, max(n.name) AS name, sum(o.v) AS v FROM orders AS o JOIN names AS n ON n.k = o.k GROUP BY o.k"
    sampled = session.sql(joined).where(KeySample(0.1, ("k",)).condition)
    plan = sampled._jdf.queryExecution().optimizedPlan().toString().splitlines()
    join = next(number for number, line in enumerate(plan) if "Join" in line)
    cuts = [number for number, line in enumerate(plan) if "xxhash64" in line]
    assert len(cuts) == 2
    assert all(number > join for number in cuts)
