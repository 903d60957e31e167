"""A hockey league over HTTP, on its bad days too, and projects whose tables fetch from it.

The league is that of examples/nhl: games, statistics per player, game and situation, corrections for two days, late
games, ties and days without a game, all of them by a seed. Here its API also refuses: by 429 and 500 now and then, or
for good. `today` is its day.
"""

from __future__ import annotations

import importlib.util
import os
import random
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from delta_rows import delta_rows

from tidemill.api.workspace import Workspace
from tidemill.formats.delta.log import DeltaLog

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from tidemill.execution import StepResult
    from tidemill.model.record import Snapshot

EXAMPLE = Path(__file__).parents[2] / "examples" / "nhl"
DAY = timedelta(days=1)
COLUMNS = ("playerId", "gameId", "situation", "gameDate", "team", "goals", "assists", "shots", "iceTime")
STATS = "bronze.player_game_stats"
FUNCTIONS = """
import os
import tidemill

league = tidemill.Api(os.environ["HOCKEY"], at_once=3, retries=4)


@tidemill.table(
    name="bronze.player_game_stats", keys=["playerId", "gameId", "situation"], time_column="gameDate",
    schema="playerId BIGINT, gameId BIGINT, situation STRING, gameDate DATE, team STRING, "
    "goals INT, assists INT, shots INT, iceTime INT", reset_allowed=False, MORE
)
def player_game_stats(run):
    for day, found in league.each(run.dates, lambda day: league.get(f"stats/{day}")):
        yield found["stats"]
"""
SCHEDULE = """

@tidemill.table(name="bronze.schedule", keys="gameId", time_column="gameDate",
                schema="gameId BIGINT, gameDate DATE, startTime TIMESTAMP, home STRING, away STRING")
def schedule(run):
    for day in run.dates:
        yield league.get(f"schedule/{day}")["games"]
"""


def example_league() -> Any:
    """The module of the example."""
    spec = importlib.util.spec_from_file_location("league", EXAMPLE / "league.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["league"] = importlib.util.module_from_spec(spec)  # its dataclasses ask for it
    spec.loader.exec_module(module)
    return module


@dataclass
class Hockey:
    """What the server answers. `trouble` is the share of addresses that fail first, chosen again each day."""

    today: date
    trouble: float = 0.3
    corrected: float = 0.2
    down: bool = False
    asked: list[str] = field(default_factory=list)
    refused: Counter[int] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.league = example_league().League(corrected=self.corrected)
        self._tried: Counter[tuple[str, date]] = Counter()

    def __call__(self, asked: Any) -> tuple[int, object, dict[str, str]]:
        status = 503 if self.down else self._trouble(asked.path)
        if status:
            self.refused[status] += 1
            return status, {}, {"Retry-After": "0"}
        self.asked.append(asked.path)
        return 200, self.league.answer(asked.path, self.today), {}

    def _trouble(self, path: str) -> int | None:
        """An address that fails does so once or twice; then it answers."""
        tried = self._tried[path, self.today]
        self._tried[path, self.today] += 1
        dice = random.Random(f"{path} {self.today}")
        failures = [dice.choice((429, 500)) for _ in range(dice.choice((1, 2)))] if dice.random() < self.trouble else []
        return failures[tried] if tried < len(failures) else None

    def fetched(self, what: str = "stats") -> list[date]:
        """The dates that were fetched since this was last asked, in order."""
        found = sorted(date.fromisoformat(path.rpartition("/")[2]) for path in self.asked if f"/{what}/" in path)
        self.asked = [path for path in self.asked if f"/{what}/" not in path]
        return found

    def truth(self, first: date, last: date) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        """The statistics of these days as the league has them today, by their keys."""
        rows = (row for day in days(first, last) for row in self.league.stats(day, self.today))
        typed = ({**row, "gameDate": date.fromisoformat(row["gameDate"])} for row in rows)
        return by_key(tuple(row[name] for name in COLUMNS) for row in typed)


@dataclass
class Project:
    """A project in a folder, run on a day of the league's."""

    folder: Path
    hockey: Hockey

    def write(self, more: str = "", functions: str = FUNCTIONS, schedule: str = "") -> None:
        (self.folder / "tidemill.toml").write_text('name = "nhl"\n')
        file = self.folder / "models" / "bronze" / "nhl.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(functions.replace("MORE", more) + schedule)

    def run(self, spark: SparkSession, today: date | None = None, table: str = STATS) -> StepResult:
        """Runs all tables at noon of a day; what became of one of them. The error of a failed one is raised."""
        self.hockey.today = today or self.hockey.today
        noon = datetime.combine(self.hockey.today, time(12), UTC)
        outcomes = Workspace.load(self.folder).run(spark, now=noon).outcomes
        (found,) = [outcome for outcome in outcomes if outcome.name == table]
        if found.error:
            raise found.error
        return found.result

    def path(self, table: str = STATS) -> Path:
        return self.folder / "warehouse" / Path(*table.split("."))

    def snapshot(self, table: str = STATS) -> Snapshot:
        found = DeltaLog(str(self.path(table))).snapshot()
        assert found is not None
        return found

    def watermark(self, table: str = STATS) -> date:
        record = self.snapshot(table).record
        assert record is not None
        (progress,) = record.progress.values()
        assert isinstance(progress.value, date)
        return progress.value

    def held(self) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        rows = delta_rows(self.path(), *COLUMNS)
        found = by_key(rows)
        assert len(found) == len(rows), "no key comes twice"
        return found

    def begin(self, *args: str) -> subprocess.Popen[bytes]:
        """A run of the command line in a process of its own, in a group that can be killed as one."""
        return subprocess.Popen(
            [sys.executable, "-m", "tidemill.cli.main", *args],
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, "TIDEMILL_DRIVER_MEMORY": "1g"},
        )


def days(first: date, last: date) -> list[date]:
    return [first + DAY * number for number in range((last - first).days + 1)]


def by_key(rows: Iterable[tuple[Any, ...]]) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    return {row[:3]: row for row in rows}


def differing(one: dict[tuple[Any, ...], tuple[Any, ...]], other: dict[tuple[Any, ...], tuple[Any, ...]]) -> int:
    """How many rows of both have other values."""
    return sum(one[key] != other[key] for key in one.keys() & other.keys())
