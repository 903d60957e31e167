"""What a person sees: whole screens of a terminal, at 80 and 120 columns, after commands that show what they do."""

from __future__ import annotations

import shlex
import sys
from datetime import date, timedelta
from functools import partial
from typing import TYPE_CHECKING

import pytest
from terminal import CTRL_C, Seen, command_on_terminal, on_terminal, warm_terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PIPELINE = """
SOURCE orders TYPE CSV PARAMS { "path": "data/orders/*.csv", "schema": "order_id INT, amount INT, at TIMESTAMP" }
  INCREMENTAL BY at LOOKBACK 2 HOURS;
LOAD raw_orders FROM orders MODE MERGE ON order_id;
"""
CHECKS = 'metadata = {"checks": [{"unique": "order_id"}, {"not_null": "amount"}, "amount %s"]}\n'
BANK = """
SOURCE ours TYPE CSV PARAMS { "path": "ours.csv", "types": {"day": "date"} };
SOURCE theirs TYPE CSV PARAMS { "path": "theirs.csv", "types": {"day": "date"} };
LOAD bank FROM ours;
LOAD sepa FROM theirs;
CREATE TABLE payments AS
INCREMENTAL LEFT JOIN bank AS a BY day WITH sepa AS b BY day
ON a.reference = b.reference LOOK BACK 6 DAYS LOOK FORWARD 10 DAYS
SELECT a.reference, b.day AS sepa_day;
"""
HEADER = "order_id,amount,at\n"
APART = (0, 0, 0, 1, 300)  # days between the two rows of a match
WIDTHS = (80, 120)


Screens = dict[tuple[str, int], Seen]


@pytest.fixture(scope="module")
def screens(tmp_path_factory: pytest.TempPathFactory) -> Screens:
    """What the commands of a project show on narrow and on wide terminals: a project for each, one engine for both."""
    with warm_terminal() as terminal:
        folders = {columns: tmp_path_factory.mktemp("shop") for columns in WIDTHS}
        seen = {
            (name, columns): screen
            for columns, folder in folders.items()
            for name, screen in _commands(folder, partial(terminal, folder, columns=columns))
        }
    narrow = WIDTHS[0]  # its lines fit there: nothing is left for the wide one to show
    _write(folders[narrow] / "slow.sql", f"CREATE TABLE slow AS SELECT max(hash(id)) AS h FROM range({1 << 50});")
    keys = ("slow  first run", CTRL_C)  # in a process of its own: the engine does not outlive it
    seen["ctrl-c", narrow] = on_terminal(folders[narrow], "run", "slow.sql", columns=narrow, type_when=keys)
    return seen


def _commands(folder: Path, tidemill: Callable[..., Seen]) -> Iterator[tuple[str, Seen]]:
    files = {
        "tidemill.toml": 'name = "shop"\n',
        "pipelines/shop.sql": PIPELINE,
        "data/orders/day1.csv": f"{HEADER}1,10,2024-01-01 09:00:00\n2,20,2024-01-20 09:00:00\n",
        "models/main/large_orders.sql": "SELECT order_id, amount FROM raw_orders WHERE amount >= 20",
        "models/main/large_orders.py": CHECKS % "< 50",
    }
    for name, text in files.items():
        _write(folder / name, text)
    yield "first run", tidemill("run")
    _write(folder / "data/orders/day2.csv", f"{HEADER}2,25,2024-01-20 10:00:00\n3,30,2024-01-31 09:00:00\n")
    yield "second run", tidemill("run")
    yield "verify", tidemill("verify")
    _write(folder / "models/main/large_orders.py", CHECKS % "< 30")
    yield "test", tidemill("test")
    dates = ("--start", "2024-01-01", "--end", "2024-01-31")
    yield "backfill", tidemill("run", "-s", "raw_orders", *dates, "--batch", "14 days")
    yield "merge", tidemill("merge", "data/orders/day2.csv", "lake/orders", "--on", "order_id")
    _write(folder / "data/orders/day3.csv", f"{HEADER}4,25,2024-01-31 10:00:00\n")
    yield "failure", tidemill("run")
    pairs = [(f"{n},2024-01-01", f"{n},{date(2024, 1, 1) + timedelta(apart)}") for n, apart in enumerate(APART)]
    for name, rows in zip(("ours.csv", "theirs.csv"), zip(*pairs, strict=True), strict=True):
        _write(folder / name, "\n".join(("reference,day", *rows)))
    _write(folder / "bank.sql", BANK)
    tidemill("run", "bank.sql")
    yield "join-stats", tidemill("join-stats", "payments", "bank.sql")


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


