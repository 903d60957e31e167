"""Single files of a dataset: the values that their paths say, what their footers tell, and errors that name them."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from tidemill.errors import DatasetFileError, FilesGoneError, TableError
from tidemill.formats.filesystem import first_line
from tidemill.formats.parquet.folder import checksum_of
from tidemill.formats.parquet.worker.arrow import codec_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from tidemill.formats.parquet.folder import DataFile

NULL = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED = re.compile("%([0-9A-Fa-f]{2})")
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+")


def values_of(path: str) -> dict[str, str | None]:
    """The partition values of a file, by column; None stands for NULL."""
    pairs = [part.partition("=") for part in path.split("/")[:-1] if "=" in part]
    return {unquote(name): None if value == NULL else unquote(value) for name, _, value in pairs}


def is_whole_number(text: str) -> bool:
    """Whether a partition's value is a number of 64 bits."""
    return bool(_WHOLE_NUMBER.fullmatch(text)) and -(2**63) <= int(text) < 2**63


def misread(name: str, paths: Iterable[str]) -> dict[str, str]:
    """What Spark takes some values of a partition's column for, and what they are.

    Arrow, pandas and DuckDB escape the bytes of UTF-8 in the names of folders; Spark reads each byte as a letter.
    """
    parts = (part.partition("=")[::2] for path in paths for part in path.split("/")[:-1])
    texts = {text for column, text in parts if unquote(column) == name}
    values = {_ESCAPED.sub(lambda found: chr(int(found[1], 16)), text): unquote(text) for text in texts}
    return {taken: value for taken, value in values.items() if taken != value}


def columns_of(paths: Iterable[str], root: str) -> tuple[str, ...]:
    """The columns by which a dataset is partitioned; all its files have to agree."""
    paths = list(paths)
    if empty := next((path for path in paths if "" in values_of(path).values()), None):
        raise TableError(
            "dataset.empty_partition",
            f"{empty} of {root} lies in a folder without a value, which Spark cannot read.",
            f"Rename the folder: NULL is {NULL}.",
        )
    found = {tuple(values_of(path)): path for path in paths}
    if len(found) > 1:
        first, second = list(found.values())[:2]
        raise TableError(
            "dataset.mixed_partitions",
            f"The files of {root} are not partitioned alike: {first} and {second}.",
            "Move one of them, so that all files lie in folders of the same columns.",
        )
    return next(iter(found), ())


_MOST_DIGITS = 38  # of a decimal in Spark


@contextmanager
def reading(root: str, file: str) -> Iterator[None]:
    """An error of Arrow's while a file is read, by its full path, becomes one that names it."""
    try:
        yield
    except (pa.ArrowException, OSError) as failure:
        raise unread(root, file, failure) from failure


def unread(root: str, file: str, why: object) -> DatasetFileError:
    """The error for a file, by its full path, that was there and could not be read."""
    try:
        Path(file).stat()
    except FileNotFoundError:
        return gone(root, file)
    except PermissionError as failure:
        return _forbidden(root, file, failure)
    return _forbidden(root, file, why) if "Permission denied" in str(why) else corrupt(root, file, why)


def gone(root: str, file: str) -> FilesGoneError:
    return FilesGoneError(
        "table.files_gone",
        f"{root} has changed since it was read: its file {file.removeprefix(root).lstrip('/')} has gone.",
        f"Read it again: tidemill.read({root!r}).",
        path=root,
    )


def corrupt(root: str, file: str, why: object) -> DatasetFileError:
    checksum = checksum_of(Path(file))
    stale = f"If another tool rewrote it, remove the checksum of the old one, {checksum}. Else put"
    return DatasetFileError(
        "dataset.corrupt_file",
        f"{file} cannot be read as a Parquet file: {first_line(why)}.",
        f"{stale if checksum.exists() else 'Put'} it back from a backup, or remove it and merge its rows again. "
        "The dataset is as it was.",
        path=root,
    )


def unlike(root: str, schemas: Mapping[str, pa.Schema], why: str) -> DatasetFileError:
    """The error for files, by their paths in the dataset, whose columns Spark cannot read as those of one table."""
    kinds: dict[str, dict[str, str]] = {}
    for path, schema in schemas.items():
        for field in schema:
            kinds.setdefault(field.name.lower(), {}).setdefault(str(field.type), f"{field.type} in {path}")
    clashes = "; ".join(f"{name} is {' and '.join(found.values())}" for name, found in kinds.items() if len(found) > 1)
    if not clashes:
        return _unknown_to_spark(root, schemas, why)
    return DatasetFileError(
        "dataset.unlike_files",
        f"The files of {root} cannot be read as one table: {clashes}.",
        f"Write files with the same types, which Spark knows; tidemill compact {root} joins small files of a folder to "
        "such ones, where a type holds the values of all. The dataset is as it was.",
        path=root,
    )


def _unknown_to_spark(root: str, schemas: Mapping[str, pa.Schema], why: str) -> DatasetFileError:
    """The error for files that are alike, with a type that Spark lacks."""
    path, schema = next(iter(schemas.items()))
    odd = [f"{field.name} ({field.type})" for field in schema if _is_odd(field.type)]
    return DatasetFileError(
        "dataset.unknown_type",
        f"Spark cannot read {', '.join(odd) or 'a column'} of {path} in {root}: {first_line(why)}.",
        "Write it in a type that Spark knows, such as a text or a number. The dataset is as it was.",
        path=root,
    )


