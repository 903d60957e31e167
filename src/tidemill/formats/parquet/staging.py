"""Stages what an operation does to a dataset: new files, and files rewritten by Arrow; or only counts it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce, singledispatchmethod
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_schema

from tidemill.errors import TableError
from tidemill.formats.base import (
    COMING,
    HELD,
    AppendRows,
    DropRows,
    OverwriteRows,
    ReplaceByKey,
    ReplaceRows,
    UpsertRows,
)
from tidemill.formats.parquet import worker
from tidemill.formats.parquet.files import footers, values_of
from tidemill.formats.parquet.folder import Added, DataFile
from tidemill.formats.parquet.reading import rows_of
from tidemill.formats.parquet.worker.arrow import has_room, only_int96, optional, with_times, workable
from tidemill.formats.parquet.worker.files import WRITTEN, Shape, local_path, write_rows
from tidemill.formats.parquet.worker.rewriting import DROP, FATE, FILE, MOVE, REPLACE, ROW, STAY, splice
from tidemill.model import of, quote, spelled
from tidemill.spark.session import settle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, Row, SparkSession

    from tidemill.formats.base import Operation, Placed
    from tidemill.formats.parquet.protocol import State

cloudpickle.register_pickle_by_value(worker)  # type: ignore[no-untyped-call]  # workers need not have Tidemill
_ROWS_PER_FILE = 1_000_000
_MOST_TASKS = 64
PARTITION = "__tidemill_partition_"


@dataclass(slots=True)
class StagedFiles:
    """What a commit will add and remove, and what that does to the rows."""

    attempt: str
    add: list[Added] = field(default_factory=list)
    remove: list[DataFile] = field(default_factory=list)
    arrived: int = 0
    replaced: int = 0
    moved: int = 0
    dropped: int = 0

    @property
    def metrics(self) -> dict[str, int]:
        return {
            "numTargetRowsInserted": self.arrived - self.moved,
            "numTargetRowsUpdated": self.replaced + self.moved,
            "numTargetRowsDeleted": self.dropped,
            "numOutputRows": self.arrived + self.replaced,
            "numDeletedRows": self.replaced + self.dropped,
        }


@dataclass
class Staging:
    """One attempt to stage an operation, on one state of the dataset.

    `schema` has its columns as they will be, `near` the files that may hold a key of the change, `rows` about how many
    rows come.
    """

    root: Path
    state: State
    held: t.StructType | None
    schema: t.StructType
    partition_by: tuple[str, ...]
    folder: str
    near: Sequence[DataFile]
    rows: int
    compression: str | None = None

    def stage(self, operation: Operation, attempt: str) -> StagedFiles:
        """What the operation comes to. New files get names of the attempt."""
        staged = StagedFiles(attempt)
        self._stage(operation, staged)
        return staged

    @singledispatchmethod
    def _stage(self, operation: Operation, staged: StagedFiles) -> None:
        raise NotImplementedError(operation)

    @_stage.register(AppendRows)
    def _(self, operation: AppendRows, staged: StagedFiles) -> None:
        self._splice(None, operation.rows.sparkSession, staged)
        self._write(operation.rows, staged)

    @_stage.register(OverwriteRows)
    def _(self, operation: OverwriteRows, staged: StagedFiles) -> None:
        self._write(operation.rows, staged)
        staged.remove = list(self.state.files.values())

    @_stage.register(ReplaceRows)
    def _(self, operation: ReplaceRows, staged: StagedFiles) -> None:
        spark = operation.rows.sparkSession
        gone = self._placed(spark, self.state.files.values()).where(operation.predicate)
        self._splice(gone.select(FILE, ROW, F.lit(DROP).alias(FATE)), spark, staged)
        self._write(operation.rows, staged)

    @_stage.register(ReplaceByKey)
    def _(self, operation: ReplaceByKey, staged: StagedFiles) -> None:
        spark = operation.rows.sparkSession
        self._splice(None if operation.gone is None else self._leaving(operation, operation.gone), spark, staged)
        self._write(operation.rows, staged)

    def _leaving(self, operation: ReplaceByKey, gone: DataFrame) -> DataFrame:
        held = self._placed(gone.sparkSession, self.near).alias(HELD)
        leaving = held.join(gone.alias(COMING), F.expr(operation.match), "left_semi")
        return leaving.select(*self._place, F.lit(DROP).alias(FATE))

    @_stage.register(DropRows)
    def _(self, operation: DropRows, staged: StagedFiles) -> None:
        gone = operation.rows.select(FILE, ROW, F.lit(DROP).alias(FATE))
        self._splice(gone, operation.rows.sparkSession, staged)

    @_stage.register(UpsertRows)
    def _(self, operation: UpsertRows, staged: StagedFiles) -> None:
        if operation.placed is not None:
            self._stage_placed(operation.placed, staged)
            return
        spark = operation.rows.sparkSession
        actions = settle(self._deleting(operation) if operation.delete_missing else self._updating(operation))
        self._splice(actions, spark, staged)
        if operation.inserts or staged.moved:
            self._write(self._arriving(operation, actions), staged)

    def _stage_placed(self, placed: Placed, staged: StagedFiles) -> None:
        self._splice(placed.changed, placed.changed.sparkSession, staged)
        moving = placed.changed.where(F.col(FATE) == MOVE).drop(FILE, ROW, FATE) if staged.moved else None
        arriving = [rows for rows in (placed.new, moving) if rows is not None]
        if arriving:
            self._write(reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), arriving), staged)

    def _updating(self, operation: UpsertRows) -> DataFrame:
        held = self._placed(operation.rows.sparkSession, self.near).alias(HELD)
        met = held.join(operation.rows, F.expr(operation.match)).where(operation.changed)
        return met.select(*self._place, self._fate(operation).alias(FATE), *self._values(operation))

    def _deleting(self, operation: UpsertRows) -> DataFrame:
        held = self._placed(operation.rows.sparkSession, self.state.files.values()).alias(HELD)
        met = held.join(operation.rows, F.expr(operation.match), "left")
        unknown = F.col(of(COMING, operation.keys[0])).isNull()
        goes = unknown | self._is_surplus(operation) if operation.collapses else unknown
        fate = F.when(goes, F.lit(DROP)).when(F.expr(operation.changed), self._fate(operation))
        judged = met.select(*self._place, fate.alias(FATE), *self._values(operation))
        return judged.where(F.col(FATE).isNotNull())

    def _is_surplus(self, operation: UpsertRows) -> Column:
        """Whether a stored row is one of several of its key, and not the one that stays: an equal one, if there is."""
        by_key = Window.partitionBy(*[F.col(of(HELD, key)) for key in operation.keys])
        differs = F.coalesce(F.expr(operation.changed), F.lit(False))  # noqa: FBT003
        return F.row_number().over(by_key.orderBy(differs, *self._place)) > 1

    def _arriving(self, operation: UpsertRows, actions: DataFrame) -> DataFrame:
        """Rows whose keys are new, and those that move to another partition."""
        moving = actions.where(F.col(FATE) == MOVE).drop(FILE, ROW, FATE)
        if not operation.inserts:
            return moving
        known = actions
        if operation.delete_missing:
            known = self._placed(operation.rows.sparkSession, self.state.files.values())
        known = known.select(*map(quote, operation.keys)).alias(HELD)
        new = operation.rows.join(known, F.expr(operation.match), "left_anti")
        return new.unionByName(moving, allowMissingColumns=True) if self.partition_by else new

    def _values(self, operation: UpsertRows) -> list[Column]:
        """Whole rows; what the change does not have of them stays as it is."""
        theirs = {name.lower() for name in operation.columns}
        held = {name.lower() for name in (self.held or self.schema).names}
        return [
            F.col(of(COMING if name.lower() in theirs else HELD, name)).alias(name)
            for name in self.schema.names
            if name.lower() in theirs | held
        ]

    def _fate(self, operation: UpsertRows) -> Column:
        """A row whose partition changes leaves its file, and arrives in another."""
        moves = F.lit(False)  # noqa: FBT003
        for name in (name for name in self.partition_by if spelled(name, operation.columns)):
            moves |= ~F.col(of(HELD, name)).eqNullSafe(F.col(of(COMING, name)))
        return F.when(moves, F.lit(MOVE)).otherwise(F.lit(REPLACE))

    @property
    def _place(self) -> list[Column]:
        return [F.col(of(HELD, FILE)).alias(FILE), F.col(of(HELD, ROW)).alias(ROW)]

    def _placed(self, spark: SparkSession, files: Iterable[DataFile]) -> DataFrame:
        assert self.held is not None  # noqa: S101  asked only of a dataset that is there
        return rows_of(spark, self.root, files, self.held, placed=True)

    def _splice(self, actions: DataFrame | None, spark: SparkSession, staged: StagedFiles) -> None:
        """Rewrites the files that the actions name, or all of them where the columns change."""
        files = list(self.state.files.values())
        if self._reshapes:
            firsts = self._placed(spark, files).where(F.col(ROW) == 0)
            every = firsts.select(FILE, F.lit(-1).cast("long").alias(ROW), F.lit(STAY).alias(FATE))
            actions = every if actions is None else actions.unionByName(every, allowMissingColumns=True)
            pairs = zip(files, footers(self.root, files), strict=True)
            staged.remove += [file for file, footer in pairs if not footer.rows]  # others would read their columns
        if actions is None or not files:
            return
        shape = self._shape
        tasks = max(1, min(len(self.near) or len(files), _MOST_TASKS))
        by_file = actions.repartition(tasks, FILE).sortWithinPartitions(FILE)
        for report in in_arrow(by_file, lambda batches: splice(batches, shape), WRITTEN).collect():
            self._note(report, staged)

    def _note(self, report: Row, staged: StagedFiles) -> None:
        old = self.state.files[report["instead_of"].removeprefix(f"{self.root}/")]
        staged.remove.append(old)
        staged.replaced += report["replaced"]
        staged.moved += report["moved"]
        staged.dropped += report["dropped"]
        if report["staged"] is not None:
            folder = old.path.rpartition("/")[0]
            staged.add.append(self._added(report, f"{folder}/" if folder else "", staged, old.path))

    def _write(self, rows: DataFrame, staged: StagedFiles) -> None:
        """New files of rows; as few as is fair."""
        shape, folders = self._shape, self._folders
        partitions = {f"{PARTITION}{number}": name for number, name in enumerate(self.partition_by)}
        there = {name: F.col(quote(name)) if spelled(name, rows.columns) else F.lit(None) for name in self.partition_by}
        texts = [there[name].cast("string").alias(mark) for mark, name in partitions.items()]
        inside = [quote(name) for name in rows.columns if spelled(name, self.partition_by) is None]
        rows = rows.select(*inside, *texts)
        rows = (
            rows.repartition(*partitions).sortWithinPartitions(*partitions)
            if partitions
            else rows.coalesce(max(1, -(-self.rows // _ROWS_PER_FILE)))
        )
        written = in_arrow(rows, lambda batches: write_rows(batches, shape, partitions, folders), WRITTEN)
        self._arrived(written, staged)

    def _arrived(self, written: DataFrame, staged: StagedFiles) -> None:
        for report in written.collect():
            staged.arrived += report["rows"]
            staged.add.append(self._added(report, report["folder"], staged))

    @staticmethod
    def _added(report: Row, folder: str, staged: StagedFiles, instead_of: str | None = None) -> Added:
        path = f"{folder}tidemill-{staged.attempt}-{len(staged.add)}.parquet"
        return Added(report["staged"], DataFile(path, report["size"], report["mtime"], report["rows"]), instead_of)

    @property
    def _reshapes(self) -> bool:
        return self.held is not None and set(self.held.names) != set(self.schema.names)

    @property
    def _shape(self) -> Shape:
        """New files look like those that are there; in a new dataset, as Spark's types are in Arrow."""
        inside = [f for f in self.schema.fields if spelled(f.name, self.partition_by) is None]
        if not inside:
            raise TableError(
                "dataset.only_partitions",
                f"{self.root} has no columns but those of its partitions, so its files would hold nothing.",
                f"Partition it by fewer columns than {', '.join(self.partition_by)}. Nothing was changed.",
            )
        wanted = to_arrow_schema(t.StructType(inside))
        first = next(iter(self.state.files.values()), None)
        if first is None:
            return Shape(self.folder, wanted, self.compression)
        footer = footers(self.root, [first])[0]
        theirs = {item.name.lower(): item for item in footer.schema}
        pairs = [(item, theirs.get(item.name.lower(), item)) for item in wanted]
        alike = optional(pa.schema([known if has_room(known.type, item.type) else item for item, known in pairs]))
        old = bool(footer.int96) and only_int96(alike, footer.int96)
        columns = workable(with_times(alike, footer.int96, old=old))
        return Shape(self.folder, columns, self.compression, old, self._reshapes, footer.codec)

    @property
    def _folders(self) -> dict[tuple[str | None, ...], str]:
        """The folders of the partitions that are there, by the values as Spark writes them."""
        kinds = [self.schema[spelled(name, self.schema.names) or name].dataType for name in self.partition_by]
        found = {}
        for path in self.state.files:
            values = tuple(values_of(path).values())
            texts = tuple(plain(value, kind) for value, kind in zip(values, kinds, strict=True))
            found[texts] = f"{path.rpartition('/')[0]}/"
        return found if self.partition_by else {}