SHOWN = {
    **dict.fromkeys(
        [("first run", 80), ("first run", 120)],
        """\
  Tidemill 0.1 · shop · embedded Spark · 2 steps   first run
  ✓ raw_orders    loaded           2 rows   on order_id · 2 inserted   … s
  ✓ large_orders  loaded            1 row   1 inserted · 3 checks passed   … s
  done in … s · 2 tables changed · next: tidemill status
""",
    ),
    ("second run", 80): """\
  Tidemill 0.1 · shop · embedded Spark · 2 steps
  ✓ raw_orders    merged           3 rows   on order_id · 1 inserted · 1 updated
                                            since 2024-01-20 09:00:00 UTC,
                                            lookback 2 hours   … s
  notice  1 of 3 rows skipped: one row per key is kept
  ✓ large_orders  replaced         2 rows   2 inserted · 1 deleted
                                            3 checks passed   … s
  done in … s · 2 tables changed
""",
    ("second run", 120): """\
  Tidemill 0.1 · shop · embedded Spark · 2 steps
  ✓ raw_orders    merged           3 rows   on order_id · 1 inserted · 1 updated
                                            since 2024-01-20 09:00:00 UTC, lookback 2 hours   … s
  notice  1 of 3 rows skipped: one row per key is kept
  ✓ large_orders  replaced         2 rows   2 inserted · 1 deleted · 3 checks passed   … s
  done in … s · 2 tables changed
""",
    **dict.fromkeys(
        [("verify", 80), ("verify", 120)],
        """\
  ✓ raw_orders equals a full load (3 rows)
    1 of 4 rows skipped: one row per key is kept
  ✓ large_orders equals its query (2 rows)
""",
    ),
    ("test", 80): """\
  ✓ large_orders  unique(order_id)  2 rows
  ✓ large_orders  not_null(amount)  2 rows
  ✗ large_orders  amount < 30       1 of 2 rows makes it false: order_id=3
    amount=30
    models/main/large_orders.py:1:72
  3 checks · 2 passed · 1 failed
""",
    ("test", 120): """\
  ✓ large_orders  unique(order_id)  2 rows
  ✓ large_orders  not_null(amount)  2 rows
  ✗ large_orders  amount < 30       1 of 2 rows makes it false: order_id=3 amount=30
    models/main/large_orders.py:1:72
  3 checks · 2 passed · 1 failed
""",
    ("backfill", 80): """\
  Tidemill 0.1 · shop · embedded Spark · 1 step
  ✓ raw_orders  unchanged        4 rows   on order_id · 3 unchanged · 3 batches
                                          backfill from 2024-01-01 to 2024-01-31
                                          by 14 days   … s
  notice  1 of 2 rows skipped: one row per key is kept
  done in … s · 0 tables changed
""",
    ("backfill", 120): """\
  Tidemill 0.1 · shop · embedded Spark · 1 step
  ✓ raw_orders  unchanged        4 rows   on order_id · 3 unchanged · 3 batches
                                          backfill from 2024-01-01 to 2024-01-31 by 14 days   … s
  notice  1 of 2 rows skipped: one row per key is kept
  done in … s · 0 tables changed
""",
    ("merge", 80): """\
  ✓ orders  first run · merged 2 rows on order_id · 2 inserted
            2 rows in all   … s
""",
    ("merge", 120): """\
  ✓ orders  first run · merged 2 rows on order_id · 2 inserted · 2 rows in all   … s
""",
    ("failure", 80): """\
  Tidemill 0.1 · shop · embedded Spark · 2 steps
  ✓ raw_orders    merged           2 rows   on order_id · 1 inserted
                                            1 unchanged
                                            since 2024-01-31 09:00:00 UTC,
                                            lookback 2 hours   … s
  ✗ large_orders  error[checks.failed] The check amount < 30 of large_orders
    failed: 1 of 3 rows that would enter makes it false: order_id=3 amount=30.
    models/main/large_orders.py:1:72
    Correct the rows or their query; with "severity": "warn" such rows enter,
    and are reported. large_orders is unchanged.
  1 failed · 1 table changed · what is done stays: fix the rest and run again
""",
    ("failure", 120): """\
  Tidemill 0.1 · shop · embedded Spark · 2 steps
  ✓ raw_orders    merged           2 rows   on order_id · 1 inserted · 1 unchanged
                                            since 2024-01-31 09:00:00 UTC, lookback 2 hours   … s
  ✗ large_orders  error[checks.failed] The check amount < 30 of large_orders failed: 1 of 3 rows that would enter makes
    it false: order_id=3 amount=30.
    models/main/large_orders.py:1:72
    Correct the rows or their query; with "severity": "warn" such rows enter, and are reported. large_orders is
    unchanged.
  1 failed · 1 table changed · what is done stays: fix the rest and run again
""",
    ("join-stats", 80): """\
  payments · 5 matches, whenever they came
  in days; * as declared
  look back        0   6*
  catches       100% 100%
  look forward      0     1     2     3     5     7   10*    14    21    30
  catches       60.0% 80.0% 80.0% 80.0% 80.0% 80.0% 80.0% 80.0% 80.0% 80.0%
  look forward     45    60    90   120   180   270  300
  catches       80.0% 80.0% 80.0% 80.0% 80.0% 80.0% 100%
  a look forward of 10 days catches 80.0% of the matches, 300 days 100%; with
  the look back of 6 days it is 80.0%
""",
    ("join-stats", 120): """\
  payments · 5 matches, whenever they came
  in days; * as declared
  look back        0   6*
  catches       100% 100%
  look forward      0     1     2     3     5     7   10*    14    21    30    45    60    90   120   180   270  300
  catches       60.0% 80.0% 80.0% 80.0% 80.0% 80.0% 80.0% 80.0% 80.0% 80.0% 80.0% 80.0% 80.0% 80.0% 80.0% 80.0% 100%
  a look forward of 10 days catches 80.0% of the matches, 300 days 100%; with the look back of 6 days it is 80.0%
""",
    ("ctrl-c", 80): """\
  Tidemill 0.1 · shop · embedded Spark · 1 step   first run
interrupted: nothing is half written, and the same command again takes it up
""",
}
CODES = {"test": 1, "failure": 1, "ctrl-c": 130}


