"""`tidemill status` and `tidemill state`: tables, rows, watermarks, last runs, and what is known of each table."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from tidemill.api.following import HistoryNotice, history_notices
from tidemill.cli import examples, output, render
from tidemill.cli.projects import on_project, target_and_tables, variables
from tidemill.cli.render import Looks
from tidemill.formats.registry import changed_at, log_of, view_record
from tidemill.ledger import Ledger, ledger_file
from tidemill.ledger.past import last_step, past_runs
from tidemill.model.cursor import cursor
from tidemill.model.join import apart
from tidemill.model.query import View

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from sqlite3 import Row

    from tidemill.api.workspace import Workspace
    from tidemill.cli import Output
    from tidemill.cli.projects import Load
    from tidemill.ledger.past import PastRun
    from tidemill.model.table import Table

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
    paint={"last run": render.coloured},
)
_DONE = "status IN ('created', 'changed', 'unchanged')"
_FULL = f"""
SELECT * FROM steps WHERE path = ? AND mode IN ('first', 'full refresh', 'full') AND {_DONE} ORDER BY at DESC LIMIT 1
"""
_USUAL = f"""
SELECT count(*) AS runs, avg(rows_read) AS rows_read, avg(seconds) AS seconds,
       avg(CASE mode WHEN 'full' THEN rows_read ELSE ? END) AS full_rows_read,
       avg(CASE mode WHEN 'full' THEN seconds ELSE ? END) AS full_seconds
FROM steps WHERE path = ? AND mode IN ('incremental', 'full', 'skipped') AND {_DONE}
"""


@dataclass(frozen=True, slots=True)
class Saved:
    """What a table's usual runs read and took on average, backfills aside, and what as many full ones would have.

    A usual run that read everything is such a one itself; for others it is the last run that did.
    """

    runs: int
    rows_read: float
    seconds: float
    full_rows_read: float
    full_seconds: float

    @property
    def rows_saved(self) -> int:
        """How many rows more as many full runs would have read; none where these read as much."""
        return max(0, round((self.full_rows_read - self.rows_read) * self.runs))

    def __str__(self) -> str:
        rows = f"a run reads {render.rows(round(self.rows_read))} instead of {self.full_rows_read:,.0f}"
        return f"{rows}, in {self.seconds:.1f} s instead of {self.full_seconds:.1f} s"


@dataclass(frozen=True, slots=True)
class Status:
    """One table as its log and the ledger know it; of a view, its record.

    `changed_at` is the time of the commit by which its rows last changed. `expectations` have, for the last commit, how
    many rows that were fetched did not meet each. `history` is of a materialized view: inputs whose changes it can soon
    no longer follow.
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
    last_error: str | None
    saved: Saved | None
    expectations: Mapping[str, int] = field(default_factory=dict)
    history: tuple[HistoryNotice, ...] = ()


@click.command(
    epilog=examples(
        "tidemill status",
        "tidemill status shop.sql --format json",
    ),
)
@on_project
@output
def status(workspace: Workspace, out: Output) -> None:
    """Show what is known of every declared table and view: from its own log and from the ledger. Starts no Spark.

    A materialized view is marked where the history of an input ends soon that its next run needs.
    """
    ledger = Ledger(ledger_file(workspace.project.folder))
    runs = past_runs(workspace.project.folder, 1, "run")
    ending = history_notices(workspace)
    found = [
        replace(_status(table, ledger), history=ending.get(table.name, ())) for table in workspace.tables_and_views
    ]
    data = [asdict(each) | {"table": workspace.short(each.table)} for each in found]
    document = {"project": workspace.project.name, "last_run": _run_data(runs), "tables": data}
    out.result(document, partial(_show_status, workspace, found, runs))


def _show_status(workspace: Workspace, found: Sequence[Status], runs: Sequence[PastRun]) -> None:
    short = f"{workspace.project.warehouse.schema}."
    render.declared(HEADINGS, [_line(each, short) for each in found], right=frozenset({"rows"}), looks=_LOOKS)
    for each in found:
        _explain(each, workspace)
    if found:
        render.say(f"{render.INDENT}{render.SEPARATOR.join(_total(found, runs))}")
    if found and all(_is_new(each) for each in found):
        render.say(f"{render.INDENT}next: {workspace.command('run')}")


def _status(table: Table | View, ledger: Ledger) -> Status:
    log = None if isinstance(table, View) else log_of(table)
    snapshot = log.snapshot() if log else None
    record = view_record(table.path) if isinstance(table, View) else snapshot.record if snapshot else None
    watermark = record.reached(table.input_names) if record and not isinstance(table, View) else None
    joined = record.joined if record and not isinstance(table, View) else {}
    oldest = cursor(watermark.kind, str(joined["oldest"])) if watermark and "oldest" in joined else None
    last = last_step(ledger, table.path)
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
        changed_at=(changed_at(log, snapshot) or None) if log and snapshot else record.at if record else None,
        last_run=last.started if last else None,
        last_status=last.status if last else None,
        last_error=f"error[{last.error_code}] {last.error or ''}".rstrip() if last and last.error_code else None,
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
    if full is None or None in (full["seconds"], full["rows_read"]):
        return None
    usual: Row | None = next(iter(ledger.query(_USUAL, full["rows_read"], full["seconds"], path)), None)
    if usual is None or None in tuple(usual):
        return None
    return Saved(**dict(usual))


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
        str(each.saved) if each.saved and each.saved.rows_saved else "",
    )


