"""The columns of a table as a user writes them: DDL, a dict of names and types, or a StructType of Spark's."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from tidemill.declare.names import quote
from tidemill.errors import ArgumentError

_EXAMPLE = 'Write "id BIGINT, day DATE", or {"id": "BIGINT", "day": "DATE"}.'


def ddl_of(given: object) -> str:
    """The schema as DDL; what cannot be one is an error."""
    if isinstance(given, Mapping) and all(isinstance(each, str) for pair in given.items() for each in pair):
        return ", ".join(f"{quote(name)} {kind}" for name, kind in given.items())
    if isinstance(given, str):
        return given
    fields = getattr(given, "fields", None)
    if isinstance(fields, list):  # pyspark.sql.types.StructType, which is not imported for this
        return ", ".join(_field(each) for each in fields)
    raise ArgumentError("functions.bad_schema", f"A {type(given).__name__} is no schema.", _EXAMPLE)


def columns_of_ddl(ddl: str) -> tuple[str, ...]:
    """The names of the columns; what cannot be parsed is an error."""
    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    try:
        tree = sqlglot.parse_one(f"CREATE TABLE t ({ddl}\n)", read="spark")
    except SqlglotError as bad:
        raise _bad(ddl) from bad
    columns = list(tree.this.expressions) if isinstance(tree, exp.Create) and isinstance(tree.this, exp.Schema) else []
    if not columns or not all(isinstance(each, exp.ColumnDef) and each.args.get("kind") for each in columns):
        raise _bad(ddl)
    names = tuple(each.name for each in columns)
    if len({name.lower() for name in names}) < len(names):
        raise ArgumentError("functions.bad_schema", "The schema has two columns of one name.", "Rename one of them.")
    return names


def _field(field: object) -> str:
    name, kind = getattr(field, "name", ""), getattr(field, "dataType", None)
    return (
        f"{quote(name)} {kind.simpleString() if kind else ''}{'' if getattr(field, 'nullable', True) else ' NOT NULL'}"
    )


def _bad(ddl: str) -> ArgumentError:
    return ArgumentError("functions.bad_schema", f"{ddl!r} is no list of columns and types.", _EXAMPLE)
