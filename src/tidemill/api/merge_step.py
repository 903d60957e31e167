"""One merge as a step: how much work it will be, the Spark that it runs on, and what it did. Importing this imports
PySpark.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from tidemill.api import located, path_of, placed
from tidemill.errors import TidemillError
from tidemill.execution import Outcome, Silent, StepKind
from tidemill.execution.step import run_step
from tidemill.formats import Capability, can
from tidemill.formats.registry import log_of
from tidemill.model.project import NOTHING_GIVEN, SparkSettings
from tidemill.sources.files import FileSource
from tidemill.sources.kinds import given_options
from tidemill.spark.errors import translated
from tidemill.spark.session import session_for

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tidemill.execution import Listener, StepResult
    from tidemill.formats.base import KeyRange
    from tidemill.model.table import Table
    from tidemill.sources import Connector


def merge_step(
    source: Callable[[], Connector],
    table: Table,
    spark: SparkSession | None = None,
    *,
    settings: SparkSettings | None = None,
    small: bool | None = False,
    dry_run: bool = False,
    listener: Listener | None = None,
) -> StepResult:
    """Runs a declared merge, or only says what it would do. `source` opens what is read.

    Without a session it runs on the Spark of the settings; `small` starts the embedded one for a short job, and None
    asks the source and the table whether it is one. `listener` hears of the step like one of a run.
    """
    listener, began = listener or Silent(), time.monotonic()
    listener.began(table.name)
    try:
        result = _merged(source(), table, spark, settings, small=small, dry_run=dry_run)
    except TidemillError as failure:
        listener.ended(Outcome(table.name, error=failure, seconds=time.monotonic() - began))
        raise
    listener.ended(Outcome(table.name, result, seconds=time.monotonic() - began))
    return result


def _merged(
    rows: Connector,
    table: Table,
    spark: SparkSession | None,
    settings: SparkSettings | None,
    *,
    small: bool | None,
    dry_run: bool,
) -> StepResult:
    if small is None:
        small = isinstance(rows, FileSource) and is_small(rows, table)
    with translated(f"Merging {rows} into {table.name}"):
        session = session_for(spark, small=small, settings=settings or SparkSettings())
        # What catalogs do not know by name is at a path, and need not be there yet.
        place = located if can(table.format, Capability.READ_BY_PATH) else placed
        result = run_step(session, replace(table, path=place(table.path, session)), rows, dry_run=dry_run)
        return replace(result, kind=StepKind.MERGE)


def file_source(source: str | Path, options: Mapping[str, str] = NOTHING_GIVEN) -> FileSource:
    """The files at a path, as a merge reads them."""
    found = FileSource(path_of(source))
    return replace(found, options=given_options(found.format, options)) if options else found


def files_at(source: str | Path, options: Mapping[str, str] = NOTHING_GIVEN) -> FileSource:
    """The same, of files that are there."""
    rows = file_source(source, options)
    rows.format  # noqa: B018  a path that is not there is found before Spark starts
    return rows


# An engine for small work starts some five seconds sooner, and long work takes it 1.6 times as long. Reading this many
# bytes of a change takes less than ten seconds, and so does rewriting them; reading keys is ten times as quick.
SMALL_WORK = 32 * 1024 * 1024
_SMALL_READ = 1024 * 1024 * 1024


def is_small(source: FileSource, table: Table) -> bool:
    """Whether little is read of the source, and little read or rewritten of the table."""
    if source.size > SMALL_WORK:
        return False
    footers = source.footers_of(source.listing)
    return meets_little(table, footers.key_ranges(source.local_files, table.strategy.keys) if footers else ())


def meets_little(table: Table, ranges: Sequence[KeyRange] = ()) -> bool:
    """Whether a change with keys in these ranges meets little of the table, by how it will be written."""
    if can(table.format, Capability.MATCHING):  # the store takes a small change to its files by itself
        return True
    log = log_of(table)
    snapshot = log.snapshot()
    if snapshot is None:
        return True
    whole = table.strategy.deletes_missing
    rewrites = whole or not snapshot.marks_rows or snapshot.updates_matter
    return log.reach(() if whole else ranges).size <= (SMALL_WORK if rewrites else _SMALL_READ)
