"""Tables that are a log alone, of files that lie in another Delta table: Delta reads just these, as it reads that one.

A filter on the names of files would read all of them. Shallow clones name files the same way. Of a file in which rows
were only marked as deleted just these rows are read: all others are marked, in vectors of our own.
"""

from __future__ import annotations

import json
import time
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote

from pyspark.sql import functions as F

from tidemill.formats.delta import COLUMN_MAPPING
from tidemill.formats.delta.changes import OF_FILES, CommitRange, DataFile, Layout, is_absolute
from tidemill.formats.delta.marks import UnknownMarks, all_but, file_of_marks, file_with, marks_of, without
from tidemill.formats.filesystem import file_system
from tidemill.formats.port import WEIGHT, RowsBy
from tidemill.formats.row_changes import UnknownChanges, net_rows, no_row_changes
from tidemill.model import local_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyarrow import fs
    from pyspark.sql import DataFrame, SparkSession

    from tidemill.formats.delta.log import DeltaLog
    from tidemill.formats.delta.marks import Marks

_CARRIED = (COLUMN_MAPPING, COLUMN_MAPPING.replace(".mode", ".maxColumnId"))


def changed_rows(
    spark: SparkSession, log: DeltaLog, since: int, until: int, columns: Sequence[str], scratch: Callable[[], str]
) -> DataFrame | None:
    """The rows that came and went between two versions, with their WEIGHT; None where there are none.

    They are read from the change data feed, or from tables in a folder that `scratch` makes.
    """
    try:
        found = CommitRange.of(log, since, until)
        found.summary(columns, None)
    except UnknownChanges as reason:
        raise no_row_changes(log.path, reason) from None
    if found.how is RowsBy.FEED:
        return _fed_rows(spark, log.path, found)
    return _rows_of_files(spark, log.path, found, scratch)


def _fed_rows(spark: SparkSession, path: str, changes: CommitRange) -> DataFrame | None:
    if not changes.commits:
        return None
    feed = spark.read.format("delta").option("readChangeFeed", "true")
    rows = feed.option("startingVersion", changes.since + 1).option("endingVersion", changes.until).load(path)
    came = F.col("_change_type").isin("insert", "update_postimage")
    return rows.withColumn(WEIGHT, F.when(came, 1).otherwise(-1))


def _rows_of_files(
    spark: SparkSession, path: str, changes: CommitRange, scratch: Callable[[], str]
) -> DataFrame | None:
    if not changes.net:
        return None
    came, went = tables_of(changes.net, scratch(), path, changes.layout)
    read = spark.read.format("delta").load
    return net_rows(map(read, came), map(read, went))


def tables_of(net: Mapping[DataFile, int], folder: str, root: str, layout: Layout) -> tuple[list[str], list[str]]:
    """Makes tables in a folder for files of the table at `root`; the paths of those that came, and of those that went.

    `net` says how often each file came, less how often it went.
    """
    came = [file for file, count in net.items() for _ in range(count)]
    went = [file for file, count in net.items() for _ in range(-count)]
    parts = _remarked(came, went, root)
    vectors = [(part, marks) for part in parts for marks in (part.came, part.went) if marks]
    placed = iter(_vectors(folder, [all_but(marks, part.rows) for part, marks in vectors]))
    told = {part.file.path for part in parts}
    came = [file for file in came if file.path not in told]
    went = [file for file in went if file.path not in told]
    for part in parts:
        came += [part.file.marked_by(next(placed))] if part.came else []
        went += [part.file.marked_by(next(placed))] if part.went else []
    return _point_at(came, folder, root, layout), _point_at(went, folder, root, layout)


class _Part(NamedTuple):
    """A file of so many rows, of which some came and some went by their marks alone."""

    file: DataFile
    rows: int
    came: Marks
    went: Marks


def _remarked(came: Iterable[DataFile], went: Iterable[DataFile], root: str) -> list[_Part]:
    """The files that came once and went once, with other marks that can be read."""
    after, before = _once(came), _once(went)
    found = []
    for path in after.keys() & before.keys():
        rows = after[path].rows_in_file or before[path].rows_in_file
        with suppress(UnknownMarks):
            now, then = _marks(after[path], root), _marks(before[path], root)
            found += [] if rows is None else [_Part(after[path], rows, without(then, now), without(now, then))]
    return found