@pytest.mark.parametrize(("name", "columns"), SHOWN)
def test_the_screen_after_a_command(screens: Screens, name: str, columns: int):
    assert screens[name, columns].text == SHOWN[name, columns]
    assert screens[name, columns].code == CODES.get(name, 0)


@pytest.mark.parametrize("columns", WIDTHS)
def test_marks_have_the_colour_of_what_they_say(screens: Screens, columns: int):
    assert screens["first run", columns].colour("✓") == "green"
    assert screens["test", columns].colour("✗") == "red"
    assert screens["failure", columns].colour("✗") == "red"


@pytest.mark.parametrize("columns", WIDTHS)
def test_a_command_displays_what_it_is_doing(screens: Screens, columns: int):
    displayed = {name: seen.displayed for (name, each), seen in screens.items() if each == columns}
    assert displayed["first run"] >= {"raw_orders  first run", "large_orders  first run"}
    assert displayed["backfill"] >= {
        "raw_orders  1 of 3 · 2024-01-01 00:00:00 UTC … 2024-01-15 00:00:00 UTC",
        "raw_orders  2 of 3 · 2024-01-15 00:00:00 UTC … 2024-01-29 00:00:00 UTC",
    }
    assert displayed["verify"] == {"verifying shop"}
    assert displayed["merge"] == {"merging data/orders/day2.csv into lake/orders"}
    assert displayed["join-stats"] == {"counting the matches of payments"}


def test_the_first_command_displays_that_spark_starts(screens: Screens):
    assert "starting Spark" in screens["first run", WIDTHS[0]].displayed
    assert "slow  first run" in screens["ctrl-c", WIDTHS[0]].displayed


WORK = """
import time
from tidemill.cli import Live, write
with Live("working", quiet=False):
    time.sleep(0.5)
    write("the first step is done")
    time.sleep(0.5)
write("done")
"""


@pytest.mark.parametrize(("through", "displayed"), [("", {"working"}), (" | cat", set()), (" | tee log", set())])
def test_lines_that_come_to_the_terminal_through_a_pipe_are_not_glued_to_a_spinner(
    tmp_path: Path, through: str, displayed: set[str]
):
    command = f"{shlex.join([sys.executable, '-c', WORK])}{through}"
    seen = command_on_terminal(["sh", "-c", command], tmp_path, WIDTHS[0])
    assert seen.text == "the first step is done\ndone\n"
    assert seen.displayed == displayed


def test_a_terminal_that_cannot_move_its_cursor_gets_lines_only(tmp_path: Path):
    command = f"TERM=dumb {shlex.join([sys.executable, '-c', WORK])}"
    seen = command_on_terminal(["sh", "-c", command], tmp_path, WIDTHS[0])
    assert (seen.text, seen.displayed) == ("the first step is done\ndone\n", set())
