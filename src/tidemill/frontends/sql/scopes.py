"""A query as sqlglot's scopes: what each of them reads from, and which columns it gives. All questions ask this.

sqlglot finds the scopes; what their names mean is found here, for three reasons. Spark's names have no case, and
sqlglot's do. A recursive CTE reads itself whichever shape it has. And no scope of sqlglot's visits the subqueries in
the arguments of a table function; here they are subqueries of the SELECT around them.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.scope import Scope, ScopeType, traverse_scope

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_MOST_KEPT = 256  # queries whose trees are kept: each is asked several questions
_FORMATS = {"parquet", "delta", "csv", "json", "orc", "avro", "text", "binaryfile", "xml", "iceberg"}
_PLAIN = re.compile(r"\w+")


@dataclass(frozen=True, slots=True, eq=False)
class Relation:
    """What a SELECT reads from at one place of its text, which is `node`.

    It is an input by its `name`, or the rows of a query by its `scope`. It is neither where it is a function, a path,
    or a recursive CTE inside of itself. Its columns are called by `alias`, and by `names` where it is given any. On
    the right side of a semi join it gives none (`is_tested`); a pivot gives others.
    """

    node: exp.Expr
    alias: str
    name: str | None = None
    scope: Scope | None = None
    names: tuple[str, ...] = ()
    is_tested: bool = False
    is_pivoted: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class OutputColumn:
    """A column that a query gives, by the name that Spark gives it; "" where that is a longer story.

    It is `made` by an expression, or `*` passes it on from a `relation`: its `column` there, or all columns that there
    may be (`is_open`). In a union each of `branches` gives it; None where it cannot be known which of theirs does.
    """

    name: str
    made: exp.Expr | None = None
    relation: Relation | None = None
    column: OutputColumn | None = None
    branches: tuple[OutputColumn | None, ...] = ()

    @property
    def is_open(self) -> bool:
        return self.made is None and self.column is None and not self.branches

    def has_name(self, name: str) -> bool:
        return self.name.lower() == name.lower() and not self.is_open


Columns = tuple[OutputColumn, ...]
_OPEN = OutputColumn("*")


@dataclass(frozen=True, slots=True, eq=False)
class QueryTree:
    """A query that sqlglot can parse. Those of its `scopes` that are inside come before the one around them.

    `inputs` are the tables that somebody keeps, each as often as it occurs, in the order of the text.
    """

    tree: exp.Expr
    scopes: tuple[Scope, ...]
    inputs: tuple[exp.Table, ...]
    _relations: Mapping[Scope, tuple[Relation, ...]] = field(repr=False)
    _columns: Mapping[Scope, Columns] = field(repr=False)

    @property
    def root(self) -> Scope | None:
        """The outermost; a query without any, such as VALUES, reads nothing."""
        return self.scopes[-1] if self.scopes else None

    def relations(self, scope: Scope) -> tuple[Relation, ...]:
        return self._relations[scope]

    def columns(self, scope: Scope | None) -> Columns:
        """What it gives, in order."""
        return (_OPEN,) if scope is None else self._columns[scope]

    def scope_of(self, query: exp.Expr) -> Scope | None:
        """The scope of a query inside of this one."""
        return next((each for each in self.scopes if each.expression is query.unnest()), None)

    def owners(self, scope: Scope, column: exp.Column) -> list[tuple[Relation, OutputColumn | None]]:
        """The relations that have this column, as far as names tell: those that list it, and those that may have it."""
        visible = [each for each in self.relations(scope) if not each.is_tested]
        named = [each for each in visible if not column.table or each.alias == column.table.lower()]
        found: list[tuple[Relation, OutputColumn | None]] = []
        for relation in named:
            columns = given_by(relation, self._columns)
            listed = next((each for each in columns if each.has_name(column.name)), None)
            if listed or any(each.is_open for each in columns):
                found.append((relation, listed))
        return found


def trees_of(sql: str) -> list[exp.Expr]:
    """What sqlglot makes of it; nothing where it cannot parse it."""
    with _quiet():
        try:
            return [tree for tree in sqlglot.parse(sql, dialect="spark") if tree is not None]
        except (SqlglotError, RecursionError):
            return []


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Sqlglot warns on stderr where an answer says the same."""
    logger = logging.getLogger("sqlglot")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


@functools.lru_cache(_MOST_KEPT)
def parse_query(text: str) -> QueryTree | None:
    """The tree of a query, to be read and not to be changed; None when sqlglot cannot parse it, or it is no query."""
    trees = trees_of(text)
    if len(trees) != 1 or not isinstance(trees[0], exp.Query | exp.Values):
        return None
    try:
        return _Reader(trees[0]).read()
    except (SqlglotError, RecursionError):
        return None


def name_of(table: exp.Table) -> str:
    """Its name with all parts that are written."""
    return ".".join(_part(part.name) for part in table.parts)


_NAMES_NOT_KNOWN = {"identifier", "table"}  # IDENTIFIER('…') and f(TABLE(t)) name tables that the tree does not show


