"""A process that a test kills: it runs a project until the rows of one view are staged, says so, and waits."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import tidemill
from tidemill.execution import commit

if TYPE_CHECKING:
    from tidemill.execution.attempt import Attempt
    from tidemill.formats.base import CommitResult, Compiled
    from tidemill.model.record import Record

folder, view = sys.argv[1:]
usual = commit.commit_change


def wait_when_staged(attempt: Attempt, compiled: Compiled, record: Record) -> CommitResult | None:
    if attempt.table.name != f"main.{view}":
        return usual(attempt, compiled, record)
    assert compiled.operation is not None
    if compiled.staged is None:
        attempt.store.stage(attempt.spark, compiled.operation, attempt.snapshot, rows=record.rows)
    print("staged", flush=True)
    time.sleep(600)
    return None


commit.commit_change = wait_when_staged
tidemill.Project.load(folder).run()
