"""A few rows of a dataset, read without a JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from tidemill.formats.parquet.files import columns_of, is_whole_number, reading, values_of
from tidemill.formats.parquet.footers import footers
from tidemill.formats.parquet.log import DatasetLog
from tidemill.formats.parquet.worker.arrow import fitted, unified

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyarrow import dataset

    from tidemill.formats.parquet.footers import Footer


def some_rows(path: str, limit: int) -> pa.Table:
    """Rows of the last commit; which come first is up to its files."""
    from pyarrow import dataset  # noqa: PLC0415  slow to import

    log = DatasetLog(path)
    held = list(log.state().files.values())
    if not held:
        return pa.table({name: pa.nulls(0) for name in log.columns()})
    files = [str(log.folder.root / each.path) for each in held]
    hive = dataset.HivePartitioning(_partitions(log, [each.path for each in held]))
    kind = dataset.ParquetFileFormat(coerce_int96_timestamp_unit="us")
    with reading(path, files[0] if files else path):
        whole = dataset.dataset(files, format=kind, partitioning=hive, partition_base_dir=path)
    found, missing = [whole.schema.empty_table()], limit
    for part in whole.get_fragments():
        with reading(path, part.path):
            found.append(_placed(part.head(missing), part, whole.schema))
        missing -= found[-1].num_rows
        if not missing:
            break
    return _together([*found, _elsewhere(footers(log.folder.root, held), found)])


def _partitions(log: DatasetLog, paths: Sequence[str]) -> pa.Schema:
    """The columns of its partitions: whole numbers where all values are, and the log does not know them as texts."""
    known = log.column_types()

    def kind(name: str) -> pa.DataType:
        texts = [text for path in paths if (text := values_of(path)[name]) is not None]
        numbers = bool(texts) and known.get(name.lower()) != "string" and all(map(is_whole_number, texts))
        return pa.int64() if numbers else pa.string()

    return pa.schema([(name, kind(name)) for name in columns_of(paths, log.path)])


def _elsewhere(held: Iterable[Footer], found: Iterable[pa.Table]) -> pa.Table:
    """The columns that only files have which were not read."""
    known = {name.lower() for rows in found for name in rows.column_names}
    others = {field.name.lower(): field for footer in held for field in footer.schema}
    return pa.schema([field for name, field in others.items() if name not in known]).empty_table()


def _placed(rows: pa.Table, part: dataset.Fragment, schema: pa.Schema) -> pa.Table:
    """The rows of a file with the values that its folders tell."""
    from pyarrow import dataset  # noqa: PLC0415

    for name, value in dataset.get_partition_keys(part.partition_expression).items():
        kept = [column for column in rows.column_names if column.lower() != name.lower()]
        rows = rows.select(kept).append_column(name, pa.array([value] * rows.num_rows, schema.field(name).type))
    return rows


def _together(found: list[pa.Table]) -> pa.Table:
    """Files may lack columns, or have them in other types; where no type holds both, Spark cannot read them either."""
    schema = unified([rows.schema for rows in found])
    return pa.concat_tables(fitted(rows, schema) for rows in found)
