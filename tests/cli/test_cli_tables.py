"""Tables on a terminal: they fit, no word is broken, and what is less important gives way first."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from terminal import WarmTerminal, on_terminal, warm_terminal

from tidemill import Cursor
from tidemill.cli.render import Looks, flowing, laid, size, wrapped
from tidemill.ledger import Ledger, Step, ledger_file
from tidemill.model.record import Counts
from tidemill.results import CursorKind

if TYPE_CHECKING:
    from collections.abc import Iterator
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


READ = {
    "rows_read": 1_234_567,
    "bytes_read": 123_456_789,
    "reason": "since 2024-01-31 20:00:00 UTC, and the rows of all shops that came late",
}


@pytest.fixture
def shop(folder: Path, make_table) -> Path:
    (folder / "tidemill.toml").write_text('name = "shop"\n')
    (folder / "pipelines").mkdir()
    (folder / "pipelines/all_orders.sql").write_text(PIPELINE)
    window = {"start": "2024-01-31T19:00:00.000000Z", "column": "updated_at"}
    facts = {"window": window, "strategy": "merge upsert on order_id, region, shop_number"}
    facts |= {"progress": {"all_orders.orders": Cursor(CursorKind.TIMESTAMP, ROWS["updated_at"][0].as_py())}}
    facts |= {"sql_hash": "0123456789abcdef", "config_hash": "fedcba9876543210", "counts": {"inserted": 2}}
    path = make_table("main.raw_orders_of_all_shops", ROWS, **facts)
    with Ledger(ledger_file(folder)).run("run pipelines/all_orders.sql --start 2024-01-01 --end 2024-03-31") as run:
        run.add(_step("raw_orders_of_all_shops", path, "changed", counts=Counts(1_234, 56), **READ))
        run.add(_step("daily_revenue", folder, "failed", error_code="source.missing", error="There is no pages.csv."))
    (folder / "run_id").write_text(run.run_id)
    return folder


def _step(name: str, path: Path, status: str, **facts: Any) -> Step:
    at = "2024-02-01T06:00:00.000Z"
    return Step(name, str(path), "merge upsert", "incremental", status, at, **{"seconds": 1.24, **facts})


COMMANDS = (
    ("list",),
    ("plan",),
    ("status",),
    ("state",),
    ("runs",),
    ("history", "raw_orders_of_all_shops"),
    ("show-watermarks",),
    ("show", "raw_orders_of_all_shops"),
    ("graph",),
)


@pytest.fixture
def terminal(shop: Path) -> Iterator[WarmTerminal]:
    """A terminal for the commands of a project, which take a process of their own once."""
    del shop  # it has set the environment
    with warm_terminal() as found:
        yield found


@pytest.mark.parametrize("columns", [80, 120])
def test_no_word_is_broken_and_nothing_is_shown_that_is_not_there(
    shop: Path, cli, terminal: WarmTerminal, columns: int
):
    for command in COMMANDS:
        piped = cli(*command)
        seen = terminal(shop, *command, columns=columns)
        assert seen.code == piped.exit_code == 0
        words = [word.strip("….,") for word in seen.text.replace("today …", "").split("  no room for")[0].split()]
        assert [word for word in words if word not in piped.stdout] == []


SCREENS = {
    ("list", 80): """\
  name                     strategy      reads                    declared in
  raw_orders_of_all_shops  merge upsert  orders                   …rders.sql:3:1
  daily_revenue            merge         raw_orders_of_all_shops  …rders.sql:4:1
                           full_merge
""",
    ("list", 120): """\
  name                     strategy          reads                    declared in
  raw_orders_of_all_shops  merge upsert      orders                   pipelines/all_orders.sql:3:1
  daily_revenue            merge full_merge  raw_orders_of_all_shops  pipelines/all_orders.sql:4:1
""",
    ("plan", 80): """\
  table                    strategy               reads
  raw_orders_of_all_shops  merge upsert on        since 2024-01-31 21:00:00 UTC,
                           order_id, region,      lookback 2 hours
                           shop_number
  daily_revenue            merge full_merge on    first run
                           day
""",
    ("plan", 120): """\
  table                    strategy                                       reads
  raw_orders_of_all_shops  merge upsert on order_id, region, shop_number  since 2024-01-31 21:00:00 UTC, lookback 2
                                                                          hours
  daily_revenue            merge full_merge on day                        first run
""",
    ("status", 80): """\
  table                           rows  watermark   last changed  last run
  raw_orders_of_all_shops            2  2024-01-31  2024-02-01    2024-02-01
                                        21:00:00    06:00         06:00 changed
                                        UTC
  daily_revenue            not run yet
  2 tables · 2 rows · last run today … failed
""",
    ("status", 120): """\
  table                           rows  watermark                last changed      last run
  raw_orders_of_all_shops            2  2024-01-31 21:00:00 UTC  2024-02-01 06:00  2024-02-01 06:00 changed
  daily_revenue            not run yet
  2 tables · 2 rows · last run today … failed
