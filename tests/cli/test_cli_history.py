"""`tidemill history` and `tidemill restore` on a table with a window, foreign commits and a restore."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidemill import RestoreResult, Table
from tidemill.cli import render
from tidemill.cli.maintenance import show_restore as show
from tidemill.declarations import Merge, Window
from tidemill.execution.step import run_step
from tidemill.formats.delta.log import DeltaLog
from tidemill.model.record import PREPARES
from tidemill.model.table import lookback
from tidemill.planning import Backfill, Request
from tidemill.sources.frames import FrameSource

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

COLUMNS = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", tz="UTC")), ("value", pa.string())])


def events(*rows: tuple[int, int, str]) -> pa.Table:
    data = [{"id": key, "at": datetime(2024, 1, 31, hour, tzinfo=UTC), "value": value} for key, hour, value in rows]
    return pa.Table.from_pylist(data, COLUMNS)


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with two commits of ours and one of somebody else's between them."""
    path = tmp_path_factory.mktemp("history") / "events"
    window = Window(time_column="at", lookback=lookback("2 hours"))
    table = Table(name="events", path=str(path), strategy=Merge(keys=("id",)), window=window)
    run_step(spark, table, FrameSource(events((1, 3, "a"), (2, 4, "b"))))
    deltalake.DeltaTable(path).alter.set_table_properties({"delta.logRetentionDuration": "interval 40 days"})
    run_step(spark, table, FrameSource(events((1, 3, "a"), (2, 4, "B"), (3, 5, "c"))))
    return path


@pytest.fixture
def lake(made: Path, folder: Path) -> Path:
    return shutil.copytree(made, folder / "events")


@pytest.mark.usefixtures("lake")
def test_history_shows_counts_windows_watermarks_and_foreign_commits(cli):
    result = cli("history", "events")
    assert result.exit_code == 0
    heading, *lines = [line.split("  ") for line in result.stdout.splitlines()]
    shown = [[cell.strip() for cell in line if cell.strip()] for line in (heading, *lines)]
    assert shown[0] == ["version", "when", "what", "rows", "window", "watermark"]
    now = render.moment(datetime.now(UTC).isoformat())[:5]
    assert [line[1][:5] for line in shown[1:]] == [now] * 3
    assert [[line[0], *line[2:]] for line in shown[1:]] == [
        ["2", "merge upsert", "+1 ~1", "2024-01-31 02:00:00 UTC …", "2024-01-31 05:00:00 UTC"],
        ["1", "not by Tidemill: SET TBLPROPERTIES"],
        ["0", "merge upsert", "+2", "all", "2024-01-31 04:00:00 UTC"],
    ]


def test_history_shows_both_ends_of_a_backfill(spark: SparkSession, folder: Path, cli):
    source = FrameSource(events((1, 3, "a"), (2, 4, "b"), (3, 5, "c")))
    table = Table("events", str(folder / "events"), strategy=Merge(keys=("id",)), window=Window(time_column="at"))
    for backfill in (Backfill("2024-01-31 03:00", "2024-01-31 04:00"), Backfill(None, "2024-01-31 05:00")):
        run_step(spark, table, source, request=Request(backfill=backfill))
    shown = json.loads(cli("history", "events", "--format", "json").stdout)["commits"]
    lines = cli("history", "events").stdout.splitlines()[1:]
    assert [commit["window"].get("end", "")[:16] for commit in shown] == ["2024-01-31T05:00", "2024-01-31T04:00"]
    assert "… 2024-01-31 05:00:00 UTC" in lines[0]
    assert "2024-01-31 03:00:00 UTC … 2024-01-31 04:00:00 UTC" in lines[1]


