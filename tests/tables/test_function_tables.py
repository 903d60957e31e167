"""Tables maintained by functions, on real Spark: history stays, corrections enter, only needed dates are fetched.

Each test lives through several days, because a step on Spark costs a second or two.
"""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tables.conftest import write

from tidemill.api.workspace import Workspace
from tidemill.errors import ArgumentError
from tidemill.formats.delta.log import DeltaLog
from tidemill.model.record import Counts
from tidemill.planning import Request, backfill_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.testing import Result
    from tables.conftest import League

FETCH = """
import json, pathlib
import tidemill

def fetch(day):
    with open("asked.txt", "a") as asked:
        asked.write(f"{day}\\n")
    return json.loads(pathlib.Path("api.json").read_text())[str(day)]
"""
STATS = (
    FETCH
    + """
@tidemill.table(keys=["player", "game"], time_column="day", start="2026-02-01", lookback="1 day", reset_allowed=False,
                comment="goals by game", table_properties={"quality": "bronze"},
                schema="player BIGINT, game BIGINT, day DATE, goals INT")
@tidemill.expect("shots", "goals < 90")
@tidemill.expect_or_drop("positive", "goals >= 0")
def stats(run):
    for day in run.dates:
        yield fetch(day)
"""
)
REFRESH = Request(full_refresh=True)


def row(player: int, day: str, goals: int, game: int | None = None) -> dict[str, Any]:
    return {"player": player, "game": game or date.fromisoformat(day).day, "day": day, "goals": goals}


def backfill(start: str, end: str | None = None, batch: str | None = None) -> Request:
    return Request(backfill=backfill_of(start, end, batch))


def test_history_stays_through_corrections_empty_days_and_changed_code(league: League) -> None:
    write(
        {"nhl.py": STATS, "models/silver/totals.sql": "SELECT player, sum(goals) AS goals FROM bronze.stats GROUP BY 1"}
    )
    api: dict[str, list[dict[str, Any]]] = {f"2026-02-0{n}": [] for n in range(1, 9)}
    api["2026-02-01"] = [row(1, "2026-02-01", 2), row(2, "2026-02-01", -1)]
    api["2026-02-02"] = [row(1, "2026-02-02", 1), row(1, "2026-02-01", 2), row(9, "2026-07-04", 99)]  # twice, and ahead
    league.api(api)

    first = league.run("2026-02-02")
    assert first["stats"].counts == Counts(inserted=3)
    assert str(first["stats"].watermark) == "2026-02-02"
    assert [(each.expectation.name, each.rows, each.unmet) for each in first["stats"].expectations] == [
        ("shots", 5, 1),
        ("positive", 5, 1),
    ]
    assert league.rows("silver.totals") == [(1, 3), (9, 99)]
    assert league.told == [
        "bronze.stats fetching 1 of 2 dates · 2026-02-01",
        "bronze.stats fetching 2 of 2 dates · 2026-02-02",
    ]
    snapshot = DeltaLog(league.path("stats")).snapshot()
    assert snapshot is not None
    assert snapshot.record is not None
    assert snapshot.record.expectations == {"shots": 1, "positive": 1}
    assert snapshot.properties["quality"] == "bronze"

    version = league.version("stats")
    again = league.run("2026-02-02", "stats")["stats"]
    assert (again.status, league.version("stats")) == ("unchanged", version)  # run twice: no commit

    league.asked()
    api["2026-02-01"][0]["goals"], api["2026-02-02"][0]["goals"] = 3, 5  # corrections; a row that is gone stays
    api["2026-02-02"].pop(1)
    api["2026-02-03"] = []
    league.api(api)
    write({"nhl.py": STATS.replace("for day in run.dates", "for day in list(run.dates)")})  # other code
    changed = league.run("2026-02-03")["stats"]
    assert league.asked() == ["2026-02-01", "2026-02-02", "2026-02-03"]
    assert changed.counts == Counts(updated=2, unchanged=1)
    assert league.rows("stats", "player", "goals") == [(1, 3), (1, 5), (9, 99)]
    assert league.rows("stats__rejected", "player", "rejected_because") == [(2, "positive: goals >= 0")]  # once

    for day in ("2026-02-04", "2026-02-05"):  # nothing new: progress moves, rows do not
        league.asked()
        empty = league.run(day, "stats")["stats"]
        assert (empty.status, str(empty.watermark), len(league.asked())) == ("unchanged", day, 3)

    Path("api.json").unlink()  # the API is down
    Path(".env").write_text("API_TOKEN=hush-hush\n", encoding="utf-8")
    version = league.version("stats")
    _, error = league.outcomes("2026-02-08", "stats")["stats"]
    assert error is not None
    assert error.code == "functions.failed"
    assert "The function stats of bronze.stats failed: FileNotFoundError" in error.problem
    assert "models/bronze/nhl.py:8)" in error.problem
    assert league.version("stats") == version
    token = STATS.replace("yield fetch(day)", "raise RuntimeError('no ' + run.vars['API_TOKEN'])")
    write({"nhl.py": token})
    workspace = Workspace.load(".")
    (failed,) = workspace.choose(["bronze.stats"]).run(league.spark).outcomes
    assert failed.error is not None
    assert "RuntimeError: no ***" in workspace.masking.mask(failed.error.problem)
    assert str(Workspace.load(".").plan()[0].reason).startswith("since 2026-02-05, lookback 1 day: 2026-02-04 … ")


