"""Writes an export: complete, or not there."""

from __future__ import annotations

import contextlib
import time
import traceback
from typing import TYPE_CHECKING

from tidemill.errors import ExportError, TidemillError
from tidemill.execution import UP_TO_DATE, StepKind, StepResult
from tidemill.execution.exports.database import write_database
from tidemill.execution.exports.files import folder_of, write_files
from tidemill.execution.exports.options import Options, place_of
from tidemill.execution.step import run_step
from tidemill.formats import COMPRESSION, FORMATS, known_codec
from tidemill.model.query import DATABASE_KINDS, FILE_KINDS
from tidemill.model.table import Table
from tidemill.sources.frames import FrameSource
from tidemill.sources.registry import with_texts
from tidemill.spark import disk_full
from tidemill.spark.errors import no_room, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

    from tidemill.model.query import Export


_UNCHANGED = "What was there is unchanged."


def write_export(spark: SparkSession, rows: DataFrame, export: Export) -> StepResult:
    """Writes the rows where the export says. When it fails, what was there is unchanged.

    Files are moved into place when they are whole, a table gets one commit, PostgreSQL one transaction.
    """
    began = time.monotonic()
    with _failures(export):
        kind = export.kind.lower()
        if export.merges_files:
            count, path = _merge_files(spark, rows, export)
        elif kind in FILE_KINDS:
            count, path = write_files(rows, export)
        elif kind in DATABASE_KINDS:
            count, path = write_database(spark, rows, export)
        else:
            count, path = _write_table(spark, rows, export)
    took = time.monotonic() - began
    return StepResult(export.name, "exported", rows_read=count, seconds=took, kind=StepKind.EXPORT, path=path)


def unwritten(export: Export) -> StepResult:
    """The result of an export that would write what is there already."""
    return StepResult(export.name, UP_TO_DATE, kind=StepKind.EXPORT, path=place_of(export))


def _write_table(spark: SparkSession, rows: DataFrame, export: Export) -> tuple[int, str]:
    options = Options(export)
    path = place_of(export)
    partitions, alone = options.names("partition_by"), options.truth("single_writer")
    kind = export.kind.lower()
    properties = {**dict(FORMATS[kind].for_others), **options.left()}
    table = Table(
        export.name, path, export.mode, format=kind, partition_by=partitions, properties=properties, single_writer=alone
    )
    return run_step(spark, table, FrameSource(rows)).rows_read, path


def _merge_files(spark: SparkSession, rows: DataFrame, export: Export) -> tuple[int, str]:
    """Only files that hold a changed row are rewritten, in one commit of the folder."""
    options = Options(export)
    path = str(folder_of(export))
    partitions, codec = options.names("partition_by"), options.text("compression")
    properties = {COMPRESSION: known_codec(codec)} if codec else {}
    table = Table(
        export.name, path, export.mode, format=export.kind.lower(), partition_by=partitions, properties=properties
    )
    return run_step(spark, table, FrameSource(rows)).rows_read, path


@contextlib.contextmanager
def _failures(export: Export) -> Iterator[None]:
    """Errors that leave the block name the export and hide its secrets."""
    masking = export.masking
    try:
        yield
    except TidemillError as failure:
        with_texts(failure, masking.mask(failure.problem), masking.mask(failure.remedy), export.origin)
        raise
    except Exception as failure:  # noqa: BLE001  Spark's, the file system's, the database's
        whole = "".join(traceback.format_exception(failure))
        raise _failed(export, failure) from (failure if masking.mask(whole) == whole else None)


def _failed(export: Export, failure: Exception) -> TidemillError:
    doing = f"The export {export} to {export.target}"
    full = None if export.kind.lower() in DATABASE_KINDS else no_room(failure)  # a server's disk is not here
    if full:
        error: TidemillError = disk_full(doing, full, place_of(export), _UNCHANGED)
    else:
        error = ExportError("export.failed", f"{doing} failed: {one_line(failure)}", _UNCHANGED)
    with_texts(error, export.masking.mask(error.problem), export.masking.mask(error.remedy), export.origin)
    return error
