"""`tidemill show-watermarks`, `set-watermark`, `reset-watermark`: how far sources have been read."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidemill.cli import Live, ask, examples, interruptible, output, render
from tidemill.cli.projects import variables
from tidemill.cli.render import Looks
from tidemill.errors import ArgumentError, did_you_mean
from tidemill.formats.registry import kind_of_column, owner_of, watermarks_of
from tidemill.model.cursor import cursor
from tidemill.model.project import find_project

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import tzinfo

    from tidemill.api.workspace import Workspace
    from tidemill.cli import Output
    from tidemill.cli.projects import Load
    from tidemill.formats.registry import Watermark
    from tidemill.model.cursor import Cursor
    from tidemill.model.table import Table

HEADINGS = ("pipeline", "source", "table", "column", "watermark", "since")
_LOOKS = Looks(
    gives={
        "since": ("drop", 0),
        "watermark": ("wrap", 12),
        "pipeline": ("cut", 10),
        "column": ("cut", 10),
        "source": ("cut", 10),
        "table": ("cut", 16),
    }
)


@click.command(
    "show-watermarks",
    epilog=examples(
        "tidemill show-watermarks",
        "tidemill show-watermarks shop --source orders",
    ),
)
@click.argument("pipeline", required=False)
@click.option("--source", metavar="NAME", help="Only this source.")
@variables
@output
def show_watermarks(
    pipeline: str | None,
    source: str | None,
    load: Load,
    out: Output,
) -> None:
    """Show how far each table has read its source; starts no Spark.

    PIPELINE is a pipeline's name (its file's stem) or the path of its file; those of models and functions are under
    "models".
    """
    workspace = _workspace(pipeline, load)
    found = watermarks_of(_chosen(workspace, pipeline, source, None))
    _tell(found, workspace, out)


@click.command(
    "set-watermark",
    epilog=examples(
        'tidemill set-watermark shop orders "2024-01-15 10:30:00"',
        "tidemill set-watermark shop orders 2024-01-15 --table raw_orders",
        "tidemill set-watermark models my_schema.orders 2024-01-15",
    ),
)
@click.argument("pipeline")
@click.argument("source")
@click.argument("value")
@click.option("--table", metavar="NAME", help="Only this table; else all tables of the source.")
@variables
@output
def set_watermark(
    pipeline: str,
    source: str,
    value: str,
    table: str | None,
    load: Load,
    out: Output,
) -> None:
    """Let the next run read SOURCE from VALUE on (minus its lookback). It is a commit in the table's own log.

    A model is known as the pipeline "models" and the source of its own name.
    """
    workspace = _workspace(pipeline, load)
    tables = _chosen(workspace, pipeline, source, table)
    with workspace.wording.errors():
        workspace.engine().refuse_never_run(tables)
        _apply(workspace, [(each, _value(each, value, workspace.spark.zone)) for each in tables], out)


@click.command(
    "reset-watermark",
    epilog=examples(
        "tidemill reset-watermark shop orders",
        "tidemill reset-watermark shop orders --table raw_orders --confirm",
    ),
)
@click.argument("pipeline")
@click.argument("source")
@click.option("--table", metavar="NAME", help="Only this table; else all tables of the source.")
@click.option("--confirm", is_flag=True, help="Do not ask.")
@variables
@output
def reset_watermark(
    pipeline: str,
    source: str,
    table: str | None,
    confirm: bool,
    load: Load,
    out: Output,
) -> None:
    """Let the next run read all of SOURCE. Rows that are there already are found, and not doubled."""
    workspace = _workspace(pipeline, load)
    tables = _chosen(workspace, pipeline, source, table)
    with workspace.wording.errors():
        workspace.engine().refuse_never_run(tables)
        if not confirm:
            _ask([workspace.short(each.name) for each in tables])
        _apply(workspace, [(each, None) for each in tables], out)


def _workspace(pipeline: str | None, load: Load) -> Workspace:
    """By the path of its file, or by the file's stem where no project has it."""
    if pipeline is None or pipeline.endswith((".sql", ".py")):
        return load(pipeline)
    file = Path(f"{pipeline}.sql")
    return load(str(file) if find_project() is None and file.is_file() else None)


