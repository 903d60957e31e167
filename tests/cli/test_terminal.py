"""What a person sees: whole screens of a terminal, at 80 and 120 columns, after commands that show what they do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from terminal import CTRL_C, Seen, on_terminal

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = """
SOURCE orders TYPE CSV PARAMS { "path": "data/orders/*.csv", "schema": "order_id INT, amount INT, at TIMESTAMP" }
  INCREMENTAL BY at LOOKBACK 2 HOURS;
LOAD raw_orders FROM orders MODE MERGE ON order_id;
"""
CHECKS = 'metadata = {"checks": [{"unique": "order_id"}, {"not_null": "amount"}, "amount %s"]}\n'
HEADER = "order_id,amount,at\n"


@pytest.fixture(scope="module")
def screens(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Seen]:
    """One project and its commands, each on a terminal of its own; every one of them starts an engine."""
    folder = tmp_path_factory.mktemp("shop")
    files = {
        "tidemill.toml": 'name = "shop"\n',
        "pipelines/shop.sql": PIPELINE,
        "data/orders/day1.csv": f"{HEADER}1,10,2024-01-01 09:00:00\n2,20,2024-01-20 09:00:00\n",
        "models/main/large_orders.sql": "SELECT order_id, amount FROM raw_orders WHERE amount >= 20",
        "models/main/large_orders.py": CHECKS % "< 50",
    }
    for name, text in files.items():
        _write(folder / name, text)
    seen = {"first run": on_terminal(folder, "run", columns=120)}
    _write(folder / "data/orders/day2.csv", f"{HEADER}2,25,2024-01-20 10:00:00\n3,30,2024-01-31 09:00:00\n")
    seen["second run"] = on_terminal(folder, "run", columns=80)
    seen["verify"] = on_terminal(folder, "verify", columns=80)
    _write(folder / "models/main/large_orders.py", CHECKS % "< 30")
    seen["test"] = on_terminal(folder, "test", columns=80)
    dates = ("--start", "2024-01-01", "--end", "2024-01-31")
    seen["backfill"] = on_terminal(folder, "run", "-s", "raw_orders", *dates, "--batch", "14 days", columns=80)
    seen["merge"] = on_terminal(folder, "merge", "data/orders/day2.csv", "lake/orders", "--on", "order_id", columns=120)
    _write(folder / "data/orders/day3.csv", f"{HEADER}4,25,2024-01-31 10:00:00\n")
    seen["failure"] = on_terminal(folder, "run", columns=80)
    _write(folder / "slow.sql", f"CREATE TABLE slow AS SELECT max(hash(id)) AS h FROM range({1 << 50});")
    seen["ctrl-c"] = on_terminal(folder, "run", "slow.sql", columns=120, type_when=("slow", CTRL_C))
    return seen


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_a_first_run(screens: dict[str, Seen]):
    assert screens["first run"].code == 0
    assert (
        screens["first run"].text
        == """\
  Tidemill 0.1 · shop · embedded Spark · 2 steps   first run
  ✓ raw_orders    loaded           2 rows   on order_id · 2 inserted   … s
  ✓ large_orders  loaded            1 row   1 inserted · 3 checks passed   … s
  done in … s · 2 tables changed · next: tidemill status
"""
    )
    assert screens["first run"].displayed >= {"raw_orders", "starting Spark", "large_orders"}
    assert screens["first run"].colour("✓") == "green"


def test_facts_that_do_not_fit_stand_below_each_other(screens: dict[str, Seen]):
    assert screens["second run"].code == 0
    assert (
        screens["second run"].text
        == """\
  Tidemill 0.1 · shop · embedded Spark · 2 steps
  ✓ raw_orders    merged           3 rows   on order_id · 1 inserted · 1 updated
                                            since 2024-01-20 09:00:00 UTC,
                                            lookback 2 hours   … s
  notice  1 of 3 rows skipped: one row per key is kept
  ✓ large_orders  replaced         2 rows   2 inserted · 1 deleted
                                            3 checks passed   … s
  done in … s · 2 tables changed
"""
    )


def test_verify(screens: dict[str, Seen]):
    assert screens["verify"].code == 0
    assert (
        screens["verify"].text
        == """\
  ✓ raw_orders equals a full load (3 rows)
    1 of 4 rows skipped: one row per key is kept
  ✓ large_orders equals its query (2 rows)
"""
    )
    assert screens["verify"].displayed == {"verifying shop"}


def test_checks_of_which_one_fails(screens: dict[str, Seen]):
    assert screens["test"].code == 1
    assert (
        screens["test"].text
        == """\
  ✓ large_orders  unique(order_id)  2 rows
  ✓ large_orders  not_null(amount)  2 rows
  ✗ large_orders  amount < 30       1 of 2 rows makes it false: order_id=3
    amount=30
    models/main/large_orders.py:1:72
  3 checks · 2 passed · 1 failed
"""
    )
    assert screens["test"].colour("✗") == "red"


def test_a_backfill_shows_which_batch_it_has_come_to(screens: dict[str, Seen]):
    assert screens["backfill"].code == 0
    assert (
        screens["backfill"].text
        == """\
  Tidemill 0.1 · shop · embedded Spark · 1 step
  ✓ raw_orders  unchanged        4 rows   on order_id · 3 unchanged · 3 batches
                                          backfill from 2024-01-01 to 2024-01-31
                                          by 14 days   … s
  notice  1 of 2 rows skipped: one row per key is kept
  done in … s · 0 tables changed
"""
    )
    assert screens["backfill"].displayed >= {
        "raw_orders  1 of 3 · 2024-01-01 00:00:00 UTC … 2024-01-15 00:00:00 UTC",
        "raw_orders  2 of 3 · 2024-01-15 00:00:00 UTC … 2024-01-29 00:00:00 UTC",
    }


def test_merge(screens: dict[str, Seen]):
    assert screens["merge"].code == 0
    assert screens["merge"].text == (
        "  ✓ orders  first run · merged 2 rows on order_id · 2 inserted · 2 rows in all   … s\n"
    )
    assert screens["merge"].displayed == {"merging data/orders/day2.csv into lake/orders"}


def test_a_step_that_fails(screens: dict[str, Seen]):
    assert screens["failure"].code == 1
    assert (
        screens["failure"].text
        == """\
  Tidemill 0.1 · shop · embedded Spark · 2 steps
  ✓ raw_orders    merged           2 rows   on order_id · 1 inserted
                                            1 unchanged
                                            since 2024-01-31 09:00:00 UTC,
                                            lookback 2 hours   … s
  ✗ large_orders  error[checks.failed] The check amount < 30 of
    main.large_orders failed: 1 of 3 rows that would enter makes it false:
    order_id=3 amount=30.
    models/main/large_orders.py:1:72
    Correct the rows or their query; with "severity": "warn" such rows enter,
    and are reported. main.large_orders is unchanged.
  1 failed · 1 table changed · what is done stays: fix the rest and run again
"""
    )
    assert screens["failure"].colour("✗") == "red"


def test_ctrl_c_leaves_nothing_of_what_was_displayed(screens: dict[str, Seen]):
    assert screens["ctrl-c"].code == 130
    assert (
        screens["ctrl-c"].text
        == """\
  Tidemill 0.1 · shop · embedded Spark · 1 step   first run
interrupted: nothing is half written, and the same command again takes it up
"""
    )
    assert "slow" in screens["ctrl-c"].displayed