def inputs_of(query: str) -> tuple[str, ...] | None:
    """The tables that a query reads, each once, as `table`, `schema.table` or `catalog.schema.table`.

    CTEs, aliases, hints, table functions and paths (parquet.`/x`) are no tables. None when sqlglot cannot tell:
    then the user has to say what is read.
    """
    parsed = parse_query(query)
    if parsed is None or any(call.name.lower() in _NAMES_NOT_KNOWN for call in parsed.tree.find_all(exp.Anonymous)):
        return None
    names: dict[str, str] = {}
    for table in parsed.inputs:
        names.setdefault(name_of(table).lower(), name_of(table))
    return tuple(names.values())


def output_columns(query: str) -> tuple[str, ...] | None:
    """The names of all output columns, in order; None where only the data can name one (`*` of a table, `explode`)."""
    parsed = parse_query(query)
    columns = parsed.columns(parsed.root) if parsed else (_OPEN,)
    names = tuple(each.name for each in columns)
    return names if all(names) and not any(each.is_open for each in columns) else None


def columns_of(condition: str) -> tuple[str, ...] | None:
    """The columns that a condition on rows names, each once; None when sqlglot cannot tell, or it has a subquery."""
    trees = trees_of(condition)
    if len(trees) != 1 or trees[0].find(exp.Query):
        return None
    return tuple(dict.fromkeys(column.parts[0].name for column in trees[0].find_all(exp.Column, bfs=False)))


def columns_of_ddl(ddl: str) -> tuple[str, ...] | None:
    """The names in a list of columns and types; None where it is none."""
    trees = trees_of(f"CREATE TABLE t ({ddl}\n)")
    schema = trees[0].this if len(trees) == 1 and isinstance(trees[0], exp.Create) else None
    columns = schema.expressions if isinstance(schema, exp.Schema) else []
    are_columns = all(isinstance(each, exp.ColumnDef) and each.args.get("kind") for each in columns)
    return tuple(each.name for each in columns) if columns and are_columns else None


