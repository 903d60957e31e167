"""A table that a function keeps is what its API says, day after day: corrections, late games and failures included."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import pytest
from hockey.api import DAY, FUNCTIONS, SCHEDULE, days, differing

import tidemill
from tidemill.errors import TidemillError

if TYPE_CHECKING:
    from hockey.api import Project
    from pyspark.sql import SparkSession

FIRST = date(2026, 1, 5)
SLOW = pytest.mark.slow
ANOTHER_CODE = FUNCTIONS.replace("def player_game_stats(run):", 'def player_game_stats(run):\n    """Other code."""')


def play(nhl: Project, spark: SparkSession, count: int) -> int:
    """One run a day, each compared with the league's truth; how many corrections came."""
    before, corrections = {}, 0
    for day in days(FIRST, FIRST + (count - 1) * DAY):
        done = nhl.run(spark, day)
        truth = nhl.hockey.truth(FIRST, day)
        assert nhl.held() == truth, day
        assert nhl.watermark() == day
        assert nhl.hockey.fetched() == days(max(FIRST, day - 2 * DAY), day)
        corrected = differing(before, truth)
        assert (done.counts.inserted, done.counts.updated) == (len(truth) - len(before), corrected), day
        before, corrections = truth, corrections + corrected
    return corrections


@pytest.mark.parametrize(("count", "corrections", "refused"), [(6, 10, 1), pytest.param(30, 200, 10, marks=SLOW)])
def test_after_each_day_the_table_is_what_the_league_says(
    nhl: Project, spark: SparkSession, count: int, corrections: int, refused: int
):
    nhl.write(f'start="{FIRST}", lookback="1 day"')
    assert play(nhl, spark, count) >= corrections
    assert min(nhl.hockey.refused[429], nhl.hockey.refused[500]) >= refused

    today, version = nhl.hockey.today, nhl.snapshot().version
    again = nhl.run(spark)
    assert (again.status, nhl.snapshot().version) == ("unchanged", version), "the same day again commits nothing"

    nhl.hockey.down = True
    with pytest.raises(TidemillError, match="answered 503"):
        nhl.run(spark, today + DAY)
    assert (nhl.snapshot().version, nhl.watermark()) == (version, today), "the API is down"

    nhl.hockey.down = False
    nhl.hockey.fetched()
    nhl.write(f'start="{FIRST}", lookback="1 day", comment="Statistics"', ANOTHER_CODE)
    done = nhl.run(spark, today + DAY)
    assert (done.first_run, nhl.hockey.fetched()) == (False, days(today - DAY, today + DAY))
    assert nhl.held() == nhl.hockey.truth(FIRST, today + DAY), "other code leaves history as it is"


@SLOW
def test_after_each_day_of_a_season_the_table_is_what_the_league_says(nhl: Project, spark: SparkSession):
    nhl.write(f'start="{FIRST}", lookback="1 day"', schedule=SCHEDULE)
    assert play(nhl, spark, 160) >= 700


def test_a_table_restored_from_a_backup_goes_on_where_the_backup_ends(nhl: Project, spark: SparkSession):
    """The backup's newest day is yesterday: its history is there, and only yesterday and today are fetched."""
    yesterday = FIRST + 3 * DAY
    today = yesterday + DAY
    nhl.write(f'start="{FIRST}"')
    nhl.run(spark, yesterday)
    backup = str(tidemill.backup(nhl.path(), spark=spark).path)
    of_backup, path = f"SELECT * FROM delta.`{backup}`", nhl.path()

    def drop_and_copy() -> None:
        path.rename(path.with_name("gone"))
        spark.sql(of_backup).write.format("delta").save(str(path))

    def replace() -> None:
        spark.sql(f"CREATE OR REPLACE TABLE delta.`{path}` USING delta AS {of_backup}")

    def restore() -> None:
        tidemill.restore(path, backup=backup, spark=spark)

    for way in (drop_and_copy, replace, restore):
        way()
        nhl.hockey.fetched()
        done = nhl.run(spark, today)
        assert nhl.hockey.fetched() == [yesterday, today], way.__name__
        expected = {**nhl.hockey.truth(FIRST, today), **_as_of(nhl, yesterday)}
        assert nhl.held() == expected, way.__name__
        assert (done.first_run, nhl.watermark()) == (False, today), way.__name__


def _as_of(nhl: Project, day: date) -> dict:
    """What was fetched on a day and never again: days before it, as the league had them then."""
    today, nhl.hockey.today = nhl.hockey.today, day
    try:
        return nhl.hockey.truth(FIRST, day - DAY)
    finally:
        nhl.hockey.today = today


def test_days_without_a_game_and_games_months_ahead_leave_the_dates_as_few_as_they_are(
    nhl: Project, spark: SparkSession
):
    last = date(2026, 4, 15)
    nhl.write(f'start="{last - DAY}"', schedule=SCHEDULE)
    nhl.run(spark, last)
    nhl.hockey.fetched(), nhl.hockey.fetched("schedule")
    for today in (last + DAY, last + 60 * DAY):
        before = nhl.watermark()
        nhl.run(spark, today)
        assert nhl.hockey.fetched() == days(before, today)
        assert nhl.hockey.fetched("schedule") == days(before, today)
        assert (nhl.watermark(), nhl.watermark("bronze.schedule")) == (today, today)
    nhl.run(spark, date(2026, 9, 20))
    assert nhl.watermark("bronze.schedule") == date(2026, 9, 20), "and games of December are in it"
    ahead = spark.read.format("delta").load(str(nhl.path("bronze.schedule"))).selectExpr("max(gameDate)").first()
    assert ahead is not None
    assert ahead[0] > date(2026, 12, 1)
    assert nhl.held().keys() == nhl.hockey.truth(last - DAY, last).keys(), "its last two days are all it has"