def test_history_cannot_be_dropped_where_that_is_declared(league: League, cli: Callable[..., Result]) -> None:
    write({"nhl.py": STATS.replace('lookback="1 day",', 'lookback="1 day", batch="2 days",')})
    league.api({f"2026-02-{n:02}": [row(1, f"2026-02-{n:02}", n)] for n in range(1, 7)} | {"2026-02-05": "broken"})  # type: ignore[dict-item]
    _, error = league.outcomes("2026-02-06")["stats"]
    assert error is not None
    assert error.remedy.endswith("2 of 3 batches are in the table and stay; the next run goes on behind them.")
    assert len(league.rows("stats")) == 4
    league.api({f"2026-02-{n:02}": [row(1, f"2026-02-{n:02}", n)] for n in range(1, 7)})
    league.asked()
    assert league.run("2026-02-06")["stats"].batches == 2
    assert league.asked() == [f"2026-02-0{n}" for n in range(3, 7)]  # from the last finished batch minus the lookback
    assert len(league.rows("stats")) == 6

    with pytest.raises(ArgumentError, match="6 rows of history would be replaced") as refused:
        league.outcomes("2026-02-06", request=REFRESH)
    assert (refused.value.code, str(refused.value.origin)) == ("table.reset_refused", "models/bronze/nhl.py:10:2")
    replaced = STATS.replace('keys=["player", "game"]', 'strategy="replace"').replace("@tidemill.expect", "#")
    write({"nhl.py": replaced})
    with pytest.raises(ArgumentError, match="a run would now replace all of it"):
        league.outcomes("2026-02-06")

    write({"nhl.py": STATS.replace("reset_allowed=False", "reset_allowed=True")})
    league.run("2026-02-06")  # the table forgets that it must be kept
    league.api({f"2026-02-{n:02}": [row(2, f"2026-02-{n:02}", n)] for n in range(1, 7)})
    rebuilt = league.run("2026-02-06", request=REFRESH)["stats"]
    assert (rebuilt.rebuilt, {player for (player,) in league.rows("stats", "player")}) == (True, {2})
    found = cli("status").output
    assert "bronze.stats" in found
    assert "2026-02-06" in cli("show-watermarks").output


