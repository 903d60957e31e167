"""Files and folders as a source: Parquet, CSV, JSON, ORC and Delta, known by what is there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from pyarrow import fs

from tidemill.errors import ArgumentError
from tidemill.state.folders import file_system, is_folder, is_hidden

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

FORMATS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".orc": "orc",
}
_COLUMNAR = {"parquet", "orc", "delta"}
_LARGE = 64 * 1024 * 1024


@dataclass(frozen=True)
class FileSource:
    """A file, a folder of files, or a Delta table, at one path."""

    path: str

    def __str__(self) -> str:
        return self.path

    @cached_property
    def format(self) -> str:
        """What is there, by the names of the files; nothing there, or a mix, is an error."""
        if self._is_delta:
            return "delta"
        kinds = sorted({FORMATS.get(_suffix(entry.base_name), "") for entry in self._files})
        if len(kinds) == 1 and kinds[0]:
            return kinds[0]
        found = "no files" if not kinds else "files of " + (" and ".join(kind or "unknown" for kind in kinds)) + " kind"
        raise ArgumentError(
            "source.unknown_format",
            f"{self.path} holds {found}.",
            f"Give a Delta table, or files of one kind that end in {', '.join(FORMATS)}.",
        )

    @cached_property
    def size(self) -> int:
        """Bytes on disk; what a run reads at the most."""
        return sum(entry.size or 0 for entry in self._files)

    @property
    def settled(self) -> bool:
        """Large columnar files are cheaper to read again than to keep."""
        return self.format in _COLUMNAR and self.size >= _LARGE

    def rows(self, spark: SparkSession, like: StructType | None = None) -> DataFrame:
        """All rows. Text files take the types of `like` for the columns it has; a row that does not fit fails."""
        match self.format:
            case "csv":
                return self._csv(spark, like)
            case "json":
                return self._json(spark, like)
            case format_:
                return spark.read.format(format_).load(self.path)

    def _csv(self, spark: SparkSession, like: StructType | None) -> DataFrame:
        reader = spark.read.option("header", "true").option("mode", "FAILFAST").option("enforceSchema", "false")
        inferred = reader.option("inferSchema", "true").csv(self.path)
        return inferred if like is None else reader.schema(_typed_like(inferred.schema, like)).csv(self.path)

    def _json(self, spark: SparkSession, like: StructType | None) -> DataFrame:
        reader = spark.read.option("mode", "FAILFAST")
        inferred = reader.json(self.path)
        return inferred if like is None else reader.schema(_typed_like(inferred.schema, like)).json(self.path)

    @cached_property
    def _is_delta(self) -> bool:
        files, root = file_system(self.path)
        return is_folder(files, f"{root}/_delta_log")

    @cached_property
    def _files(self) -> list[fs.FileInfo]:
        files, root = file_system(self.path)
        entry = files.get_file_info(root)
        if entry.type == fs.FileType.NotFound:
            raise ArgumentError(
                "source.missing",
                f"There is nothing at {self.path}.",
                "Give the path of a file, a folder or a Delta table.",
            )
        if entry.type == fs.FileType.File:
            return [entry]
        inside = files.get_file_info(fs.FileSelector(root, recursive=True))
        return [e for e in inside if e.type == fs.FileType.File and not _is_hidden(e.path[len(root) :])]


def _typed_like(found: StructType, like: StructType) -> StructType:
    from pyspark.sql.types import StructField, StructType  # noqa: PLC0415  slow to import

    known = {field.name.lower(): field.dataType for field in like.fields}
    return StructType([StructField(f.name, known.get(f.name.lower(), f.dataType)) for f in found.fields])


def _suffix(name: str) -> str:
    """The ending that tells the kind, also behind one of compression."""
    stem = name.lower().removesuffix(".gz").removesuffix(".bz2").removesuffix(".zst")
    return "." + stem.rpartition(".")[2]


def _is_hidden(inside: str) -> bool:
    return any(is_hidden(part) for part in inside.split("/"))
