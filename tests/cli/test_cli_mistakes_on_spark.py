"""Mistakes of a first day that only Spark finds, and a merge into a table of the project by its name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = """\
SOURCE orders TYPE CSV PARAMS { "path": "orders.csv" };
LOAD orders FROM orders MODE MERGE ON idd;
CREATE TABLE daily AS
SELECT id, count(*) AS n
FROM range(3) GROUPP BY id;
"""


@pytest.mark.usefixtures("spark")
def test_a_wrong_key_and_a_syntax_error_are_shown_and_a_merge_goes_into_the_table_of_its_name(folder: Path, cli):
    (folder / "tidemill.toml").write_text('name = "shop"\n')
    (folder / "pipelines").mkdir()
    (folder / "orders.csv").write_text("id,amount\n1,10\n")
    file = folder / "pipelines/shop.sql"
    file.write_text(PIPELINE)
    wrong = {step["table"]: step["error"] for step in json.loads(cli("run", "--format", "json").stdout)["steps"]}
    key, syntax = wrong["orders"], wrong["daily"]
    assert (key["code"], key["remedy"]) == ("columns.missing", "Did you mean id? It has: id, amount.")
    assert (syntax["code"], syntax["origin"]) == ("query.syntax", "pipelines/shop.sql:5:22")
    assert syntax["problem"].startswith("The query of daily cannot be parsed: Syntax error at or near 'BY'")

    file.write_text(PIPELINE.replace("idd", "id").partition("CREATE")[0])
    assert cli("run").exit_code == 0
    (folder / "more.csv").write_text("id,amount\n1,11\n2,20\n")
    merged = cli("merge", "more.csv", "orders", "--on", "id", "--format", "json")
    found = json.loads(merged.stdout)
    assert (found["table"], found["inserted"], found["updated"], found["total"]) == ("orders", 1, 1, 2)
    assert not (folder / "orders").exists()