@pytest.mark.parametrize("how", ["dropped and copied", "replaced"])
def test_a_restored_table_goes_on_from_its_newest_day(league: League, how: str) -> None:
    code = STATS.replace(' lookback="1 day",', "")
    write({"nhl.py": code})
    days = [date(2026, 2, 1) + timedelta(days=n) for n in range(5)]
    league.api({str(day): [row(1, str(day), day.day)] for day in days})
    league.run("2026-02-04" if how == "replaced" else "2026-02-03")
    path = league.path("stats")
    league.spark.read.format("delta").load(path).where("day <= '2026-02-03'").write.format("delta").save(
        f"{path}_backup"
    )
    if how == "replaced":
        league.sql(f"CREATE OR REPLACE TABLE delta.`{path}` USING delta AS SELECT * FROM delta.`{path}_backup`")
    else:
        _remove(Path(path))
        league.sql(f"CREATE TABLE delta.`{path}` USING delta AS SELECT * FROM delta.`{path}_backup`")
    league.asked()
    result = league.run("2026-02-04")["stats"]
    assert league.asked() == ["2026-02-03", "2026-02-04"]
    assert (result.counts, result.total) == (Counts(inserted=1, unchanged=1), 4)
    version = league.version("stats")
    league.run("2026-02-04")
    assert league.version("stats") == version


