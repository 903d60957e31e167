"""The league that the other tests fetch from has all that makes an API hard, and the example's functions read it."""

from __future__ import annotations

import sys
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest
from hockey.api import DAY, EXAMPLE, Hockey, days, differing

import tidemill
from tidemill.testing import run_table

if TYPE_CHECKING:
    from types import ModuleType

FIRST, LAST = date(2026, 1, 5), date(2026, 2, 3)


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch, api: Any) -> ModuleType:
    """The functions of the example, fetching from this test's server."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    monkeypatch.syspath_prepend(str(EXAMPLE / "models" / "bronze"))
    monkeypatch.setenv("NHL_API", f"{api.url}/v1")
    import nhl  # noqa: PLC0415  the example's file

    yield nhl
    for name in ("nhl", "league"):
        sys.modules.pop(name, None)


def test_the_league_has_corrections_ties_late_games_and_days_without_a_game():
    hockey = Hockey(LAST, corrected=0.2)
    games = {day: hockey.league.games(day, LAST) for day in days(FIRST, LAST)}
    assert [day for day, found in games.items() if not found], "no day without a game"
    assert [game for found in games.values() for game in found if game["homeScore"] == game["awayScore"]], "no tie"
    late = [day for day in games if len(hockey.league.games(day, day)) < len(hockey.league.games(day, day + DAY))]
    assert late, "no game that ends on the next day"
    corrections, before = 0, {}
    for day in days(FIRST, LAST):
        hockey.today = day
        truth = hockey.truth(FIRST, day)
        corrections, before = corrections + differing(before, truth), truth
    assert corrections >= 200
    assert Hockey(LAST, corrected=0.2).truth(FIRST, LAST) == before, "the same seed is the same league"


def test_a_function_gets_the_truth_from_a_server_that_refuses_now_and_then(api):
    api.answer = hockey = Hockey(LAST, trouble=0.5)
    league = tidemill.Api(f"{api.url}/v1", at_once=3)

    def stats(run):
        for _, found in league.each(run.dates, lambda day: league.get(f"stats/{day}")):
            yield found["stats"]

    rows = run_table(stats, start=FIRST, end=LAST)
    assert len(rows) == len(hockey.truth(FIRST, LAST))
    assert hockey.fetched() == days(FIRST, LAST)
    assert hockey.refused[429]
    assert hockey.refused[500]


def test_the_functions_of_the_example_give_what_the_league_says(api, example):
    api.answer = hockey = Hockey(LAST)
    stats = run_table(example.player_game_stats, start=LAST - 2 * DAY, end=LAST)
    assert len(stats) == len(hockey.truth(LAST - 2 * DAY, LAST))
    over = run_table(example.games, start=LAST - DAY, end=LAST - DAY)
    assert [row["gameDate"] for row in over] == ["2026-02-02"] * 3
    ahead = run_table(example.schedule, start=LAST - DAY, end=LAST)
    assert hockey.fetched("schedule") == [LAST], "one request for all of it"
    assert max(row["gameDate"] for row in ahead) > "2026-03-31"
    assert len(run_table(example.skaters)) == 24
