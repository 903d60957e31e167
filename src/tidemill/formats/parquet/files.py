"""Single files of a dataset: the partition values that their paths say, and errors that name them."""

from __future__ import annotations

import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from tidemill.errors import DatasetFileError, FilesGoneError, TableError
from tidemill.formats.parquet.folder import checksum_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa

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
    import pyarrow as pa  # noqa: PLC0415  slow to import, and whoever only makes an error has no need of it

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
        f"{file} cannot be read as a Parquet file: {_first_line(why)}.",
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
        f"Spark cannot read {', '.join(odd) or 'a column'} of {path} in {root}: {_first_line(why)}.",
        "Write it in a type that Spark knows, such as a text or a number. The dataset is as it was.",
        path=root,
    )


def _is_odd(kind: pa.DataType) -> bool:
    """Whether Spark has no type for it, or for something in it."""
    import pyarrow as pa  # noqa: PLC0415

    inside = (kind.field(number).type for number in range(kind.num_fields))
    fine = pa.types.is_timestamp(kind) and kind.unit == "ns"
    wide = pa.types.is_decimal(kind) and kind.precision > _MOST_DIGITS
    bytes_of_a_kind = isinstance(kind, pa.UuidType) or pa.types.is_fixed_size_binary(kind) or pa.types.is_float16(kind)
    return bool(fine or wide or bytes_of_a_kind or pa.types.is_time(kind)) or any(map(_is_odd, inside))


def unopened(root: str, why: object) -> DatasetFileError:
    """The error for a dataset whose folders cannot be looked at."""
    return DatasetFileError(
        "dataset.not_readable",
        f"{root} cannot be read: {_first_line(why)}.",
        "Fix that and run again. The dataset is as it was.",
        path=root,
    )


def _forbidden(root: str, file: str, why: object) -> DatasetFileError:
    return DatasetFileError(
        "dataset.not_readable",
        f"{file} may not be read: {_first_line(why)}.",
        "Let the user who runs this read it. The dataset is as it was.",
        path=root,
    )


def _first_line(why: object) -> str:
    """Without the file, which Arrow names again; damaged bytes may be quoted in it, so only what can be shown is."""
    line = next(iter(str(why).strip().splitlines()), "").rpartition("': ")[2]
    return "".join(char for char in line if char.isprintable()).rstrip(" .:")
