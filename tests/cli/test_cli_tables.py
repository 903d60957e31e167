"""Tables on a terminal: they fit, no word is broken, and what is less important gives way first."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from terminal import on_terminal

from tidemill.cli.fitting import flowing, size, wrapped
from tidemill.cli.tables import Looks, laid

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = """
SOURCE orders TYPE CSV PARAMS { "path": "orders.csv" } INCREMENTAL BY updated_at LOOKBACK 2 HOURS;
LOAD raw_orders_of_all_shops FROM orders MODE MERGE ON order_id, region, shop_number;
CREATE TABLE daily_revenue MODE FULL_MERGE ON day AS
SELECT date(updated_at) AS day, sum(amount) AS amount FROM raw_orders_of_all_shops GROUP BY 1;
"""
ROWS = pa.table(
    {
        "order_id": pa.array([1, 2], pa.int64()),
        "customer_name": ["Ada Lovelace, Countess of King", "Grace Brewster Murray Hopper"],
        "shipping_address": ["12 St James's Square, London SW1Y 4JH", "Arlington National Cemetery, Section 59"],
        "updated_at": pa.array([datetime(2024, 1, 31, 21, tzinfo=UTC)] * 2, pa.timestamp("us", "UTC")),
        "amount": pa.array([1234567.25, 20.5], pa.float64()),
        "comments": ["left with the neighbour on the second floor", "none"],
    }
)


@pytest.fixture
def shop(folder: Path, make_table) -> Path:
    (folder / "tidemill.toml").write_text('name = "shop"\n')
    (folder / "pipelines").mkdir()
    (folder / "pipelines/all_orders.sql").write_text(PIPELINE)
    make_table("main.raw_orders_of_all_shops", ROWS, sql_hash="0123456789abcdef", config_hash="fedcba9876543210")
    return folder


COMMANDS = (
    ("list",),
    ("plan",),
    ("status",),
    ("state",),
    ("history", "raw_orders_of_all_shops"),
    ("show-watermarks",),
    ("show", "raw_orders_of_all_shops"),
    ("graph",),
)


@pytest.mark.parametrize("columns", [80, 120])
def test_no_word_is_broken_and_nothing_is_shown_that_is_not_there(shop: Path, shell, columns: int):
    for command in COMMANDS:
        piped = shell(*command)
        seen = on_terminal(shop, *command, columns=columns)
        assert seen.code == piped.returncode == 0
        words = [word.strip("….,") for word in seen.text.replace("today …", "").split("  no room for")[0].split()]
        assert [word for word in words if word not in piped.stdout] == []


def test_a_list_at_80_columns(shop: Path):
    assert (
        on_terminal(shop, "list", columns=80).text
        == """\
  name                     strategy      reads                    declared in
  raw_orders_of_all_shops  merge upsert  orders                   …rders.sql:3:1
  daily_revenue            merge         raw_orders_of_all_shops  …rders.sql:4:1
                           full_merge
"""
    )


def test_a_state_at_80_columns_says_which_columns_it_has_no_room_for(shop: Path):
    assert (
        on_terminal(shop, "state", columns=80).text
        == """\
  model_name               strategy      last_execution_timestamp  rows  version
  raw_orders_of_all_shops  merge upsert  2024-02-01 06:00             2        0
  daily_revenue            merge         not run yet
                           full_merge
  no room for materialization, sql_hash, config_hash: --format json has all
"""
    )


def test_rows_at_80_columns_have_whole_numbers_and_shortened_texts(shop: Path):
    assert (
        on_terminal(shop, "show", "raw_orders_of_all_shops", columns=80).text
        == """\
  order_id  customer_name  shipping_address  updated_at       amount  comments
         1  Ada Lovelace…  12 St James's…    2024-01-31…  1234567.25  left with…
         2  Grace Brewst…  Arlington…        2024-01-31…        20.5  none
  2 rows
"""
    )


def test_a_step_that_failed_is_red_in_status(shop: Path, shell):
    (shop / "pipelines/all_orders.sql").write_text(PIPELINE.replace("orders.csv", "nowhere.csv"))
    assert shell("run", "-s", "raw_orders_of_all_shops").returncode == 2
    seen = on_terminal(shop, "status", columns=80)
    assert "failed" in seen.text
    assert seen.colour("failed") == "red"


def test_columns_that_do_not_fit_go_from_the_end_and_no_line_is_wider_than_the_terminal():
    headings = [f"column_{n}" for n in range(12)]
    looks = Looks(gives=dict.fromkeys(headings, ("cut", 8)))
    found = laid(headings, [["a long text in a cell"] * 12], looks, 60)
    assert found.left_out == tuple(headings[-6:])
    assert max(map(size, (*found.heading, *found.lines))) <= 60


def test_a_line_breaks_between_words_and_facts_stand_below_each_other():
    assert wrapped("  notice  a b c d", 12, 10) == ["  notice  a", "      b c d"]
    head = "  ✓ orders  merged  9 rows   "
    assert flowing(head, ["on id", "1 inserted", "since 2024-01-01"], "0.1 s", None) == [
        "  ✓ orders  merged  9 rows   on id · 1 inserted · since 2024-01-01   0.1 s"
    ]
    assert flowing(head, ["on id", "1 inserted", "since 2024-01-01"], "0.1 s", 60) == [
        "  ✓ orders  merged  9 rows   on id · 1 inserted",
        "                             since 2024-01-01   0.1 s",
    ]
