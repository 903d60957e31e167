"""A table that a function keeps: 200 new rows on top of 492,000, side by side with union, dropDuplicates, overwrite."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from merges import Claim
from stage import Duel, linked, seconds

import tidemill

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

ROWS = 492_000
NEW = 200
KEYS = ("playerId", "gameId", "situation")
SITUATIONS = ("all", "5on5", "5on4", "4on5", "other")
MEASURES = 16
WARM_UP = 2  # rounds before the clock counts: Java compiles what runs often
BOUND = 1 / 3

FUNCTIONS = """
import json
from pathlib import Path

import tidemill

HERE = Path(__file__).parent


@tidemill.table(name="bronze.stats", keys=["playerId", "gameId", "situation"], time_column="gameDate", start="{start}",
                schema="{schema}")
def stats(run):
    if run.mode == "first":
        return run.spark.read.parquet(str(HERE / "history"))
    return json.loads((HERE / "new.json").read_text())
"""


@dataclass(frozen=True)
class Season:
    """A project with one table of player statistics, and the same table as people keep it by hand."""

    spark: SparkSession
    folder: Path
    rows: int = ROWS

    @property
    def ours(self) -> Path:
        return self.folder / "warehouse" / "bronze" / "stats"

    @property
    def plain(self) -> Path:
        return self.folder / "plain"

    def build(self) -> None:
        models = self.folder / "models" / "bronze"
        models.mkdir(parents=True)
        (self.folder / "tidemill.toml").write_text('name = "league"\n')
        today = datetime.now(UTC).date().isoformat()
        history = self.spark.range(0, self.rows, 1, 4).selectExpr(*_columns("id"))
        schema = ", ".join(f"{name} {kind}" for name, kind in history.dtypes)
        (models / "nhl.py").write_text(FUNCTIONS.format(start=today, schema=schema))
        history.write.parquet(str(models / "history"))
        history.write.format("delta").save(str(self.plain))
        self.run()
        for table, kept in ((self.ours, "ours_kept"), (self.plain, "plain_kept")):
            linked(table, self.folder / kept)

    def fresh(self, salt: int) -> list[dict[str, Any]]:
        """Both tables as they were built, and the rows that the API has for today."""
        for table, kept in ((self.ours, "ours_kept"), (self.plain, "plain_kept")):
            shutil.rmtree(table)
            linked(self.folder / kept, table)
        found = self.spark.range(self.rows, self.rows + NEW, 1, 1).selectExpr(*_columns(f"id + {salt * NEW}"))
        rows = [row.asDict() | {"gameDate": str(row["gameDate"])} for row in found.collect()]
        (self.folder / "models" / "bronze" / "new.json").write_text(json.dumps(rows))
        return rows

    def run(self) -> None:
        outcome = tidemill.Project.load(self.folder).run(spark=self.spark)
        assert outcome.ok, outcome.steps[0].error

    def by_hand(self, rows: list[dict[str, Any]]) -> None:
        """What people write whose framework replaces a table on every run."""
        held = self.spark.read.format("delta").load(str(self.plain))
        new = self.spark.createDataFrame(rows).selectExpr(*_like(held.dtypes))
        held.unionByName(new).dropDuplicates(list(KEYS)).write.format("delta").mode("overwrite").save(str(self.plain))


def new_rows(season: Season, repeat: int) -> list[Claim]:
    """Two hundred new rows, by a function that gives only those and by hand, in turn."""
    duel = Duel("python")
    for n in range(-WARM_UP, repeat):
        rows = season.fresh(n + WARM_UP)
        plain, ours = seconds(season.by_hand, rows), seconds(season.run)
        held = [season.spark.read.format("delta").load(str(path)).count() for path in (season.plain, season.ours)]
        assert held == [season.rows + NEW] * 2, held
        if n >= 0:
            duel.plain.append(plain)
            duel.ours.append(ours)
    plain, ours = duel.medians
    detail = f"by hand {plain:.2f} s, ours {ours:.2f} s"
    return [Claim(f"{NEW} new rows on {season.rows:,}", ours / plain, BOUND, at_least=False, detail=detail)]


def _columns(number: str) -> list[str]:
    """A row for each player, game and situation: 40 players in each game, five situations for each."""
    names = ", ".join(f"'{each}'" for each in SITUATIONS)
    measures = [f"CAST(({number}) * {n} % 97 AS DOUBLE) / 7 AS measure_{n}" for n in range(1, MEASURES + 1)]
    return [
        f"8470000 + ({number}) DIV 5 % 800 AS playerId",
        f"2025020000 + ({number}) DIV 200 AS gameId",
        f"element_at(array({names}), CAST(({number}) % 5 AS INT) + 1) AS situation",
        f"date_add(DATE '2023-10-01', CAST(({number}) DIV 2000 AS INT)) AS gameDate",
        *measures,
    ]


def _like(types: list[tuple[str, str]]) -> list[str]:
    return [f"CAST({name} AS {kind}) AS {name}" for name, kind in types]
