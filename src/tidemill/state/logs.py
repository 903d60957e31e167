"""The log of whatever is at a path: a Delta table's, or a Parquet dataset's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.dataset.folder import Folder, is_data, is_skipped
from tidemill.dataset.unreadable import unopened
from tidemill.declare.formats import DELTA, PARQUET
from tidemill.errors import TableError

if TYPE_CHECKING:
    from tidemill.declare.tables import Table
    from tidemill.errors import Origin
    from tidemill.state.dataset_log import DatasetLog
    from tidemill.state.delta_log import DeltaLog

    AnyLog = DeltaLog | DatasetLog


def format_at(path: str) -> str | None:
    """The format of what is at a path, by what lies there; None where nothing does that tells."""
    try:
        return _format_at(path)
    except OSError as failure:  # it may not be looked at, or its name is too long
        raise unopened(path, failure) from failure


def _format_at(path: str) -> str | None:
    root = Path(path)
    if "://" in path or (root / "_delta_log").is_dir():
        return DELTA
    folder = Folder(path)
    if folder.newest() is not None or _holds_parquet(root):
        return PARQUET
    return None


def log_at(path: str) -> AnyLog:
    """The log of what is at a path; nothing there is no table of either format."""
    return _log(path, format_at(path))


def log_of(table: Table) -> AnyLog:
    """The log of a declared table; a Delta table in the place of a dataset is an error, and so is the reverse."""
    if table.format == PARQUET:
        check_place(table.path, table.origin)
    there = format_at(table.path)
    if there is None:
        Folder(table.path).check_alone()
    if table.format == PARQUET and there == DELTA:
        raise _other_format(table, "Delta table", DELTA)
    # Parquet files alone may be what is left of a first write to a Delta table that was killed.
    if table.format != PARQUET and Folder(table.path).newest() is not None and there == PARQUET:
        raise _other_format(table, "Parquet dataset", PARQUET)
    return _log(table.path, table.format)


def check_place(path: str, origin: Origin | None = None) -> None:
    """A dataset is a folder of a file system."""
    if "://" not in path and not Path(path).is_file():
        return
    raise TableError(
        "dataset.no_folder",
        f"{path} is {'an address' if '://' in path else 'a file'}, and a Parquet dataset is a folder.",
        "Give the path of a folder on a disk of this machine, or one that is mounted here.",
        origin=origin,
    )


def _other_format(table: Table, called: str, held: str) -> TableError:
    return TableError(
        "table.other_format",
        f"{table.path} is a {called}, and {table.name} is declared with the format {table.format or DELTA}.",
        f"Use the format {held}, or another path.",
        origin=table.origin,
    )


def _log(path: str, kind: str | None) -> AnyLog:
    if kind == PARQUET:
        from tidemill.state.dataset_log import DatasetLog  # noqa: PLC0415  needs pyarrow.parquet

        return DatasetLog(path)
    from tidemill.state.delta_log import DeltaLog  # noqa: PLC0415

    return DeltaLog(path)


def _holds_parquet(root: Path) -> bool:
    """Looks into the first folder of partitions only."""
    if not root.is_dir():
        return False
    inside = sorted(each for each in root.iterdir() if not is_skipped(each.name))
    if any(each.is_file() and is_data(str(each)) for each in inside):
        return True
    folders = [each for each in inside if each.is_dir() and "=" in each.name]
    return any(_holds_parquet(folder) for folder in folders)
