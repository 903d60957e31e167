"""The tables of the ledger, and how those of older versions become them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.errors import StateError

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

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
