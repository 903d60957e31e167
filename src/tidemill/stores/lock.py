"""One writer at a time among processes that share a local disk.

Delta leaves it to the file system that a log entry is written once. A local one checks and then renames, so two
processes could both believe that they wrote it. HDFS and most object stores guard that themselves; see `guarded`.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from tidemill.declare.paths import on_this_machine
from tidemill.errors import TableError

try:
    import fcntl
except ImportError:  # Windows has no such lock
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FOLDER = "_tidemill"  # readers of the table skip names that begin with an underscore


@contextmanager
def only_writer(path: str) -> Iterator[None]:
    """Waits until no other process writes to the table; the kernel frees the lock of one that dies."""
    folder = on_this_machine(path)
    if fcntl is None or folder is None:
        yield
        return
    with _lock_file(folder) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _lock_file(path: Path) -> TextIO:
    folder = path / FOLDER
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return (folder / "lock").open("a")
    except OSError as failure:
        raise TableError(
            "table.not_writable",
            f"{path} cannot be written: {failure.strerror}.",
            "Make its folder writable, or give another path. Nothing was written.",
        ) from failure
