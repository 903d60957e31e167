"""The ledger: a SQLite file of runs and steps, for people and for `tidemill status`.

It decides nothing. What a table has processed stands in the table's own log; a ledger that is deleted,
damaged or unwritable costs history that `rebuild` can read back from there, and never a run.

The view `model_state` is for everyone, with any SQLite client. It has one row per table, of its last step
that did not fail:

    model_name, path                the table, as the command named it, and where it is
    strategy, mode                  "merge upsert"; first | incremental | view
    status                          created | changed | unchanged | restored | dropped
    last_execution_timestamp        when that step began, UTC
    last_processed_value            the watermark, NULL for a table without a time column
    rows_read, rows_written         rows of the change; rows inserted or updated
    inserted, updated, deleted, unchanged, ignored
    version, seconds                the table's version after the step; how long it took
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sqlite3
import time
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.contracts.records import Counts, Record
from tidemill.declare.project_file import find_project
from tidemill.errors import StateError, TidemillError
from tidemill.state.counting import counts_of
from tidemill.state.logs import log_at
from tidemill.state.parts import without_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tidemill.contracts.snapshots import Commit

logger = logging.getLogger("tidemill")

SCHEMA = 1
NO_COUNTS = Counts()
_PATIENCE = 10.0  # seconds to wait for another process; a write takes milliseconds

_TABLES = """
CREATE TABLE runs (
    run_id  TEXT PRIMARY KEY,
    command TEXT NOT NULL,
    started TEXT NOT NULL,
    seconds REAL,
    ok      INTEGER
);
CREATE TABLE steps (
    step_id    INTEGER PRIMARY KEY,
    run_id     TEXT NOT NULL,
    commit_id  TEXT UNIQUE,
    table_name TEXT NOT NULL,
    path       TEXT NOT NULL,
    strategy   TEXT NOT NULL,
    mode       TEXT NOT NULL,
    status     TEXT NOT NULL,
    at         TEXT NOT NULL,
    "window"   TEXT,
    watermark  TEXT,
    rows_read  INTEGER NOT NULL,
    inserted   INTEGER NOT NULL,
    updated    INTEGER NOT NULL,
    deleted    INTEGER NOT NULL,
    unchanged  INTEGER NOT NULL,
    ignored    INTEGER NOT NULL,
    version    INTEGER,
    seconds    REAL,
    error_code TEXT
);
CREATE INDEX steps_by_table ON steps (path, at);
CREATE VIEW model_state AS
SELECT table_name AS model_name, path, strategy, mode, status,
       at AS last_execution_timestamp, watermark AS last_processed_value,
       rows_read, inserted + updated AS rows_written,
       inserted, updated, deleted, unchanged, ignored, version, seconds
