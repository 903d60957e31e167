"""Keeps the steps of a run in the project's ledger, however it ends."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

from tidemill.run.results import StepResult, ViewResult
from tidemill.state.ledger import Ledger, Step, ledger_file, now

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tidemill.declare.tables import Table
    from tidemill.declare.views import View
    from tidemill.run.events import Outcome


@contextlib.contextmanager
def keep_outcomes(
    folder: Path, tables: Iterable[Table | View], command: str, outcomes: list[Outcome]
) -> Iterator[None]:
    """A run in the ledger of the project in `folder`, with the steps that `outcomes` holds when the block ends."""
    at, paths = now(), {table.name: table for table in tables}
    with Ledger(ledger_file(folder)).run(command) as run:
        try:
            yield
        finally:
            for outcome in outcomes:
                if outcome.name in paths and (outcome.result or outcome.error):
                    run.add(_step(outcome, paths[outcome.name], at))


def _step(outcome: Outcome, table: Table | View, at: str) -> Step:
    result = outcome.result
    if isinstance(result, ViewResult):
        status = "unchanged" if result.status == "up to date" else result.status
        return Step(table.name, table.path, str(table.strategy), "view", status, at, seconds=result.seconds)
    if not isinstance(result, StepResult):
        code = outcome.error.code if outcome.error else None
        return Step(table.name, table.path, str(table.strategy), "incremental", "failed", at, error_code=code)
    return Step(
        table=table.name,
        path=table.path,
        strategy=result.strategy,
        mode="first" if result.first_run else "incremental",
        status="unchanged" if result.status == "up to date" else result.status,
        at=at,
        counts=result.counts,
        rows_read=result.rows_read,
        version=result.version,
        window=json.dumps(result.window.to_json()) if result.window else None,
        watermark=result.watermark.text() if result.watermark else None,
        seconds=result.seconds,
        commit_id=result.commit_id,
    )
