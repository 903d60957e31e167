"""Delta tables opened by delta-rs, which reads the whole state of a log: once for each of its versions.

Opening takes time by the number of files. A log on this machine that is as it was is not read again, and of one that
has grown only the new commits are.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import deltalake
from deltalake.exceptions import DeltaError

from tidemill.model import local_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MOST_TABLES = 16


class _Mark(NamedTuple):
    """The newest commit of a log; another table at its path has another file there."""

    version: int
    size: int
    changed: int
    inode: int


class _Opened(threading.local):
    """Those of one thread, as updating one would change it under another."""

    def __init__(self) -> None:
        self.tables: OrderedDict[str, tuple[_Mark, deltalake.DeltaTable]] = OrderedDict()


_opened = _Opened()


def open_table(path: str, folder: Path | None) -> deltalake.DeltaTable:
    """The table at a path as it is now; `folder` is where that is on this machine. Who is given it, shares it."""
    mark = _mark(folder) if folder else None
    found = _opened.tables.pop(path, None)
    if folder is None or mark is None:
        return deltalake.DeltaTable(path)
    if found is None or not _is_older(found[0], mark, folder):
        table = deltalake.DeltaTable(path)
    else:
        table = _updated(found[1], path) if found[0] != mark else found[1]
    if table.version() == mark.version:  # else somebody has committed since
        _keep(path, mark, table)
    return table


def opened_at(path: str, version: int) -> deltalake.DeltaTable:
    """The table at a path of this machine as it was at a version. It is shared by all that this thread does."""
    now = open_table(path, local_path(path))
    return now if now.version() == version else deltalake.DeltaTable(path, version=version)


@contextmanager
def writing_to(path: str, table: deltalake.DeltaTable) -> Iterator[None]:
    """A write to what was opened leaves it at the version that was written: the next to open it reads nothing again."""
    _opened.tables.pop(path, None)
    yield
    folder = local_path(path)
    mark = _mark_of(folder, table.version()) if folder else None
    if mark is not None:
        _keep(path, mark, table)


def _keep(path: str, mark: _Mark, table: deltalake.DeltaTable) -> None:
    _opened.tables[path] = mark, table
    while len(_opened.tables) > _MOST_TABLES:
        _opened.tables.popitem(last=False)


def newest_version(folder: Path) -> int | None:
    """The number of the last commit of a log on this machine; None where there is no log, or only a checkpoint."""
    mark = _mark(folder)
    return mark.version if mark else None


def _updated(table: deltalake.DeltaTable, path: str) -> deltalake.DeltaTable:
    try:
        table.update_incremental()
    except DeltaError:
        return deltalake.DeltaTable(path)
    return table


def _is_older(known: _Mark, now: _Mark, folder: Path) -> bool:
    """Whether the log is the one that was opened, with nothing or only more commits behind it."""
    return known == now or (known.version < now.version and _mark_of(folder, known.version) == known)


def _mark(folder: Path) -> _Mark | None:
    try:
        names = [entry.name for entry in os.scandir(folder / "_delta_log")]
    except OSError:
        return None
    commits = [name for name in names if name.endswith(".json") and name[:-5].isdigit()]
    return _mark_of(folder, int(max(commits)[:-5])) if commits else None


def _mark_of(folder: Path, version: int) -> _Mark | None:
    try:
        seen = (folder / "_delta_log" / f"{version:020d}.json").stat()
    except OSError:
        return None
    return _Mark(version, seen.st_size, seen.st_mtime_ns, seen.st_ino)