@pytest.mark.usefixtures("lake")
def test_history_as_json_has_every_number(cli):
    result = cli("history", "events", "--limit", "2", "--format", "json")
    found = json.loads(result.stdout)
    assert found["table"] == "events"
    ours, foreign = found["commits"]
    assert ours.pop("at").endswith("Z")
    assert ours.pop("run_id")
    assert ours == {
        "version": 2,
        "by": "tidemill",
        "operation": "WRITE",
        "strategy": "merge upsert",
        "keys": ["id"],
        "rows": 3,
        "inserted": 1,
        "updated": 1,
        "deleted": 0,
        "unchanged": 1,
        "ignored": 0,
        "window": {
            "column": "at",
            "reason": "since 2024-01-31 04:00:00 UTC, lookback 2 hours",
            "start": "2024-01-31T02:00:00.000000Z",
            "exclusive": "false",
        },
        "watermark": "2024-01-31T05:00:00.000000Z",
        "refresh": None,
        "restored_from": None,
    }
    assert (foreign["version"], foreign["by"], foreign["strategy"]) == (1, "other", None)


def test_history_tells_the_rows_of_others_whatever_they_wrote_with(folder: Path, cli):
    theirs = folder / "theirs"
    deltalake.write_deltalake(theirs, pa.table({"id": [1, 2, 3]}))
    deltalake.DeltaTable(theirs).delete("id = 1")
    deltalake.DeltaTable(theirs).update({"id": "id + 10"}, predicate="id > 1")
    merging = deltalake.DeltaTable(theirs).merge(pa.table({"id": [12, 4]}), "t.id = s.id", "s", "t")
    merging.when_matched_delete().when_not_matched_insert_all().execute()
    spark = {"userMetadata": "", "operation": "DELETE", "operationMetrics": {"numDeletedRows": "2"}}
    entry = json.dumps({"commitInfo": {"timestamp": 0, **spark}})
    (theirs / "_delta_log" / f"{4:020d}.json").write_text(entry)
    shown = [line.split("  ")[-1] for line in cli("history", "theirs").stdout.splitlines()]
    assert [line.strip() for line in shown] == ["rows", "-2", "+1 -1", "~2", "-1", "+3"]
    found = json.loads(cli("history", "theirs", "--format", "json").stdout)["commits"]
    assert [(c["inserted"], c["updated"], c["deleted"]) for c in found[2:]] == [(0, 2, 0), (0, 0, 1), (3, 0, 0)]


def test_a_limit_counts_the_lines_that_are_shown(make_table, cli):
    path = make_table("main.daily", pa.table({"id": [1]}))
    prepares = deltalake.CommitProperties({"userMetadata": PREPARES})
    for number in range(4):
        deltalake.DeltaTable(path).alter.set_table_properties(
            {"note": str(number)}, raise_if_not_exists=False, commit_properties=prepares
        )
    told = json.loads(cli("history", path, "--limit", "1", "--format", "json").stdout)
    assert [commit["version"] for commit in told["commits"]] == [0]


def test_a_compaction_in_our_session_is_not_our_commit(make_table, cli):
    """Delta compacts after a commit where the session says so, and notes the session's metadata on that too."""
    path = make_table("main.daily", pa.table({"id": [1]}), counts={"inserted": 1})
    deltalake.write_deltalake(path, pa.table({"id": [2]}), mode="append")
    mark = deltalake.CommitProperties({"userMetadata": DeltaLog(str(path)).commit(0).record.to_json()})
    deltalake.DeltaTable(path).optimize.compact(commit_properties=mark)
    told = json.loads(cli("history", path, "--format", "json").stdout)["commits"]
    assert [(c["version"], c["by"]) for c in told] == [(2, "other"), (1, "other"), (0, "tidemill")]
    snapshot = DeltaLog(str(path)).snapshot()
    assert snapshot is not None
    assert (snapshot.record_version, [c.version for c in snapshot.foreign]) == (0, [2, 1])


def test_a_path_that_nothing_can_read_is_refused(cli):
    result = cli("history", "http://lake/orders")
    assert result.exit_code == 2
    assert result.stderr == (
        "error[path.unknown_scheme] Nothing here can read a path that begins with http://.\n"
        "  Copy it to a local path, or to s3://, gs:// or hdfs://.\n"
    )


def test_a_path_that_would_be_read_as_another_is_refused(cli):
    result = cli("history", "lake%20of/orders")
    assert (result.exit_code, result.stderr.splitlines()[1]) == (
        1,
        "  Use a path without a backslash, and without % before two digits.",
    )


