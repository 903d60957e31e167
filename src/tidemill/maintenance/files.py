"""Files of tables that are joined or removed; those of the sums beside a materialized view go with its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.execution.sums import has_sums, sums_path
from tidemill.formats import DEFAULT_FORMAT
from tidemill.formats.base import Vacuumed
from tidemill.formats.registry import format_named

if TYPE_CHECKING:
    from tidemill.formats.base import Compacted, Finished, OnSpark, VacuumRequest
    from tidemill.formats.port import TableFormat


def compact(
    table: TableFormat, path: str, target_size: int, on_spark: OnSpark, *, single_writer: bool = False
) -> Compacted:
    """Joins small files until each has about this many bytes."""
    done = table.compact(path, target_size, on_spark, single_writer=single_writer)
    if not has_sums(path):
        return done
    sums = format_named(DEFAULT_FORMAT)
    return done.plus(sums.compact(sums_path(path), target_size, on_spark, single_writer=single_writer))


def vacuum(
    table: TableFormat, path: str, asked: VacuumRequest, on_spark: OnSpark, *, single_writer: bool = False
) -> Vacuumed | Finished:
    """Removes the files that nothing needs any more."""
    done = table.vacuum(path, asked, on_spark, single_writer=single_writer)
    if not isinstance(done, Vacuumed) or not has_sums(path):
        return done
    beside = format_named(DEFAULT_FORMAT).vacuum(sums_path(path), asked, on_spark, single_writer=single_writer)
    return done.plus(beside) if isinstance(beside, Vacuumed) else done
