"""What users say in calls about tables by path or name, checked: all that can be wrong before any row is read."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.errors import ArgumentError
from tidemill.formats import (
    COMPRESSION,
    DATASET_FORMAT,
    DEFAULT_FORMAT,
    FORMATS,
    Capability,
    can,
    known_codec,
    known_format,
)
from tidemill.formats.registry import format_at
from tidemill.model import absolute, local_path
from tidemill.model.strategy import Merge, MergeStrategy, merge_form
from tidemill.model.table import SchemaPolicy, Table, schema_policy

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from tidemill.api.tables import Upkeep

_DATASETS = f"{FORMATS[DATASET_FORMAT].noun}s"
_TABLE_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*){1,2}")


@dataclass(frozen=True, slots=True)
class Place:
    """A table as a user names it, and where it is; the ledger is that of the project in `folder`.

    `single_writer`: the user's promise that no other process writes to it. `declared` gives the names of the project's
    tables, for one that is misspelled.
    """

    name: str
    path: str
    folder: Path | None = None
    single_writer: bool = False
    declared: Callable[[], Iterable[str]] = tuple


def merge_table(
    target: str | Path,
    on: str | Iterable[str],
    strategy: MergeStrategy | str,
    *,
    dedup_order_by: str | Iterable[str] | None = None,
    only_newer: str | None = None,
    volatile: str | Iterable[str] = (),
    policy: SchemaPolicy | str = SchemaPolicy.FAIL,
    max_shrink: float | None = None,
    format_: str | None = None,
    compression: str | None = None,
    partition_by: str | Iterable[str] = (),
    single_writer: bool = False,
) -> Table:
    """The declaration behind a merge; everything that can be wrong without looking at rows is an error here."""
    form = merge_form(strategy)
    if max_shrink is not None and form is not MergeStrategy.FULL_MERGE:
        raise ArgumentError(
            "merge.max_shrink",
            f"max_shrink guards full_merge; {form} deletes nothing.",
            "Leave it out, or use full_merge.",
        )
    if only_newer is not None and (not isinstance(only_newer, str) or not only_newer):
        raise ArgumentError(
            "merge.only_newer", f"only_newer names one column, and {only_newer!r} is no name.", "Give it as a text."
        )
    there = format_at(path_of(target))
    kept_as = there or DEFAULT_FORMAT if format_ is None else known_format(format_)
    if compression and not can(kept_as, Capability.COMPRESSION):
        raise ArgumentError(
            "merge.compression",
            f"{target} is kept as {kept_as}, and compression is for {_DATASETS}.",
            f"Leave it out, or say that the table is a dataset: --table-format {DATASET_FORMAT}.",
        )
    return Table(
        name=str(target),
        path=str(target),
        strategy=Merge(_names(on), form, _names(dedup_order_by), only_newer, max_shrink),
        volatile=_names(volatile),
        schema_policy=schema_policy(policy),
        format=kept_as,
        properties={COMPRESSION: known_codec(compression)} if compression else {},
        partition_by=_names(partition_by),
        single_writer=single_writer,
    )


def _names(columns: str | Iterable[str] | None) -> tuple[str, ...]:
    given = (columns,) if isinstance(columns, str) else columns or ()
    names = tuple(given) if isinstance(given, Iterable) else (given,)
    if not all(isinstance(name, str) for name in names):
        raise ArgumentError(
            "columns.no_names", f"{columns!r} names no columns.", 'Give a name, or a list: ["order_id", "region"].'
        )
    return names


def path_of(path: str | Path) -> str:
    """The path of a table or of files, from the root on."""
    # An empty one would be the current folder, and no file system has names with this character.
    if not isinstance(path, str | PathLike) or not str(path).strip() or "\0" in str(path):
        raise ArgumentError(
            "table.no_path", f"{path!r} is no path.", "Give the path of a table, or of the files that are read."
        )
    return absolute(path)


def placed(target: str | Path, session: SparkSession) -> str:
    """The path of a table that need not be there; a name that the session does not know is a path then."""
    known = _TABLE_NAME.fullmatch(str(target)) and session.catalog.tableExists(str(target))
    return located(target, session) if known else path_of(target)


def located(target: str | Path, session: SparkSession) -> str:
    """The path of a table given by its path or its name."""
    path = path_of(target)
    if not _TABLE_NAME.fullmatch(str(target)) or Path(path).exists():
        return path
    if not session.catalog.tableExists(str(target)):
        raise ArgumentError(
            "table.unknown_name",
            f"The Spark session knows no table {target}.",
            f"Give the path of the table (./{target} for a folder of that name), or a session that knows it.",
        )
    if session.catalog.getTable(str(target)).tableType == "VIEW":
        raise ArgumentError(
            "table.is_view", f"{target} is a view of the Spark session.", "Give the name or path of a table."
        )
    location = session.sql(f"DESCRIBE DETAIL {target}").first()
    assert location is not None  # noqa: S101  a table that exists has a detail
    return str(local_path(location["location"]) or location["location"])


def upkeep() -> type[Upkeep]:
    """What is done to tables by their path or name; from here on PySpark is loaded."""
    from tidemill.api.tables import Upkeep  # noqa: PLC0415  the border: it imports PySpark

    return Upkeep


def not_made(table: str, run: str = "tidemill run") -> ArgumentError:
    """The error for a table that is declared and not there; `run` is the command that makes it."""
    return ArgumentError("table.not_made", f"{table} is declared, and not made yet.", f"Make it: {run}.")


def beside(table: str, now: datetime | None = None) -> str:
    """What a backup is called where nobody says: the table, and when it was made."""
    return f"{table.rstrip('/')}__backup_{now or datetime.now(UTC):%Y%m%d_%H%M%S}"


def check_one_way(to: object, at: object, backup: object) -> None:
    """A restore goes back to one thing."""
    if sum(way is not None for way in (to, at, backup)) != 1:
        raise ArgumentError(
            "restore.one_way",
            "A restore goes back to one of three: a version, the version of a moment, or a backup.",
            "Say --to VERSION, --at TIME or --from BACKUP (in Python: to, at or backup).",
        )


def moment_of(at: datetime | str) -> datetime:
    """A moment as users write it, such as 2026-02-04 06:00; without a zone it is by this machine's clock."""
    try:
        return (at if isinstance(at, datetime) else datetime.fromisoformat(at)).astimezone()
    except (ValueError, TypeError) as bad:
        raise ArgumentError(
            "restore.bad_time", f"{at!r} is no moment.", 'Write it as "2026-02-04 06:00" or 2026-02-04T06:00:00Z.'
        ) from bad
