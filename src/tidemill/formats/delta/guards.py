"""What a write to a Delta table needs: a log safe from two writers, metrics, no files left by failures.

On S3 Delta's default LogStore looks whether a log entry is there and then writes it, in one process only: of two
drivers that commit at once the second overwrites the entry of the first, and both report success.
"""

from __future__ import annotations

import os
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from tidemill.errors import ArgumentError, EngineError, SchemaError, TableError
from tidemill.formats.base import Conflict
from tidemill.formats.filesystem import is_hidden
from tidemill.model import local_path
from tidemill.spark import disk_full, sized
from tidemill.spark.errors import has_lost_files, is_conflict, no_room, one_line
from tidemill.spark.session import started_with

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from tidemill.formats.delta.log import DeltaLog

_S3 = ("s3", "s3a", "s3n")
_DELTAS_OWN = ("io.delta.storage.", "org.apache.spark.sql.delta.storage.")
NAIVE_TIMES = "timestampNtz"
_METRICS = "spark.databricks.delta.history.metricsEnabled"
_SAFE = "io.delta.storage.S3DynamoDBLogStore"


def refuse_unguarded(spark: SparkSession, path: str) -> None:
    """An error where commits of two writers could overwrite each other; nothing is read or written for it."""
    scheme, separator, _ = path.partition("://")
    if not separator or scheme.lower() not in _S3 or _is_safe(_log_store(spark, scheme.lower())):
        return
    raise TableError(
        "table.unguarded",
        f"{path} may not be written to: on S3, Delta's default LogStore lets two writers overwrite each other's "
        "commits, and both report success.",
        f"Start Spark with a LogStore that prevents it (spark.delta.logStore.{scheme}.impl = {_SAFE} in [spark.conf]). "
        "Where no other process ever writes to the table, say so: single_writer = true under [warehouse], "
        "--single-writer, or single_writer=True in Python. Nothing was written.",
    )


def _log_store(spark: SparkSession, scheme: str) -> str | None:
    return started_with(spark, f"spark.delta.logStore.{scheme}.impl") or started_with(
        spark, "spark.delta.logStore.class"
    )


def _is_safe(log_store: str | None) -> bool:
    """Of Delta's own classes one is; what another class does, its owner knows."""
    return log_store is not None and (log_store == _SAFE or not log_store.startswith(_DELTAS_OWN))


_TICK = 1.0  # seconds by which the clock of a file system may lag


@contextmanager
def room_for(log: DeltaLog) -> Iterator[None]:
    """A full disk is reported as one, with what the write in the block has left."""
    began = time.time()
    try:
        yield
    except Exception as failure:
        if full := no_room(failure):
            after = f"The table is as it was. {_cleared(log, began)}".rstrip()
            raise disk_full(f"Writing to {log.path}", full, log.path, after) from failure
        raise


def _cleared(log: DeltaLog, since: float) -> str:
    """What there is to say of the files that a write which began at `since` has left.

    Where there is no table yet, nobody else can have written them, and they are removed. In a table they may be those
    of another program that is still at work, so they are named, and `tidemill vacuum` removes them later.
    """
    folder = local_path(log.path)
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


@contextmanager
def conflicts() -> Iterator[None]:
    try:
        yield
    except Exception as failure:
        if is_conflict(failure):
            raise Conflict(one_line(failure)) from failure
        raise


@contextmanager
def lost_files(path: str, version: int) -> Iterator[None]:
    try:
        yield
    except Exception as failure:
        if has_lost_files(failure):
            raise files_gone(path, version) from failure
        raise


def files_gone(path: str, version: int) -> ArgumentError:
    return ArgumentError(
        "restore.files_gone",
        f"{path} cannot go back to version {version}: a vacuum has removed files of it.",
        "Choose a later version, or a backup. Its rows are as they were.",
    )


def keeps_its_features(path: str) -> SchemaError:
    return SchemaError(
        "schema.cannot_add",
        f"{path} was made elsewhere, and a column of times without a zone (TIMESTAMP_NTZ) would change its protocol.",
        f"Run ALTER TABLE … SET TBLPROPERTIES ('delta.feature.{NAIVE_TIMES}' = 'supported') if all its readers know "
        "that type, or give the times a zone. The table is unchanged.",
    )


def check_metrics(spark: SparkSession) -> None:
    if not is_on(spark, _METRICS):
        raise EngineError(
            "engine.no_metrics",
            f"The Spark session has {_METRICS} = false, and rows are counted by Delta's metrics of its commits.",
            "Leave the setting out, or set it to true. Nothing was written.",
        )


def is_on(spark: SparkSession, name: str) -> bool:
    return str(spark.conf.get(name, "true")).lower() == "true"
