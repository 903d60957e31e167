"""A plan is what runs: its reasons, its modes and its windows are those that the run reports, keeps and records."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidemill.api.results import logged_run
from tidemill.api.workspace import Workspace
from tidemill.execution.producers import facts_by_log
from tidemill.formats.registry import log_of
from tidemill.ledger.past import past_runs
from tidemill.planning import USUAL, Request, backfill_of, plan_step
from tidemill.planning.notices import Gap
from tidemill.planning.windows import known_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemill.planning import StepPlan

PROJECT = """
name = "shop"
[sources."raw.events"]
type = "parquet"
path = "data/events"
"""
PIPELINE = """
SOURCE events TYPE PARQUET PARAMS { "path": "data/events" } INCREMENTAL BY at LOOKBACK 1 HOUR;
SOURCE eu TYPE PARQUET PARAMS { "path": "data/eu" } INCREMENTAL BY at;
SOURCE us TYPE PARQUET PARAMS { "path": "data/us" };
LOAD merged FROM events MODE MERGE ON id;
LOAD appended FROM events MODE APPEND;
LOAD replaced FROM events;
LOAD both FROM eu MODE APPEND;
LOAD both FROM us MODE MERGE ON id;
CREATE TABLE hourly MODE INCREMENTAL BY hour AS
SELECT date_trunc('HOUR', at) AS hour, count(*) AS n FROM raw.events WHERE at >= @start_dt GROUP BY 1;
"""
APPEND = """metadata = {"materialization": "incremental", "incremental": {"strategy": "append", "append":
    {"time_column": "at", "start_date": "2024-01-01", "lookback": "7 days"}}}"""
RELOAD = """metadata = {"materialization": "incremental", "incremental": {"strategy": "delete_insert", "delete_insert":
    {"where_condition": "at >= @since and id > @least", "time_column": "at", "start_date": "@since"}}}"""
FUNCTION = """
import tidemill

@tidemill.table(keys=["id"], time_column="day", start="2024-01-30", lookback="1 day", schema="id BIGINT, day DATE")
def fetched(run):
    for day in run.dates:
        yield [{"id": day.day, "day": day}]

@tidemill.table(keys=["id"], schema="id BIGINT")
def called():
    return [{"id": 1}]
