"""Hive partitions: the values that a file's path says."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

from tidemill.errors import TableError

if TYPE_CHECKING:
    from collections.abc import Iterable

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
