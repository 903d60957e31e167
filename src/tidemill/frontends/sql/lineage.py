"""Which inputs of a query own an output column, and what in it can make a row disappear."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp
from sqlglot.optimizer.scope import Scope

from tidemill.frontends.sql.queries import name_of, names_a_table, scopes_of
from tidemill.model.window import WINDOW_PARAMETERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Names = frozenset[str]
    Source = exp.Expr | Scope

_NONE: Names = frozenset()


def missed_inputs(
    query: str, column: str, key: Callable[[str], str], view: Callable[[str], str | None]
) -> tuple[str, ...] | None:
    """The inputs of which a change does not move this output column, in the order in which they are named.

    Followed through CTEs, aliases, unions and views; `key` is how an input's name is known, `view` the query of a view
    by that key. Where it cannot be known who owns the column, nobody does. A query with one input misses none. None
    where the query cannot be parsed.
    """
    scopes = scopes_of(query)
    if not scopes:
        return None
    reader = _Reader(key, view)
    inputs = list(dict.fromkeys(reader.inputs(scopes[-1])))
    missed = reader.owned(scopes[-1], column).missed if len(inputs) > 1 else _NONE
    return tuple(name for name in inputs if name in missed)


@dataclass(frozen=True, slots=True)
class _Owned:
    """The inputs that own a column, and those of which it misses changes."""

    owners: Names = _NONE
    missed: Names = _NONE


@dataclass(frozen=True, slots=True)
class _Reader:
    key: Callable[[str], str]
    view: Callable[[str], str | None]

    def inputs(self, source: Source, seen: tuple[int, ...] = ()) -> Iterator[str]:
        """All that is read, by the names of tables; a view is what it reads. A recursive CTE is read once."""
        if not isinstance(source, Scope):
            yield from self._of_table(source)
            return
        if id(source) in seen:
            return
        below = [each for _, each in source.selected_sources.values()]
        tested = [source.sources[name] for name in source.semi_or_anti_join_tables if name in source.sources]
        for each in (*below, *tested, *source.set_operation_scopes, *source.subquery_scopes):
            yield from self.inputs(each, (*seen, id(source)))

    def owned(self, source: Source, column: str, seen: tuple[int, ...] = ()) -> _Owned:
        """Who owns a column of this source."""
        if not isinstance(source, Scope):
            return self._owned_by_table(source, column)
        if id(source) in seen:
            return _Owned()
        if source.set_operation_scopes:
            return self._owned_by_union(source, column, (*seen, id(source)))
        return self._owned_by_select(source, column, (*seen, id(source)))

    def _of_table(self, table: exp.Expr) -> Iterator[str]:
        if not isinstance(table, exp.Table) or not names_a_table(table):
            return
        name = self.key(name_of(table))
        scopes = scopes_of(self.view(name) or "")
        yield from self.inputs(scopes[-1]) if scopes else (name,)

    def _owned_by_table(self, table: exp.Expr, column: str) -> _Owned:
        if not isinstance(table, exp.Table) or not names_a_table(table):
            return _Owned()
        name = self.key(name_of(table))
        scopes = scopes_of(self.view(name) or "")
        return self.owned(scopes[-1], column) if scopes else _Owned(frozenset({name}))

    def _owned_by_union(self, union: Scope, column: str, seen: tuple[int, ...]) -> _Owned:
        """Each branch by itself: an input may own the column in one and be missed in another."""
        names = [name.lower() for name in _names(union)]
        if column.lower() not in names:
            return _Owned(missed=frozenset(self.inputs(union)))
        place = names.index(column.lower())
        found = [self._owned_at(branch, place, seen) for branch in union.set_operation_scopes]
        return _Owned(_all(each.owners for each in found), _all(each.missed for each in found))

    def _owned_at(self, branch: Scope, place: int, seen: tuple[int, ...]) -> _Owned:
        names = _names(branch)
        known = place < len(names) and "*" not in names
        return self.owned(branch, names[place], seen) if known else _Owned(missed=frozenset(self.inputs(branch)))

    def _owned_by_select(self, select: Scope, column: str, seen: tuple[int, ...]) -> _Owned:
        """What a row's time is made of: of several inputs, only GREATEST moves with each of them."""
        made = _made_of(select, column)
        sources = [(_source_of(select, each), each.name) for each in made.columns]
        found = [self.owned(source, name, seen) if source else _Owned() for source, name in sources]
        owners = [each.owners for each in found]
        own = _all(owners) if made.greatest else frozenset.intersection(*owners) if owners else _NONE
        return _Owned(own, _all(each.missed for each in found) | (frozenset(self.inputs(select)) - own))


