"""Names and texts as Spark SQL reads them; names are matched without case."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


_NOT_IN_PARQUET = frozenset(" ,;{}()\n\t=")


def quote(name: str) -> str:
    """A column name as one SQL identifier, whatever it holds."""
    return "`" + name.replace("`", "``") + "`"


def of(alias: str, name: str) -> str:
    return f"{alias}.{quote(name)}"


def needs_mapping(name: str) -> bool:
    """Whether Parquet cannot hold a column of this name, so that Delta must call it by another."""
    return bool(_NOT_IN_PARQUET & set(name))


def spelled(name: str, columns: Iterable[str]) -> str | None:
    """The spelling that `columns` have for this name, or None."""
    wanted = name.lower()
    return next((column for column in columns if column.lower() == wanted), None)


def quoted_text(value: str) -> str:
    """A Spark SQL string literal; whatever the text holds, it stays a value."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    escaped = escaped.replace("${", "\\u0024{")  # Spark's parser would put a setting or ${env:NAME} in its place
    return f"'{escaped}'"
