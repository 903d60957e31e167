"""The table formats that there are, and the log and the store of whatever is at a path. Importing it imports no Spark.

A view's record says that its name was a view at its last run; without it the view's query is checked once more.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from tidemill.errors import ArgumentError, StateError, TableError, did_you_mean
from tidemill.formats import DEFAULT_FORMAT, DELTA, FORMATS, PARQUET, can, formats_that
from tidemill.formats.filesystem import check_alone, file_system, unopened
from tidemill.formats.traits import Capability
from tidemill.model import local_path
from tidemill.model.cursor import CursorKind
from tidemill.model.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager

    import pyarrow as pa
    from pyarrow import fs

    from tidemill.formats.port import Store, TableFormat, TableLog
    from tidemill.formats.traits import FormatTraits
    from tidemill.model.cursor import Cursor
    from tidemill.model.record import Snapshot
    from tidemill.model.table import Table

# Those that come with Tidemill are loaded when a table asks for them.
_places = {
    DELTA.name: "tidemill.formats.delta.format:DeltaFormat",
    PARQUET.name: "tidemill.formats.parquet.format:ParquetFormat",
}
_formats: dict[str, TableFormat] = {}


def register(table_format: TableFormat) -> None:
    """From now on tables can be declared with this format, and are recognised where they lie."""
    _formats[table_format.traits.name] = table_format
    FORMATS[table_format.traits.name] = table_format.traits


def unregister(name: str) -> None:
    """Takes a format out again."""
    _formats.pop(name, None)
    FORMATS.pop(name, None)


def format_named(name: str | None) -> TableFormat:
    """The format of this name; the default one where a declaration names none."""
    name = name or DEFAULT_FORMAT
    if name not in _formats:
        _formats[name] = resolve_name(_places[name])()
    return _formats[name]


def _all() -> Iterator[TableFormat]:
    """One after the other, so that those behind the one that is looked for need not be loaded."""
    return map(format_named, tuple(FORMATS))


def recognised(path: str) -> TableFormat | None:
    """The format of what is at a path, by what lies there; None where nothing does that tells."""
    if not _is_place(path):
        return None
    return next((each for each in _all() if each.is_at(path)), None)


def _is_place(path: str) -> bool:
    """Whether a table may be at a path: it is a folder, or an address."""
    return "://" in path or Path(path).is_dir()


def table_in(files: fs.FileSystem, folder: str) -> str | None:
    """The name of the format whose table a folder of a file system is, as a source; None where it holds files."""
    return next((each.traits.name for each in _all() if each.is_in(files, folder)), None)


def finish_interrupted(path: str) -> None:
    """Finishes an interrupted commit of whatever table is at a path, so that its files can be read."""
    for each in _all() if _is_place(path) else ():
        each.finish_interrupted(path)


def format_at(path: str) -> str | None:
    """The name of the format of what is at a path, by what lies there; None where nothing does that tells."""
    try:
        found = recognised(path)
    except OSError as failure:  # it may not be looked at, or its name is too long
        raise unopened(path, failure) from failure
    return found.traits.name if found else None


def kept_format(path: str) -> TableFormat | None:
    """The format of the table at a path; what only interrupted commits have left counts. None where nothing is."""
    kind = format_at(path) or _left(path)
    # Opening the log of a table that can be recovered would do just that.
    if kind is None or (not can(kind, Capability.RECOVERY) and not format_named(kind).log(path).exists()):
        return None
    return format_named(kind)


def _left(path: str) -> str | None:
    for name in formats_that(Capability.RECOVERY):
        format_named(name).check_place(path)
        if format_named(name).is_left(path):
            return name
    return None


def log_at(path: str) -> TableLog:
    """The log of what is at a path; nothing there is no table of any format."""
    return format_named(format_at(path)).log(path)


def no_table_at(target: object) -> ArgumentError:
    """The error for a path where nothing is; a table beside it that is called almost so may be meant."""
    path = str(target).rstrip("/")
    here = Path(path)
    around = here.parent.glob("[!._]*/") if local_path(path) else ()
    close = did_you_mean(here.name, [each.name for each in around if format_at(str(each))])
    remedy = f"Did you mean {path.removesuffix(here.name)}{close}?" if close else "Give the path of a table."
    return ArgumentError("table.missing", f"There is no table at {target}.", remedy)


def log_of(table: Table) -> TableLog:
    """The log of a declared table; a table of another format in its place is an error."""
    declared = format_named(table.format)
    declared.check_place(table.path, table.origin)
    there = format_at(table.path)
    if there is None:
        check_alone(table.path)
    elif there != declared.traits.name and format_named(there).is_kept(table.path):
        raise _other_format(table, declared.traits, format_named(there).traits)
    return declared.log(table.path)


def _other_format(table: Table, declared: FormatTraits, held: FormatTraits) -> TableError:
    return TableError(
        "table.other_format",
        f"{table.path} is a {held.noun}, and {table.name} is declared with the format {declared.name}.",
        f"Use the format {held.name}, or another path.",
        origin=table.origin,
    )


def some_rows(path: str, limit: int) -> pa.Table | None:
    """Rows of the last commit, without those that it marks as deleted; None where only Spark can read the table.

    Which rows come first is up to the table's files.
    """
    return log_at(path).some_rows(limit)


def changed_at(log: TableLog, snapshot: Snapshot) -> str:
    """The time of the commit by which rows last came or went, ours or of others; what is noted on it is no change."""
    moments = [commit.at for commit in snapshot.foreign if commit.adds_rows or commit.removes_rows]
    record, version = snapshot.record, snapshot.record_version
    if record is None or version is None:
        last = log.commit(snapshot.version)
        return last.at if last else ""
    ours = log.commit(version if record.same_rows_as is None else record.same_rows_as)
    return max([ours.at if ours and ours.at else record.at, *moments])


def view_record(path: str) -> Record | None:
    """What the last run of the view at this path has left; None where there was none, or its file is not whole."""
    files, file = file_system(_beside(path))
    try:
        with files.open_input_stream(file) as stream:
            return Record.from_json(stream.read().decode())
    except (OSError, ValueError, TypeError):
        return None


def keep_view(path: str, record: Record) -> None:
    """Keeps the record in the place of the one before, whole or not at all."""
    files, file = file_system(_beside(path))
    try:
        files.create_dir(file.rpartition("/")[0], recursive=True)
        with files.open_output_stream(f"{file}.new") as stream:
            stream.write(record.to_json().encode())
        files.move(f"{file}.new", file)
    except OSError as failure:
        raise StateError(
            "view.no_record",
            f"The record of {record.table} cannot be written to {_beside(path)}: {failure}",
            "Make its folder one that can be written to, and run again.",
        ) from failure


def forget_view(path: str) -> None:
    """Takes the record away: the name is that of a table now."""
    files, file = file_system(_beside(path))
    with contextlib.suppress(FileNotFoundError):
        files.delete_file(file)


def _beside(path: str) -> str:
    folder, slash, name = path.rstrip("/").rpartition("/")
    return f"{folder}{slash}_{name}.view.json"


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


def store_of(table: Table) -> Store:
    """The store of a declared table; a table of another format in its place is an error."""
    log_of(table)
    return format_named(table.format).store(
        table.path,
        properties=table.properties,
        partition_by=table.partition_by,
        single_writer=table.single_writer,
    )


def store_at(path: str, *, single_writer: bool = False) -> Store:
    """The store of what is at a path."""
    return format_named(format_at(path)).store(path, single_writer=single_writer)


def attempting(table: Table, attempt: int) -> AbstractContextManager[None]:
    """One attempt at a step of a declared table, from 0."""
    return format_named(table.format).store(table.path).attempt(attempt)
