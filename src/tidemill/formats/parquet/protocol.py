"""How a dataset is committed to and read: steps with names, one effect after each, so that a checker can walk them.

docs/datasets-protocol.md describes the states between the steps, and tests/parquet/ walks every order of them.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from tidemill.errors import TableError
from tidemill.formats.base import Finished
from tidemill.formats.parquet.folder import DataFile, Entry, Folder, by_path

if TYPE_CHECKING:
    from tidemill.formats.parquet.folder import Attempt

T = TypeVar("T")
Steps = Generator[str, None, T]

LOOK = "look at the log"
LIST = "list the files"
LOOK_AGAIN = "look at the log again"
LOCK = "take the lock"
BEGIN = "begin a staging folder"
COMMIT = "create the entry"
MOVE_IN = "move a file in"
REMOVE = "remove a file"
SYNC = "write folders to disk"
CLEAR = "clear the staging folder"
CLEAR_DEAD = "clear a dead writer's staging folder"


class Moved(Exception):  # noqa: N818  an event that writers answer by planning again
    """The dataset is no longer what the commit was planned on; nothing of it is in the dataset."""


@dataclass(frozen=True, slots=True)
class State:
    """A dataset as one commit left it, and what others did to its files since."""

    number: int
    entry: Entry | None
    files: dict[str, DataFile] = field(default_factory=dict)

    @property
    def is_there(self) -> bool:
        return self.entry is not None or bool(self.files)

    @property
    def known(self) -> dict[str, DataFile]:
        """The files as our last commit left them."""
        return by_path(self.entry.files) if self.entry else {}

    @property
    def came(self) -> list[DataFile]:
        """Files that somebody else has added, or put in the place of others."""
        known = self.known
        return [file for path, file in self.files.items() if known.get(path) != file]

    @property
    def left(self) -> list[DataFile]:
        """Files of our last commit that somebody else has removed or replaced."""
        return [file for path, file in self.known.items() if self.files.get(path) != file]


def walk(steps: Steps[T]) -> T:
    """Takes all steps, one after the other."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


def opening(folder: Folder) -> Steps[State]:
    """The dataset as one commit left it; an interrupted commit is finished first.

    No file of a commit moves before its entry is in the log. So if no entry came while the files were listed, they
    are those of the last one, and what others have put there.
    """
    while True:
        yield LOOK
        number = folder.newest()
        entry = None if number is None else folder.entry(number)
        if entry is not None and folder.is_pending(entry):
            yield from finishing(folder)
            continue
        yield LIST
        files = folder.files()
        yield LOOK_AGAIN
        if folder.newest() == number:
            return State(_numbered(number, files), entry, files)


def beginning(folder: Folder) -> Steps[Attempt]:
    """A staging folder for one attempt; what interrupted writers have left is finished or cleared first."""
    yield from finishing(folder)
    yield LOCK
    with folder.lock:
        yield BEGIN
        return folder.begin()


def committing(folder: Folder, base: State, entry: Entry) -> Steps[None]:
    """Makes the staged files of an entry part of the dataset, if that still is as `base` has it; else `Moved`."""
    yield LOCK
    with folder.lock:
        now = yield from opening(folder)
        if (now.number, now.files) != (base.number, base.files):
            raise Moved(f"{folder} was changed since it was looked at")
        folder.check_writable(entry)
        yield COMMIT
        try:
            folder.create(entry)
        except FileExistsError as failure:
            raise Moved(f"entry {entry.number} of {folder} was written by another run") from failure
        yield from _publishing(folder, entry)


def finishing(folder: Folder) -> Steps[Finished]:
    """Rolls the last commit forward if it was interrupted, and clears what dead writers have staged."""
    folder.check_alone()
    yield LOCK
    with folder.lock:
        number = folder.newest()
        entry = None if number is None else folder.entry(number)
        pending = entry is not None and folder.is_pending(entry)
        if entry is not None and pending:
            yield from _publishing(folder, entry)
        dead, freed = folder.dead_attempts(), 0
        for attempt in dead:
            yield CLEAR_DEAD
            freed += folder.staged_bytes(attempt)
            folder.clear(attempt)
    return Finished(number if pending else None, len(dead), freed)


def finish_interrupted(path: str) -> None:
    """Finishes an interrupted commit of the dataset at a path, if it is one of ours."""
    folder = Folder(path)
    if folder.newest() is not None:
        walk(opening(folder))


def _publishing(folder: Folder, entry: Entry) -> Steps[None]:
    """New files first, then each rewritten one with the one that it replaces, then what only goes.

    Whoever reads the folder meanwhile without asking the log may see a row twice, but never misses one.
    """
    try:
        folder.settle()
        yield from _moves(folder, entry)
    except OSError as failure:
        raise TableError(
            "dataset.unfinished",
            f"Commit {entry.number} of {folder} is made, but not all of its files could be put in place: {failure}",
            f"Fix that, then run: tidemill recover {folder}. Until then it cannot be read through Tidemill.",
        ) from failure


def _moves(folder: Folder, entry: Entry) -> Steps[None]:
    leaving = by_path(entry.remove)
    for added in sorted(entry.add, key=lambda each: each.instead_of is not None):
        yield MOVE_IN
        folder.move_in(entry, added.staged, added.file.path)
        if added.instead_of is not None:
            yield REMOVE
            folder.remove(leaving.pop(added.instead_of))
    for file in leaving.values():
        yield REMOVE
        folder.remove(file)
    yield SYNC
    folder.sync(entry)
    yield CLEAR
    folder.clear(entry.attempt)


def _numbered(number: int | None, files: dict[str, DataFile]) -> int:
    """A folder that somebody else has made is commit 0; one where nothing is has none."""
    if number is not None:
        return number
    return 0 if files else -1
