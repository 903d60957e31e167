"""Binds the tables that a query reads to what they are in this project: their names are replaced, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from tidemill.declare.binding import Bound
from tidemill.declare.names import is_foreign, quote, quoted_name
from tidemill.language.queries import is_input, name_of, parsed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidemill.declare.binding import Where
    from tidemill.declare.names import Naming

_IN_PLACE = {"this", "db", "catalog", "alias", "joins", "laterals", "pivots"}  # nothing else stands behind the name


@dataclass(frozen=True, slots=True)
class _Edit:
    start: int
    end: int
    text: str


def bound(query: str, path_of: Where, naming: Naming) -> Bound:
    """The query with delta.`path` for tables that `path_of` knows, and the own catalog left out before the others.

    All else stays as it is written, comments and spaces included. A query that cannot be parsed stays as a whole.
    """
    tree = parsed(query)
    tables = [each for each in tree.find_all(exp.Table) if is_input(each)] if tree else []
    ours = [each for each in tables if not is_foreign(naming.full(name_of(each)))]
    if tree is None or not all(_is_at_its_place(each, query) for each in ours):
        return Bound(query)
    keys = {naming.key(name_of(each)) for each in ours}
    named = {naming.key(name_of(each)) for each in ours if not _can_be_bound(each)} | _qualifying(tree, naming)
    paths = {key: path for key in keys - named if (path := path_of(key)) and "${" not in path}
    edits = [_edit(each, naming, paths, query) for each in ours]
    edits += [each for column in tree.find_all(exp.Column) if (each := _without_catalog(column, naming, keys))]
    return Bound(_edited(query, edits), frozenset(paths))


def _is_at_its_place(table: exp.Table, query: str) -> bool:
    """Whether the text has the name where the tree says."""
    return all(_written(part, query) in {part.name, quote(part.name)} for part in table.parts)


def _written(part: exp.Expr, query: str) -> str:
    return query[part.meta["start"] : part.meta["end"] + 1] if "start" in part.meta else ""


def _can_be_bound(table: exp.Table) -> bool:
    """An alias, which has to keep the table's name in the query, can only stand right behind the path."""
    return bool(table.alias) or {name for name, value in table.args.items() if value} <= _IN_PLACE


def _qualifying(tree: exp.Expr, naming: Naming) -> set[str]:
    """The tables by whose schema columns are named: an alias has no schema."""
    columns = (column for column in tree.find_all(exp.Column) if column.db)
    return {naming.key(f"{column.db}.{column.table}") for column in columns}


def _edit(table: exp.Table, naming: Naming, paths: dict[str, str], query: str) -> _Edit:
    first, last = table.parts[0], table.parts[-1]
    start, end = first.meta["start"], last.meta["end"] + 1
    full = naming.full(name_of(table))
    path = paths.get(full.lower())
    if path is None:
        return _Edit(start, end, quoted_name(full) if table.catalog else query[start:end])
    alias = "" if table.alias else f" AS {_written(last, query)}"
    return _Edit(start, end, f"delta.{quote(path)}{alias}")


def _without_catalog(column: exp.Column, naming: Naming, keys: set[str]) -> _Edit | None:
    """A column that is named with the catalog of its table, which Spark does not know."""
    catalog = column.args.get("catalog")
    if catalog is None or not naming.is_own_catalog(column.catalog):
        return None
    if naming.key(f"{column.db}.{column.table}") not in keys:
        return None
    return _Edit(catalog.meta["start"], column.args["db"].meta["start"], "")


def _edited(text: str, edits: Iterable[_Edit]) -> str:
    for each in sorted(edits, key=lambda edit: edit.start, reverse=True):
        text = text[: each.start] + each.text + text[each.end :]
    return text
