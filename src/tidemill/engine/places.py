"""Where the engine keeps what it fetches, builds and logs, and where the installed PySpark is."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from tidemill.errors import EngineError


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
