"""What a Delta log knows about the rows that came and went between two versions. No Spark.

Only the commits of the range are read, and the columns at its ends. What commits say of files that changes no data
(OPTIMIZE) is left out: the rest adds up to the difference of the versions, as a bag of rows. So a file that came and
was compacted since counts as it came, and has to be there still.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from pyarrow import fs

from tidemill.formats.delta import rows_counted
from tidemill.formats.delta.marks import file_of_marks
from tidemill.formats.filesystem import file_system
from tidemill.formats.port import InputChanges, RowsBy
from tidemill.formats.row_changes import GoneChanges, UnknownChanges, check_columns
from tidemill.model import local_path
from tidemill.model.record import content_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import deltalake

    from tidemill.formats.delta.log import DeltaLog

FEED = "delta.enableChangeDataFeed"
FILES_KEPT = "delta.deletedFileRetentionDuration"
LOG_KEPT = "delta.logRetentionDuration"
_DEFAULTS = {FILES_KEPT: "interval 7 days", LOG_KEPT: "interval 30 days"}
# Those that say how files are to be read; the others say how the log is, or what a writer has to do.
OF_FILES = frozenset({"deletionVectors", "columnMapping", "timestampNtz"})
_OF_THE_LOG = frozenset({"v2Checkpoint", "vacuumProtocolCheck"})
_MAPS = 2  # the version of readers that know column mapping; later ones list what they have to know

Action = Mapping[str, Any]


class Layout(NamedTuple):
    """How the files of a version are to be read."""

    table_id: str
    schema: str
    partition_by: tuple[str, ...]
    configuration: Mapping[str, str]
    features: frozenset[str]

    @classmethod
    def of(cls, table: deltalake.DeltaTable) -> Layout:
        metadata, protocol = table.metadata(), table.protocol()
        features = _features(protocol.min_reader_version, protocol.reader_features)
        by, configuration = tuple(metadata.partition_columns), dict(metadata.configuration)
        return cls(str(metadata.id), table.schema().to_json(), by, configuration, features)

    def after(self, action: Action) -> Layout:
        """As it is after an action of a commit."""
        if "protocol" in action:
            said = action["protocol"]
            return self._replace(features=_features(said["minReaderVersion"], said.get("readerFeatures")))
        said = action["metaData"]
        by, configuration = tuple(said.get("partitionColumns", ())), said.get("configuration") or {}
        return self._replace(
            table_id=said["id"], schema=said["schemaString"], partition_by=by, configuration=configuration
        )

    @property
    def is_fed(self) -> bool:
        return self.configuration.get(FEED, "false").lower() == "true"

    @property
    def fields(self) -> list[dict[str, Any]]:
        fields: list[dict[str, Any]] = json.loads(self.schema)["fields"]
        return fields

    def kept(self, name: str) -> str:
        """For how long, as people say it."""
        return kept_for(self.configuration, name).removeprefix("interval ")


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file as the log names it, without the rows that are marked as deleted: other marks make it another one."""

    path: str
    marks: str
    said: Action = field(compare=False, repr=False)

    @classmethod
    def of(cls, said: Action) -> DataFile:
        marks = said.get("deletionVector")
        name = f"{marks['storageType']}{marks['pathOrInlineDv']}@{marks.get('offset')}" if marks else ""
        return cls(unquote(said["path"]), name, said)

    def marked_by(self, marks: Action) -> DataFile:
        """The same file with other marks."""
        return DataFile.of({**self.said, "deletionVector": marks})

    @property
    def size(self) -> int | None:
        return self.said.get("size")

    @property
    def marked(self) -> int:
        """How many of its rows are marked."""
        return int(self.said["deletionVector"]["cardinality"]) if self.marks else 0

    @property
    def rows(self) -> int | None:
        """How many are not."""
        return None if self.rows_in_file is None else self.rows_in_file - self.marked

    @property
    def rows_in_file(self) -> int | None:
        """Marked or not, where its statistics say."""
        count: int | None = json.loads(self.said.get("stats") or "{}").get("numRecords")
        return count


