"""A table as its log tells it: its commits, how it is now, what it says of itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING

from tidemill.declare.names import COLUMN_MAPPING, RESET_ALLOWED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidemill.contracts.records import Record

PREPARES = '{"tidemill_prepares":true}'  # the metadata of our commits that change no rows
# Those among them that leave the columns alone, and upkeep of files.
_NOTES = frozenset({"SET TBLPROPERTIES", "CLUSTER BY", "OPTIMIZE", "VACUUM START", "VACUUM END"})


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit of a table's log, as it stands there.

    `numbered` when it took a sequence number of ours, `prepares` when it is ours and changes no rows.
    """

    version: int
    at: str
    operation: str
    metrics: Mapping[str, str]
    record: Record | None
    read_version: int | None = None
    numbered: bool = False
    prepares: bool = False
    adds_rows: bool = False
    removes_rows: bool = False


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A table as its store says it is: the ground on which a step is planned.

    `foreign` holds what others committed since the version that our last record was planned on, newest first.
    `rows` is how many rows it holds, where the log tells. `fills` are the columns, in lower case, that it fills itself
    where rows come without them.
    """

    version: int
    sequence: int
    record: Record | None
    record_version: int | None
    foreign: tuple[Commit, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    partition_columns: tuple[str, ...] = ()
    files: int = 0
    anchored: int | None = None
    rows: int | None = None
    table_id: str = ""
    fills: frozenset[str] = frozenset()

    @property
    def content(self) -> str:
        """Differs whenever its rows or columns may: what we have noted on it since changes neither."""
        return f"{self.table_id}@{self.content_version}"

    @property
    def content_version(self) -> int:
        """The version in which its rows or columns may have changed last."""
        notes = takewhile(lambda commit: commit.prepares and commit.operation in _NOTES, self.foreign)
        version = self.version - len(tuple(notes))
        record = self.record
        if record is None or record.same_rows_as is None or record.base is None:
            return version
        followed = self.record_version == version == record.base + 1  # nobody else came in between
        return record.same_rows_as if followed else version

    @property
    def foreign_adds(self) -> bool:
        """Somebody else's rows may be in the table."""
        return self.record is None or any(commit.adds_rows for commit in self.foreign)

    @property
    def robbed(self) -> tuple[int, ...]:
        """Versions whose rows tell how far the table goes, because somebody else removed or replaced some.

        A removal after our last record shows in the table as it is; one that came while our last commit was
        under way only in the version that it made.
        """
        ours = -1 if self.record_version is None else self.record_version
        removals = (commit.version for commit in self.foreign if commit.removes_rows)
        return tuple({version if version < ours else self.version for version in removals})

    @property
    def maps_columns(self) -> bool:
        """Whether its files may have other names for its columns, so that these can be any, and can go."""
        return self.properties.get(COLUMN_MAPPING, "none").lower() != "none"

    @property
    def marks_rows(self) -> bool:
        """Rows leave its files by a mark; without, the files are rewritten."""
        return self._is_on("delta.enableDeletionVectors")

    @property
    def updates_matter(self) -> bool:
        """Somebody asks how a row has come to be as it is: a change feed, or the identity of rows."""
        return self._is_on("delta.enableChangeDataFeed") or self._is_on("delta.enableRowTracking")

    def _is_on(self, name: str) -> bool:
        return self.properties.get(name, "false").lower() == "true"

    @property
    def resists_reset(self) -> bool:
        """The table itself says that its history is to be kept, whatever its declaration does."""
        return self.properties.get(RESET_ALLOWED, "true").lower() == "false"

    def unique_on(self, keys: tuple[str, ...]) -> bool:
        """Whether the log proves that no two rows of the table share these keys."""
        record = self.record
        if record is None or not record.unique or self.foreign_adds:
            return False
        return {key.lower() for key in record.keys} <= {key.lower() for key in keys}


@dataclass(frozen=True, slots=True)
class Described:
    """What a table says of itself, its rows aside. `columns` differs whenever its columns do."""

    description: str | None
    properties: Mapping[str, str]
    partition_by: tuple[str, ...]
    columns: str = ""