@pytest.mark.usefixtures("lake")
def test_history_needs_no_java(shell):
    result = shell("history", "events", JAVA_HOME="/nowhere", PATH="/nowhere")
    assert result.returncode == 0, result.stderr
    assert "not by Tidemill: SET TBLPROPERTIES" in result.stdout


def test_history_of_nothing_is_an_error(cli):
    result = cli("history", "nowhere")
    assert result.exit_code == 2
    assert result.stderr == "error[table.missing] There is no table at nowhere.\n  Give the path of a table.\n"


def test_the_history_of_a_materialized_view_says_how_it_was_refreshed_and_why(folder: Path, cli, make_table):
    (folder / "tidemill.toml").write_text('name = "shop"\n')
    how = {
        "mode": "incremental",
        "reason": "incremental: 2 changed rows of orders · by id",
        "rule": "local",
        "key": "id",
    }
    make_table("main.v", pa.table({"id": [1]}), strategy="materialized_view", refresh=how)
    assert "  incremental refresh" in cli("history", "v").stdout
    assert json.loads(cli("history", "v", "--format", "json").stdout)["commits"][0]["refresh"] == how


def test_a_path_that_is_almost_that_of_a_table_is_an_error_with_the_one_that_was_meant(folder: Path, cli):
    deltalake.write_deltalake(folder / "lake" / "orders", pa.table({"id": [1]}))
    for command in ("history", "show", "compact"):
        assert cli(command, "lake/ordres").stderr == (
            "error[table.missing] There is no table at lake/ordres.\n  Did you mean lake/orders?\n"
        )
    assert cli("compact", "lake").stderr.endswith("  It is a folder of tables: orders.\n")


def test_history_of_a_dataset_that_others_made_says_that_there_is_none(folder: Path, cli):
    (folder / "theirs").mkdir()
    pq.write_table(pa.table({"id": [1]}), folder / "theirs" / "1.parquet")
    result = cli("history", "theirs")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "  notice  theirs has no commits yet: its files were made elsewhere\n"


def test_history_of_a_table_of_the_project_that_is_not_made_yet_says_how_it_is(folder: Path, cli):
    (folder / "tidemill.toml").write_text("")
    (folder / "pipelines").mkdir()
    (folder / "pipelines" / "p.sql").write_text("CREATE TABLE daily AS SELECT 1 AS id;")
    misspelled = cli("history", "dayly")
    assert misspelled.exit_code == 2
    assert misspelled.stderr == "error[table.unknown] No table dayly is declared.\n  Did you mean daily?\n"
    result = cli("history", "daily")
    assert result.exit_code == 2
    assert result.stderr == (
        f"error[table.not_made] daily is not made yet: there is nothing at {folder}/warehouse/main/daily.\n"
        "  Make it: tidemill run. tidemill list shows what is declared.\n"
    )


def test_history_of_a_folder_that_is_no_table_is_an_error(folder: Path, cli):
    (folder / "notes").mkdir()
    (folder / "notes" / "read.me").write_text("hello")
    result = cli("history", "notes")
    assert result.exit_code == 1
    assert result.stderr.startswith("error[table.not_a_table] ")


def test_restore_takes_rows_and_watermark_back_and_is_in_history_and_ledger(folder: Path, lake: Path, cli):
    result = cli("restore", "events", "--to", "0", "--format", "json")
    assert result.exit_code == 0, result.stderr
    told = json.loads(result.stdout)
    version, seconds = told.pop("version"), told.pop("seconds")
    assert version > 2
    assert seconds > 0
    assert told == {
        "table": "events",
        "path": str(lake),
        "restored": 0,
        "total": 2,
        "watermark": "2024-01-31 04:00:00 UTC",
        "backup": None,
        "undo": 2,
    }
    shown = json.loads(cli("history", "events", "--format", "json").stdout)["commits"]
    assert [(c["version"], c["restored_from"]) for c in shown] == [(version, 0), (2, None), (1, None), (0, None)]
    assert f"{version}  {render.moment(shown[0]['at'])}  restore to 0" in cli("history", "events").stdout
    with closing(sqlite3.connect(folder / "state" / "tidemill" / "ledger.db")) as ledger:
        steps = ledger.execute("SELECT path, status, version, watermark FROM steps").fetchall()
    assert steps == [(str(lake), "restored", version, "2024-01-31T04:00:00.000000Z")]