def _part(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else f"`{name.replace('`', '``')}`"


class _Reader:
    """Finds the scopes of a tree, then what they read, then what they give: those inside first."""

    def __init__(self, tree: exp.Expr) -> None:
        self.tree = tree
        with _quiet():
            self.scopes = traverse_scope(tree)
            self._add_passed_over()
        self.of_query = {id(each.expression): each for each in self.scopes}

    def read(self) -> QueryTree:
        kept = {id(table): table for scope in self.scopes for table in _tables(scope) if self._is_input(table, scope)}
        inputs = tuple(table for table in self.tree.find_all(exp.Table, bfs=False) if id(table) in kept)
        relations = {scope: tuple(self._relations(scope)) for scope in self.scopes}
        columns: dict[Scope, Columns] = {}
        for scope in self.scopes:
            columns[scope] = _columns(scope, relations[scope], columns)
        return QueryTree(self.tree, tuple(self.scopes), inputs, relations, columns)

    def _add_passed_over(self) -> None:
        """The subqueries that no scope visits become subqueries of the scope around them, and see its CTEs."""
        for query in self.tree.find_all(exp.Select, exp.SetOperation):
            known = {id(each.expression): each for each in self.scopes}
            if id(query) in known:
                continue
            around = next(known[id(each)] for each in _above(query) if id(each) in known)
            found = traverse_scope(query)
            for scope in found:
                scope.cte_sources = {**around.cte_sources, **scope.cte_sources}
            found[-1].parent, found[-1].scope_type = around, ScopeType.SUBQUERY
            around.subquery_scopes.append(found[-1])
            place = self.scopes.index(around)
            self.scopes[place:place] = found

    def _is_input(self, table: exp.Table, scope: Scope) -> bool:
        return _names_a_table(table) and self._cte(table, scope) is None and not _is_within(table)

    def _cte(self, table: exp.Table, scope: Scope) -> Scope | None:
        """The CTE that a table without a schema names."""
        named = {} if table.db else {name.lower(): each for name, each in scope.cte_sources.items()}
        found = named.get(table.name.lower())
        return found if isinstance(found, Scope) and self.of_query.get(id(found.expression)) is found else None

    def _relations(self, scope: Scope) -> Iterator[Relation]:
        if isinstance(scope.expression, exp.Subquery):  # the outermost, in brackets
            yield Relation(scope.expression, "", scope=self.of_query[id(scope.expression.unnest())])
        for alias, node in (*_itself(scope), *scope.references):
            name, rows = None, self.of_query.get(id(node.unnest()))
            if isinstance(node, exp.Table):
                name, rows = name_of(node) if self._is_input(node, scope) else None, self._cte(node, scope)
            names = tuple(node.alias_column_names) or tuple(rows.outer_columns if rows else ())
            is_tested, is_pivoted = _is_tested(node), bool(node.args.get("pivots"))
            yield Relation(node, alias.lower(), name, rows, names, is_tested, is_pivoted)


def _tables(scope: Scope) -> list[exp.Table]:
    """The tables that are read in it; of `(a JOIN b) AS x` the first is the scope itself."""
    return [*(node for _, node in _itself(scope)), *scope.tables]


def _itself(scope: Scope) -> list[tuple[str, exp.Table]]:
    table = scope.expression
    return [(table.alias_or_name, table)] if isinstance(table, exp.Table) else []


def _above(node: exp.Expr) -> Iterator[exp.Expr]:
    while node.parent is not None:
        node = node.parent
        yield node


def _names_a_table(table: exp.Table) -> bool:
    """It is no table function, and no path."""
    is_path = table.db.lower() in _FORMATS and bool(table.this.args.get("quoted"))
    return isinstance(table.this, exp.Identifier) and not is_path


def _is_within(table: exp.Table) -> bool:
    """It is the recursive CTE that it stands in."""
    ctes = (each for each in _above(table) if isinstance(each, exp.CTE) and each.alias.lower() == table.name.lower())
    return not table.db and any(each.parent is not None and each.parent.args.get("recursive") for each in ctes)


def _is_tested(node: exp.Expr) -> bool:
    """Whether it is the right side of a semi join or an anti join, whose columns are not to be had."""
    above = next((each for each in _above(node) if type(each) is not exp.Subquery), None)
    return isinstance(above, exp.Join) and above.is_semi_or_anti_join


# columns

# What Spark calls a column that is one of these calls and has no alias.
_CALLED: dict[type[exp.Expr], str] = {
    exp.CurrentTimestamp: "current_timestamp()",
    exp.CurrentDate: "current_date()",
    exp.Uuid: "uuid()",
}


def given_by(relation: Relation, columns: Mapping[Scope, Columns]) -> Columns:
    """The columns of a relation, by the names that it gives them."""
    given = (_OPEN,) if relation.scope is None or relation.is_pivoted else columns[relation.scope]
    if not relation.names:
        return tuple(_passed_on(each, relation, each.name) for each in given)
    if any(each.is_open for each in given):
        return (_passed_on(_OPEN, relation, _OPEN.name),)
    return tuple(_passed_on(each, relation, name) for name, each in zip(relation.names, given, strict=False))


def _passed_on(column: OutputColumn, relation: Relation, name: str) -> OutputColumn:
    return OutputColumn(name, relation=relation, column=None if column.is_open else column)


def _columns(scope: Scope, relations: Sequence[Relation], columns: Mapping[Scope, Columns]) -> Columns:
    query = scope.expression
    if isinstance(query, exp.SetOperation):
        left, right = (columns[each] for each in scope.set_operation_scopes)
        return _united_by_name(left, right) if query.args.get("by_name") else _united(left, right)
    if isinstance(query, exp.Subquery):  # the outermost, in brackets
        return given_by(relations[0], columns)
    if isinstance(query, exp.Select):
        return tuple(each for projection in query.expressions for each in _projected(projection, relations, columns))
    return (_OPEN,)


def _projected(
    projection: exp.Expr, relations: Sequence[Relation], columns: Mapping[Scope, Columns]
) -> Iterator[OutputColumn]:
    star = projection.this if isinstance(projection, exp.Column) else projection
    if not isinstance(star, exp.Star):
        yield OutputColumn(_output_name(projection), made=projection)
        return
    alias = projection.table.lower() if isinstance(projection, exp.Column) else ""
    chosen = [each for each in relations if not each.is_tested and alias in {"", each.alias}]
    gone = {each.name.lower() for each in star.args.get("except_") or ()}
    given = (each for relation in chosen for each in given_by(relation, columns))
    yield from (each for each in given if each.name.lower() not in gone)
    if not chosen:
        yield _OPEN


def _output_name(projection: exp.Expr) -> str:
    if projection.alias:
        return projection.alias
    if isinstance(projection, exp.Anonymous):
        return f"{projection.name.lower()}()" if not projection.expressions else ""
    while isinstance(projection, exp.Cast):  # Spark names a cast column as the column
        projection = projection.this
    return projection.name if isinstance(projection, exp.Column) else _CALLED.get(type(projection), "")


def _united_by_name(left: Columns, right: Columns) -> Columns:
    def found(name: str) -> OutputColumn | None:
        return next((each for each in right if each.has_name(name)), None)

    return tuple(each if each.is_open else OutputColumn(each.name, branches=(each, found(each.name))) for each in left)


def _united(left: Columns, right: Columns) -> Columns:
    """By their places: from the first column on up to a `*`, from the last one back to a `*`."""
    united: list[OutputColumn] = []
    for place, each in enumerate(left):
        behind = len(left) - place
        other: OutputColumn | None = None
        if place < len(right) and not _has_star(left[:place], right[: place + 1]):
            other = right[place]
        elif behind <= len(right) and not _has_star(left[place:], right[-behind:]):
            other = right[-behind]
        united.append(each if each.is_open else OutputColumn(each.name, branches=(each, other)))
    return tuple(united)


def _has_star(*columns: Columns) -> bool:
    return any(each.is_open for some in columns for each in some)