def _explain(each: Status, workspace: Workspace) -> None:
    """Why the last run of a table did not come to its end."""
    name = workspace.short(each.table)
    if each.last_status == "failed":
        render.failed(name, f"failed: {each.last_error or 'the ledger has no reason'}")
    elif each.last_status == "interrupted":
        render.judged("!", f"{name}  interrupted: nothing is half written, {workspace.command('run')} takes it up")
    for notice in each.history:
        render.judged("!", f"{name}  {_ending(notice, workspace, name)}")


def _ending(notice: HistoryNotice, workspace: Workspace, name: str) -> str:
    """That the next run of a view may have to compute it whole, and what prevents that."""
    if notice.until is None:
        return f"next run: {notice.gone}"
    is_over = datetime.fromisoformat(notice.until) <= datetime.now(UTC)
    kept = "may be removed at any time" if is_over else f"are kept until {render.moment(notice.until)}"
    run = f"run it {'now' if is_over else 'before'} ({workspace.command('run')} -s {name})"
    return (
        f"its next run needs the changes of {notice.input} since version {notice.version}, which {kept}: {run}, or set "
        f"{notice.setting} of {notice.input} to a longer time"
    )


def _total(found: Sequence[Status], runs: Sequence[PastRun]) -> list[str]:
    """All tables in one line: how many, their rows, the last run, and what was saved."""
    views = sum(each.strategy == "view" for each in found)
    held = [each.rows for each in found if each.rows is not None]
    unknown = any(each.version is not None and each.rows is None for each in found)
    words = [_count(len(found) - views, "table"), *([_count(views, "view")] if views else [])]
    words.append(f"{'at least ' if unknown else ''}{render.rows(sum(held))}")
    words += [f"last run {render.moment(run.started)} {render.coloured(run.status)}" for run in runs]
    usual = [each.saved for each in found if each.saved]
    saved, read = sum(each.rows_saved for each in usual), round(sum(each.rows_read * each.runs for each in usual))
    if saved:
        full = f"full ones would have read {read + saved:,}"
        words.append(f"saved: all runs since the first read {render.rows(read)}, {full}")
    return words


def _count(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def _run_data(runs: Sequence[PastRun]) -> dict[str, Any] | None:
    return next((asdict(replace(run, steps=())) for run in runs), None)


@dataclass(frozen=True, slots=True)
class State:
    """One table or view. Before its first run only what is declared is known; a table of others' has no record."""

    model_name: str
    materialization: str
    strategy: str
    last_execution_timestamp: str | None = None
    sql_hash: str | None = None
    config_hash: str | None = None
    last_processed_value: str | None = None
    rows: int | None = None
    version: int | None = None


STATE_HEADINGS = tuple(State.__dataclass_fields__)
_STATE_LOOKS = Looks(
    gives={
        "config_hash": ("drop", 0),
        "sql_hash": ("drop", 0),
        "materialization": ("drop", 0),
        "strategy": ("wrap", 12),
        "last_processed_value": ("wrap", 12),
        "model_name": ("cut", 16),
        "last_execution_timestamp": ("last", 0),
    }
)


@click.command(
    epilog=examples(
        "tidemill state",
        "tidemill state daily --format json",
    ),
)
@click.argument("tables", nargs=-1, metavar="[TABLE]…")
@click.option("--target", help="A pipeline file or a project's folder; a TABLE that is one of these counts as it.")
@variables
@output
def state(tables: tuple[str, ...], target: str | None, load: Load, out: Output) -> None:
    """Show what the record of each TABLE's last commit says, or of all tables' and views'. Starts no Spark.

    A commit that wrote nothing is none, so the time is that of the last run that changed the table; of a view, that of
    the last run that found its query or its inputs changed.
    """
    target, names = target_and_tables(tables, target)
    workspace = load(target)
    found = [_state(workspace, table) for table in workspace.select_also_views(names)]
    document = {"project": workspace.project.name, "tables": [asdict(each) for each in found]}
    lines = [_state_line(each) for each in found]
    right = frozenset({"rows", "version"})
    out.result(document, partial(render.declared, STATE_HEADINGS, lines, right=right, looks=_STATE_LOOKS))


def _state(workspace: Workspace, table: Table | View) -> State:
    if isinstance(table, View):
        return _view_state(workspace, table)
    snapshot = log_of(table).snapshot()
    record = snapshot.record if snapshot else None
    value = record.reached(table.input_names) if record else None
    return State(
        model_name=workspace.short(table.name),
        materialization=_materialization(table),
        strategy=str(table.strategy),
        last_execution_timestamp=record.at if record else None,
        sql_hash=record.sql_hash if record else None,
        config_hash=record.config_hash if record else None,
        last_processed_value=value.text() if value else None,
        rows=snapshot.rows if snapshot else None,
        version=snapshot.version if snapshot else None,
    )


def _materialization(table: Table) -> str:
    if table.strategy.refresh is not None:
        return str(table.strategy)
    return "table" if table.strategy.replaces else "incremental"


def _view_state(workspace: Workspace, view: View) -> State:
    record = view_record(view.path)
    return State(
        model_name=workspace.short(view.name),
        materialization="view",
        strategy=view.strategy,
        last_execution_timestamp=record.at if record else None,
        sql_hash=record.sql_hash if record else None,
    )


def _state_line(each: State) -> tuple[str, ...]:
    return (
        each.model_name,
        each.materialization,
        each.strategy,
        "not run yet" if _state_is_new(each) else render.moment(each.last_execution_timestamp or ""),
        each.sql_hash or "",
        each.config_hash or "",
        each.last_processed_value or "",
        "" if each.rows is None else f"{each.rows:,}",
        "" if each.version is None else str(each.version),
    )


def _state_is_new(each: State) -> bool:
    return each.version is None and each.last_execution_timestamp is None
