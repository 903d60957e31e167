"""Files of others as a table with versions, for as long as files only come. No Spark before rows are read.

Files stand in the order of their times, and the first n of them are version n. What it holds is a digest of their
names, sizes and times: where the first n have the digest of then, the others are those that came since. That is all
that has to be remembered of an older version.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from tidemill.formats.base import Reach
from tidemill.formats.port import WEIGHT, InputChanges, RowsBy
from tidemill.formats.row_changes import UnknownChanges, no_row_changes
from tidemill.formats.traits import Capability
from tidemill.model import quote
from tidemill.model.record import Snapshot, content_of
from tidemill.sources.files.held import held_in

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from pyarrow import fs
    from pyspark.sql import DataFrame, SparkSession

    from tidemill.formats.base import KeyRange
    from tidemill.sources.files import FileSource
    from tidemill.sources.files.held import Held
    from tidemill.sources.files.listing import Root


class FilesLog:
    """The files of a source as they were when somebody looked, which is when this is made."""

    def __init__(self, source: FileSource) -> None:
        self.path = source.paths[0]
        self.source = source
        self.files = sorted(source.listed_now.placed, key=_in_time)

    def again(self) -> FilesLog:
        """The same, as they are now."""
        return FilesLog(self.source)

    @cached_property
    def held(self) -> Held | None:
        """What they hold; None where they have no versions."""
        return held_in(self.source, self.files)

    def snapshot(self) -> Snapshot | None:
        """None where they have no versions."""
        if self.held is None:
            return None
        return Snapshot(
            version=self.version(),
            sequence=0,
            record=None,
            record_version=None,
            files=len(self.files),
            rows=self._rows(0, self.version()),
            table_id=self._id,
            content_id=self._digest(self.version()),
        )

    @property
    def content(self) -> str:
        """What the snapshot has, without a look into files."""
        return self._content(self.version())

    def version(self) -> int:
        return len(self.files)

    def commit(self, version: int) -> None:
        """Nobody has written down when it came to be."""

    def history_end(self, version: int, now: datetime) -> None:
        """Nothing is removed by time."""

    def columns(self) -> list[str]:
        """Those of all files, each once; none where only Spark can tell."""
        return list(self.held.columns) if self.held else []

    def column_types(self) -> dict[str, str]:
        """Of plain columns."""
        return dict(self.held.types) if self.held else {}

    def reach(self, ranges: Sequence[KeyRange]) -> Reach:
        """All of them."""
        del ranges
        return Reach(len(self.files), self._size(0, self.version()))

    def rows(self) -> FilesRows:
        """What reads them."""
        return FilesRows(self)

    def has(self, version: int, content: str) -> bool:
        """Whether the first files are those that held this."""
        return 0 <= version <= self.version() and self._content(version) == content

    def changes_since(self, version: int, until: int | None = None, *, content: str | None = None) -> InputChanges:
        """By the files that came; that others went or were written again shows in what the first ones hold."""
        last = self.version() if until is None else until
        try:
            self.came(version, last, content)
        except UnknownChanges as reason:
            return InputChanges(version, last, refusal=str(reason))
        return InputChanges(
            version,
            last,
            how=RowsBy.FILES,
            added=self._rows(version, last),
            removed=0,
            size=self._size(version, last),
            commits=tuple(range(version + 1, last + 1)),
        )

    def came(self, since: int, until: int, content: str | None = None) -> list[tuple[Root, fs.FileInfo]]:
        """The files that a version has and an older one had not; `UnknownChanges` where that is not all."""
        if self.held is None or self.held.refusal:
            raise UnknownChanges(self.held.refusal if self.held else "it has no versions; LOAD it into a table")
        if not 0 <= since <= until <= self.version() or not (content is None or self.has(since, content)):
            raise UnknownChanges(
                "files that were read were changed or removed, or older ones were added; LOAD it into a table to "
                "follow such changes"
            )
        return self.files[since:until]

    def _rows(self, since: int, until: int) -> int | None:
        counts = self.held.rows if self.held else None
        return None if counts is None else sum(counts[since:until])

    def _size(self, since: int, until: int) -> int:
        return sum(file.size or 0 for _, file in self.files[since:until])

    def _content(self, version: int) -> str:
        return content_of(self._id, version, self._digest(version))

    @cached_property
    def _id(self) -> str:
        """Another declaration reads other files, or reads them otherwise."""
        source = self.source
        said = json.dumps([source.format, source.paths, dict(source.options), str(source.types), source.columns])
        return hashlib.sha256(said.encode()).hexdigest()[:16]

    def _digest(self, count: int) -> str:
        seen = hashlib.sha256()
        for _, file in self.files[:count]:
            seen.update(f"{file.path}\0{file.size}\0{file.mtime_ns}\n".encode())
        return seen.hexdigest()[:32]


def _in_time(placed: tuple[Root, fs.FileInfo]) -> tuple[int, str]:
    """The order in which files were written."""
    return placed[1].mtime_ns or 0, str(placed[1].path)


@dataclass(frozen=True, slots=True)
class FilesRows:
    """The rows of these files."""

    log: FilesLog

    def can(self, capability: Capability) -> bool:
        return capability in {Capability.TIME_TRAVEL, Capability.ROW_CHANGES}

    def close(self) -> None:
        """Nothing is held open."""

    def read(self, spark: SparkSession, version: int | None = None) -> DataFrame:
        """Those of the first so many files."""
        return self._read(spark, self.log.files[:version])

    def row_changes(self, spark: SparkSession, since: int, until: int, columns: Sequence[str]) -> DataFrame:
        """Those of the files that came."""
        try:
            came = self.log.came(since, until)
        except UnknownChanges as reason:
            raise no_row_changes(self.log.path, reason) from None
        return self._read(spark, came).select(*map(quote, columns)).selectExpr("*", f"1 AS {WEIGHT}")

    def _read(self, spark: SparkSession, files: Sequence[tuple[Root, fs.FileInfo]]) -> DataFrame:
        assert self.log.held is not None  # noqa: S101  it has versions
        return self.log.held.read(spark, files)
