"""The store of a table, by the format that it is declared to have."""

from __future__ import annotations

from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from tidemill.errors import FilesGoneError
from tidemill.formats.base import Conflict
from tidemill.formats.delta.store import DeltaStore
from tidemill.formats.log import format_at, log_of
from tidemill.formats.parquet.folder import Folder
from tidemill.model.names import PARQUET
from tidemill.spark.errors import file_is_gone

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidemill.formats.parquet.store import ParquetStore
    from tidemill.model.table import Table

    AnyStore = DeltaStore | ParquetStore


def store_of(table: Table) -> AnyStore:
    """The store that keeps a declared table; a folder of another format is an error when it is looked at."""
    log_of(table)  # a table of another format in its place is an error
    if table.format != PARQUET:
        return DeltaStore(
            table.path,
            properties=table.properties,
            partition_by=table.partition_by,
            single_writer=table.single_writer,
        )
    from tidemill.formats.parquet.store import ParquetStore  # noqa: PLC0415  only where it is needed

    return ParquetStore(table.path, properties=table.properties, partition_by=table.partition_by)


def store_at(path: str, *, single_writer: bool = False) -> AnyStore:
    """The store of what is at a path."""
    if format_at(path) != PARQUET:
        return DeltaStore(path, single_writer=single_writer)
    from tidemill.formats.parquet.store import ParquetStore  # noqa: PLC0415  only where it is needed

    return ParquetStore(path)


def attempting(table: Table, attempt: int) -> AbstractContextManager[None]:
    """One attempt at a step."""
    return attempting_at(table.path, attempt) if table.format == PARQUET else nullcontext()


@contextmanager
def attempting_at(path: str, attempt: int) -> Iterator[None]:
    """One attempt to change the dataset at a path. After a conflict the next one has it to itself, and cannot lose.

    A file that has gone since the dataset was looked at is a conflict. Where nobody else can have removed it, it is one
    that a frame of before wants, which the step was given: no other attempt would help.
    """
    turn = Folder(path).lock if attempt else nullcontext()
    try:
        with turn:
            yield
    except FilesGoneError as failure:
        if attempt and failure.is_of(path):
            raise
        raise Conflict(str(failure)) from failure
    except FileNotFoundError as failure:
        raise Conflict(str(failure)) from failure
    except (PySparkException, Py4JError) as failure:
        if file_is_gone(failure):
            raise Conflict(f"files of {path} have gone since it was looked at") from failure
        raise
