"""A small change is taken to the files that may hold its keys, in one job: found, compared, and rewritten there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as t

from tidemill.formats.base import Conflict
from tidemill.formats.parquet.files import values_of
from tidemill.formats.parquet.reading import is_date
from tidemill.formats.parquet.staging import PARTITION, StagedFiles, Staging, in_arrow, plain
from tidemill.formats.parquet.worker.files import WRITTEN
from tidemill.formats.parquet.worker.rewriting import KEPT, MET, Coming, keep, meet, write_some
from tidemill.model import quote, spelled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

    from tidemill.formats.base import MatchRows

_TASKS = 4  # for each that a shuffle has: files differ in size
_KEYS = (
    t.BooleanType,
    t.ByteType,
    t.ShortType,
    t.IntegerType,
    t.LongType,
    t.DecimalType,
    t.StringType,
    t.BinaryType,
    t.DateType,
    t.TimestampType,
    t.TimestampNTZType,
)
_FLAT = (*_KEYS, t.FloatType, t.DoubleType)


@dataclass(frozen=True, slots=True)
class Met:
    """How many rows of how many keys are there, and how many of them are the same."""

    rows: int
    keys: int
    same: int


class Direct(Staging):
    """Staging of a change whose keys and values Arrow compares as Spark does."""

    def can(self, change: MatchRows) -> bool:
        """Whether its columns are the dataset's, and of such types; others are for Spark."""
        kinds = {item.name: item.dataType for item in change.rows.schema.fields}
        return (
            {name.lower() for name in kinds} == {name.lower() for name in self.schema.names}
            and all(type(kind) in _FLAT and _by_bits(kind) for kind in kinds.values())
            and all(type(kinds[key]) in _KEYS for key in change.keys)
            and all(self._is_plain(name) for name in self.partition_by)
        )

    def match(self, change: MatchRows, attempt: str) -> tuple[Met, StagedFiles]:
        """What of the change is there, and what was staged of it; no use where one key has several rows."""
        staged = StagedFiles(attempt)
        if not self.near:
            if change.inserts:
                self._write(change.rows, staged)
            return Met(0, 0, 0), staged
        coming = self._kept(change)
        met: list[int] = []
        arriving: list[int] = []
        same = 0
        for report in self._meet(change.rows, coming):
            met += report["met"]
            arriving += report["moving"]
            same += report["same"]
            if report["instead_of"] is not None:
                self._note(report, staged)
        known = set(met)
        if change.inserts:
            arriving += (number for number in range(change.count) if number not in known)
        if arriving and len(known) == len(met):
            self._write_some(change.rows, coming, arriving, staged)
        return Met(len(met), len(known), same), staged

    def _kept(self, change: MatchRows) -> Coming:
        """The change in a file that all workers read."""
        folder, partitions = self.folder, self._marks
        texts = [F.col(quote(name)).cast("string").alias(mark) for mark, name in partitions.items()]
        whole = change.rows.select("*", *texts).coalesce(1)
        found = in_arrow(whole, lambda rows: keep(rows, folder), KEPT).collect()
        if [row["rows"] for row in found] != [change.count]:
            raise Conflict("the source changed while it was read")
        compared = tuple(column for column in change.compared if spelled(column, self.partition_by) is None)
        keys = tuple(spelled(key, self.partition_by) or key for key in change.keys)
        return Coming(f"{folder}/{found[0]['name']}", keys, compared, partitions, updates=change.updates)

    def _meet(self, rows: DataFrame, coming: Coming) -> list[Row]:
        files = [(f"{self.root}/{file.path}", self._texts(file.path)) for file in self.near]
        shape, spark = self._shape, rows.sparkSession
        tasks = min(len(files), _TASKS * int(spark.conf.get("spark.sql.shuffle.partitions") or 1))
        numbers = spark.range(0, len(files), 1, tasks)
        return numbers.mapInArrow(lambda batches: meet(batches, files, coming, shape), MET).collect()

    def _write_some(self, rows: DataFrame, coming: Coming, numbers: list[int], staged: StagedFiles) -> None:
        shape, folders = self._shape, self._folders
        one = rows.sparkSession.range(0, 1, 1, 1)
        written = one.mapInArrow(lambda batches: write_some(batches, coming, numbers, shape, folders), WRITTEN)
        self._arrived(written, staged)

    @property
    def _marks(self) -> dict[str, str]:
        return {f"{PARTITION}{number}": name for number, name in enumerate(self.partition_by)}

    def _texts(self, path: str) -> tuple[str | None, ...]:
        """The values of a file's partition as Spark spells them."""
        return tuple(plain(value, self._kind(name)) for name, value in values_of(path).items())

    def _is_plain(self, name: str) -> bool:
        """Whether a partition's values can be distinguished by their texts."""
        kind = self._kind(name)
        if isinstance(kind, t.DateType):
            values = (values_of(path)[name] for path in self.state.files)
            return all(value is None or is_date(value) for value in values)
        return isinstance(kind, t.IntegralType) or kind == t.StringType()

    def _kind(self, name: str) -> t.DataType:
        return self.schema[spelled(name, self.schema.names) or name].dataType


def _by_bits(kind: t.DataType) -> bool:
    """Texts of other collations may be the same though their letters differ."""
    return not isinstance(kind, t.StringType) or kind == t.StringType()
