"""The hockey example does what its README says: bronze by functions, silver and gold by SQL, today and tomorrow."""

from __future__ import annotations

import shutil
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from hockey.api import DAY, EXAMPLE, Hockey, Project, by_key, days
from sources.conftest import api  # noqa: F401  the same server answers

import tidemill

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from pyspark.sql import Row, SparkSession

BRONZE = ("bronze.games", "bronze.player_game_stats", "bronze.schedule", "bronze.skaters")
TABLES = (*BRONZE, "gold.next_games", "gold.scorers", "gold.standings", "silver.games", "silver.player_games")


def season(today: date) -> date:
    return date(today.year if today.month >= 10 else today.year - 1, 10, 1)


def rows(spark: SparkSession, nhl: Project, table: str) -> list[Row]:
    return spark.read.format("delta").load(str(nhl.path(table))).collect()


def test_the_readme_names_every_table():
    readme = (EXAMPLE / "README.md").read_text()
    assert [name for name in TABLES if f"`{name}`" not in readme] == []
    assert {f"{file.parent.name}.{file.stem}" for file in EXAMPLE.rglob("*.sql")} == set(TABLES) - set(BRONZE)


def test_the_example_runs_as_it_is_and_goes_on_tomorrow(
    spark: SparkSession,
    api: Any,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.delenv("NHL_API", raising=False)
    folder = shutil.copytree(EXAMPLE, tmp_path / "nhl", ignore=shutil.ignore_patterns("warehouse", ".tidemill", "__*"))
    today = datetime.now(UTC).date()
    nhl = Project(folder, Hockey(today, corrected=0.1))

    first = tidemill.Project.load(folder).run(spark=spark)
    assert first.ok, [step.error for step in first.steps]
    assert {step.table for step in first.steps} == set(TABLES)
    check(spark, nhl, today)

    again = tidemill.Project.load(folder).run(spark=spark)
    assert again.ok, [step.error for step in again.steps]
    assert {step.rows_written for step in again.steps} == {0}
    assert {step.table: step.version for step in again.steps} == {step.table: step.version for step in first.steps}

    monkeypatch.setenv("NHL_API", f"{api.url}/v1")
    api.answer = nhl.hockey
    nhl.run(spark, today + DAY, "gold.next_games")
    check(spark, nhl, today + DAY)
    assert nhl.hockey.fetched() == days(max(season(today), today - 2 * DAY), today + DAY)
    assert nhl.hockey.fetched("games") == days(max(season(today), today - DAY), today + DAY)
    assert nhl.hockey.fetched("schedule") == [today + DAY]


def check(spark: SparkSession, nhl: Project, today: date) -> None:
    """Every layer holds what the league says on this day."""
    league, begin = nhl.hockey.league, season(today)
    nhl.hockey.today = today
    assert nhl.held() == nhl.hockey.truth(begin, today)
    over = {game["gameId"]: game for day in days(begin, today) for game in league.games(day, today)}
    games = {row["game_id"]: row for row in rows(spark, nhl, "silver.games")}
    final = {key: (row["home_score"], row["away_score"]) for key, row in games.items() if row["status"] == "final"}
    assert final == {key: (game["homeScore"], game["awayScore"]) for key, game in over.items()}
    coming = {game["gameId"] for game in league.schedule(today) if game["gameId"] not in over}
    assert coming <= {key for key, row in games.items() if row["status"] == "upcoming"}
    assert max((row["game_date"] for row in games.values()), default=today) >= max(
        (date.fromisoformat(game["gameDate"]) for game in league.schedule(today)), default=today
    )
    standings = {row["team"]: row["points"] for row in rows(spark, nhl, "gold.standings")}
    assert standings == points(over.values())
    totals = {row["player_id"]: row["points"] for row in rows(spark, nhl, "gold.scorers")}
    assert totals == scored(nhl.hockey.truth(begin, today))
    nexts = rows(spark, nhl, "gold.next_games")
    assert {row["game_id"] for row in nexts} <= {key for key, row in games.items() if row["status"] == "upcoming"}
    assert all(row["home_points"] == standings.get(row["home"]) for row in nexts)


def points(games: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    for game in games:
        home, away = game["homeScore"], game["awayScore"]
        for team, own, other in ((game["home"], home, away), (game["away"], away, home)):
            found[team] = found.get(team, 0) + 2 * (own > other) + (own == other)
    return found


def scored(stats: dict[Any, tuple[Any, ...]]) -> dict[int, int]:
    found: dict[int, int] = {}
    for player, _, situation, _, _, goals, assists, *_ in by_key(stats.values()).values():
        if situation == "all":
            found[player] = found.get(player, 0) + goals + assists
    return found
