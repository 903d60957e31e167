"""`tidemill state`: what is known of each table from the record in its last commit, of each view from its record."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import click

from tidemill.cli import render
from tidemill.cli.naming import target_and_tables
from tidemill.cli.options import output, variables
from tidemill.cli.tables import Looks

if TYPE_CHECKING:
    from tidemill.cli.options import Load
    from tidemill.declare.tables import Table
    from tidemill.declare.views import View
    from tidemill.workspace import Workspace


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


HEADINGS = tuple(State.__dataclass_fields__)
_LOOKS = Looks(
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
    short_help="Show hashes, last processed values and versions.",
    epilog="\b\nExamples:\n  tidemill state\n  tidemill state daily --format json",
)
@click.argument("tables", nargs=-1, metavar="[TABLE]…")
@click.option("--target", help="A pipeline file or a project's folder; a TABLE that is one of these counts as it.")
@variables
@output
def state(tables: tuple[str, ...], target: str | None, load: Load, form: str, quiet: bool) -> None:
    """Show what the record of each TABLE's last commit says, or of all tables' and views'. Starts no Spark.

    A commit that wrote nothing is none, so the time is that of the last run that changed the table; of a view, that of
    the last run that found its query or its inputs changed.
    """
    target, names = target_and_tables(tables, target)
    workspace = load(target)
    found = [_state(workspace, table) for table in workspace.select_also_views(names)]
    if form == "json":
        render.document({"project": workspace.project.name, "tables": [asdict(each) for each in found]})
    elif not quiet:
        right = frozenset({"rows", "version"})
        render.declared(HEADINGS, [_line(each) for each in found], right=right, looks=_LOOKS)


def _state(workspace: Workspace, table: Table | View) -> State:
    from tidemill.declare.strategies import Replace  # noqa: PLC0415
    from tidemill.declare.views import View  # noqa: PLC0415
    from tidemill.state.logs import log_of  # noqa: PLC0415

    if isinstance(table, View):
        return _view_state(workspace, table)
    snapshot = log_of(table).snapshot()
    record = snapshot.record if snapshot else None
    value = record.reached(table.input_names) if record else None
    return State(
        model_name=workspace.short(table.name),
        materialization="table" if isinstance(table.strategy, Replace) else "incremental",
        strategy=str(table.strategy),
        last_execution_timestamp=record.at if record else None,
        sql_hash=record.sql_hash if record else None,
        config_hash=record.config_hash if record else None,
        last_processed_value=value.text() if value else None,
        rows=snapshot.rows if snapshot else None,
        version=snapshot.version if snapshot else None,
    )


def _view_state(workspace: Workspace, view: View) -> State:
    from tidemill.state.views import view_record  # noqa: PLC0415

    record = view_record(view.path)
    return State(
        model_name=workspace.short(view.name),
        materialization="view",
        strategy=view.strategy,
        last_execution_timestamp=record.at if record else None,
        sql_hash=record.sql_hash if record else None,
    )


def _line(each: State) -> tuple[str, ...]:
    return (
        each.model_name,
        each.materialization,
        each.strategy,
        "not run yet" if _is_new(each) else render.moment(each.last_execution_timestamp or ""),
        each.sql_hash or "",
        each.config_hash or "",
        each.last_processed_value or "",
        "" if each.rows is None else f"{each.rows:,}",
        "" if each.version is None else str(each.version),
    )


def _is_new(each: State) -> bool:
    return each.version is None and each.last_execution_timestamp is None
