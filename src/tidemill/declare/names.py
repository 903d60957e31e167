"""Names of tables and columns, matched without case, and how Spark SQL reads names and texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

DEFAULT_SCHEMA = "main"


def qualified(name: str, schema: str = DEFAULT_SCHEMA) -> str:
    """The name with its schema; a name without one is in `schema`."""
    return name if "." in name else f"{schema}.{name}"


def name_key(name: str, schema: str = DEFAULT_SCHEMA) -> str:
    """What two spellings of one table's name have in common."""
    return qualified(name, schema).lower()


RESET_ALLOWED = "pipelines.reset.allowed"  # the table property by which others say `reset_allowed`
COLUMN_MAPPING = "delta.columnMapping.mode"  # the table property under which `needs_mapping` names may be used
KEPT_FROM_RESET = "tidemill.reset_allowed"  # the table property by which a table that is declared so remembers it
_NOT_IN_PARQUET = frozenset(" ,;{}()\n\t=")


def quote(name: str) -> str:
    """A column name as one SQL identifier, whatever it holds."""
    return "`" + name.replace("`", "``") + "`"


def quoted_name(name: str) -> str:
    """The name of a table as Spark SQL reads it; one that is quoted already stays as it is."""
    return name if "`" in name else ".".join(map(quote, name.split(".")))


def of(alias: str, name: str) -> str:
    return f"{alias}.{quote(name)}"


def needs_mapping(name: str) -> bool:
    """Whether Parquet cannot hold a column of this name, so that Delta must call it by another."""
    return bool(_NOT_IN_PARQUET & set(name))


def field_names(kind: Any) -> Iterator[str]:
    """All names in a schema as JSON has it, also those of fields inside columns."""
    if isinstance(kind, dict):
        for field in kind.get("fields", ()):
            yield field["name"]
            yield from field_names(field["type"])
        for part in ("elementType", "keyType", "valueType"):
            yield from field_names(kind.get(part))


def spelled(name: str, columns: Iterable[str]) -> str | None:
    """The spelling that `columns` have for this name, or None."""
    wanted = name.lower()
    return next((column for column in columns if column.lower() == wanted), None)


def quoted_text(value: str) -> str:
    """A Spark SQL string literal; whatever the text holds, it stays a value."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    escaped = escaped.replace("${", "\\u0024{")  # Spark's parser would put a setting or ${env:NAME} in its place
    return f"'{escaped}'"