def in_arrow(
    rows: DataFrame, work: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: str
) -> DataFrame:
    """What workers make of the rows. PySpark itself takes a column `a.b` for a field of `a`, so it sees other names."""
    names = rows.columns
    numbered = rows.toDF(*[f"c{number}" for number in range(len(names))])
    return numbered.mapInArrow(lambda batches: work(batch.rename_columns(names) for batch in batches), schema)


def plain(value: str | None, kind: t.DataType) -> str | None:
    """The text that Spark makes of a partition's value: `month=01` holds the number 1."""
    return str(int(value)) if value is not None and isinstance(kind, t.IntegralType) else value


class Rehearsal(Staging):
    """Counts what would be rewritten and written, file by file."""

    def _splice(self, actions: DataFrame | None, spark: SparkSession, staged: StagedFiles) -> None:
        del spark
        if self._reshapes:
            staged.remove = list(self.state.files.values())
        if actions is None:
            return
        counted = actions.groupBy(FILE).agg(
            *[F.count_if(F.col(FATE) == fate).alias(fate) for fate in (REPLACE, MOVE, DROP)]
        )
        for row in counted.collect():
            old = self.state.files[local_path(row[FILE]).removeprefix(f"{self.root}/")]
            staged.remove += [] if self._reshapes else [old]
            staged.replaced += row[REPLACE]
            staged.moved += row[MOVE]
            staged.dropped += row[DROP]

    def _write(self, rows: DataFrame, staged: StagedFiles) -> None:
        staged.arrived += rows.count()


def called(operation: Operation) -> str:
    """What an operation is called in the log."""
    return "MERGE" if isinstance(operation, UpsertRows | ReplaceByKey | DropRows) else "WRITE"


def schema_after(held: t.StructType | None, operation: Operation) -> t.StructType:
    """The columns of the dataset after an operation: its own, and new ones behind them."""
    given = operation.rows.schema
    if held is None or isinstance(operation, OverwriteRows):
        return given
    if isinstance(operation, DropRows):
        return held
    return t.StructType([*held.fields, *(item for item in given.fields if spelled(item.name, held.names) is None)])