FROM steps AS step
WHERE step_id = (
    SELECT step_id FROM steps WHERE path = step.path AND status <> 'failed' ORDER BY at DESC, step_id DESC LIMIT 1
);
"""

_ADD_STEP = """
INSERT OR IGNORE INTO steps (
    run_id, commit_id, table_name, path, strategy, mode, status, at, "window", watermark,
    rows_read, inserted, updated, deleted, unchanged, ignored, version, seconds, error_code
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


@dataclass(frozen=True, slots=True)
class Step:
    """What one step did to one table. `commit_id` is the run id in the commit's record, where there is a commit."""

    table: str
    path: str
    strategy: str
    mode: str
    status: str
    at: str
    counts: Counts = NO_COUNTS
    rows_read: int = 0
    version: int | None = None
    window: str | None = None
    watermark: str | None = None
    seconds: float | None = None
    error_code: str | None = None
    commit_id: str | None = None


@dataclass(slots=True)
class Run:
    """A run under way: steps are added while it lasts, and written when it ends."""

    run_id: str
    command: str
    started: str
    steps: list[Step] = field(default_factory=list)

    def add(self, step: Step) -> None:
        self.steps.append(step)


def ledger_file(folder: Path | None = None) -> Path:
    """The ledger of the project that `folder` is in; outside of projects, the user's own."""
    project = find_project(folder or Path.cwd())
    if project is not None:
        return project.parent / ".tidemill" / "ledger.db"
    state = os.environ.get("XDG_STATE_HOME")
    root = Path(state).expanduser() if state else Path.home() / ".local" / "state"
    return root / "tidemill" / "ledger.db"


def now() -> str:
    """The present moment as records write it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Ledger:
    """The ledger in one file, which is made when it is first written."""

    def __init__(self, file: Path) -> None:
        self.file = file

    @contextlib.contextmanager
    def run(self, command: str) -> Iterator[Run]:
        """Keeps a run: from its start, so that a killed one is seen, to its end, failed or not."""
        run, began = Run(uuid.uuid4().hex, command, now()), time.monotonic()
        self._try(lambda db: _begin(db, run))
        ok = False
        try:
            yield run
            ok = True
        finally:
            seconds = time.monotonic() - began
            self._try(lambda db: _end(db, run, seconds, ok=ok))

    def refill(self, steps: Iterable[Step]) -> int:
        """Adds the steps whose commits the ledger does not know; says how many that were."""
        with self._open() as db:
            before = db.total_changes
            for step in steps:
                _add(db, step, (step.commit_id or "").rpartition("-")[0])
            return db.total_changes - before

    def query(self, sql: str, *values: str | int) -> list[sqlite3.Row]:
        """Rows of the ledger; none when there is no ledger yet."""
        if not self.file.exists():
            return []
        with self._open() as db:
            return list(db.execute(sql, values))

    def last_step(self, path: str) -> sqlite3.Row | None:
        """The last step of the table at a path, failed or not; None where the ledger has none."""
        last = "SELECT * FROM steps WHERE path = ? ORDER BY at DESC, step_id DESC LIMIT 1"
        return next(iter(self.query(last, path)), None)

    def _try(self, work: Callable[[sqlite3.Connection], None]) -> None:
        """A run goes on, and ends as it would have, whatever is wrong with its ledger."""
        try:
            with self._open() as db:
                work(db)
        except (sqlite3.Error, OSError, TidemillError) as failure:
            said = failure.problem if isinstance(failure, TidemillError) else str(failure)
            logger.warning(
                "This run is not in the ledger %s: %s. Tables and their progress do not depend on it; "
                "move the file away if it is damaged.",
                self.file,
                said.rstrip("."),
            )

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """One transaction that holds the only write lock, so that two processes take turns."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        db = sqlite3.connect(self.file, timeout=_PATIENCE, isolation_level=None)
        try:
            db.row_factory = sqlite3.Row
            db.execute("BEGIN IMMEDIATE")
            _ensure_tables(db, self.file)
            yield db
            db.execute("COMMIT")
        finally:
            db.close()  # without a commit, what was begun is undone


def rebuild(ledger: Ledger, paths: Iterable[str]) -> int:
    """Reads the steps of tables back from their own logs, without Spark; says how many the ledger lacked.

    Runs that committed nothing, failed steps and seconds are in no log, so they do not come back.
    """
    return ledger.refill(step for path in paths for step in _steps_of(path))


def step_of(commit: Commit, record: Record, path: str) -> Step:
    """The step behind a commit of ours."""
    watermark = record.reached(record.progress)
    first = commit.version == 0
    restored = record.restored_from is not None
    return Step(
        table=record.table,
        path=path,
        strategy=record.strategy,
        mode="first" if first else "incremental",
        status="restored" if restored else "created" if first else "changed",
        at=record.at,
        counts=counts_of(commit),
        rows_read=record.rows,
        version=commit.version,
        window=json.dumps(dict(record.window)) if record.window else None,
        watermark=watermark.text() if watermark else None,
        commit_id=record.run_id,
    )


def _steps_of(path: str) -> Iterator[Step]:
    log = log_at(path)
    if log.snapshot() is None:
        return
    for commit in without_parts(log.commits()):
        if commit.record is not None:
            yield step_of(commit, commit.record, path)


def _ensure_tables(db: sqlite3.Connection, file: Path) -> None:
    found = db.execute("PRAGMA user_version").fetchone()[0]
    if found > SCHEMA:
        raise StateError(
            "ledger.newer",
            f"{file} was written by a later version of Tidemill.",
            "Use that version, or move the file away; nothing but history is in it.",
        )
    if found == 0:
        for statement in _TABLES.split(";"):
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {SCHEMA}")


def _begin(db: sqlite3.Connection, run: Run) -> None:
    db.execute("INSERT INTO runs (run_id, command, started) VALUES (?, ?, ?)", (run.run_id, run.command, run.started))


def _end(db: sqlite3.Connection, run: Run, seconds: float, *, ok: bool) -> None:
    db.execute(
        "INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?)",
        (run.run_id, run.command, run.started, round(seconds, 3), int(ok)),
    )
    for step in run.steps:
        _add(db, step, run.run_id)


def _add(db: sqlite3.Connection, step: Step, run_id: str) -> None:
    c = step.counts
    values = (
        *(run_id, step.commit_id, step.table, step.path, step.strategy, step.mode, step.status, step.at),
        *(step.window, step.watermark, step.rows_read),
        *(c.inserted, c.updated, c.deleted, c.unchanged, c.ignored),
        *(step.version, step.seconds, step.error_code),
    )
    db.execute(_ADD_STEP, values)
