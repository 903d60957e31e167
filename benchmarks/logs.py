"""Tables of many files: what `status` and a merge of one row take must not follow the number of files."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
from cold import run_command, tidemill_command
from merges import Claim
from stage import seconds

import tidemill
from tidemill.spark.session import embedded

if TYPE_CHECKING:
    from pathlib import Path

FEW, MANY = 20, 100_000
STATUS = 1.0  # seconds
_LINKS = 50_000  # names of one file; file systems allow some 65,000
_SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": "id", "type": "long", "nullable": True, "metadata": {}},
        {"name": "value", "type": "string", "nullable": True, "metadata": {}},
    ],
}


@dataclass(frozen=True)
class Project:
    """A project with one table of as many files, each with one row; most of them are the same file by other names."""

    folder: Path
    files: int

    @property
    def table(self) -> Path:
        return self.folder / "warehouse" / "main" / "wide"

    def build(self) -> None:
        log = self.table / "_delta_log"
        log.mkdir(parents=True)
        (self.folder / "pipelines").mkdir()
        (self.folder / "tidemill.toml").write_text('name = "logs"\n')
        pipeline = 'SOURCE s TYPE CSV PARAMS { "path": "s.csv" };\nLOAD wide FROM s MODE MERGE ON id;\n'
        (self.folder / "pipelines" / "all.sql").write_text(pipeline)
        (self.folder / "pipelines" / "s.csv").write_text("id,value\n")
        with (log / f"{0:020d}.json").open("w") as lines:
            lines.writelines(f"{json.dumps(action)}\n" for action in self._actions())
        deltalake.DeltaTable(self.table).create_checkpoint()
        deltalake.write_deltalake(self.table, pa.table({"id": [-1], "value": ["a"]}), mode="append")

    def _actions(self) -> list[dict[str, object]]:
        rows = pa.table({"id": [0], "value": ["a"]})
        told = {"timestamp": 0, "operation": "WRITE", "operationParameters": {}, "operationMetrics": {}}
        metadata = {
            "id": "0",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps(_SCHEMA),
            "partitionColumns": [],
            "configuration": {},
        }
        size, actions = (
            0,
            [
                {"commitInfo": told},
                {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
                {"metaData": metadata},
            ],
        )
        for n in range(self.files):
            file, same = self.table / f"{n}.parquet", self.table / f"{n - n % _LINKS}.parquet"
            if file == same:
                pq.write_table(rows, file)
                size = file.stat().st_size
            else:
                os.link(same, file)
            actions.append({"add": _added(n, size)})
        return actions

    def status(self) -> float:
        return seconds(run_command, [tidemill_command(), "status", str(self.folder)])

    def merge(self, n: int) -> float:
        """One row that no file holds yet, into a table that the process has seen before."""
        change = pa.table({"id": [self.files + n], "value": ["b"]})
        return seconds(partial(tidemill.merge, spark=embedded()), change, self.table, "id")


def _added(n: int, size: int) -> dict[str, object]:
    """The statistics say one key for each; only those of a file that a merge reads would have to be true."""
    ends = {"id": n, "value": "a"}
    statistics = {"numRecords": 1, "minValues": ends, "maxValues": ends, "nullCount": {"id": 0, "value": 0}}
    return {
        "path": f"{n}.parquet",
        "partitionValues": {},
        "size": size,
        "modificationTime": 0,
        "dataChange": True,
        "stats": json.dumps(statistics),
    }


def many_files(folder: Path, scale: int, repeat: int) -> list[Claim]:
    few, many = Project(folder / "few", FEW), Project(folder / "many", max(MANY // scale, FEW))
    for project in (few, many):
        project.build()
    status = median(many.status() for _ in range(repeat))
    plain = median(few.status() for _ in range(repeat))
    for project in (few, many):
        project.merge(0)  # what Spark reads of a log once
    merges = [median(project.merge(n + 1) for n in range(repeat)) for project in (few, many)]
    seen = f"{few.files:,} files {plain:.2f} s, {many.files:,} files {status:.2f} s"
    told = f"{few.files:,} files {merges[0]:.2f} s, {many.files:,} files {merges[1]:.2f} s"
    return [
        Claim(f"status of a table of {many.files:,} files, seconds", status, STATUS, at_least=False, detail=seen),
        Claim("a merge of one row into it, by files", merges[1] / merges[0], 1.3, at_least=False, detail=told),
    ]