"""
NOW = datetime(2024, 2, 1, 12, tzinfo=UTC)
DAYS = ("2024-01-10", "2024-01-11", "2024-01-12")


@dataclass
class Project:
    spark: SparkSession

    def data(self, name: str, *days: str, first: int = 0) -> None:
        """A file of rows, one of each of these days at noon."""
        Path("data", name).mkdir(parents=True, exist_ok=True)
        times = [datetime.fromisoformat(f"{day}T12:00:00+00:00") for day in days]
        columns = {"id": [first + time.day for time in times], "at": pa.array(times, pa.timestamp("us", "UTC"))}
        pq.write_table(pa.table(columns), Path("data", name, f"{days[-1]}.parquet"))

    def model(self, name: str, metadata: str, query: str) -> None:
        folder = Path("models", "m")
        folder.mkdir(parents=True, exist_ok=True)
        folder.joinpath(f"{name}.sql").write_text(query)
        folder.joinpath(f"{name}.py").write_text(metadata)

    def plans(self, workspace: Workspace, request: Request) -> dict[str, StepPlan]:
        runner = workspace.engine(self.spark).runner()
        found = {}
        for table in workspace.tables:
            snapshot = known_of(table, log_of(table).snapshot())
            facts = facts_by_log(table, runner.source_of(table), snapshot)
            found[table.name] = plan_step(table, snapshot, request, workspace.given, NOW, facts)
        return found

    def run(self, request: Request = USUAL, only: tuple[str, ...] = (), **given: str) -> dict[str, StepPlan]:
        """Plans and runs, and holds the reasons, modes and windows of both against each other."""
        workspace = Workspace.load(".", given=given)
        workspace = workspace.choose(only) if only else workspace
        printed = {step.table: step.reason for step in workspace.plan(request)}
        plans = self.plans(workspace, request)
        result = logged_run(workspace, self.spark, request=request, now=NOW)
        kept = {step.table: step for step in past_runs(workspace.project.folder, 1)[0].steps}
        assert result.ok, [step.error for step in result.steps]
        for step in result.steps:
            plan = plans[step.table if "." in step.table else f"main.{step.table}"]
            if plan.gap is not Gap.HIGHEST:
                assert (kept[step.table].reason, kept[step.table].mode) == (plan.reason, plan.mode)
                assert plan.table.function or printed[plan.table.name] == plan.reason
            if plan.window and not plan.gap and step.window:
                start, end = (bound.value if bound else None for bound in (plan.window.start, plan.window.end))
                assert (step.window.start, step.window.end, step.window.reason) == (start, end, plan.window.reason)
                record = log_of(plan.table).snapshot().record  # type: ignore[union-attr]
                assert record is not None
                assert step.status in {"unchanged", "up to date"} or record.window["reason"] == plan.window.reason
        return plans


@pytest.fixture
def project(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(tmp_path)
    Path("tidemill.toml").write_text(PROJECT)
    Path("pipelines").mkdir()
    Path("pipelines", "shop.sql").write_text(PIPELINE)
    made = Project(spark)
    made.model("seen", APPEND, "SELECT id, at FROM raw.events")
    made.model("reloaded", RELOAD, "SELECT id, at FROM raw.events")
    Path("models", "m", "functions.py").write_text(FUNCTION)
    for number, name in enumerate(("events", "eu", "us")):
        made.data(name, *DAYS[:2], first=100 * number)
    return made


def reasons(plans: dict[str, StepPlan]) -> dict[str, str]:
    return {name.partition(".")[2]: plan.reason for name, plan in plans.items()}


def test_the_reason_that_a_plan_prints_is_the_one_that_the_run_reports_in_every_mode(project: Project) -> None:
    first = reasons(project.run(least="0"))
    assert {first[name] for name in ("merged", "appended", "replaced", "both", "hourly", "seen", "reloaded")} == {
        "first run"
    }
    assert first["fetched"] == "first run: 2024-01-30 … 2024-02-01, 3 dates"

    project.data("events", DAYS[2])
    project.data("eu", DAYS[2], first=100)
    later = reasons(project.run(since="2024-01-11", least="0"))
    assert later["merged"] == later["appended"] == "since 2024-01-11 12:00:00 UTC, lookback 1 hour"
    assert later["replaced"] == "everything is read, and only what differs is written"
    assert later["both"] == "eu since 2024-01-11 12:00:00 UTC"
    assert later["hourly"] == "since 2024-01-11 12:00:00 UTC"
    assert later["seen"] == "since 2024-01-11 12:00:00 UTC, lookback 7 days"
    condition = "at >= 2024-01-11 and id > 0 (from --vars)"
    assert later["reloaded"] == f"since 2024-01-11 00:00:00 UTC (from @since) · {condition}"
    assert later["called"] == "its function is called once"

    idle = reasons(project.run(only=("merged", "appended", "replaced", "both", "m.seen")))
    assert set(idle.values()) == {"up to date: its inputs are unchanged"}

    backfill = Request(backfill=backfill_of("2024-01-10", "2024-01-11", "1 day"))
    past = reasons(project.run(backfill, only=("merged", "both", "m.fetched")))
    assert past["merged"] == "backfill from 2024-01-10 to 2024-01-11 by 1 day"
    refreshed = reasons(project.run(Request(full_refresh=True), only=("merged", "both", "m.fetched")))
    assert set(refreshed.values()) == {"full refresh: everything is read, and the table becomes what a first run gives"}


def test_a_plan_knows_that_an_append_begins_behind_the_change_of_its_query(project: Project) -> None:
    project.run(only=("m.seen",))
    project.model("seen", APPEND, "SELECT id + 100 AS id, at FROM raw.events")
    project.data("events", DAYS[2])
    plans = project.run(only=("m.seen",))
    assert plans["m.seen"].reason == "after 2024-01-11 12:00:00 UTC, where its query changed"
    window = plans["m.seen"].window
    assert window is not None
    assert window.exclusive


def test_what_only_rows_tell_is_a_named_gap_that_the_run_fills(project: Project) -> None:
    project.run(only=("merged",))
    project.data("events", DAYS[2])
    project.spark.sql(f"DELETE FROM delta.`{Path('warehouse/main/merged').absolute()}` WHERE id = 11")
    plan = project.run(only=("merged",))["main.merged"]
    assert plan.gap is Gap.HIGHEST
    assert plan.reason == "since 2024-01-11 12:00:00 UTC, lookback 1 hour (or lower: somebody else removed rows)"
    (step,) = past_runs(Path.cwd(), 1)[0].steps
    assert step.reason == "somebody else removed rows: since 2024-01-10 12:00:00 UTC, lookback 1 hour"
