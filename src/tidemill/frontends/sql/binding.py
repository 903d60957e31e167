"""Where a query cannot be parsed, and its tables bound to what they are in a run; all else stays as it is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError

from tidemill.frontends.sql.scopes import name_of, parse_query
from tidemill.model import is_foreign, offset_of, quote, quoted_name
from tidemill.model.query import Bound

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidemill.frontends.pipeline.reader import Named
    from tidemill.model import Naming, Span
    from tidemill.model.query import Where


@dataclass(frozen=True, slots=True)
class Unparsed:
    """Where sqlglot stops in a query, and what it says of it: lines are counted from 1, columns from 0."""

    line: int
    column: int
    word: str
    why: str


def unparsed(text: str) -> Unparsed | None:
    """The place at which a query cannot be parsed any further; None where it can."""
    try:
        sqlglot.parse(text, dialect="spark")
    except ParseError as failure:
        first = failure.errors[0]
        word = str(first["highlight"] or "")
        said = str(first["description"] or "")
        lacks = said.removeprefix("Expecting ") if said.startswith("Expecting ") else ""
        why = f"{lacks} is missing before {word}" if lacks else f"unexpected {word}"
        return Unparsed(int(first["line"] or 1), max(int(first["col"] or 1) - len(word), 0), word, why)
    return None


def syntax_error(query: Named) -> tuple[Span, str] | None:
    """The place at which sqlglot stops, and what it says of it; None where it can parse the query."""
    found = unparsed(query.text)
    return (_span(query, found), found.why) if found else None


def _span(query: Named, found: Unparsed) -> Span:
    text, begins = query.span.text, query.span.start
    before = text.content[begins:].split("\n")[: found.line - 1]
    start = begins + sum(len(each) + 1 for each in before)
    rest = text.content[start:].partition("\n")[0]
    start += offset_of(found.word, rest, found.column)
    return text.span(start, start + len(found.word))


_IN_PLACE = {"this", "db", "catalog", "alias", "joins", "laterals", "pivots"}  # nothing else stands behind the name


@dataclass(frozen=True, slots=True)
class _Edit:
    start: int
    end: int
    text: str


def bind_tables(query: str, path_of: Where, naming: Naming) -> Bound:
    """The query with delta.`path` for tables that `path_of` knows, and the own catalog left out before the others.

    All else stays as it is written, comments and spaces included. A query that cannot be parsed stays as a whole.
    """
    parsed = parse_query(query)
    ours = [each for each in parsed.inputs if not is_foreign(naming.full(name_of(each)))] if parsed else []
    if parsed is None or not all(_is_at_its_place(each, query) for each in ours):
        return Bound(query)
    keys = {naming.key(name_of(each)) for each in ours}
    named = {naming.key(name_of(each)) for each in ours if not _can_be_bound(each)} | _qualifying(parsed.tree, naming)
    paths = {key: path for key in keys - named if (path := path_of(key)) and "${" not in path}
    edits = [_edit(each, naming, paths, query) for each in ours]
    edits += [each for column in parsed.tree.find_all(exp.Column) if (each := _without_catalog(column, naming, keys))]
    return Bound(_apply_edits(query, edits), frozenset(paths))


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


def _apply_edits(text: str, edits: Iterable[_Edit]) -> str:
    for each in sorted(edits, key=lambda edit: edit.start, reverse=True):
        text = text[: each.start] + each.text + text[each.end :]
    return text