def _once(files: Iterable[DataFile]) -> dict[str, DataFile]:
    by_path: dict[str, list[DataFile]] = {}
    for file in files:
        by_path.setdefault(file.path, []).append(file)
    return {path: same[0] for path, same in by_path.items() if len(same) == 1}


def _marks(file: DataFile, root: str) -> Marks:
    said = file.said.get("deletionVector")
    place = file_of_marks(said)
    if place is None:
        return marks_of(said, None)
    files, name = _found(root, unquote(place))
    with files.open_input_file(name) as stream:
        return marks_of(said, stream.read())


def _vectors(folder: str, vectors: Sequence[Marks]) -> list[Mapping[str, Any]]:
    """Writes them, and says where they are as a log does."""
    if not vectors:
        return []
    content, places = file_with(vectors)
    name = f"{uuid.uuid4().hex}.bin"
    files, place = file_system(folder)
    with files.open_output_stream(f"{place}/{name}") as stream:
        stream.write(content)
    return [{"storageType": "p", "pathOrInlineDv": _address(folder, name), **each} for each in places]


def _point_at(files: Iterable[DataFile], folder: str, root: str, layout: Layout) -> list[str]:
    """Delta knows the marks of a file by its path, so a table has a path once."""
    tables: list[dict[str, DataFile]] = []
    for file in files:
        table = next((each for each in tables if file.path not in each), None)
        if table is None:
            tables.append(table := {})
        table[file.path] = file
    return [_written(folder, _actions(table.values(), root, layout)) for table in tables]


def _written(folder: str, actions: Iterable[Mapping[str, Any]]) -> str:
    path = f"{folder}/{uuid.uuid4().hex}"
    files, place = file_system(path)
    files.create_dir(f"{place}/_delta_log", recursive=True)
    with files.open_output_stream(f"{place}/_delta_log/{0:020d}.json") as log:
        for action in actions:
            log.write(f"{json.dumps(action)}\n".encode())
    return path


def _actions(files: Iterable[DataFile], root: str, layout: Layout) -> Iterator[Mapping[str, Any]]:
    features = sorted(layout.features & OF_FILES)
    versions: dict[str, Any] = {"minReaderVersion": 1, "minWriterVersion": 2}
    if features:
        versions = {"minReaderVersion": 3, "minWriterVersion": 7}
        versions |= {"readerFeatures": features, "writerFeatures": features}
    yield {"protocol": versions}
    yield {
        "metaData": {
            "id": str(uuid.uuid4()),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": layout.schema,
            "partitionColumns": list(layout.partition_by),
            "configuration": {name: layout.configuration[name] for name in _CARRIED if name in layout.configuration},
        }
    }
    for file in files:
        yield {"add": _added(file, root)}


def _added(file: DataFile, root: str) -> dict[str, Any]:
    """Without statistics: those of a file with marks are of all its rows."""
    marks = file.said.get("deletionVector")
    return {
        "path": _address(root, file.said["path"]),
        "partitionValues": file.said.get("partitionValues") or {},
        "size": file.size or _size(root, file.path),
        "modificationTime": file.said.get("modificationTime", int(time.time() * 1000)),
        "dataChange": True,
        **({"deletionVector": _placed(marks, root)} if marks else {}),
    }


def _placed(marks: Mapping[str, Any], root: str) -> dict[str, Any]:
    """Marks whose file is named from anywhere; those of a table's own are named below its folder."""
    if marks["storageType"] != "u":
        return dict(marks)
    return {**marks, "storageType": "p", "pathOrInlineDv": _address(root, quote(file_of_marks(marks) or ""))}


def _address(root: str, escaped: str) -> str:
    """Where a file lies that the log names so, as Delta writes addresses in its log."""
    if is_absolute(escaped):
        return escaped
    folder = local_path(root)
    if folder is not None:
        return f"file://{quote(str(folder))}/{escaped}"
    scheme, _, place = root.partition("://")
    return f"{scheme}://{quote(place)}/{escaped}"


def _size(root: str, path: str) -> int:
    """Of a file that the log names without its size."""
    files, name = _found(root, path)
    return int(files.get_file_info(name).size)


def _found(root: str, path: str) -> tuple[fs.FileSystem, str]:
    """Where a file lies that the log names so, escapes taken back."""
    place = path if is_absolute(path) else f"{root}/{path}"
    return file_system(str(local_path(place) or place))
