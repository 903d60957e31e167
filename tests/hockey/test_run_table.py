"""A table function is tested alone: `tidemill.testing.run_table` gives its rows, and needs no warehouse."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pandas as pd
import pyarrow as pa
import pytest

import tidemill
from tidemill.testing import run_table


@tidemill.table(name="bronze.games", keys="id", time_column="day", start="2023-10-01")
def games(run):
    for day in run.dates:
        yield [{"id": day.day, "day": day, "mode": run.mode}]


@tidemill.table(name="bronze.skaters", keys="id")
def skaters():
    return pd.DataFrame({"id": [1, 2]})


def test_a_function_gives_the_rows_of_the_dates_from_start_to_end():
    rows = run_table(games, start="2026-02-03", end=date(2026, 2, 5))
    assert rows == [{"id": day, "day": date(2026, 2, day), "mode": "first"} for day in (3, 4, 5)]
    assert run_table(games, start="2026-02-03", end="2026-02-03", mode="backfill")[0]["mode"] == "backfill"


def test_without_a_start_it_is_yesterday_and_today_and_without_a_time_column_no_dates():
    today = datetime.now(UTC).date()
    assert [row["day"] for row in run_table(games)] == [today - timedelta(days=1), today]
    assert run_table(skaters) == [{"id": 1}, {"id": 2}]
    assert run_table(lambda run: [{"dates": len(run.dates), "start": run.start}]) == [{"dates": 0, "start": None}]


def test_all_that_a_function_may_give_is_rows():
    def everything():
        yield [{"a": 1}]
        yield pa.table({"a": [2]})
        yield pd.DataFrame({"a": [3]})
        yield None
        yield []

    assert run_table(everything) == [{"a": 1}, {"a": 2}, {"a": 3}]
    assert run_table(lambda: None) == []
    with pytest.raises(tidemill.TidemillError) as caught:
        run_table(lambda: "rows")
    assert str(caught.value) == (
        "[testing.unknown_rows] A str is given where rows are expected. "
        "Give a Spark, Arrow or pandas frame, or a list of dicts."
    )


def test_what_is_asked_for_and_not_given_is_reported():
    with pytest.raises(tidemill.TidemillError) as caught:
        run_table(lambda run: run.read("bronze.games"))
    assert str(caught.value) == (
        "[testing.no_table] The function reads bronze.games, and run_table is not given it. "
        'Give its rows: reads={"bronze.games": […]}'
    )
    with pytest.raises(ValueError, match="start is 'yesterday', which is no date"):
        run_table(games, start="yesterday")
    with pytest.raises(ValueError, match="There are no dates from 2026-02-04 to 2026-02-03"):
        run_table(games, start="2026-02-04", end="2026-02-03")
    with pytest.raises(ValueError, match="'games' is no function"):
        run_table("games")


def test_an_api_is_asked_once_within_a_call(api):
    def twice():
        league = tidemill.Api(api.url)
        yield [{"n": league.get("x")["n"]}]
        yield [{"n": league.get("x")["n"]}]

    api.answer = lambda _: {"n": len(api.asked)}
    assert run_table(twice) == [{"n": 1}, {"n": 1}]


def test_the_table_as_it_is_and_others_come_as_frames_of_spark(spark):
    @tidemill.table(name="bronze.stats", strategy="replace")
    def unioned(run):
        """The pattern that many have: read, union, drop duplicates, return everything."""
        new = run.spark.createDataFrame([(2, "new")], "id INT, what STRING")
        names = run.read("bronze.names")
        return run.existing().unionByName(new).join(names, "id").dropDuplicates(["id"])

    kept = pa.table({"id": pa.array([1], pa.int32()), "what": ["old"]})
    rows = run_table(
        unioned, existing=kept, reads={"bronze.names": [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]}, spark=spark
    )
    assert sorted(rows, key=lambda row: row["id"]) == [
        {"id": 1, "what": "old", "name": "a"},
        {"id": 2, "what": "new", "name": "b"},
    ]
