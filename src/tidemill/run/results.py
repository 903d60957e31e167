"""What one step did, and when a step has nothing to do at all."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidemill.contracts import Counts
from tidemill.state.logs import log_of

if TYPE_CHECKING:
    from tidemill.change.checked import Checked
    from tidemill.declare.cursors import Cursor
    from tidemill.declare.tables import Table
    from tidemill.plan.windows import WindowPlan
    from tidemill.sources.protocol import Connector


@dataclass(frozen=True, slots=True)
class StepResult:
    """What one step did, in one commit or, as a backfill, in several. `version` is the table's version after it.

    `checks` are those that were run on what it wrote; of several commits, the worst of each.
    """

    table: str
    status: str
    strategy: str
    version: int
    counts: Counts
    total: int
    rows_read: int
    seconds: float
    first_run: bool = False
    rebuilt: bool = False
    batches: int = 1
    window: WindowPlan | None = None
    watermark: Cursor | None = None
    files_rewritten: int = 0
    files_kept: int = 0
    commit_id: str | None = None
    notices: tuple[str, ...] = field(default=())
    checks: tuple[Checked, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class ViewResult:
    """What became of a view: its query gives these columns. Nothing was read, and nothing written but its record."""

    view: str
    status: str
    columns: tuple[str, ...]
    seconds: float = 0.0
    first_run: bool = False
    notices: tuple[str, ...] = field(default=())


def up_to_date(table: Table, source: Connector) -> StepResult | None:
    """The result of a step that has nothing to read, told without Spark; None where it has to look.

    Its input is known to be what it was, so is its declaration, and nobody touched its rows.
    """
    snapshot, version = log_of(table).snapshot(), source.version()
    record = snapshot.record if snapshot else None
    if snapshot is None or record is None or snapshot.rows is None or version is None:
        return None
    same = (record.sql_hash, record.config_hash) == (table.sql_hash, table.config_hash)
    if not same or record.input_versions.get(table.input) != version:
        return None
    return StepResult(
        table=table.name,
        status="up to date",
        strategy=str(table.strategy),
        version=snapshot.version,
        counts=Counts(),
        total=snapshot.rows,
        rows_read=0,
        seconds=0.0,
        watermark=record.progress.get(table.input),
        files_kept=snapshot.files,
    )