""",
    ("state", 80): """\
  model_name            strategy      last_processed_value         rows  version
  raw_orders_of_all_s…  merge upsert  2024-01-31T21:00:00.000000Z     2        0
  daily_revenue         merge
                        full_merge
  no room for materialization, last_execution_timestamp, sql_hash, config_hash:
  --format json has all
""",
    ("state", 120): """\
  model_name               strategy          last_execution_timestamp  last_processed_value         rows  version
  raw_orders_of_all_shops  merge upsert      2024-02-01 06:00          2024-01-31T21:00:00.000000Z     2        0
  daily_revenue            merge full_merge  not run yet
  no room for materialization, sql_hash, config_hash: --format json has all
""",
    ("runs", 80): """\
  run       started      command                     status  steps          took
  RUN       today …  run                         failed  1 failed, 1   … s
                         pipelines/all_orders.sql            changed
                         --start 2024-01-01 --end
                         2024-03-31
""",
    ("runs", 120): """\
  run       started      command                                                           status  steps            took
  RUN       today …  run pipelines/all_orders.sql --start 2024-01-01 --end 2024-03-31  failed  1 failed, 1     … s
                                                                                                   changed
""",
    ("runs RUN", 80): """\
  run RUN · run pipelines/all_orders.sql --start
  2024-01-01 --end 2024-03-31 · failed · today … to today …, … s
  table                    status   read       written     why
  raw_orders_of_all_shops  changed  1,234,567  +1,234 ~56  since 2024-01-31
                                    rows,                  20:00:00 UTC, and the
                                    123.5 MB               rows of all shops
                                                           that came late
  daily_revenue            failed                          error[source.missing]
  no room for mode, took: --format json has all
  ✗ daily_revenue  error[source.missing] There is no pages.csv.
""",
    ("runs RUN", 120): """\
  run RUN · run pipelines/all_orders.sql --start 2024-01-01 --end 2024-03-31 · failed ·
  today … to today …, … s
  table                    status   mode         read                      written      took  why
  raw_orders_of_all_shops  changed  incremental  1,234,567 rows, 123.5 MB  +1,234 ~56  … s  since 2024-01-31 20:00:00
                                                                                              UTC, and the rows of all
                                                                                              shops that came late
  daily_revenue            failed   incremental                                        … s  error[source.missing]
  ✗ daily_revenue  error[source.missing] There is no pages.csv.
""",
    ("history raw_orders_of_all_shops", 80): """\
  version  when              what               rows  window        watermark
        0  2024-02-01 06:00  merge upsert on    +2    2024-01-31    2024-01-31
                             order_id, region,        19:00:00 UTC  21:00:00 UTC
                             shop_number              …
""",
    ("history raw_orders_of_all_shops", 120): """\
  version  when              what                                           rows  window         watermark
        0  2024-02-01 06:00  merge upsert on order_id, region, shop_number  +2    2024-01-31     2024-01-31 21:00:00 UTC
                                                                                  19:00:00 UTC
                                                                                  …
""",
    ("show-watermarks", 80): """\
  pipeline    source  table                    column      watermark
  all_orders  orders  raw_orders_of_all_shops  updated_at  2024-01-31 21:00:00
                                                           UTC
  no room for since: --format json has all
""",
    ("show-watermarks", 120): """\
  pipeline    source  table                    column      watermark                since
  all_orders  orders  raw_orders_of_all_shops  updated_at  2024-01-31 21:00:00 UTC  2024-02-01 06:00
""",
    ("show raw_orders_of_all_shops", 80): """\
  order_id  customer_name  shipping_address  updated_at       amount  comments
         1  Ada Lovelace…  12 St James's…    2024-01-31…  1234567.25  left with…
         2  Grace Brewst…  Arlington…        2024-01-31…        20.5  none
  2 rows
""",
    ("show raw_orders_of_all_shops", 120): """\
  order_id  customer_name                   shipping_address             updated_at                   amount  comments
         1  Ada Lovelace, Countess of King  12 St James's Square…        2024-01-31 21:00:00 UTC  1234567.25  left with…
         2  Grace Brewster Murray Hopper    Arlington National…          2024-01-31 21:00:00 UTC        20.5  none
  2 rows
""",
}


@pytest.mark.parametrize("columns", [80, 120])
def test_columns_are_shortened_by_importance_and_what_is_left_out_is_named(
    shop: Path, terminal: WarmTerminal, columns: int
):
    run = (shop / "run_id").read_text()
    for command in [command for command, each in SCREENS if each == columns]:
        seen = terminal(shop, *command.replace("RUN", run).split(), columns=columns)
        assert seen.code == 0
        assert seen.text.replace(run, "RUN").replace(run[:8], "RUN     ") == SCREENS[command, columns]


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
