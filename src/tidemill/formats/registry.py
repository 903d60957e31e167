"""The store of a table, by the format that it is declared to have, or by what is at its path."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.formats.log import format_at, log_of
from tidemill.formats.table_formats import format_named

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from tidemill.formats.port import Store
    from tidemill.model.table import Table


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
    return format_named(table.format).attempt(table.path, attempt)


def attempting_at(path: str, attempt: int) -> AbstractContextManager[None]:
    """One attempt at something with what is at a path, from 0; who only looks makes the first."""
    from tidemill.formats.attempts import attempting_alone  # noqa: PLC0415  it imports PySpark

    return attempting_alone(path, attempt)
