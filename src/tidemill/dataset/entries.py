"""What a dataset's log holds: one numbered entry for each commit, with the files that make it up."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from tidemill.errors import TableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ENTRY_FORMAT = 1
COMPACTS = "OPTIMIZE"  # the operation of an entry that joins files, as Delta calls it


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
    """One commit. `files` is the whole dataset after it; `record` is what `tidemill.contracts.records` writes.

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