@dataclass(frozen=True)
class CommitRange:
    """The commits after version `since` of a table, until version `until`, with their actions."""

    log: DeltaLog
    since: int
    until: int
    commits: Mapping[int, Sequence[Action]]

    @classmethod
    def of(cls, log: DeltaLog, since: int, until: int) -> CommitRange:
        """`UnknownChanges` where the log has no such commits, or no longer."""
        newest = log.version()
        if not 0 <= since <= until <= newest:
            raise UnknownChanges(f"version {max(since, until)} is not there, the last one is {newest}")
        found: dict[int, Sequence[Action]] = {}
        for version in range(since + 1, until + 1):
            actions = log.actions(version)
            if actions is None:
                raise _cleaned_up(log, version)
            found[version] = actions
        return cls(log, since, until, found)

    def summary(self, columns: Sequence[str] | None, content: str | None) -> InputChanges:
        """What is known of the rows before they are read; `UnknownChanges` where they cannot be."""
        self._check_identity(content)
        self._check_layouts(columns)
        self._check_files()
        added, removed = self._most_rows()
        return InputChanges(
            self.since,
            self.until,
            how=self.how,
            added=added,
            removed=removed,
            size=_sum(file.size for file in self._wanted),
            commits=tuple(version for version in self.commits if any(self._changes(version))),
            unreadable=self._unreadable(),
        )

    @cached_property
    def how(self) -> RowsBy:
        """The feed has updated rows alone where a file was rewritten. It has to be on all the time."""
        is_same = len({(each.table_id, each.schema) for each in self.layouts}) == 1
        return RowsBy.FEED if is_same and all(each.is_fed for each in self.layouts) else RowsBy.FILES

    @cached_property
    def layouts(self) -> Sequence[Layout]:
        """That of the first version, and each that followed."""
        changes = [each for actions in self.commits.values() for each in actions if each.keys() & _OF_LAYOUT]
        if not changes:
            return [Layout.of(self.log.opened(self.until))]
        found = [Layout.of(self.log.opened(self.since))]
        for action in changes:
            found.append(found[-1].after(action))
        return found

    @property
    def layout(self) -> Layout:
        """That of the last version."""
        return self.layouts[-1]

    @cached_property
    def net(self) -> Mapping[DataFile, int]:
        """How often each file came, less how often it went: a restore may bring one again that was compacted."""
        found: Counter[DataFile] = Counter()
        for version in self.commits:
            for sign, file in self._changes(version):
                found[file] += sign
        return {file: count for file, count in found.items() if count}

    def _changes(self, version: int) -> Iterator[tuple[int, DataFile]]:
        """The files that came (1) and went (-1) in a commit, where that changed rows."""
        for action in self.commits[version]:
            for kind, sign in (("add", 1), ("remove", -1)):
                if kind in action and action[kind].get("dataChange", True):
                    yield sign, DataFile.of(action[kind])

    def _fed(self, version: int) -> list[DataFile]:
        """The files of the change data feed; a commit without any has it in what it added and removed."""
        return [DataFile.of(action["cdc"]) for action in self.commits[version] if "cdc" in action]

    @cached_property
    def _wanted(self) -> Sequence[DataFile]:
        """The files that are read."""
        if self.how is RowsBy.FILES:
            return list(self.net)
        return [
            file
            for version in self.commits
            for file in self._fed(version) or [file for _, file in self._changes(version)]
        ]

    def _check_identity(self, content: str | None) -> None:
        """The table is the one that was looked at then, and so is its log."""
        if content is None:
            return
        first = self.log.commit(self.since)
        if first is None:
            raise _cleaned_up(self.log, self.since)
        if content != content_of(self.layouts[0].table_id, self.since, first.id):
            raise UnknownChanges(
                f"another table is at its path by now, or an older copy of it: version {self.since} differs"
            )

    def _check_layouts(self, columns: Sequence[str] | None) -> None:
        last = self.layout
        if unknown := sorted(last.features - OF_FILES - _OF_THE_LOG):
            raise UnknownChanges(f"it has a table feature that Tidemill does not know ({', '.join(unknown)})")
        for each in self.layouts:
            if each.partition_by != last.partition_by:
                raise UnknownChanges("it was partitioned by other columns")
            check_columns(each.fields, last.fields, columns)

    def _check_files(self) -> None:
        """Those that went may be gone: a vacuum removes what was not needed for as long as files are kept."""
        went = {unquote(each["remove"]["path"]) for all_ in self.commits.values() for each in all_ if "remove" in each}
        mortal = [file for file in self._wanted if file.path in went or self.how is RowsBy.FEED]
        places = [file.path for file in mortal]
        places += [place for file in mortal if (place := file_of_marks(file.said.get("deletionVector")))]
        if _some_gone(self.log.path, places):
            raise _too_old(f"version {self.since}", self.layout, FILES_KEPT)
        unplaced = (file for file in self.net if file.said.get("partitionValues") is None)
        if self.how is RowsBy.FILES and self.layout.partition_by and any(unplaced):
            raise UnknownChanges("the log does not say which partitions the removed files were of")

    def _unreadable(self) -> str | None:
        """Files that were only joined since tell nothing of changes, and the first version has no others."""
        said = [action for actions in self.commits.values() for action in actions]
        came = {unquote(action["add"]["path"]) for action in said if "add" in action}
        went = {unquote(action["remove"]["path"]) for action in said if "remove" in action}
        joined = went - came - {file.path for file in self._wanted}
        is_gone = _some_gone(self.log.path, sorted(joined))
        return str(_too_old(f"version {self.since}", self.layout, FILES_KEPT)) if is_gone else None

    def _most_rows(self) -> tuple[int | None, int | None]:
        """At most so many rows came and went: by the files, or by what the commits say, whichever is less."""
        by_net = _rows_of((count, file) for file, count in self.net.items())
        by_commit = [self._rows_of_commit(version) for version in self.commits]
        added, removed = zip(
            by_net, (_sum(each[0] for each in by_commit), _sum(each[1] for each in by_commit)), strict=True
        )
        return _least(added), _least(removed)

    def _rows_of_commit(self, version: int) -> tuple[int | None, int | None]:
        commit = self.log.commit(version)
        counted = rows_counted(commit.operation, commit.metrics) if commit else None
        return counted or _rows_of(self._changes(version))


