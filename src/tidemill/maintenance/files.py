"""Upkeep of a table's files: small files are joined, and those that nothing needs are removed.

The format of the table does it, and asks for Spark only where it needs that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from tidemill.errors import ArgumentError
from tidemill.execution.retry import with_retries
from tidemill.formats.log import format_at
from tidemill.formats.table_formats import format_named
from tidemill.model.format import FORMATS, Capability, can, formats_that

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from tidemill.formats.port import TableFormat
    from tidemill.formats.upkeep import Compacted, Finished, OnSpark, Vacuumed, VacuumRequest

    T = TypeVar("T")


def compact(path: str, name: str, target_size: int, on_spark: OnSpark, *, single_writer: bool = False) -> Compacted:
    """Joins small files until each has about this many bytes. Rows and progress stay."""

    def retried(work: Callable[[SparkSession], T]) -> T:
        return on_spark(lambda spark: with_retries(path, lambda _: work(spark)))

    return _format_of(path, name).compact(path, target_size, retried, single_writer=single_writer)


def vacuum(
    path: str, name: str, asked: VacuumRequest, on_spark: OnSpark, *, single_writer: bool = False
) -> Vacuumed | Finished:
    """Removes the files that nothing needs any more."""
    return _format_of(path, name).vacuum(path, asked, on_spark, single_writer=single_writer)


def recover(path: str, name: str) -> Finished:
    """Finishes an interrupted commit, and clears what never came to its commit."""
    found = _format_of(path, name)
    if Capability.RECOVERY in found.traits.capabilities:
        return found.recover(path)
    nouns = " and ".join(f"{FORMATS[each].noun}s" for each in formats_that(Capability.RECOVERY))
    raise ArgumentError(
        "dataset.only_parquet",
        f"{name} is a {found.traits.noun}, and this is for {nouns}.",
        f"Give one of those. A commit of a {found.traits.noun} is whole, or not there.",
    )


def _format_of(path: str, name: str) -> TableFormat:
    """The format of a table that is there; what only interrupted commits have left counts."""
    kind = format_at(path) or _left(path)
    # Opening the log of a table that can be recovered would do just that.
    if kind is None or (not can(kind, Capability.RECOVERY) and not format_named(kind).log(path).exists()):
        raise ArgumentError("table.missing", f"There is no table at {name}.", "Give the path or the name of one.")
    return format_named(kind)


def _left(path: str) -> str | None:
    for name in formats_that(Capability.RECOVERY):
        format_named(name).check_place(path)
        if format_named(name).is_left(path):
            return name
    return None