def test_a_restore_is_reported_in_one_line(capsys: pytest.CaptureFixture[str]):
    show("lake/events", RestoreResult(7, 3, 1041, "2024-01-31 04:00:00 UTC", 2.13, undo=4))
    show("lake/orders/", RestoreResult(4, 0, 1, None, 2.13))
    show("shop.orders", RestoreResult(4, None, 1, None, 2.13, backup="lake/shop/orders_of_2025", undo=3))
    assert capsys.readouterr().out == (
        "  ✓ events  restored to version 3 · 1,041 rows in all · watermark 2024-01-31 04:00:00 UTC"
        " · now version 7 · to undo it: --to 4   2.1 s\n"
        "  ✓ orders  restored to version 0 · 1 row in all · now version 4   2.1 s\n"
        "  ✓ shop.orders  restored to orders_of_2025 · 1 row in all · now version 4 · to undo it: --to 3   2.1 s\n"
    )


@pytest.mark.usefixtures("lake")
def test_restore_to_a_version_that_is_not_there_says_which_are(cli):
    result = cli("restore", "events", "--to", "7")
    assert result.exit_code == 2
    assert "has no version 7: it is at 2, and its log goes back to 0." in result.stderr
    assert "Choose a version that tidemill history shows." in result.stderr


def test_restore_of_nothing_starts_no_spark(shell):
    result = shell("restore", "nowhere", "--to", "1", JAVA_HOME="/nowhere", PATH="/nowhere")
    assert result.returncode == 2
    assert result.stderr == "error[table.missing] There is no table at nowhere.\n  Give the path of a table.\n"


def test_moments_are_shown_in_the_time_zone_of_the_reader():
    today = date(2026, 2, 4)
    midday = datetime(2026, 2, 4, 12).astimezone()
    assert render.moment(midday.isoformat(), today) == "today 12:00"
    assert render.moment((midday - timedelta(days=1)).isoformat(), today) == "yesterday 12:00"
    assert render.moment((midday - timedelta(days=5)).isoformat(), today) == "2026-01-30 12:00"


def test_a_backup_is_made_and_gone_back_to_by_its_name(folder: Path, lake: Path, cli):
    (folder / "tidemill.toml").write_text('name = "shop"\n')
    shutil.move(lake, folder / "warehouse" / "shop" / "events")
    told = cli("backup", "shop.events", "--to", "shop.kept")
    assert told.exit_code == 0, told.stderr
    assert told.stdout.startswith(
        "  ✓ shop.events  copied to shop.kept · 3 rows · watermark 2024-01-31 05:00:00 UTC   "
    )
    twice = cli("backup", "shop.events", "--to", "shop.kept")
    assert (twice.exit_code, twice.stderr.splitlines()[1]) == (2, "  Give the backup another name.")
    back = cli("restore", "shop.events", "--from", "shop.kept")
    assert back.stdout.startswith("  ✓ shop.events  restored to kept · 3 rows in all · watermark"), back.stderr
    assert "  restore from kept  " in cli("history", "shop.events").stdout
    steps = "SELECT table_name, status, watermark FROM steps ORDER BY step_id"
    with closing(sqlite3.connect(folder / ".tidemill" / "ledger.db")) as ledger:
        found = ledger.execute(steps).fetchall()
    watermark = "2024-01-31T05:00:00.000000Z"
    assert found == [("shop.kept", "created", watermark), ("shop.events", "restored", watermark)]


@pytest.mark.usefixtures("lake")
def test_a_restore_needs_one_way_back(cli):
    told = cli("restore", "events")
    assert told.exit_code == 2
    assert told.stderr.splitlines() == [
        "error[restore.one_way] A restore goes back to one of three: a version, the version of a moment, or a backup.",
        "  Say --to VERSION, --at TIME or --from BACKUP (in Python: to, at or backup).",
    ]
    assert cli("restore", "events", "--at", "soon").stderr.startswith("error[restore.bad_time] 'soon' is no moment.")
