"""A backfill reads from one time to another, in batches if asked; a full refresh rebuilds a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidemill.errors import ArgumentError
from tidemill.execution import StepResult
from tidemill.formats.delta.log import DeltaLog
from tidemill.planning import Request, backfill_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipelines.conftest import Shop

    from tidemill.execution import Outcome

    Counted = Callable[[StepResult], tuple[int, ...]]

EVENTS = """
SOURCE events TYPE CSV PARAMS { "path": "data/events.csv" } INCREMENTAL BY day;
LOAD kept FROM events MODE MERGE ON id;
LOAD log FROM events MODE APPEND;
CREATE TABLE daily MODE INCREMENTAL BY day AS
SELECT day, count(*) AS n FROM kept WHERE day >= @start_date AND day < @end_date GROUP BY 1;
"""
ROWS = [(n, f"2024-01-0{n}", n) for n in range(1, 7)]


def asked(
    shop: Shop, start: str | None = None, end: str | None = None, batch: str | None = None, only: tuple[str, ...] = ()
) -> dict[str, Outcome]:
    request = Request(backfill=backfill_of(start, end, batch))
    outcome = shop.load().choose(only).run(shop.spark, request=request)
    return {each.name.removeprefix("main."): each for each in outcome.outcomes}


def refresh(shop: Shop, *only: str) -> dict[str, Outcome]:
    outcome = shop.load().choose(only).run(shop.spark, request=Request(full_refresh=True))
    return {each.name.removeprefix("main."): each for each in outcome.outcomes}


def watermark(shop: Shop, table: str) -> str:
    snapshot = DeltaLog(str(shop.path(table))).snapshot()
    assert snapshot is not None
    assert snapshot.record is not None
    return str(next(iter(snapshot.record.progress.values())))


def test_late_rows_enter_once_by_a_backfill_and_the_watermark_stays(shop: Shop, counts: Counted) -> None:
    shop.says(EVENTS).data("events.csv", "id day value", *ROWS)
    shop.run()
    shop.data("events.csv", "id day value", *ROWS, (7, "2024-01-02", 7), (8, "2024-01-04", 8))
    assert counts(shop.run()["log"].result) == (0, 0, 0, 1)
    found = asked(shop, "2024-01-02", "2024-01-03")
    assert {name: counts(each.result) for name, each in found.items()} == {
        "kept": (1, 0, 0, 2),
        "log": (1, 0, 0, 2),
        "daily": (1, 0, 1, 1),
    }
    assert [row[0] for row in shop.rows("log")] == [1, 2, 3, 4, 5, 6, 7]
    assert watermark(shop, "log") == "2024-01-06"
    again = asked(shop, "2024-01-02", "2024-01-03")
    assert {each.result.status for each in again.values()} == {"unchanged"}


def test_a_first_backfill_in_batches_commits_each_and_one_that_was_cut_short_goes_on(
    shop: Shop, counts: Counted
) -> None:
    shop.says(EVENTS).data("events.csv", "id day value", *ROWS, (4, "2024-01-04", 99))
    broken = asked(shop, "2024-01-02", "2024-01-06", "2 days", ("kept",))["kept"].error
    assert broken is not None
    assert broken.code == "merge.duplicate_keys"
    assert broken.remedy.endswith("1 of 3 batches are in the table and stay; the same command goes on at 2024-01-04.")
    assert shop.version("kept") == 0
    shop.data("events.csv", "id day value", *ROWS)
    result = asked(shop, "2024-01-02", "2024-01-06", "2 days", ("kept",))["kept"].result
    assert isinstance(result, StepResult)
    assert (result.batches, counts(result)) == (2, (3, 0, 0, 0))
    assert result.notices == ("taken up where it stopped: 1 batch was done already",)
    assert [row[0] for row in shop.rows("kept")] == [2, 3, 4, 5, 6]
    assert (shop.version("kept"), watermark(shop, "kept")) == (2, "2024-01-06")


def test_a_backfill_with_an_end_keeps_stored_rows_that_lie_behind_it_and_one_above_a_gap_moves_no_watermark(
    shop: Shop, counts: Counted
) -> None:
    shop.says(EVENTS).data(
        "events.csv", "id day value", (1, "2024-01-01", 1), (1, "2024-01-05", 5), (2, "2024-01-02", 2)
    )
    shop.run()
    found = asked(shop, "2024-01-01", "2024-01-02", only=("kept",))["kept"].result
    assert isinstance(found, StepResult)
    assert (counts(found), found.counts.ignored) == ((0, 0, 0, 1), 1)
    assert {row[0]: row[2] for row in shop.rows("kept")} == {1: 5, 2: 2}
    shop.data("events.csv", "id day value", (3, "2024-01-07", 3), (4, "2024-01-09", 4))
    asked(shop, "2024-01-08", only=("kept",))
    assert watermark(shop, "kept") == "2024-01-05"
    assert counts(shop.run()["kept"].result) == (1, 0, 0, 1)
    assert watermark(shop, "kept") == "2024-01-09"


def test_a_full_refresh_makes_a_table_what_a_first_run_gives_and_again_writes_nothing(
    shop: Shop, counts: Counted
) -> None:
    shop.says(EVENTS).data("events.csv", "id day value", *ROWS)
    shop.run()
    shop.says(EVENTS.replace("MERGE ON id", 'MERGE ON id OPTIONS { "partition_by": ["day"] }'))
    shop.data("events.csv", "id day value", *ROWS[3:], (7, "2024-01-05", 7))
    found = refresh(shop, "kept", "log")
    assert {name: counts(each.result) for name, each in found.items()} == {
        "kept": (1, 0, 3, 3),
        "log": (1, 0, 3, 3),
    }
    assert found["kept"].result.rebuilt
    assert (shop.path("kept") / "day=2024-01-05").is_dir()
    assert [row[0] for row in shop.rows("kept")] == [4, 5, 6, 7]
    assert refresh(shop, "kept")["kept"].result.status == "unchanged"
    assert shop.version("kept") == 1


def test_a_full_refresh_after_a_changed_query_gives_windows_back_to_the_table(shop: Shop) -> None:
    shop.says(EVENTS).data("events.csv", "id day value", *ROWS)
    shop.run()
    shop.says(EVENTS.replace("count(*)", "count(id)"))
    plan = {step.table: step for step in shop.load().plan()}
    assert plan["main.daily"].notices == (
        (
            "daily: its query changed since the last run; rows before this window were made by the old one. "
            f"Rebuild them with: tidemill run {shop.file} -s daily --full-refresh"
        ),
    )
    refresh(shop, "daily")
    assert [step.notices for step in shop.load().plan()] == [(), (), ()]


def test_a_table_that_must_not_be_reset_is_refused_and_stays(shop: Shop) -> None:
    text = """
    SOURCE events TYPE CSV PARAMS { "path": "data/events.csv" } INCREMENTAL BY day;
    LOAD kept FROM events MODE MERGE ON id OPTIONS { "reset_allowed": false };
    """
    shop.says(text).data("events.csv", "id day value", *ROWS)
    shop.run()
    shop.data("events.csv", "id day value", ROWS[0])
    with pytest.raises(ArgumentError) as refused:
        refresh(shop)
    assert str(refused.value) == (
        "[table.reset_refused] kept is declared reset_allowed = false: 6 rows of history would be replaced. "
        "Leave it out with --exclude kept. If its history is to go, take a backup (tidemill backup kept), "
        "then allow it where it is declared."
    )
    assert (shop.version("kept"), len(shop.rows("kept"))) == (1, 6)  # that it must not be reset is noted on it


def test_what_a_selected_table_reads_has_to_be_there(shop: Shop) -> None:
    shop.says(EVENTS).data("events.csv", "id day value", *ROWS)
    with pytest.raises(ArgumentError) as caught:
        shop.load().choose(["daily"])
    assert str(caught.value) == (
        "[plan.not_made] daily reads kept, which is not selected and has not been made yet. "
        "Select what it reads too: --select +daily"
    )
    with pytest.raises(ArgumentError, match="None of these tables has a time column"):
        shop.says('SOURCE e TYPE CSV PARAMS { "path": "data/events.csv" }; LOAD t FROM e;').load().plan(
            Request(backfill=backfill_of("2024-01-01", None, None))
        )
