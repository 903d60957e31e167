"""Files wherever they lie, and one writer at a time among processes that share a disk.

Delta leaves it to the file system that a log entry is written once. A local one checks and then renames, so two
processes could both believe that they wrote it. HDFS and most object stores guard that themselves.
"""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

from tidemill.errors import ArgumentError, ConflictError, DatasetFileError, FilesGoneError, TableError
from tidemill.formats.base import Conflict
from tidemill.model import local_path
from tidemill.spark.errors import file_is_gone, spark_failures

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import IO

    from pyarrow import fs


def file_system(path: str) -> tuple[fs.FileSystem, str]:
    """The file system of a path, and the path as that knows it."""
    from pyarrow import ArrowInvalid, fs  # noqa: PLC0415  slow to import, and who only reads declarations needs it not

    if "://" not in path:
        return fs.LocalFileSystem(), path.rstrip("/") or "/"
    try:
        files, root = fs.FileSystem.from_uri(re.sub("^s3[an]://", "s3://", path))  # Hadoop's names for it
    except ArrowInvalid as failure:
        raise ArgumentError(
            "path.unknown_scheme",
            f"Nothing here can read a path that begins with {path.partition('://')[0]}://.",
            "Copy it to a local path, or to s3://, gs:// or hdfs://.",
        ) from failure
    except OSError as failure:
        raise ArgumentError(
            "path.out_of_reach",
            f"{path} cannot be reached: {failure}.",
            "Look at its address, the network and the login.",
        ) from failure
    return files, root


def is_folder(files: fs.FileSystem, path: str) -> bool:
    return bool(files.get_file_info(path).type.name == "Directory")


def is_hidden(name: str) -> bool:
    """Readers of tables and datasets skip such names."""
    return name.startswith(("_", "."))


try:
    import fcntl
except ImportError:  # Windows has no such lock; there the exclusive record alone keeps writers apart
    fcntl = None  # type: ignore[assignment]


_mine = threading.local()


class WriterLock:
    """A lock among processes, and among the threads of one. A thread that holds it may take it again."""

    def __init__(self, file: Path) -> None:
        self._path = file

    def __enter__(self) -> Self:
        held = self._held()
        if str(self._path) not in held:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = self._path.open("a")
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX)
            held[str(self._path)] = [file]
        else:
            held[str(self._path)].append(held[str(self._path)][0])
        return self

    def __exit__(self, *_: object) -> None:
        held = self._held()
        file = held[str(self._path)].pop()
        if not held[str(self._path)]:
            del held[str(self._path)]
            file.close()

    @staticmethod
    def _held() -> dict[str, list[IO[str]]]:
        """The open lock files of this thread, as often as each was taken."""
        found: dict[str, list[IO[str]]] = _mine.__dict__.setdefault("held", {})
        return found


def held_open(file: Path) -> IO[str]:
    """A file that shows, as long as this process lives and keeps it open, that somebody is at work."""
    opened = file.open("a")
    if fcntl is not None:
        fcntl.flock(opened, fcntl.LOCK_EX)
    return opened


def is_held(file: Path) -> bool:
    """Whether somebody alive holds a file open by `held_open`."""
    try:
        opened = file.open("a")
    except FileNotFoundError:
        return False
    with opened:
        if fcntl is None:
            return True
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


FOLDER = "_tidemill"  # readers of the table skip names that begin with an underscore


def writer_lock(folder: Path) -> WriterLock:
    """The lock of the table in a folder."""
    return WriterLock(folder / FOLDER / "lock")


@contextmanager
def only_writer(path: str) -> Iterator[None]:
    """Waits until no other process writes to the table; the kernel frees the lock of one that dies."""
    folder = local_path(path)
    with ExitStack() as held:
        if folder is not None:
            try:
                held.enter_context(writer_lock(folder))
            except OSError as failure:
                raise TableError(
                    "table.not_writable",
                    f"{folder} cannot be written: {failure.strerror}.",
                    "Make its folder writable, or give another path. Nothing was written.",
                ) from failure
        yield


_LOGS = {"_delta_log": "a Delta table", f"{FOLDER}/log": "a Parquet dataset"}  # what makes a folder a table


def table_at(folder: str) -> str | None:
    """What a folder is, if it is a table with a log."""
    return next((kind for log, kind in _LOGS.items() if os.path.isdir(f"{folder}/{log}")), None)  # noqa: PTH112


def check_alone(path: Path | str) -> None:
    """An error, before anything is made there, if a path is a part of another table."""
    path = Path(os.path.normpath(path))
    for folder in path.absolute().parents:
        if kind := table_at(str(folder)):
            raise TableError(
                "table.inside_another",
                f"{path} lies in {folder}, which is {kind}: what lies there is its own.",
                f"Give the path of that one, {folder}, or one outside of it.",
            )


def unopened(root: str, why: object) -> DatasetFileError:
    """The error for a dataset whose folders cannot be looked at."""
    return DatasetFileError(
        "dataset.not_readable",
        f"{root} cannot be read: {first_line(why)}.",
        "Fix that and run again. The dataset is as it was.",
        path=root,
    )


def first_line(why: object) -> str:
    """Without the file, which Arrow names again; damaged bytes may be quoted in it, so only what can be shown is."""
    line = next(iter(str(why).strip().splitlines()), "").rpartition("': ")[2]
    return "".join(char for char in line if char.isprintable()).rstrip(" .:")


T = TypeVar("T")
logger = logging.getLogger("tidemill")

TRIES = 5
_FIRST_WAIT = 0.2


def with_retries(name: str, attempt: Callable[[int], T]) -> T:
    """What `attempt` gives; a `Conflict` of its is answered by another attempt, a few times."""
    for number in range(TRIES):
        try:
            return attempt(number)
        except Conflict as conflict:
            logger.info("%s: another writer committed first (%s); planning again", name, conflict)
            time.sleep(_FIRST_WAIT * 2**number)
    raise ConflictError(
        "run.conflict",
        f"Other writers changed {name}, or what it reads, {TRIES} times while this run was at work.",
        "Nothing of this run is in it. Run it again when the others have ended.",
    )


def look(path: str, reading: Callable[[], T]) -> T:
    """What `reading` gives, which takes no lock; it looks again where files went while it did."""

    def attempted(_: int) -> T:
        with attempting(path, 0):
            return reading()

    return with_retries(path, attempted)


@contextmanager
def attempting(path: str, attempt: int) -> Iterator[None]:
    """One attempt, from 0, at the table at a path. After a conflict the next one has it to itself, and cannot lose.

    A file that has gone since the table was looked at is a conflict. Where nobody else can have removed it, it is one
    that a frame of before wants, which the step was given: no other attempt would help.
    """
    turn = writer_lock(Path(os.path.normpath(path))) if attempt else nullcontext()  # as the store itself takes it
    try:
        with turn:
            yield
    except FilesGoneError as failure:
        if attempt and failure.is_of(path):
            raise
        raise Conflict(str(failure)) from failure
    except FileNotFoundError as failure:
        raise Conflict(str(failure)) from failure
    except spark_failures() as failure:
        if file_is_gone(failure):
            raise Conflict(f"files of {path} have gone since it was looked at") from failure
        raise
