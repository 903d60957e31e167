"""Bronze: what the API says, fetched day by day. Each function gives new rows only, and its table keeps the others."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache

import league

import tidemill

Rows = list[dict[str, object]]


@cache
def api() -> tidemill.Api:
    """The API at NHL_API; without that, the little league of this folder, which needs no network."""
    return tidemill.Api(os.environ.get("NHL_API") or league.serve(), rate=100, at_once=4)


def season() -> str:
    """The first of October with which the season of today began."""
    today = datetime.now(UTC).date()
    return f"{today.year if today.month >= 10 else today.year - 1}-10-01"


def days(run: tidemill.Run, what: str) -> Iterator[dict[str, Rows]]:
    """The answers for all dates of a run, a few of them fetched at once."""
    return (found for _, found in api().each(run.dates, lambda day: api().get(f"{what}/{day}")))


@tidemill.table(
    name="bronze.player_game_stats",
    keys=["playerId", "gameId", "situation"],
    time_column="gameDate",
    start=season(),
    lookback="2 days",  # for so long the league corrects its statistics
    schema="playerId BIGINT, gameId BIGINT, situation STRING, gameDate DATE, team STRING, "
    "goals INT, assists INT, shots INT, iceTime INT",
    reset_allowed=False,
    comment="A row per player, game and situation, as the league has it",
)
@tidemill.expect("no more goals than shots", "goals <= shots")
@tidemill.expect_or_drop("was on the ice", "iceTime > 0")
def player_game_stats(run: tidemill.Run) -> Iterator[Rows]:
    for found in days(run, "stats"):
        yield found["stats"]


@tidemill.table(
    name="bronze.games",
    keys="gameId",
    time_column="gameDate",
    start=season(),
    lookback="1 day",
    schema="gameId BIGINT, gameDate DATE, startTime TIMESTAMP, home STRING, away STRING, homeScore INT, awayScore INT",
    reset_allowed=False,
    comment="Games that are over",
)
def games(run: tidemill.Run) -> Iterator[Rows]:
    for found in days(run, "games"):
        yield found["games"]


@tidemill.table(
    name="bronze.schedule",
    keys="gameId",
    time_column="gameDate",  # months ahead, and yet the next run asks for its own day: what counts is what was fetched
    schema="gameId BIGINT, gameDate DATE, startTime TIMESTAMP, home STRING, away STRING",
    comment="All games that were ever on the schedule, past and to come",
)
def schedule(run: tidemill.Run) -> Rows:
    return api().get(f"schedule/{run.end}")["games"]


@tidemill.table(name="bronze.skaters", keys="playerId", comment="Everybody who plays")
def skaters() -> Rows:
    """Without a time column there are no dates: all of it, each time."""
    return api().get("skaters")["skaters"]
