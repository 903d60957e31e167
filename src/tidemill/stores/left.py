"""What a write that failed has left in the folder of a Delta table: files that no commit refers to."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from tidemill.declare.paths import on_this_machine
from tidemill.engine.room import disk_full, sized
from tidemill.engine.translate import no_room
from tidemill.state.folders import is_hidden

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidemill.state.delta_log import DeltaLog

_TICK = 1.0  # seconds by which the clock of a file system may lag


@contextmanager
def room_for(log: DeltaLog) -> Iterator[None]:
    """A full disk is reported as one, with what the write in the block has left."""
    began = time.time()
    try:
        yield
    except Exception as failure:
        if full := no_room(failure):
            raise disk_full(f"Writing to {log.path}", full, log.path, _cleared(log, began)) from failure
        raise


def _cleared(log: DeltaLog, since: float) -> str:
    """What there is to say of the files that a write which began at `since` has left.

    Where there is no table yet, nobody else can have written them, and they are removed. In a table they may be those
    of another program that is still at work, so they are named, and `tidemill vacuum` removes them later.
    """
    folder = on_this_machine(log.path)
    vacuum = f"tidemill vacuum {log.path} removes such files once they are old enough"
    if folder is None:
        return f"The write may have left files that no commit refers to: {vacuum}."
    if not any((folder / "_delta_log").glob("*.json")):
        for file in list(_written(folder, since)):
            file.unlink(missing_ok=True)
        return ""
    held = {unquote(file) for file in log.files()}
    lost = {file: size for file, size in _written(folder, since).items() if str(file.relative_to(folder)) not in held}
    count = sum(not is_hidden(file.name) for file in lost)
    if not count:
        return ""
    files = "1 file" if count == 1 else f"{count:,} files"
    return f"The write left {files} ({sized(sum(lost.values()))}) that no commit refers to: {vacuum}."


def _written(folder: Path, since: float) -> dict[Path, int]:
    """Data files, and their checksums, that came after a moment, with their sizes; tasks that end may remove some."""
    found: dict[Path, int] = {}
    for inside, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not is_hidden(name)]
        for file in (Path(inside, name) for name in names if ".parquet" in name):
            with suppress(FileNotFoundError):
                seen = file.stat()
                found |= {file: seen.st_size} if seen.st_ctime >= since - _TICK else {}
    return found
