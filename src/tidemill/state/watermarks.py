"""What tables have processed of their sources, read from their logs without a JVM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidemill.declare.cursors import CursorKind
from tidemill.state.logs import log_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidemill.declare.cursors import Cursor
    from tidemill.declare.tables import Table

_KINDS = {
    "date": CursorKind.DATE,
    "timestamp": CursorKind.TIMESTAMP,
    "timestamp_ntz": CursorKind.TIMESTAMP_NTZ,
    "string": CursorKind.STRING,
    **dict.fromkeys(("byte", "short", "integer", "long"), CursorKind.INTEGER),
}

MODELS = "models"  # what their watermarks are shown under, in the place of a pipeline
_NO_PIPELINES = {"query", "function"}


@dataclass(frozen=True, slots=True)
class Watermark:
    """How far a table has read one input; `value` is None before its first run, and after a reset."""

    pipeline: str
    source: str
    table: str
    column: str
    value: Cursor | None
    at: str | None = None
    version: int | None = None
    reset: bool = False


def watermarks_of(tables: Iterable[Table]) -> list[Watermark]:
    """The watermarks of the tables that have a window, in their order; of several sources, one for each."""
    return [_watermark(part) for table in tables for part in table.parts if part.window]


def owner_of(table: Table) -> tuple[str, str]:
    """The pipeline that declares a table, and the source that it loads: none where a query or a function gives it."""
    pipeline, _, source = table.input.partition(".")
    return (MODELS if pipeline in _NO_PIPELINES and not source else pipeline), source


def _watermark(table: Table) -> Watermark:
    assert table.window is not None  # noqa: S101  asked only of tables that have one
    pipeline, source = owner_of(table)
    snapshot = log_of(table).snapshot()
    record = snapshot.record if snapshot else None
    return Watermark(
        pipeline=pipeline,
        source=source,
        table=table.name,
        column=table.window.time_column,
        value=record.progress.get(table.input) if record else None,
        at=record.at if record else None,
        version=snapshot.version if snapshot else None,
        reset=bool(record and table.input in record.reset),
    )


def kind_of_column(table: Table) -> CursorKind | None:
    """The kind of the table's time column, by its log; None where there is no table or no such column.

    What a function is asked for are always dates.
    """
    if table.function and table.window:
        return CursorKind.DATE
    log = log_of(table)
    if table.window is None or log.snapshot() is None:
        return None
    known = log.column_types().get(table.window.time_column.lower(), "")
    return CursorKind.DECIMAL if known.startswith("decimal") else _KINDS.get(known)
