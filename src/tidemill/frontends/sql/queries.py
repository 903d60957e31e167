"""What a query reads and gives, where it cannot be parsed, and its tables bound to what they are in a run."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.optimizer.scope import Scope, traverse_scope

from tidemill.model.mistakes import offset_of
from tidemill.model.names import is_foreign, quote, quoted_name
from tidemill.model.query import Bound

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tidemill.frontends.pipeline.reader import Named
    from tidemill.model.mistakes import Span
    from tidemill.model.names import Naming
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


_FORMATS = {"parquet", "delta", "csv", "json", "orc", "avro", "text", "binaryfile", "xml", "iceberg"}
_PLAIN = re.compile(r"\w+")
_NAMES_NOT_KNOWN = {"identifier", "table"}  # IDENTIFIER('…') and f(TABLE(t)) name tables that the tree does not show


def inputs_of(query: str) -> tuple[str, ...] | None:
    """The tables that a query reads, each once, as `table`, `schema.table` or `catalog.schema.table`.

    CTEs, aliases, hints, table functions and paths (parquet.`/x`) are no tables. None when sqlglot cannot tell:
    then the user has to say what is read.
    """
    tree = parse_query(query)
    if tree is None or any(call.name.lower() in _NAMES_NOT_KNOWN for call in tree.find_all(exp.Anonymous)):
        return None
    names: dict[str, str] = {}
    for table in tree.find_all(exp.Table, bfs=False):
        if is_input(table):
            names.setdefault(name_of(table).lower(), name_of(table))
    return tuple(names.values())


def unrepeatable(query: str) -> str | None:
    """The first aggregate whose value may differ from run to run over the same rows, such as `collect_list`.

    Sums and averages of floats are such too, but that needs types: the caller has to look. None also when the
    query cannot be parsed.
    """
    tree = parse_query(query)
    calls = tree.find_all(exp.Func, bfs=False) if tree else ()
    return next((_spark_name(call) for call in calls if _is_unsteady(call)), None)


def columns_of(condition: str) -> tuple[str, ...] | None:
    """The columns that a condition on rows names, each once; None when sqlglot cannot tell, or it has a subquery."""
    trees = _trees(condition)
    if len(trees) != 1 or trees[0].find(exp.Query):
        return None
    return tuple(dict.fromkeys(column.parts[0].name for column in trees[0].find_all(exp.Column, bfs=False)))


def parse_query(query: str) -> exp.Expr | None:
    """The tree of a query; None when sqlglot cannot parse it, or it is no query."""
    trees = _trees(query)
    return trees[0] if len(trees) == 1 and isinstance(trees[0], exp.Query | exp.Values) else None


def scopes_of(query: str) -> list[Scope]:
    """The scopes of a query, those inside before the one around them; nothing where sqlglot cannot tell."""
    tree = parse_query(query)
    try:
        return traverse_scope(tree) if isinstance(tree, exp.Query) else []
    except (SqlglotError, RecursionError):
        return []


def _trees(sql: str) -> list[exp.Expr]:
    """What sqlglot makes of it; nothing where it cannot parse it."""
    logger = logging.getLogger("sqlglot")
    before, logger.disabled = logger.disabled, True  # it warns on stderr where the answer says the same
    try:
        return [tree for tree in sqlglot.parse(sql, dialect="spark") if tree is not None]
    except (SqlglotError, RecursionError):
        return []
    finally:
        logger.disabled = before


# inputs


def names_a_table(table: exp.Table) -> bool:
    """It is no table function, and no path; a CTE may be."""
    return isinstance(table.this, exp.Identifier) and not _is_path(table)


def name_of(table: exp.Table) -> str:
    """Its name with all parts that are written."""
    return ".".join(_part(part.name) for part in table.parts)


def is_input(table: exp.Table) -> bool:
    """Whether it is a table that somebody keeps, by its name."""
    return names_a_table(table) and not table.find_ancestor(exp.Hint) and not _is_cte(table)


def _is_path(table: exp.Table) -> bool:
    return table.db.lower() in _FORMATS and bool(table.this.args.get("quoted"))


def _is_cte(table: exp.Table) -> bool:
    return not table.db and table.name.lower() in set(_visible_ctes(table))


def _visible_ctes(table: exp.Table) -> Iterator[str]:
    """The CTE names in reach: of every query around, all; of the WITH that the table is in, those before it."""
    node: exp.Expr = table
    within: exp.CTE | None = None
    while node.parent is not None:
        node = node.parent
        if isinstance(node, exp.CTE):
            within = node
        clause = node.args.get("with_")
        if isinstance(clause, exp.With):
            yield from _names_before(clause, within)


def _names_before(clause: exp.With, within: exp.CTE | None) -> Iterator[str]:
    for cte in clause.expressions:
        if cte is within and not clause.recursive:
            return
        yield cte.alias.lower()
        if cte is within:
            return


def _part(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else f"`{name.replace('`', '``')}`"


# aggregates

_UNSTEADY: dict[type[exp.Expr], str] = {
    exp.ArrayAgg: "collect_list",
    exp.ArrayUniqueAgg: "collect_set",
    exp.First: "first",
    exp.FirstValue: "first_value",
    exp.Last: "last",
    exp.LastValue: "last_value",
    exp.AnyValue: "any_value",
    exp.Mode: "mode",
    exp.ApproxQuantile: "percentile_approx",
    exp.GroupConcat: "listagg",
}
_UNSTEADY_BY_NAME = {"collect_list", "collect_set", "histogram_numeric", "listagg", "string_agg", "mode"}
_LISTS = (exp.ArrayAgg, exp.ArrayUniqueAgg)
_ORDER_FREE = (exp.ArraySort, exp.ArraySize)
_ORDER_FREE_BY_NAME = {"array_sort", "sort_array", "size", "cardinality", "array_size"}


def _spark_name(node: exp.Expr) -> str:
    return node.name.lower() if isinstance(node, exp.Anonymous) else _UNSTEADY[type(node)]


def _is_unsteady(node: exp.Expr) -> bool:
    if isinstance(node, exp.Anonymous):
        return node.name.lower() in _UNSTEADY_BY_NAME
    if type(node) not in _UNSTEADY:
        return False
    return not _is_ordered(node) and not (isinstance(node, _LISTS) and _order_is_dropped(node.parent))


def _is_ordered(node: exp.Expr) -> bool:
    """Inside a window with ORDER BY, or WITHIN GROUP (ORDER BY …)."""
    around = node.parent
    while isinstance(around, exp.IgnoreNulls | exp.RespectNulls):
        around = around.parent
    windowed = isinstance(around, exp.Window) and around.args.get("order") is not None
    return windowed or isinstance(around, exp.WithinGroup) or isinstance(node.this, exp.Order)


def _order_is_dropped(around: exp.Expr | None) -> bool:
    if isinstance(around, exp.Anonymous):
        return around.name.lower() in _ORDER_FREE_BY_NAME
    return isinstance(around, _ORDER_FREE)


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
    tree = parse_query(query)
    tables = [each for each in tree.find_all(exp.Table) if is_input(each)] if tree else []
    ours = [each for each in tables if not is_foreign(naming.full(name_of(each)))]
    if tree is None or not all(_is_at_its_place(each, query) for each in ours):
        return Bound(query)
    keys = {naming.key(name_of(each)) for each in ours}
    named = {naming.key(name_of(each)) for each in ours if not _can_be_bound(each)} | _qualifying(tree, naming)
    paths = {key: path for key in keys - named if (path := path_of(key)) and "${" not in path}
    edits = [_edit(each, naming, paths, query) for each in ours]
    edits += [each for column in tree.find_all(exp.Column) if (each := _without_catalog(column, naming, keys))]
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