def _chosen(workspace: Workspace, pipeline: str | None, source: str | None, table: str | None) -> list[Table]:
    """The tables with a window of a pipeline and a source; a name that nothing has is an error."""
    naming = workspace.project.warehouse.naming
    tables = [part for each in workspace.tables for part in each.parts if part.window]
    if pipeline is not None and not pipeline.endswith((".sql", ".py")):
        tables = _having(tables, [owner_of(each)[0] for each in tables], pipeline, "pipeline")
    if source is not None:
        # What a query or a function gives is known by the name of its table.
        sources = [owner_of(each)[1] or workspace.short(each.name) for each in tables]
        full = naming.key(source)
        own = [owned for each, owned in zip(tables, sources, strict=True) if each.name.lower() == full]
        tables = _having(tables, sources, own[0] if own else source, "source")
    if table is None:
        return tables
    named = [each for each in tables if each.name.lower() == naming.key(table)]
    if not named:
        raise _unknown("table", table, [workspace.short(each.name) for each in tables])
    return named


def _having(tables: list[Table], owned: list[str], name: str, word: str) -> list[Table]:
    found = [each for each, part in zip(tables, owned, strict=True) if part.lower() == name.lower()]
    if not found:
        raise _unknown(word, name, sorted(set(owned)))
    return found


def _unknown(word: str, name: str, known: list[str]) -> ArgumentError:
    close = did_you_mean(name, known)
    listed = f"Those that do: {', '.join(known)}." if known else "Nothing here reads its source by a cursor."
    return ArgumentError(
        f"watermark.unknown_{word}",
        f"No {word} {name} reads by a cursor.",
        f"Did you mean {close}? {listed}" if close else listed,
    )


def _value(table: Table, text: str, zone: tzinfo) -> Cursor:
    kind = kind_of_column(table)
    if kind is None:
        raise ArgumentError(
            "watermark.no_column",
            f"{table.name} has no column {table.window.time_column if table.window else ''} that orders it.",
            "Look at it with tidemill history.",
        )
    return cursor(kind, text, zone)


def _ask(tables: Iterable[str]) -> None:
    names = ", ".join(dict.fromkeys(tables))
    if not sys.stdin.isatty():
        raise ArgumentError(
            "watermark.not_confirmed",
            f"Resetting makes the next run of {names} read everything, and nobody is there to be asked.",
            "Say --confirm.",
        )
    ask(f"The next run of {names} will read everything. Go on?")


def _apply(workspace: Workspace, changes: list[tuple[Table, Cursor | None]], out: Output) -> None:
    with Live("writing to the log", quiet=not out.lines):
        interruptible(lambda: workspace.engine().set_watermarks(changes))
    _tell(watermarks_of(table for table, _ in changes), workspace, out)


def _tell(found: Sequence[Watermark], workspace: Workspace, out: Output) -> None:
    out.result({"watermarks": [_data(each, workspace) for each in found]}, partial(_show, found, workspace))


def _show(found: Sequence[Watermark], workspace: Workspace) -> None:
    if found:
        render.table(HEADINGS, [_line(each, workspace) for each in found], looks=_LOOKS)
    else:
        render.say(f"{render.INDENT}nothing here reads its source by a cursor")


def _line(each: Watermark, workspace: Workspace) -> tuple[str, ...]:
    value = str(each.value) if each.value else "reset: everything is read" if each.reset else "not run yet"
    return (each.pipeline, each.source, workspace.short(each.table), each.column, value, render.moment(each.at or ""))


def _data(each: Watermark, workspace: Workspace) -> dict[str, Any]:
    return {
        "pipeline": each.pipeline,
        "source": each.source or None,
        "table": workspace.short(each.table),
        "column": each.column,
        "watermark": each.value.text() if each.value else None,
        "type": str(each.value.kind) if each.value else None,
        "reset": each.reset,
        "at": each.at,
        "version": each.version,
    }
