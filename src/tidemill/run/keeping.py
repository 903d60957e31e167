"""Keeps what a command did to one table in the ledger, however it ends."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tidemill.contracts.records import Counts
from tidemill.declare.paths import absolute
from tidemill.errors import ArgumentError, TidemillError
from tidemill.state.ledger import FAILED, INTERRUPTED, RUNNING, Ledger, Step, code_of, ledger_file, now, step_of
from tidemill.state.logs import log_at

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass(slots=True)
class Kept:
    """One step of a command, filled in while it runs."""

    table: str
    path: str
    strategy: str
    at: str
    status: str = RUNNING
    counts: dict[str, int] = field(default_factory=dict)
    rows_read: int | None = None
    version: int | None = None
    seconds: float | None = None
    error_code: str | None = None
    error: str | None = None

    def step(self) -> Step:
        """The step; window and watermark are those of the table's own record."""
        step = Step(
            table=self.table,
            path=self.path,
            strategy=self.strategy,
            mode="first" if self.status == "created" else "incremental",
            status=self.status,
            at=self.at,
            counts=Counts(**self.counts),
            rows_read=self.rows_read,
            version=self.version,
            seconds=self.seconds,
            error_code=self.error_code,
            error=self.error,
        )
        return step if self.version is None else self._with_record(step, self.version)

    def _with_record(self, step: Step, version: int) -> Step:
        commit = log_at(self.path).commit(version)
        if commit is None or commit.record is None:
            return step
        told = step_of(commit, commit.record, self.path)
        if self.status == "unchanged":  # that commit was another run's
            return replace(step, watermark=told.watermark)
        return replace(step, watermark=told.watermark, window=told.window, commit_id=told.commit_id)


@contextlib.contextmanager
def keeping(strategy: str, command: str, table: str, path: str, folder: Path | None = None) -> Iterator[Kept]:
    """A run of one step in the ledger of the project in `folder`: what the block fills in, or the error that ended it.

    Without a folder it is that of the current one. A command that was called wrongly did nothing to the table, so it is
    no step of it.
    """
    kept = Kept(table, absolute(path), strategy, now())
    began = time.monotonic()
    with Ledger(ledger_file(folder)).run(command, folder) as run:
        run.add(kept.step())
        try:
            yield kept
        except ArgumentError:
            run.steps.clear()
            raise
        except BaseException as failure:
            kept.status = FAILED if isinstance(failure, Exception) else INTERRUPTED
            kept.error_code, kept.seconds = code_of(failure), round(time.monotonic() - began, 3)
            kept.error = failure.problem if isinstance(failure, TidemillError) else None
            run.add(kept.step())
            raise
        run.add(kept.step())
