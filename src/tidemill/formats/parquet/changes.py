"""What the log of a dataset knows about the rows that came and went between two versions: which files did, no Spark.

A dataset keeps the files of its last version only, so rows can be read where files only came: after appends.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tidemill.formats.port import InputChanges, RowsBy
from tidemill.formats.row_changes import UnknownChanges, check_columns
from tidemill.model.record import COMPACTS, content_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidemill.formats.parquet.folder import DataFile, Entry, Folder
    from tidemill.formats.parquet.protocol import State


@dataclass(frozen=True)
class EntryRange:
    """The entries of a dataset's log from version `since` until version `until`, the first as what was before."""

    state: State
    since: int
    until: int
    entries: Sequence[Entry]

    @classmethod
    def of(cls, folder: Folder, state: State, since: int, until: int) -> EntryRange:
        """`UnknownChanges` where the log has no such entries."""
        if since > until or until > state.number:
            raise UnknownChanges(f"version {max(since, until)} is not there, the last one is {state.number}")
        found = []
        for number in range(since, until + 1):
            entry = folder.entry(number)
            if entry is None:
                raise UnknownChanges(f"version {number} is not in its log")
            found.append(entry)
        return cls(state, since, until, found)

    def summary(self, columns: Sequence[str] | None, content: str | None) -> InputChanges:
        """What is known of the rows before they are read; `UnknownChanges` where they cannot be."""
        first = self.entries[0]
        if content is not None and content != content_of(first.dataset_id, self.since, first.attempt):
            raise UnknownChanges(
                f"another dataset is at its path by now, or others changed it: version {self.since} differs"
            )
        for entry in self.entries:
            self.check_columns(_fields(entry), columns)
        return InputChanges(
            self.since,
            self.until,
            how=RowsBy.FILES,
            added=_sum([file.rows for file in self.came]),
            removed=0,
            size=sum(file.size for file in self.came),
            commits=tuple(entry.number for entry in self.entries[1:] if entry.add or entry.remove),
        )

    @property
    def came(self) -> Sequence[DataFile]:
        """The files whose rows came, where no rows went; `UnknownChanges` where files were not kept."""
        if any(count != 1 or self.state.files.get(file.path) != file for file, count in self._net.items()):
            raise UnknownChanges(
                f"rows have changed or left since version {self.since}, and a Parquet dataset keeps no files of older "
                "versions; use the format delta for it"
            )
        return list(self._net)

    @property
    def held_before(self) -> Sequence[DataFile]:
        """The files of the first version, all of which are there yet; `UnknownChanges` where they are not."""
        came = set(self.came)
        return [file for file in self.state.files.values() if file not in came]

    def check_columns(self, now: Sequence[Mapping[str, Any]] | None, columns: Sequence[str] | None) -> None:
        """`UnknownChanges` where a column was another one then; an entry after which nobody has looked names none."""
        then = _fields(self.entries[0])
        if then and now:
            check_columns(then, now, columns)

    @cached_property
    def _net(self) -> Mapping[DataFile, int]:
        """How often each file came, less how often it went; files that were only joined aside."""
        found: Counter[DataFile] = Counter()
        for before, entry in zip(self.entries, self.entries[1:], strict=False):
            found.update(entry.files)
            found.subtract(before.files)
            if entry.operation == COMPACTS:
                found.update(entry.remove)
                found.subtract(added.file for added in entry.add)
        if self.until == self.state.number:  # and what others did to it since
            found.update(self.state.files.values())
            found.subtract(self.entries[-1].files)
        return {file: count for file, count in found.items() if count}


def _fields(entry: Entry) -> Sequence[Mapping[str, Any]] | None:
    fields: list[Mapping[str, Any]] | None = json.loads(entry.schema)["fields"] if entry.schema else None
    return fields


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None
