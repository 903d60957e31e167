"""Upkeep of a table's files: small files are joined, and those that nothing needs are removed.

The format of the table does it, and asks for Spark only where it needs that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from tidemill.errors import ArgumentError
from tidemill.execution.retry import with_retries
from tidemill.formats.registry import format_at, format_named
from tidemill.model.format import FORMATS, Capability, can, formats_that

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from tidemill.formats.base import Compacted, Finished, OnSpark, Vacuumed, VacuumRequest
    from tidemill.formats.port import TableFormat

    T = TypeVar("T")


def compact(
    table_format: TableFormat, path: str, target_size: int, on_spark: OnSpark, *, single_writer: bool = False
) -> Compacted:
    """Joins small files until each has about this many bytes. Rows and progress stay."""

    def retried(work: Callable[[SparkSession], T]) -> T:
        return on_spark(lambda spark: with_retries(path, lambda _: work(spark)))

    return table_format.compact(path, target_size, retried, single_writer=single_writer)


def vacuum(
    table_format: TableFormat, path: str, asked: VacuumRequest, on_spark: OnSpark, *, single_writer: bool = False
) -> Vacuumed | Finished:
    """Removes the files that nothing needs any more."""
    return table_format.vacuum(path, asked, on_spark, single_writer=single_writer)


def recover(table_format: TableFormat, path: str, name: str) -> Finished:
    """Finishes an interrupted commit, and clears what never came to its commit."""
    traits = table_format.traits
    if Capability.RECOVERY in traits.capabilities:
        return table_format.recover(path)
    nouns = " and ".join(f"{FORMATS[each].noun}s" for each in formats_that(Capability.RECOVERY))
    raise ArgumentError(
        "dataset.only_parquet",
        f"{name} is a {traits.noun}, and this is for {nouns}.",
        f"Give one of those. A commit of a {traits.noun} is whole, or not there.",
    )


def format_of(path: str) -> TableFormat | None:
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
