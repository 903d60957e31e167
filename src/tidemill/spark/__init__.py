"""Where the engine keeps what it fetches, builds and logs, and what is reported when a disk is full."""

from __future__ import annotations

import os
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path

from tidemill.display import size_text
from tidemill.errors import EngineError, TableError


def cache_folder() -> Path:
    """$TIDEMILL_HOME, or tidemill/ in the user's cache folder; it may not exist yet."""
    if home := os.environ.get("TIDEMILL_HOME"):
        return Path(home).expanduser().absolute()
    if cache := os.environ.get("XDG_CACHE_HOME"):
        return Path(cache).expanduser().absolute() / "tidemill"
    return Path.home() / ".cache" / "tidemill"


def jar_folder() -> Path:
    return cache_folder() / "jars"


def archive_folder() -> Path:
    return cache_folder() / "archives"


def log_folder() -> Path:
    return cache_folder() / "logs"


def spark_home() -> Path:
    """The folder of the installed PySpark, found without importing it.

    A SPARK_HOME of the user's is another Spark, of another version: the embedded engine does not use it.
    """
    spec = find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise EngineError(
            "engine.pyspark_missing",
            "PySpark is not installed in this Python.",
            "Install Tidemill again: pip install --force-reinstall tidemill.",
        )
    return Path(spec.submodule_search_locations[0])


def make_folder(folder: Path) -> Path:
    """The folder, made if need be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EngineError(
            "engine.cache_unwritable",
            f"{folder} cannot be written ({error.strerror}).",
            "Make it writable, or name another folder in TIDEMILL_HOME.",
        ) from error
    return folder


NO_ROOM = ("No space left on device", "Disk quota exceeded", "database or disk is full")


def lack_of_room(text: str) -> str | None:
    """What the system said of a full disk, where a text has it."""
    return next((words for words in NO_ROOM if words in text), None)


def disk_full(doing: str, why: str, path: object = None, after: str = "The table is as it was.") -> TableError:
    """The error for a full disk: that of what lies at `path`, or of Spark's temporary files, whichever has less room.

    `after` is how things are now, files that remain included.
    """
    scratch = os.environ.get("SPARK_LOCAL_DIRS", tempfile.gettempdir()).partition(",")[0]
    rooms = {each: room for each in (path, scratch) if each is not None and (room := _room(str(each))) is not None}
    place, room = min(rooms.items(), key=lambda item: item[1])
    elsewhere = (
        "" if place == path else ' (SPARK_LOCAL_DIRS, or "spark.local.dir" under [spark.conf], names another folder)'
    )
    return TableError(
        "disk.full",
        f"{doing} failed: {why}: {place} has {size_text(room)} free.",
        f"Free some space there{elsewhere} and run again. {after}",
    )


def _room(path: str) -> int | None:
    """The bytes that are free where a path is, or will be; None for an address."""
    if "://" in path:
        return None
    place = next(each for each in (Path(path), *Path(path).absolute().parents) if each.exists())
    return shutil.disk_usage(place).free
