"""Every way in which Tidemill says no: a code, what happened, what to do, and where."""

from __future__ import annotations

import difflib
import os.path
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a user wrote the thing that an error is about."""

    file: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        parts = [self.file, *(str(n) for n in (self.line, self.column) if n is not None)]
        return ":".join(parts)


class TidemillError(Exception):
    """The base of all errors that Tidemill raises on purpose.

    `code` is stable and may be tested for; `problem` says what happened, `remedy` what to do.

    >>> try:
    ...     tidemill.history("lake/nothing")
    ... except tidemill.TidemillError as error:
    ...     print(error.code, "-", error.problem)
    table.missing - There is no table at lake/nothing.
    """

    exit_code = 1

    def __init__(self, code: str, problem: str, remedy: str, *, origin: Origin | None = None) -> None:
        super().__init__(code, problem, remedy)
        self.code = code
        self.problem = problem
        self.remedy = remedy
        self.origin = origin

    def __str__(self) -> str:
        return f"[{self.code}] {self.problem} {self.remedy}"


class ArgumentError(TidemillError, ValueError):
    """An argument, a flag or a file of the user's is wrong; nothing was run."""

    exit_code = 2


class MergeError(TidemillError, ValueError):
    """The rows given cannot enter the target under these keys; the target is unchanged."""


class JoinError(TidemillError, ValueError):
    """The rows given cannot be joined; nothing was written."""


class SchemaError(TidemillError, ValueError):
    """The columns of the rows and of the target do not fit; the target is unchanged."""


class SourceError(TidemillError):
    """The source could not be read; the target is unchanged."""


class ConnectorError(SourceError):
    """A declared source could not be read; its name is in the problem, its passwords are not."""


class MissingFileError(ConnectorError):
    """A file that the user's files or flags name is not there, or may not be read."""

    exit_code = 2


class ExportError(TidemillError):
    """An export could not be written; what was at its target is unchanged."""


class TableError(TidemillError):
    """The target is not a table that this step may write to; it is unchanged."""


class DatasetFileError(TableError):
    """A file of the dataset at `path` cannot be read; the dataset is as it was."""

    def __init__(self, code: str, problem: str, remedy: str, *, origin: Origin | None = None, path: str = "") -> None:
        super().__init__(code, problem, remedy, origin=origin)
        self.path = path

    def is_of(self, path: str) -> bool:
        """Whether it is about a file of the dataset at this path."""
        return os.path.normpath(self.path) == os.path.normpath(path)


class FilesGoneError(DatasetFileError):
    """Files that a frame reads have gone: the dataset at `path` was written to since. Reading it again helps."""


class CheckError(TidemillError, ValueError):
    """A check of the table does not hold of the rows that would enter it, or cannot be run; the table is unchanged."""


class StateError(TidemillError):
    """What a table has processed cannot be known from its log or its data."""


class ConflictError(TidemillError):
    """Other writers kept committing first; the target holds their rows and none of this run's."""


class EngineError(TidemillError):
    """Spark, Java or a jar is missing, too old, or failed on its own."""


def exit_code_of(errors: Iterable[TidemillError]) -> int:
    """How a command ends after these: 0 where there are none, 2 where all are for the user to correct, else 1."""
    codes = {error.exit_code for error in errors}
    return codes.pop() if len(codes) == 1 else int(bool(codes))


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """The known name that looks most like this one, in any case; None when none does."""
    spellings = {each.lower(): each for each in known}
    close = difflib.get_close_matches(name.lower(), spellings, n=1)
    return spellings[close[0]] if close else None
