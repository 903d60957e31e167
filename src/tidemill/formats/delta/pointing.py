"""Tables that are a log alone, of files that lie in another Delta table: Delta reads just these, as it reads that one.

A filter on the names of files would read all of them. Shallow clones name files the same way.
"""

from __future__ import annotations

import json
import time
import uuid
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tidemill.formats.delta.changes import OF_FILES, DataFile, Layout, is_absolute
from tidemill.formats.delta.marks import file_of_marks
from tidemill.formats.filesystem import file_system
from tidemill.model.names import COLUMN_MAPPING, local_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_CARRIED = (COLUMN_MAPPING, COLUMN_MAPPING.replace(".mode", ".maxColumnId"))


def point_at(folder: str, files: Iterable[DataFile], root: str, layout: Layout) -> list[str]:
    """Makes tables in a folder that hold the rows of these files of the table at `root`; gives their paths.

    Delta knows the marks of a file by its path, so a table has a path once.
    """
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
    place = path if is_absolute(path) else f"{root}/{path}"
    files, name = file_system(str(local_path(place) or place))
    return int(files.get_file_info(name).size)
