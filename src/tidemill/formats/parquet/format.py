"""Parquet datasets as a table format. Nothing here imports Spark before a store is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.errors import ArgumentError, ConflictError, TableError
from tidemill.formats.parquet import PARQUET
from tidemill.formats.parquet.folder import Folder, is_data, is_skipped, not_written
from tidemill.formats.parquet.protocol import Moved, finish_interrupted, finishing, walk
from tidemill.formats.port import TableFormat

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidemill.errors import Origin
    from tidemill.formats.base import Compacted, Finished, OnSpark, VacuumRequest
    from tidemill.formats.parquet.log import DatasetLog
    from tidemill.formats.parquet.store import ParquetStore


class ParquetFormat(TableFormat):
    """Folders of plain Parquet files, with a commit protocol of our own."""

    traits = PARQUET

    def is_at(self, path: str) -> bool:
        return self.is_kept(path) or _holds_parquet(Path(path))

    def is_kept(self, path: str) -> bool:
        """Parquet files alone may be what is left of a first write to a table of another format that was killed."""
        return Folder(path).newest() is not None

    def check_place(self, path: str, origin: Origin | None = None) -> None:
        """A dataset is a folder of a file system."""
        if "://" not in path and not Path(path).is_file():
            return
        raise TableError(
            "dataset.no_folder",
            f"{path} is {'an address' if '://' in path else 'a file'}, and a Parquet dataset is a folder.",
            "Give the path of a folder on a disk of this machine, or one that is mounted here.",
            origin=origin,
        )

    def is_left(self, path: str) -> bool:
        return Folder(path).staging.is_dir()

    def finish_interrupted(self, path: str) -> None:
        finish_interrupted(path)

    def log(self, path: str) -> DatasetLog:
        from tidemill.formats.parquet.log import DatasetLog  # noqa: PLC0415  needs pyarrow.parquet

        return DatasetLog(path)

    def store(
        self,
        path: str,
        *,
        properties: Mapping[str, str] | None = None,
        partition_by: Sequence[str] = (),
        single_writer: bool = False,
    ) -> ParquetStore:
        """A dataset has a lock of its own, and is never on an object store: others may write to it."""
        from tidemill.formats.parquet.store import ParquetStore  # noqa: PLC0415  it imports PySpark

        del single_writer
        return ParquetStore(path, properties=properties, partition_by=partition_by)

    def compact(self, path: str, target_size: int, on_spark: OnSpark, *, single_writer: bool = False) -> Compacted:
        from tidemill.formats.parquet.compaction import compact  # noqa: PLC0415  needs pyarrow.parquet

        del on_spark, single_writer
        try:
            return compact(Folder(path), target_size)
        except Moved as moved:
            raise ConflictError("run.conflict", f"{moved}.", "Nothing was changed. Compact it again.") from moved

    def vacuum(self, path: str, asked: VacuumRequest, on_spark: OnSpark, *, single_writer: bool = False) -> Finished:
        del on_spark, single_writer
        if asked.retain or asked.dry_run:
            raise ArgumentError(
                "vacuum.only_delta",
                f"{path} is a Parquet dataset, which has no older versions: what a vacuum removes there was never part "
                "of it.",
                "Leave --retain and --dry-run out.",
            )
        return self.recover(path, path)

    def recover(self, path: str, name: str) -> Finished:
        del name
        folder = Folder(path)
        try:
            return walk(finishing(folder))
        except OSError as failure:
            raise not_written(folder, failure) from failure


def _holds_parquet(root: Path) -> bool:
    """Looks into the first folder of partitions only."""
    if not root.is_dir():
        return False
    inside = sorted(each for each in root.iterdir() if not is_skipped(each.name))
    if any(each.is_file() and is_data(str(each)) for each in inside):
        return True
    folders = [each for each in inside if each.is_dir() and "=" in each.name]
    return any(_holds_parquet(folder) for folder in folders)