_OF_LAYOUT = {"metaData", "protocol"}


def _features(reader: int, named: Iterable[str] | None) -> frozenset[str]:
    return frozenset(named or ()) if reader > _MAPS else frozenset({"columnMapping"} if reader == _MAPS else ())


def _rows_of(changes: Iterable[tuple[int, DataFile]]) -> tuple[int | None, int | None]:
    """How many rows at most these files bring and take away. Of one that has other marks, those that are marked."""
    came: dict[str, list[DataFile]] = {}
    went: dict[str, list[DataFile]] = {}
    for count, file in changes:
        (came if count > 0 else went).setdefault(file.path, []).extend([file] * abs(count))
    remarked = {path for path in came.keys() & went.keys() if len(came[path]) == len(went[path]) == 1}
    added = [file.rows for path, files in came.items() if path not in remarked for file in files]
    removed = [file.rows for path, files in went.items() if path not in remarked for file in files]
    added += [went[path][0].marked for path in remarked]
    removed += [came[path][0].marked for path in remarked]
    return _sum(added), _sum(removed)


def _sum(counts: Iterable[int | None]) -> int | None:
    """None where one of them is not known."""
    known = list(counts)
    return None if None in known else sum(count or 0 for count in known)


def _least(counts: Iterable[int | None]) -> int | None:
    return min((count for count in counts if count is not None), default=None)


def kept_for(configuration: Mapping[str, str], name: str) -> str:
    """The interval of one of these settings, as properties say it."""
    return configuration.get(name, _DEFAULTS[name])


def _cleaned_up(log: DeltaLog, version: int) -> GoneChanges:
    return _too_old(f"version {version}", Layout.of(log.opened(log.version())), LOG_KEPT)


def _too_old(what: str, layout: Layout, kept: str) -> GoneChanges:
    return GoneChanges(f"{what} is no longer there (kept for {layout.kept(kept)}); set {kept}, or run more often")


def _some_gone(root: str, paths: Sequence[str]) -> bool:
    """Whether a file is not there, of those that the log names so, escapes taken back."""
    files, base = file_system(root)
    inside = [f"{base}/{path}" for path in paths if not is_absolute(path)]
    found = files.get_file_info(inside)
    for path in filter(is_absolute, paths):
        others, place = file_system(str(local_path(path) or path))
        found += [others.get_file_info(place)]
    return any(each.type is fs.FileType.NotFound for each in found)


def is_absolute(path: str) -> bool:
    """Files of a shallow clone lie elsewhere."""
    return path.startswith("/") or ":/" in path.partition("/")[0] + "/"


def changes_of(
    log: DeltaLog, since: int, until: int, columns: Sequence[str] | None, content: str | None
) -> InputChanges:
    """What is known of the rows that came and went between two versions, or why nothing is."""
    try:
        return CommitRange.of(log, since, until).summary(columns, content)
    except UnknownChanges as reason:
        return InputChanges(since, until, refusal=str(reason), gone=isinstance(reason, GoneChanges))
