"""`suggest` proposes what is safe by a sample, with its reasons, and says why it proposes nothing else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tidemill.suggest.facts import look_at

if TYPE_CHECKING:
    from cli.conftest import Cli
    from pipelines.conftest import Shop

PIPELINE = """
SOURCE orders TYPE CSV PARAMS { "path": "data/orders.csv" };   -- ${env:TOKEN}
SOURCE lines TYPE CSV PARAMS { "path": "data/lines.csv" };
SOURCE events TYPE CSV PARAMS { "path": "data/events.csv" };
SOURCE jumpy TYPE CSV PARAMS { "path": "data/jumpy.csv" };
SOURCE names TYPE CSV PARAMS { "path": "data/names.csv" };
SOURCE good TYPE CSV PARAMS { "path": "data/orders.csv" } INCREMENTAL BY updated_at;
SOURCE bad TYPE CSV PARAMS { "path": "data/names.csv" } INCREMENTAL BY seen_at;
SOURCE gone TYPE CSV PARAMS { "path": "data/gone.csv" };
LOAD raw_orders FROM orders OPTIONS { "description": "ours" };
LOAD raw_lines FROM lines MODE MERGE ON order_id, line_no;
LOAD raw_events FROM events;
LOAD good_merged FROM good MODE MERGE ON order_id;
"""


def given(shop: Shop) -> Shop:
    shop.says(PIPELINE)
    at = "2024-01-0{} 10:00:00".format
    shop.data("orders.csv", "order_id region updated_at", (1, "eu", at(3)), (2, "eu", at(1)), (3, "us", at(9)))
    shop.data("lines.csv", "order_id line_no changed_at", (1, 1, at(1)), (1, 2, at(2)), (2, 1, at(3)))
    shop.data("events.csv", "what seen_at", ("a", at(1)), ("a", at(2)), ("b", at(2)))
    shop.data("jumpy.csv", "what seen_at", ("a", at(2)), ("a", at(1)), ("b", at(3)))
    shop.data("names.csv", "name seen_at", ("a", None), ("a", at(2)), ("b", at(3)))
    return shop


def test_what_is_safe_is_proposed_as_lines_to_paste_and_the_rest_is_explained(shop: Shop) -> None:
    found = {each.source: each for each in given(shop).load().engine(shop.spark).suggestions()}
    assert {name: each.verdict.value for name, each in found.items()} == {
        "orders": "proposed",
        "lines": "proposed",
        "events": "proposed",
        "jumpy": "nothing to propose",
        "names": "nothing to propose",
        "good": "confirmed",
        "bad": "doubted",
        "gone": "failed",
    }
    assert [line.text for line in found["orders"].lines] == [
        'SOURCE orders TYPE CSV PARAMS { "path": "data/orders.csv" } INCREMENTAL BY updated_at;',
        'LOAD raw_orders FROM orders MODE MERGE ON order_id OPTIONS { "description": "ours" };',
    ]
    assert "set whenever a row changes" in found["orders"].lines[0].reason
    assert "order_id is unique and never NULL in all its rows" in found["orders"].lines[1].reason
    assert found["orders"].saving == "a daily run would read about 1 of 3 rows (33.3%) in all its rows"
    assert [line.text.rpartition("} ")[2] for line in found["lines"].lines] == ["INCREMENTAL BY changed_at;"]
    assert found["events"].lines[1].text == "LOAD raw_events FROM events MODE APPEND;"
    assert "seen_at goes back at 1 of 3 rows in the order of reading" in found["jumpy"].reasons[0]
    assert found["names"].reasons == ("seen_at is NULL in 1 row of 3: such rows have no place in time",)
    assert found["bad"].reasons == found["names"].reasons


def test_only_so_many_rows_are_looked_at_and_the_advice_says_so(shop: Shop) -> None:
    shop.says('SOURCE orders TYPE CSV PARAMS { "path": "data/o.csv" };\nLOAD raw FROM orders;\n')
    shop.data("o.csv", "id updated_at", *[(n, f"2024-01-0{n} 10:00:00") for n in range(1, 6)])
    workspace = shop.load()
    found = look_at(shop.spark, workspace.declared[0].sources[0], workspace.tables, workspace.short, limit=3)
    assert (found.sampled, found.whole) == (3, False)
    assert "in its first 3 rows" in found.lines[0].reason


def test_the_command_prints_each_proposal_with_its_reason(shop: Shop, cli: Cli) -> None:
    shop.says('SOURCE orders TYPE CSV PARAMS { "path": "data/o.csv" };\nLOAD raw FROM orders;\n')
    shop.data("o.csv", "id updated_at", (1, "2024-01-01 10:00:00"), (2, "2024-01-02 10:00:00"))
    result = cli("suggest", shop.file)
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[:3] == [
        "  orders  proposed · CSV · looked at all its 2 rows",
        '    SOURCE orders TYPE CSV PARAMS { "path": "data/o.csv" } INCREMENTAL BY updated_at;',
        "      -- updated_at is never NULL in all its rows, and by its name it is set whenever a row changes",
    ]
    document = json.loads(cli("suggest", shop.file, "--format", "json").output)
    assert document["sources"][0]["lines"][1]["text"] == "LOAD raw FROM orders MODE MERGE ON id;"
