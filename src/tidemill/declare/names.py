"""Names of tables: `table` or `schema.table`, compared without case."""

from __future__ import annotations

DEFAULT_SCHEMA = "main"


def qualified(name: str, schema: str = DEFAULT_SCHEMA) -> str:
    """The name with its schema; a name without one is in `schema`."""
    return name if "." in name else f"{schema}.{name}"


def name_key(name: str, schema: str = DEFAULT_SCHEMA) -> str:
    """What two spellings of one table's name have in common."""
    return qualified(name, schema).lower()
