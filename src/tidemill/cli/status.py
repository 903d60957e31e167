"""`tidemill status`: tables, rows, watermarks, last runs, freshness, and what incremental runs save."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

import click

from tidemill.cli import render
from tidemill.cli.options import examples, on_project, output
from tidemill.cli.tables import Looks

if TYPE_CHECKING:
    from collections.abc import Mapping
    from sqlite3 import Row

    from tidemill.declare.tables import Table
    from tidemill.declare.views import View
    from tidemill.state.ledger import Ledger
    from tidemill.workspace import Workspace

HEADINGS = ("table", "rows", "watermark", "waiting", "last changed", "last run", "unmet", "saved")
_LOOKS = Looks(
    gives={
        "saved": ("wrap", 16),
        "unmet": ("wrap", 12),
        "waiting": ("wrap", 12),
        "last changed": ("wrap", 10),
        "watermark": ("wrap", 10),
        "last run": ("wrap", 12),
        "table": ("cut", 16),
    },
    paint={"last run": render.red("failed")},
)
_FULL = "SELECT * FROM steps WHERE path = ? AND mode = 'first' AND status <> 'failed' ORDER BY at DESC LIMIT 1"
_INCREMENTAL = (
    "SELECT count(*) AS runs, avg(rows_read) AS rows_read, avg(seconds) AS seconds FROM steps "
    "WHERE path = ? AND mode = 'incremental' AND status <> 'failed'"
)


@dataclass(frozen=True, slots=True)
class Saved:
    """What a table's incremental runs cost on average, against its last full one."""

    runs: int
    rows_read: float
    seconds: float
    full_rows_read: int
    full_seconds: float

    def __str__(self) -> str:
        rows = f"reads {self.rows_read:,.0f} of {self.full_rows_read:,} rows"
        return f"{rows}, {self.seconds:.1f} s for {self.full_seconds:.1f} s"


@dataclass(frozen=True, slots=True)
class Status:
    """One table as its log and the ledger know it; of a view, its record.

    `expectations` have, for the last commit, how many rows that were fetched did not meet each.
    """

    table: str
    path: str
    strategy: str
    rows: int | None
    version: int | None
    watermark: str | None
    waiting: int | None
    waiting_since: str | None
    waiting_for: str | None
    changed_at: str | None
    last_run: str | None
    last_status: str | None
    saved: Saved | None
    expectations: Mapping[str, int] = field(default_factory=dict)


@click.command(
    short_help="Show rows, watermarks, last runs, and what was saved.",
    epilog=examples(
        "tidemill status",
        "tidemill status shop.sql --format json",
    ),
)
@on_project
@output
def status(workspace: Workspace, form: str, quiet: bool) -> None:
    """Show what is known of every declared table and view: from its own log and from the ledger. Starts no Spark."""
    from tidemill.state.ledger import Ledger, ledger_file  # noqa: PLC0415

    ledger = Ledger(ledger_file(workspace.project.folder))
    found = [_status(table, ledger) for table in workspace.tables_and_views]
    if form == "json":
        data = [asdict(each) | {"table": workspace.short(each.table)} for each in found]
        render.document({"project": workspace.project.name, "tables": data})
    elif not quiet:
        short = f"{workspace.project.warehouse.schema}."
        render.declared(HEADINGS, [_line(each, short) for each in found], right=frozenset({"rows"}), looks=_LOOKS)
        if found and all(_is_new(each) for each in found):
            render.say(f"{render.INDENT}next: {workspace.command('run')}")


def _status(table: Table | View, ledger: Ledger) -> Status:
    from tidemill.declare.cursors import cursor  # noqa: PLC0415
    from tidemill.declare.ticks import apart  # noqa: PLC0415
    from tidemill.declare.views import View  # noqa: PLC0415
    from tidemill.state.logs import log_of  # noqa: PLC0415
    from tidemill.state.views import view_record  # noqa: PLC0415

    snapshot = None if isinstance(table, View) else log_of(table).snapshot()
    record = view_record(table.path) if isinstance(table, View) else snapshot.record if snapshot else None
    watermark = record.reached(table.input_names) if record and not isinstance(table, View) else None
    joined = record.joined if record and not isinstance(table, View) else {}
    oldest = cursor(watermark.kind, str(joined["oldest"])) if watermark and "oldest" in joined else None
    last = ledger.last_step(table.path)
    return Status(
        table=table.name,
        path=table.path,
        strategy=str(table.strategy),
        rows=snapshot.rows if snapshot else None,
        version=snapshot.version if snapshot else None,
        watermark=str(watermark) if watermark else None,
        waiting=_number(joined.get("waiting")),
        waiting_since=str(oldest) if oldest else None,
        waiting_for=apart(oldest, watermark) if oldest and watermark else None,
        changed_at=record.at if record else None,
        last_run=last["at"] if last else None,
        last_status=last["status"] if last else None,
        saved=None if isinstance(table, View) or joined else _saved(table.path, ledger),
        expectations=record.expectations if record else {},
    )


def _number(value: int | str | None) -> int | None:
    return None if value is None else int(value)


def _waiting(each: Status) -> str:
    """How many rows of a join have no partner yet, since when the first of them waits, and how long that is."""
    if not each.waiting:
        return "" if each.waiting is None else "none"
    return f"{each.waiting:,} since {each.waiting_since} ({each.waiting_for})"


def _saved(path: str, ledger: Ledger) -> Saved | None:
    full = next(iter(ledger.query(_FULL, path)), None)
    since: Row | None = next(iter(ledger.query(_INCREMENTAL, path)), None)
    if full is None or since is None or not since["runs"] or full["seconds"] is None or since["seconds"] is None:
        return None
    return Saved(since["runs"], since["rows_read"], since["seconds"], full["rows_read"], full["seconds"])


def _is_new(each: Status) -> bool:
    return each.version is None and each.changed_at is None


def _line(each: Status, schema: str) -> tuple[str, ...]:
    rows = each.strategy if each.strategy == "view" else "" if each.rows is None else f"{each.rows:,}"
    last = f"{render.moment(each.last_run)} {each.last_status}" if each.last_run else ""
    return (
        each.table.removeprefix(schema),
        "not run yet" if _is_new(each) else rows,
        each.watermark or "",
        _waiting(each),
        render.moment(each.changed_at or ""),
        last,
        ", ".join(f"{name} {count:,}" for name, count in each.expectations.items() if count),
        str(each.saved) if each.saved else "",
    )
