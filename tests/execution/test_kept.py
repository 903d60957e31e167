"""What the ledger keeps of a run and of a verification: how each step went, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tidemill import PastRun, Record, Table, Verified
from tidemill.api.workspace import Workspace
from tidemill.declarations import Merge, Window
from tidemill.errors import SourceError
from tidemill.execution import Outcome, StepKind, StepResult
from tidemill.execution.journal import log_run
from tidemill.ledger.past import past_runs
from tidemill.model.cursor import cursor
from tidemill.model.record import Counts, Snapshot
from tidemill.planning import USUAL, Request, backfill_of, plan_step
from tidemill.planning.notices import Facts
from tidemill.results import Found, Kind
from tidemill.verify.recording import record_results

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = """
SOURCE visits TYPE CSV PARAMS {"path": "visits.csv", "cursor_field": "day"};
LOAD visits FROM visits MODE APPEND;
CREATE TABLE pages AS SELECT DISTINCT page FROM visits;
EXPORT pages TO "out.csv" TYPE CSV;
"""
DAY = cursor("date", "2024-01-02")
BY_DAY = Window("day")
SINCE_JANUARY = backfill_of("2024-01-01", None, None)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tidemill.toml").touch()
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "p.sql").write_text(PIPELINE)
    return Workspace.load()


def result(status: str = "changed", **facts: Any) -> StepResult:
    return StepResult("main.visits", status, "append", 3, Counts(2), 9, facts.pop("rows_read", 2), 0.5, **facts)


def kept(shop: Workspace, *outcomes: Outcome) -> PastRun:
    with log_run(shop.project.folder, shop.graph.in_order(), "run", shop.masking, shop.short) as run:
        for outcome in outcomes:
            run.began(outcome.name)
            if outcome.plan:
                run.planned(outcome.plan)
                assert [step.reason for step in run.run.steps.values()][-1] == outcome.plan.reason
            run.ended(outcome)
    return past_runs(shop.project.folder, 1)[0]


RECORD = Record("r", "t", 1, "append", "", progress={"source": DAY}, input_versions={"source": "7"})


@pytest.mark.parametrize(
    ("window", "record", "request_", "mode", "reason"),
    [
        (BY_DAY, None, USUAL, "first", "first run"),
        (BY_DAY, RECORD, USUAL, "incremental", "since 2024-01-02"),
        (BY_DAY, RECORD.with_(reset=("source",)), USUAL, "full", "its watermark was reset: everything is read"),
        (None, RECORD, USUAL, "full", "everything is read, and only what differs is written"),
        (
            None,
            RECORD,
            Request(full_refresh=True),
            "full refresh",
            "full refresh: everything is read, and the table becomes what a first run gives",
        ),
        (BY_DAY, RECORD, Request(backfill=SINCE_JANUARY), "backfill", "backfill from 2024-01-01"),
        (None, RECORD, None, "skipped", "up to date: its inputs are unchanged"),
    ],
)
def test_every_step_has_its_mode_and_the_reason_for_it(
    shop: Workspace, window: Window | None, record: Record | None, request_: Request | None, mode: str, reason: str
):
    table, facts = Table("main.visits", "visits", Merge(("id",)), window), Facts(version=None if request_ else "7")
    known = record.with_(config_hash=table.config_hash) if record else None
    snapshot = Snapshot(3, 1, known, 3, rows=9) if known else None
    plan = plan_step(table, snapshot, request_ or USUAL, facts=facts)
    (step,) = kept(shop, Outcome("main.visits", result(mode=plan.mode, reason=plan.reason), plan=plan)).steps
    assert (step.mode, step.reason, step.rows_read, step.inserted) == (mode, reason, 2, 2)
    failure = SourceError("source.missing", "There is no visits.csv.", "Put it there.")
    (failed,) = kept(shop, Outcome("main.visits", error=failure, plan=plan)).steps
    assert (failed.status, failed.mode, failed.reason) == ("failed", mode, reason)


def test_a_failure_and_what_waits_for_it_are_kept_and_so_are_exports(shop: Workspace):
    failure = SourceError("source.missing", "There is no visits.csv.", "Put it there.")
    plan = plan_step(Table("main.visits", "visits", Merge(("id",)), BY_DAY), None, Request(backfill=SINCE_JANUARY))
    run = kept(
        shop,
        Outcome("main.visits", error=failure, seconds=0.25, plan=plan),
        Outcome("main.pages", waits_for="main.visits"),
        Outcome("out.csv", StepResult("out.csv", "exported", rows_read=4, seconds=0.1, kind=StepKind.EXPORT)),
    )
    assert (run.ok, run.status) == (False, "failed")
    visits, pages, export = run.steps
    assert (visits.status, visits.mode, visits.seconds, visits.rows_read) == ("failed", "backfill", 0.25, None)
    assert (visits.error_code, visits.error) == ("source.missing", "There is no visits.csv.")
    assert (pages.status, pages.mode, pages.reason) == ("not run", "skipped", "visits was not made by this run")
    assert (export.status, export.mode, export.rows_read) == ("exported", "export", 4)


def test_a_step_that_fails_before_it_has_a_plan_says_so(shop: Workspace):
    failure = SourceError("source.missing", "There is no visits.csv.", "Put it there.")
    (step,) = kept(shop, Outcome("main.visits", error=failure)).steps
    assert (step.status, step.mode, step.reason) == ("failed", "not planned", None)


@pytest.mark.parametrize(
    ("found", "status", "ok"),
    [
        (Verified("main.visits", "its source", rows=3), "equal", True),
        (Verified("main.visits", "its source", found={Kind.KEPT: Found(2)}, keeps_rows=True), "kept", True),
        (Verified("main.visits", "its query", found={Kind.KEPT: Found(2)}), "kept", False),
        (Verified("main.visits", "its source", found={Kind.MISSING: Found(1)}), "different", False),
        (Verified("main.visits", "", verifiable=False, notes=("a function",)), "not verifiable", True),
    ],
)
def test_a_verification_is_kept_and_is_ok_as_its_exit_code_says(
    shop: Workspace, found: Verified, status: str, ok: bool
):
    assert list(
        record_results(iter([found]), shop.tables, ["visits"], shop.project.folder, shop.masking, shop.short)
    ) == [found]
    (run,) = past_runs(shop.project.folder)
    assert (run.command, run.ok, run.steps[0].mode, run.steps[0].status) == ("verify visits", ok, "verify", status)