def _is_odd(kind: pa.DataType) -> bool:
    """Whether Spark has no type for it, or for something in it."""
    inside = (kind.field(number).type for number in range(kind.num_fields))
    fine = pa.types.is_timestamp(kind) and kind.unit == "ns"
    wide = pa.types.is_decimal(kind) and kind.precision > _MOST_DIGITS
    bytes_of_a_kind = isinstance(kind, pa.UuidType) or pa.types.is_fixed_size_binary(kind) or pa.types.is_float16(kind)
    return bool(fine or wide or bytes_of_a_kind or pa.types.is_time(kind)) or any(map(_is_odd, inside))


def _forbidden(root: str, file: str, why: object) -> DatasetFileError:
    return DatasetFileError(
        "dataset.not_readable",
        f"{file} may not be read: {first_line(why)}.",
        "Let the user who runs this read it. The dataset is as it was.",
        path=root,
    )


_READERS = 8
_KEPT = 20_000
Span = tuple[Any, Any]
_READ: dict[type, Callable[[str], Any]] = {int: int, str: str, date: date.fromisoformat}


@dataclass(frozen=True, slots=True)
class Footer:
    """What a file says of itself. `spans` has the lowest and highest value of each column, by row group.

    A row group that does not tell has None; a column is known by its name in lower case.
    """

    rows: int
    schema: pa.Schema
    int96: frozenset[str]
    spans: dict[str, tuple[Span | None, ...]]
    codec: str


def footers(root: Path, files: Sequence[DataFile]) -> list[Footer]:
    """The footers of files, in their order; one that is no Parquet file is an error."""
    with ThreadPoolExecutor(_READERS) as readers:
        return list(readers.map(lambda file: _footer(str(root), file), files))


@lru_cache(_KEPT)
def _footer(root: str, file: DataFile) -> Footer:
    path = f"{root}/{file.path}"
    try:
        found = pq.read_metadata(path)
        schema = found.schema.to_arrow_schema()
        return Footer(found.num_rows, schema, _int96(found), _spans(found), codec_of(found))
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as failure:
        raise unread(root, path, failure) from failure


def _int96(found: pq.FileMetaData) -> frozenset[str]:
    columns = (found.schema.column(number) for number in range(found.num_columns))
    return frozenset(column.path.partition(".")[0] for column in columns if column.physical_type == "INT96")


def _spans(found: pq.FileMetaData) -> dict[str, tuple[Span | None, ...]]:
    flat = [
        number for number in range(found.num_columns) if "." not in found.schema.column(number).path.replace("\\.", "")
    ]
    groups = [found.row_group(number) for number in range(found.num_row_groups)]
    return {found.schema.column(n).path.lower(): tuple(_span(group, n) for group in groups) for n in flat}


def _span(group: pq.RowGroupMetaData, number: int) -> Span | None:
    statistics = group.column(number).statistics
    if statistics is None or not statistics.has_min_max:
        return None
    try:
        return statistics.min, statistics.max
    except (pa.ArrowException, ValueError, OverflowError):  # a type, or a value, that Arrow's statistics do not know
        return None


def holding(root: Path, files: Iterable[DataFile], wanted: Mapping[str, Sequence[Span]]) -> list[DataFile]:
    """The files that may hold a row with a value in one of the spans of each column.

    `wanted` knows columns by their names in lower case. A file that does not tell may hold anything. Of one in a folder
    of another value not even the footer is read.
    """
    files = [file for file in files if _may_lie_in(file, wanted)]
    found = footers(root, files)
    return [file for file, footer in zip(files, found, strict=True) if _may_hold(file, footer, wanted)]


def _may_lie_in(file: DataFile, wanted: Mapping[str, Sequence[Span]]) -> bool:
    values = {name.lower(): text for name, text in values_of(file.path).items()}
    return all(_may_be(values[name], spans) for name, spans in wanted.items() if name in values)


def _may_be(text: str | None, wanted: Sequence[Span]) -> bool:
    """Whether a partition's text may stand for a value that is looked for, which is never NULL."""
    read = _READ.get(type(wanted[0][0]))
    if text is None or read is None:
        return text is not None
    try:
        value = read(text)
    except ValueError:
        return True
    return _meets((value, value), wanted)


def _may_hold(file: DataFile, footer: Footer, wanted: Mapping[str, Sequence[Span]]) -> bool:
    """A row lies in one row group, so all columns have to be possible in the same one."""
    inside = {name.lower() for name in values_of(file.path)}
    known = {name: footer.spans[name] for name in wanted if name in footer.spans and name not in inside}
    if not known:
        return True
    return any(
        all(_meets(spans, wanted[name]) for name, spans in zip(known, group, strict=True))
        for group in zip(*known.values(), strict=True)
    )


def _meets(held: Span | None, wanted: Sequence[Span]) -> bool:
    if held is None:
        return True
    try:
        return any(held[0] <= high and held[1] >= low for low, high in wanted)
    except TypeError:  # statistics of another type tell nothing
        return True
