"""The ledger: a SQLite file of runs and steps, for people and for `tidemill status` and `tidemill runs`.

It decides nothing. What a table has processed stands in the table's own log; a ledger that is deleted,
damaged or unwritable costs history that `rebuild` can read back from there, and never a run.

A run is written when it starts, a step when it starts and when it ends. As long as a run lasts, its process holds
a lock on a file beside the ledger, which the kernel frees however that process ends: a run that has not ended and
whose lock is free was interrupted.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import threading
import time
import uuid
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.errors import StateError, TidemillError
from tidemill.formats.filesystem import held_open, is_held
from tidemill.model.project import find_project
from tidemill.model.record import Counts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

SCHEMA = 2

_TABLES = """
CREATE TABLE runs (
    run_id     TEXT PRIMARY KEY,
    command    TEXT NOT NULL,
    folder     TEXT,
    started    TEXT NOT NULL,
    ended      TEXT,
    seconds    REAL,
    status     TEXT NOT NULL,
    ok         INTEGER,
    error_code TEXT,
    error      TEXT
);
CREATE INDEX runs_by_start ON runs (started);
CREATE TABLE steps (
    step_id    INTEGER PRIMARY KEY,
    run_id     TEXT NOT NULL,
    commit_id  TEXT UNIQUE,
    table_name TEXT NOT NULL,
    path       TEXT NOT NULL,
    strategy   TEXT NOT NULL,
    mode       TEXT NOT NULL,
    reason     TEXT,
    status     TEXT NOT NULL,
    at         TEXT NOT NULL,
    "window"   TEXT,
    watermark  TEXT,
    rows_read  INTEGER,
    bytes_read INTEGER,
    inserted   INTEGER NOT NULL,
    updated    INTEGER NOT NULL,
    deleted    INTEGER NOT NULL,
    unchanged  INTEGER NOT NULL,
    ignored    INTEGER NOT NULL,
    version    INTEGER,
    seconds    REAL,
    error_code TEXT,
    error      TEXT
);
CREATE INDEX steps_by_table ON steps (path, at);
CREATE INDEX steps_by_run ON steps (run_id);
CREATE VIEW model_state AS
SELECT table_name AS model_name, path, strategy, mode, status,
       at AS last_execution_timestamp, watermark AS last_processed_value,
       rows_read, inserted + updated AS rows_written,
       inserted, updated, deleted, unchanged, ignored, version, seconds
FROM steps AS step
WHERE step_id = (
    SELECT step_id FROM steps
    WHERE path = step.path AND status IN ('created', 'changed', 'unchanged', 'restored', 'dropped')
      AND mode NOT IN ('verify', 'export')
    ORDER BY at DESC, step_id DESC LIMIT 1
)
"""

# Version 1 filed backfills and full refreshes as incremental, and runs with a failed step as ok.
_FROM_1 = """
DROP VIEW model_state;
DROP INDEX steps_by_table;
ALTER TABLE runs RENAME TO runs_1;
ALTER TABLE steps RENAME TO steps_1;
{tables};
INSERT INTO runs (run_id, command, started, ended, seconds, status, ok)
SELECT run_id, command, started, strftime('%Y-%m-%dT%H:%M:%fZ', started, seconds || ' seconds'), seconds,
       CASE WHEN seconds IS NULL THEN 'running' WHEN done THEN 'ok' ELSE 'failed' END,
       CASE WHEN seconds IS NOT NULL THEN done END
FROM (
    SELECT *, ok AND NOT EXISTS (
        SELECT 1 FROM steps_1 WHERE steps_1.run_id = runs_1.run_id AND status = 'failed'
    ) AS done FROM runs_1
);
INSERT INTO steps (
    step_id, run_id, commit_id, table_name, path, strategy, mode, reason, status, at, "window", watermark, rows_read,
    inserted, updated, deleted, unchanged, ignored, version, seconds, error_code
)
SELECT step_id, run_id, commit_id, table_name, path, strategy,
       CASE WHEN json_extract("window", '$.reason') LIKE 'backfill%' THEN 'backfill'
            WHEN strategy = 'full refresh' THEN 'full refresh' ELSE mode END,
       json_extract("window", '$.reason'), CASE error_code WHEN 'interrupted' THEN 'interrupted' ELSE status END,
       at, "window", watermark, CASE status WHEN 'failed' THEN NULL ELSE rows_read END,
       inserted, updated, deleted, unchanged, ignored, version, seconds, error_code