def _remove(folder: Path) -> None:
    for file in sorted(folder.rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()


def test_the_read_union_return_pattern_works_as_it_is(league: League) -> None:
    write(
        {
            "nhl.py": FETCH
            + """
@tidemill.table(strategy="replace", reset_allowed=False)
def players():
    new = spark.createDataFrame(fetch("players"), "player BIGINT, goals INT")
    if not spark.catalog.tableExists("bronze.players"):
        return new
    return spark.table("bronze.players").union(new).dropDuplicates(["player"])

@tidemill.table(strategy="replace", time_column="day", start="2026-02-01", reads=["bronze.players"])
def games(run):
    import pandas as pd
    import pyarrow as pa
    run.read("bronze.players").count()
    yield pa.table({"day": [run.end], "n": [1]})
    yield pd.DataFrame({"day": [run.end], "n": [2]})
    yield [{"day": run.end, "n": 3, "season": run.vars["season"]}]
    yield run.spark.sql("SELECT current_date() AS day, 4 AS n LIMIT 0")
    if run.existing() is not None:
        yield run.existing()
"""
        }
    )
    league.api({"players": [{"player": n, "goals": 0} for n in range(10)]})  # type: ignore[dict-item]
    assert league.run("2026-02-01")["players"].counts == Counts(inserted=10)
    league.api({"players": [{"player": 10, "goals": 1}]})  # type: ignore[dict-item]
    second = league.run("2026-02-02")
    assert (second["players"].counts, second["players"].total) == (Counts(inserted=1, unchanged=10), 11)
    assert second["players"].notices == (
        (
            "11 rows were written for 1 that are new or differ; with keys=[…] the function may give only those, and a "
            "merge writes no others"
        ),
    )
    assert [(str(day), n, season) for day, n, season in league.rows("games", "day", "n", "season")] == [
        (f"2026-02-0{day}", n, "2025" if n == 3 else None) for day in (1, 2) for n in (1, 2, 3)
    ]
    write({"nhl.py": FETCH + '@tidemill.table(strategy="replace")\ndef players():\n    return fetch("players")\n'})
    _, error = league.outcomes("2026-02-03")["players"]
    assert error is not None
    assert "bronze.players would lose 10 of its 11 rows, more than max_shrink = 0.1 allows" in error.problem
    assert len(league.rows("players")) == 11


def test_a_read_error_treated_as_a_first_run_loses_no_protected_history(league: League) -> None:
    players = """
@tidemill.table(strategy="replace", reset_allowed=False)
def players():
    new = fetch("players")
    try:
        return [*(row.asDict() for row in spark.table("bronze.playres").collect()), *new]
    except Exception:
        return new
"""
    write({"nhl.py": FETCH + players})
    league.api({"players": [{"player": n} for n in range(2)]})  # type: ignore[dict-item]
    assert league.run("2026-02-01")["players"].total == 2
    league.api({"players": [{"player": n} for n in range(1, 9)]})  # type: ignore[dict-item]
    _, error = league.outcomes("2026-02-02")["players"]
    assert error is not None
    assert str(error).startswith(
        "[table.history_lost] bronze.players is declared reset_allowed = false, and this run would remove 1 of its 2 "
        "rows that an upsert would keep."
    )
    assert error.remedy.startswith("Merge by key instead (keys=[…] of a function, MERGE ON in SQL)")
    assert len(league.rows("players")) == 2


def test_rows_of_one_key_are_reported_unless_it_is_declared_which_wins(league: League) -> None:
    keyed = '@tidemill.table(keys="player", schema="player BIGINT, goals INT", {})\ndef {}(run):\n    return {}\n'
    appended = '@tidemill.table(strategy="append", time_column="day", start="2026-02-01")\ndef log(run):\n'
    body = "    for day in run.dates:\n        yield [{'day': day, 'n': n} for n in range(2)]\n"
    fitted = '@tidemill.table(keys="id", schema="id INT, day DATE")\ndef fitted(run):\n'
    frame = "    return run.spark.sql(\"SELECT '7' AS id, date'2026-02-01' AS day UNION ALL SELECT 'x', NULL\")\n"
    write(
        {
            "nhl.py": FETCH
            + keyed.format("", "twice", 'fetch("rows")')
            + keyed.format('dedup_order_by="goals"', "newest", 'fetch("rows")')
            + appended
            + body
            + fitted
            + frame
        }
    )
    league.api({"rows": [{"player": 1, "goals": 1}, {"player": 1, "goals": 2}]})  # type: ignore[dict-item]
    found = league.outcomes("2026-02-02")
    assert found["twice"][1] is not None
    assert found["twice"][1].code == "merge.duplicate_keys"
    assert league.rows("newest") == [(1, 2)]
    assert found["fitted"][1] is not None
    assert "A row of what the function fitted gave has 'x' in id, which is INT" in found["fitted"][1].problem

    assert len(league.rows("log")) == 4
    assert league.run("2026-02-02", "log")["log"].counts == Counts(unchanged=2)
    assert league.run("2026-02-03", "log")["log"].counts == Counts(inserted=2, unchanged=2)
    assert len(league.rows("log")) == 6


def test_expectations_can_stop_a_step_and_verify_fetches_again(league: League) -> None:
    write({"nhl.py": STATS.replace("expect_or_drop", "expect_or_fail")})
    league.api(
        {f"2026-02-0{n}": [row(1, f"2026-02-0{n}", n)] for n in range(1, 4)}
        | {"2026-02-03": [row(1, "2026-02-03", -1)]}
    )
    _, error = league.outcomes("2026-02-03")["stats"]
    assert error is not None
    assert error.code == "expectations.failed"
    assert "1 of 3 rows do not meet positive (goals >= 0): player=1 game=3" in error.problem
    assert str(error.origin) == "models/bronze/nhl.py:14:26"

    write({"nhl.py": STATS})
    league.run("2026-02-02")
    unknown = league.verify("stats", "2026-02-03")
    assert (unknown.outcome, unknown.equal, unknown.ok) == ("not verifiable", None, True)
    assert league.verify("stats", "2026-02-03", dates=backfill_of("2026-02-01", "2026-02-02", None)).equal
    corrected = {f"2026-02-0{n}": [row(1, f"2026-02-0{n}", n + 5)] for n in range(1, 4)}
    league.api({**corrected, "2026-02-02": []})
    found = league.verify("stats", "2026-02-03", dates=backfill_of("2026-02-01", "2026-02-02", None))
    assert (found.different.count, found.kept.count, found.missing.count) == (1, 1, 0)
    assert found.remedies[0] == "fetch them again: tidemill run -s bronze.stats --start 2026-02-01 --end 2026-02-02"
    assert found.against == "its function from 2026-02-01 to 2026-02-02"

    league.asked()
    filled = league.run("2026-02-03", request=backfill("2026-02-01", "2026-02-02", "1 day"))["stats"]
    assert (filled.counts, filled.batches, str(filled.watermark)) == (Counts(updated=1), 2, "2026-02-02")
    assert league.asked() == ["2026-02-01", "2026-02-02"]
