"""The folder of a dataset on disk and the entries of its log. Each effect of the protocol is one call here."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import uuid
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidemill.errors import TableError
from tidemill.formats.filesystem import FOLDER, check_alone, held_open, is_held, table_at, writer_lock
from tidemill.spark import disk_full, lack_of_room

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import IO

ENTRY_FORMAT = 1


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file by its path in the dataset; it is the same one as long as its size and time are."""

    path: str
    size: int
    mtime: int
    rows: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Added:
    """A file that a commit brings: where it was staged, what it becomes, and the file whose place it takes."""

    staged: str
    file: DataFile
    instead_of: str | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One commit. `files` is the whole dataset after it; `record` is what `tidemill.model.record` writes.

    `schema` holds the columns in the JSON that Spark and Delta share. `notes` when it changes no rows; it then
    remembers what others had done to the files before, which the next run has to know.
    """

    number: int
    dataset_id: str
    attempt: str
    at: str
    operation: str
    record: str | None = None
    add: tuple[Added, ...] = ()
    remove: tuple[DataFile, ...] = ()
    files: tuple[DataFile, ...] = ()
    partition_by: tuple[str, ...] = ()
    schema: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, int] = field(default_factory=dict)
    notes: bool = False
    foreign_came: bool = False
    foreign_left: bool = False

    def to_json(self) -> str:
        return json.dumps({"dataset": ENTRY_FORMAT, **asdict(self)}, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str, path: str) -> Entry:
        try:
            data = json.loads(text)
            if data.pop("dataset") != ENTRY_FORMAT:
                raise _newer(path)
            return cls(**{name: _typed(name, value) for name, value in data.items()})
        except (ValueError, TypeError, KeyError) as failure:
            raise TableError(
                "dataset.unreadable_log",
                f"{path} is no entry of a dataset's log.",
                "Put it back from a backup. If there is none, delete the folder _tidemill: the dataset is then "
                "treated as one created elsewhere, and its progress is read from its rows.",
            ) from failure


def by_path(files: Iterable[DataFile]) -> dict[str, DataFile]:
    return {file.path: file for file in files}


def _typed(name: str, value: Any) -> Any:
    match name:
        case "add":
            return tuple(Added(each["staged"], DataFile(**each["file"]), each["instead_of"]) for each in value)
        case "remove" | "files":
            return tuple(DataFile(**each) for each in value)
        case "partition_by":
            return tuple(value)
        case _:
            return value


def _newer(path: str) -> TableError:
    return TableError(
        "dataset.newer_log",
        f"{path} was written by a newer Tidemill.",
        "Use that version, or a newer one.",
    )


SUFFIXES = (".parquet", ".parq", ".pq")
_MAGIC = b"PAR1"
_ALIVE = "alive"


@dataclass(slots=True)
class Attempt:
    """The staging folder of one attempt at a commit; its files are garbage unless an entry names it."""

    name: str
    folder: Path
    alive: IO[str]

    def drop(self) -> None:
        """Leaves nothing behind. What cannot be removed now is removed by the next writer."""
        self.alive.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Folder:
    """A dataset's root, with our own folder in it."""

    def __init__(self, path: str) -> None:
        self.root = Path(os.path.normpath(path))  # as Spark tells the paths of files
        self.log = self.root / FOLDER / "log"
        self.staging = self.root / FOLDER / "staging"
        self.lock = writer_lock(self.root)
        self._begun: dict[str, Attempt] = {}

    def __str__(self) -> str:
        return str(self.root)

    def numbers(self) -> list[int]:
        """The numbers of the entries, in order."""
        try:
            names = os.listdir(self.log)  # noqa: PTH208  one call, and names are all that is needed
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(int(name[:-5]) for name in names if name.endswith(".json") and name[:-5].isdigit())

    def newest(self) -> int | None:
        return next(reversed(self.numbers()), None)

    def entry(self, number: int) -> Entry | None:
        file = self._entry_file(number)
        try:
            return Entry.from_json(file.read_text(encoding="utf-8"), str(file))
        except FileNotFoundError:
            return None

    def is_pending(self, entry: Entry) -> bool:
        """Whether the files of a commit may not all be in their places yet."""
        return (self.staging / entry.attempt).is_dir()

    def files(self) -> dict[str, DataFile]:
        """The data files that are there, by path; names that readers skip are left out."""
        return by_path(self._found(str(self.root), ""))

    def check_alone(self) -> None:
        """An error, before anything is made here, if the folder is a part of another table."""
        check_alone(self.root)

    def begin(self) -> Attempt:
        """A staging folder of its own. Called under the lock, so that nobody treats it as a dead writer's."""
        name = uuid.uuid4().hex
        folder = self.staging / name
        folder.mkdir(parents=True)
        self._begun[name] = Attempt(name, folder, held_open(folder / _ALIVE))
        return self._begun[name]

    @contextlib.contextmanager
    def ending(self, attempt: Attempt) -> Iterator[None]:
        """However the block ends, the attempt's files are gone, unless they are the dataset's by then."""
        try:
            yield
        finally:
            number = self.newest()
            entry = None if number is None else self.entry(number)
            if entry is not None and entry.attempt == attempt.name:
                attempt.alive.close()
            else:
                attempt.drop()

    def create(self, entry: Entry) -> None:
        """The commit point: the entry appears whole, or not at all; `FileExistsError` if it is there."""
        if not self.log.is_dir():
            self.log.mkdir(parents=True)
            sync_folder(self.log.parent)
            sync_folder(self.root)
        draft = self.staging / entry.attempt / "entry.json"
        with draft.open("w", encoding="utf-8") as file:
            file.write(entry.to_json())
            file.flush()
            os.fsync(file.fileno())
        sync_folder(draft.parent)
        os.link(draft, self._entry_file(entry.number))

    def settle(self) -> None:
        """The entries of the log are on disk: no file moves before."""
        sync_folder(self.log)

    def move_in(self, entry: Entry, staged: str, path: str) -> None:
        source, place = self.staging / entry.attempt / staged, self.root / path
        if source.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            source.replace(place)

    def remove(self, file: DataFile) -> None:
        """Removes this very file, and its checksum; another one that somebody has put in its place since stays."""
        place = self.root / file.path
        if self._seen(place, file.path) != file:
            return
        place.unlink()
        checksum_of(place).unlink(missing_ok=True)
        for folder in place.parents:
            if folder == self.root:
                break
            with contextlib.suppress(OSError):  # it holds other files
                folder.rmdir()

    def sync(self, entry: Entry) -> None:
        """What was moved and removed is on disk, and so are folders that were made for it."""
        places = [self.root / path for path in (*(each.file.path for each in entry.add), *by_path(entry.remove))]
        inside = {folder for place in places for folder in place.parents if folder.is_relative_to(self.root)}
        for folder in inside:
            if folder.is_dir():
                sync_folder(folder)

    def clear(self, attempt: str) -> None:
        """Removes a staging folder, which its own writer may be removing at the same time."""
        if attempt in self._begun:
            self._begun.pop(attempt).alive.close()  # NFS would keep it, under another name, and with it the folder
        while (self.staging / attempt).is_dir():
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(self.staging / attempt)

    def dead_attempts(self) -> list[str]:
        """Staging folders whose writers have ended; asked under the lock."""
        if not self.staging.is_dir():
            return []
        return sorted(each.name for each in self.staging.iterdir() if each.is_dir() and not is_held(each / _ALIVE))

    def staged_bytes(self, attempt: str) -> int:
        """What lies in the staging folder of an attempt."""
        found = 0
        for inside, _, names in os.walk(self.staging / attempt):
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    found += (Path(inside) / name).stat().st_size
        return found

    def check_writable(self, entry: Entry) -> None:
        """An error while there is still time, if a folder that the commit changes may not be written to."""
        paths = [*(added.file.path for added in entry.add), *(file.path for file in entry.remove)]
        for folder in {_existing((self.root / path).parent) for path in paths}:
            if not os.access(folder, os.W_OK | os.X_OK):
                raise TableError(
                    "dataset.not_writable",
                    f"{folder} may not be written to, and this commit changes files in it.",
                    f"Let the user who runs this write there. {self} is as it was.",
                )

    def _entry_file(self, number: int) -> Path:
        return self.log / f"{number:020d}.json"

    def _found(self, folder: str, inside: str) -> Iterator[DataFile]:
        try:
            with os.scandir(folder) as entries:
                children = sorted(entries, key=lambda each: each.name)
        except (FileNotFoundError, NotADirectoryError):
            return
        if inside and any(is_skipped(child.name) for child in children) and (kind := table_at(folder)):
            raise TableError(
                "dataset.holds_another",
                f"{folder} is {kind}, so its files are not rows of {self}, in which it lies.",
                "Give the path of one table, or move the other one out.",
            )
        for child in children:
            path = f"{inside}{child.name}"
            if is_skipped(child.name):
                continue
            if child.is_dir():
                yield from self._found(child.path, f"{path}/")
            elif is_data(child.path):
                found = self._seen(Path(child.path), path)
                if found is not None:
                    yield found

    @staticmethod
    def _seen(place: Path, path: str) -> DataFile | None:
        try:
            found = place.stat()
        except FileNotFoundError:
            return None
        return DataFile(path, found.st_size, found.st_mtime_ns)


def not_written(path: object, why: object) -> TableError:
    """The error for what goes wrong before a commit point."""
    if full := lack_of_room(str(why)):
        return disk_full(f"Writing to {path}", full, path)
    return TableError(
        "dataset.not_written",
        f"{path} could not be written to: {' '.join(str(why).split())}",
        "Fix that and run again. The dataset is as it was.",
    )


def sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def checksum_of(file: Path) -> Path:
    """Where Hadoop keeps the checksum of a file; without it the file is whole as well."""
    return file.with_name(f".{file.name}.crc")


def _existing(folder: Path) -> Path:
    return folder if folder.exists() else _existing(folder.parent)


def is_data(path: str) -> bool:
    """Whether a file holds rows: by the ending of its name, or, where it has none (Hive's `000000_0`), by its start."""
    name = os.path.basename(path)  # noqa: PTH119  much faster
    if "." in name:
        return name.lower().endswith(SUFFIXES)
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def is_skipped(name: str) -> bool:
    """Whether readers of datasets take a file or a folder of this name for something else than rows."""
    return name.startswith((".", "_")) and not (name.startswith("_") and "=" in name)  # a partition may be _day=1