FROM steps_1;
DROP TABLE steps_1;
DROP TABLE runs_1
""".replace("{tables}", _TABLES)


def ensure_tables(db: sqlite3.Connection, file: Path) -> None:
    """Makes the tables in a new ledger, or what an older version wrote into those of this one."""
    found = db.execute("PRAGMA user_version").fetchone()[0]
    if found > SCHEMA:
        raise StateError(
            "ledger.newer",
            f"{file} was written by a later version of Tidemill.",
            "Use that version, or move the file away; nothing but history is in it.",
        )
    if found < SCHEMA:
        for statement in (_TABLES if found == 0 else _FROM_1).split(";"):
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {SCHEMA}")


logger = logging.getLogger("tidemill")

NO_COUNTS = Counts()
RUNNING, OK, FAILED, INTERRUPTED, NOT_RUN = "running", "ok", "failed", "interrupted", "not run"
_PATIENCE = 10.0  # seconds to wait for another process; a write takes milliseconds
_BEGIN = "INSERT INTO runs (run_id, command, folder, started, status) VALUES (?, ?, ?, ?, ?)"
_END = "INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_ADD_STEP = """
INSERT OR IGNORE INTO steps (
    run_id, commit_id, table_name, path, strategy, mode, reason, status, at, "window", watermark, rows_read, bytes_read,
    inserted, updated, deleted, unchanged, ignored, version, seconds, error_code, error
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


@dataclass(frozen=True, slots=True)
class Step:
    """What one step did to one table. `commit_id` is the run id in the commit's record, where there is a commit.

    `reason` is why it read what it read, or nothing. `bytes_read` is the size of the files that it read of its source,
    None where that is not known.
    """

    table: str
    path: str
    strategy: str
    mode: str
    status: str
    at: str
    counts: Counts = NO_COUNTS
    rows_read: int | None = None
    bytes_read: int | None = None
    version: int | None = None
    window: str | None = None
    watermark: str | None = None
    seconds: float | None = None
    reason: str | None = None
    error_code: str | None = None
    error: str | None = None
    commit_id: str | None = None


@dataclass(slots=True)
class Run:
    """A run under way. Steps are written as they start and end; `ok` is what its exit code says in the end.

    `write` does something with the ledger, or warns that it cannot. Its end waits for the disk, its steps do not.
    """

    run_id: str
    command: str
    folder: str
    started: str
    write: _Writer
    ended: str | None = None
    seconds: float | None = None
    status: str = RUNNING
    ok: bool = True
    error_code: str | None = None
    error: str | None = None
    steps: dict[str, Step] = field(default_factory=dict)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def add(self, step: Step) -> None:
        """A step that starts (`running`), or how it has ended; nothing once the run has ended."""
        with self._turn:
            if self.ended is None:
                self.steps[step.path] = step
                self.write(lambda db: _put(db, step, self.run_id), waits=False)

    def end(self, seconds: float, failure: BaseException | None) -> None:
        """Ends it: by its steps, and by what was raised. Steps that had not ended are interrupted with it."""
        with self._turn:
            interrupted = failure is not None and not isinstance(failure, Exception)
            self.ended, self.seconds = now(), round(seconds, 3)
            self.error_code = None if failure is None else code_of(failure)
            self.error = failure.problem if isinstance(failure, TidemillError) else None
            self.ok = self.ok and failure is None and not any(s.status in _NOT_DONE for s in self.steps.values())
            self.status = INTERRUPTED if interrupted else OK if self.ok else FAILED
            for path, step in self.steps.items():
                if step.status == RUNNING:
                    status, took = INTERRUPTED if interrupted else FAILED, _between(step.at, self.ended)
                    self.steps[path] = replace(step, status=status, seconds=took)
            self.write(lambda db: _end(db, self))


_NOT_DONE = {RUNNING, FAILED, INTERRUPTED, NOT_RUN}


def code_of(failure: BaseException) -> str:
    """The code of an error, or of what else may end a command."""
    if isinstance(failure, TidemillError):
        return failure.code
    return "internal" if isinstance(failure, Exception) else INTERRUPTED


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


def _between(start: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()


class Ledger:
    """The ledger in one file, which is made when it is first written."""

    def __init__(self, file: Path) -> None:
        self.file = file

    @contextlib.contextmanager
    def run(self, command: str, folder: Path | None = None) -> Iterator[Run]:
        """Keeps a run of the project in `folder`: from its start, so that a killed one is seen, to its end."""
        run = Run(uuid.uuid4().hex, command, str(folder or Path.cwd()), now(), _Writer(self))
        began, failure = time.monotonic(), None
        with self._alive(run.run_id):
            run.write(lambda db: _begin(db, run))
            try:
                yield run
            except BaseException as raised:
                failure = raised
                raise
            finally:
                run.end(time.monotonic() - began, failure)

    def is_alive(self, run_id: str) -> bool:
        """Whether the process of a run is still there."""
        file = self._lock_of(run_id)
        return file.exists() and is_held(file)

    @contextlib.contextmanager
    def _alive(self, run_id: str) -> Iterator[None]:
        file = self._lock_of(run_id)
        with contextlib.ExitStack() as held:
            with contextlib.suppress(OSError):  # whoever cannot write here is warned by the first write
                file.parent.mkdir(parents=True, exist_ok=True)
                held.callback(file.unlink, missing_ok=True)
                held.enter_context(held_open(file))
            yield

    def _lock_of(self, run_id: str) -> Path:
        return self.file.parent / "running" / run_id

    def refill(self, steps: Iterable[Step]) -> int:
        """Adds the steps whose commits the ledger does not know; says how many that were."""
        with self.open() as db:
            before = db.total_changes
            for step in steps:
                _add(db, step, (step.commit_id or "").rpartition("-")[0])
            return db.total_changes - before

    def query(self, sql: str, *values: str | int) -> list[sqlite3.Row]:
        """Rows of the ledger; none when there is no ledger yet, or an empty file that a full disk has left."""
        if not self.file.exists() or self.file.stat().st_size == 0:
            return []
        with self.open() as db:
            return list(db.execute(sql, values))

    @contextlib.contextmanager
    def open(self, *, waits: bool = True) -> Iterator[sqlite3.Connection]:
        """One transaction that holds the only write lock, so that two processes take turns.

        One that does not wait for the disk is whole after a kill, though not after a power cut, and takes 2 ms, not 25.
        """
        self.file.parent.mkdir(parents=True, exist_ok=True)
        db = sqlite3.connect(self.file, timeout=_PATIENCE, isolation_level=None)
        try:
            db.row_factory = sqlite3.Row
            if not waits:
                db.execute("PRAGMA synchronous = OFF")
            db.execute("BEGIN IMMEDIATE")
            ensure_tables(db, self.file)
            yield db
            db.execute("COMMIT")
        finally:
            db.close()  # without a commit, what was begun is undone


class _Writer:
    """Writes to the ledger, and warns once: a run goes on, and ends as it would have, whatever is wrong with it."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger, self.has_warned = ledger, False

    def __call__(self, work: Callable[[sqlite3.Connection], None], *, waits: bool = True) -> None:
        try:
            with self.ledger.open(waits=waits) as db:
                work(db)
        except (sqlite3.Error, OSError, TidemillError) as failure:
            said = failure.problem if isinstance(failure, TidemillError) else str(failure)
            if not self.has_warned:
                logger.warning(
                    "This run is not in the ledger %s: %s. Tables and their progress do not depend on it; "
                    "move the file away if it is damaged.",
                    self.ledger.file,
                    said.rstrip("."),
                )
            self.has_warned = True


def _begin(db: sqlite3.Connection, run: Run) -> None:
    db.execute(_BEGIN, (run.run_id, run.command, run.folder, run.started, RUNNING))


def _end(db: sqlite3.Connection, run: Run) -> None:
    """All of the run: the file may have been deleted since it began."""
    when = (run.started, run.ended, run.seconds)
    db.execute(_END, (run.run_id, run.command, run.folder, *when, run.status, int(run.ok), run.error_code, run.error))
    db.execute("DELETE FROM steps WHERE run_id = ?", (run.run_id,))
    for step in run.steps.values():
        _add(db, step, run.run_id)


def _put(db: sqlite3.Connection, step: Step, run_id: str) -> None:
    db.execute("DELETE FROM steps WHERE run_id = ? AND path = ?", (run_id, step.path))
    _add(db, step, run_id)


def _add(db: sqlite3.Connection, step: Step, run_id: str) -> None:
    c = step.counts
    values = (
        *(run_id, step.commit_id, step.table, step.path, step.strategy, step.mode, step.reason, step.status, step.at),
        *(step.window, step.watermark, step.rows_read, step.bytes_read),
        *(c.inserted, c.updated, c.deleted, c.unchanged, c.ignored),
        *(step.version, step.seconds, step.error_code, step.error),
    )
    db.execute(_ADD_STEP, values)
