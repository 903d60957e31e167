"""Runs and steps as the ledger remembers them, and as the tables' own logs do."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from tidemill.display import html_table, text_table
from tidemill.errors import ArgumentError
from tidemill.ledger import INTERRUPTED, RUNNING, Ledger, ledger_file
from tidemill.model.project import find_project

if TYPE_CHECKING:
    from pathlib import Path
    from sqlite3 import Row


_STEPS = "SELECT * FROM steps WHERE run_id = ? ORDER BY step_id"
_LAST = """
SELECT * FROM steps
WHERE path = ? AND mode <> 'verify' AND status <> 'not run' ORDER BY at DESC, step_id DESC LIMIT 1
"""
_SHOWN = ("run", "started", "command", "status", "steps", "seconds")
_STEP_SHOWN = (
    *("table", "status", "mode", "reason", "rows_read", "inserted", "updated", "deleted", "unchanged"),
    *("seconds", "error"),
)


@dataclass(frozen=True, slots=True)
class PastStep:
    """What one step did, and why. Times are UTC; what is not known is None.

    `status` is created, changed, unchanged, restored, dropped or exported; failed, with the `error`; not run, with the
    `reason`; running, or interrupted; of a verification, what it found. `mode` is first, incremental, full, backfill,
    full refresh, skipped, view, export or verify.
    """

    table: str
    status: str
    strategy: str
    mode: str
    reason: str | None
    started: str
    seconds: float | None
    rows_read: int | None
    bytes_read: int | None
    inserted: int
    updated: int
    deleted: int
    unchanged: int
    ignored: int
    watermark: str | None
    version: int | None
    error_code: str | None
    error: str | None
    path: str


@dataclass(frozen=True, slots=True)
class PastRun:
    """A run: when it was, how it ended (ok, failed, interrupted, or still running), and its steps.

    >>> first = tidemill.Project.load("shop").runs()[-1]
    >>> first.command, first.status
    ('run', 'ok')
    """

    run_id: str
    command: str
    status: str
    ok: bool | None
    started: str
    ended: str | None
    seconds: float | None
    error_code: str | None
    error: str | None
    steps: tuple[PastStep, ...] = ()

    def _repr_html_(self) -> str:
        """Its steps, under a line on the run itself."""
        steps = [[getattr(step, name) for name in _STEP_SHOWN] for step in self.steps]
        took = "" if self.seconds is None else f" · {self.seconds:.1f} s"
        why = f" · [{self.error_code}] {self.error or ''}" if self.error_code else ""
        caption = f"{self.command} · {self.status} · {_moment(self.started)}{took}{why}"
        return html_table(_STEP_SHOWN, steps, caption)


class PastRuns(list[PastRun]):
    """Runs, newest first, which print as a table; times are in UTC.

    >>> tidemill.Project.load("shop").runs()[0].status
    'ok'
    """

    def __repr__(self) -> str:
        return text_table(_SHOWN, self._lines()) if self else "no runs"

    def _repr_html_(self) -> str:
        return html_table(_SHOWN, self._lines())

    def _lines(self) -> list[tuple[str, ...]]:
        return [
            (
                run.run_id,
                _moment(run.started),
                run.command,
                run.status,
                ", ".join(f"{step.table} {step.status}" for step in run.steps),
                "" if run.seconds is None else f"{run.seconds:.1f}",
            )
            for run in self
        ]


def _moment(at: str) -> str:
    return at[:19].replace("T", " ")


def past_runs(folder: Path | None = None, limit: int | None = None, command: str = "") -> PastRuns:
    """The runs of the project in `folder`, newest first, those of a `command` only; without a folder the user's own.

    Pipeline files outside of projects share the user's ledger: there it is those that were started for the folder.
    """
    ledger, alone = Ledger(ledger_file(folder)), folder is not None and find_project(folder) is None
    chosen = """
    SELECT * FROM runs WHERE ? IN ('', folder) AND (command || ' ') LIKE ? ORDER BY started DESC, rowid DESC LIMIT ?
    """
    given = (str(folder) if alone else "", f"{command} %" if command else "%", -1 if limit is None else limit)
    return PastRuns(_run(ledger, row) for row in ledger.query(chosen, *given))


def past_run(start: str, folder: Path | None = None) -> PastRun:
    """The run whose id begins so; `history` shows that of a commit, which finds its run too."""
    ledger = Ledger(ledger_file(folder))
    own = ledger.query("SELECT * FROM runs WHERE substr(run_id, 1, ?) = ?", len(start), start)
    by_commit = "SELECT * FROM runs WHERE run_id IN (SELECT run_id FROM steps WHERE substr(commit_id, 1, ?) = ?)"
    found = own or ledger.query(by_commit, len(start), start)
    if len(found) == 1:
        return _run(ledger, found[0])
    if found:
        ids = ", ".join(row["run_id"] for row in found[:3])
        raise ArgumentError("runs.ambiguous", f"{len(found)} runs begin with {start}: {ids}.", "Give more of the id.")
    raise ArgumentError("runs.unknown", f"The ledger has no run {start}.", "tidemill runs lists those that it has.")


def last_step(ledger: Ledger, path: str) -> PastStep | None:
    """The last step of the table at a path, failed or not; None where the ledger has none."""
    row = next(iter(ledger.query(_LAST, path)), None)
    return _step(row, alive=ledger.is_alive(row["run_id"])) if row else None


def _run(ledger: Ledger, row: Row) -> PastRun:
    alive = row["status"] == RUNNING and ledger.is_alive(row["run_id"])
    steps = tuple(_step(each, alive=alive) for each in ledger.query(_STEPS, row["run_id"]))
    return PastRun(
        run_id=row["run_id"],
        command=row["command"],
        status=_status(row, alive=alive),
        ok=None if row["ok"] is None else bool(row["ok"]),
        started=row["started"],
        ended=row["ended"],
        seconds=row["seconds"],
        error_code=row["error_code"],
        error=row["error"],
        steps=steps,
    )


def _step(row: Row, *, alive: bool) -> PastStep:
    own = {"table": row["table_name"], "started": row["at"], "status": _status(row, alive=alive)}
    return PastStep(**{each.name: own[each.name] if each.name in own else row[each.name] for each in fields(PastStep)})


def _status(row: Row, *, alive: bool) -> str:
    """What has not ended, and has nobody who could end it, was interrupted."""
    return INTERRUPTED if row["status"] == RUNNING and not alive else str(row["status"])