@dataclass(frozen=True, slots=True)
class _Made:
    """The columns that an output column is made of; `greatest` where it is the greatest of them."""

    columns: tuple[exp.Column, ...] = ()
    greatest: bool = False


def _made_of(select: Scope, column: str) -> _Made:
    projections = select.expression.expressions
    for each in projections:
        if each.alias_or_name.lower() == column.lower():
            return _Made(tuple(each.find_all(exp.Column)), isinstance(_bare(each), exp.Greatest))
    stars = [each for each in projections if each.is_star]
    tables = {each.table for each in stars if isinstance(each, exp.Column)}
    if len(stars) != 1:
        return _Made()
    return _Made((exp.column(column, table=next(iter(tables), None) or None),))


def _bare(projection: exp.Expr) -> exp.Expr:
    while isinstance(projection, exp.Alias | exp.Cast | exp.Paren):
        projection = projection.this
    return projection


def _source_of(select: Scope, column: exp.Column) -> Source | None:
    """The source that has this column; None where only the data can tell."""
    sources: dict[str, Source] = {name.lower(): each for name, (_, each) in select.selected_sources.items()}
    if column.table:
        return sources.get(column.table.lower())
    if len(sources) == 1:
        return next(iter(sources.values()))
    if not all(isinstance(each, Scope) and "*" not in _names(each) for each in sources.values()):
        return None
    having = [each for each in sources.values() if isinstance(each, Scope) and _has(each, column.name)]
    return having[0] if len(having) == 1 else None


def _names(scope: Scope) -> list[str]:
    """Its output columns, in order; `*` for a star."""
    query = scope.expression
    return query.named_selects if isinstance(query, exp.Query) else ["*"]


def _has(scope: Scope, column: str) -> bool:
    return column.lower() in {name.lower() for name in _names(scope)}


def _all(names: Iterable[Names]) -> Names:
    return _NONE.union(*names)


_GROUPS, _JOINS, _DISTINCT, _FILTERS = "GROUP BY", "a join", "DISTINCT", "a filter"
_CLAUSES = {
    "group": _GROUPS,
    "joins": _JOINS,
    "distinct": _DISTINCT,
    "having": _FILTERS,
    "qualify": _FILTERS,
    "limit": _FILTERS,
}


def losing_parts(query: str) -> tuple[str, ...]:
    """GROUP BY, a join, DISTINCT, a filter: those of them that decide which rows the query returns.

    The bounds of a run's window are no filter. Nothing where the query cannot be parsed.
    """
    found = {part for scope in scopes_of(query) if not _in_an_expression(scope) for part in _parts(scope.expression)}
    return tuple(part for part in (_GROUPS, _JOINS, _DISTINCT, _FILTERS) if part in found)


def _in_an_expression(scope: Scope | None) -> bool:
    """Inside a subquery that gives a value or a condition: what holds it decides about rows."""
    return scope is not None and (scope.is_subquery or _in_an_expression(scope.parent))


def _parts(query: exp.Expr) -> Iterator[str]:
    if isinstance(query, exp.Except | exp.Intersect):
        yield _FILTERS
    yield from (part for clause, part in _CLAUSES.items() if query.args.get(clause))
    where = query.args.get("where")
    if where and not all(_bounds_the_window(each) for each in _conditions(where.this)):
        yield _FILTERS


def _conditions(condition: exp.Expr) -> list[exp.Expr]:
    return [*condition.flatten()] if isinstance(condition, exp.And) else [condition]


def _bounds_the_window(condition: exp.Expr) -> bool:
    return any(each.name.lower() in WINDOW_PARAMETERS for each in condition.find_all(exp.Parameter))
