"""Which inputs of a query own an output column, and what in it can make a row disappear."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from tidemill.frontends.sql.scopes import parse_query
from tidemill.model.cursor import WINDOW_PARAMETERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sqlglot.optimizer.scope import Scope

    from tidemill.frontends.sql.scopes import OutputColumn, QueryTree, Relation

    Names = frozenset[str]

_NONE: Names = frozenset()


def missed_inputs(
    query: str, column: str, key: Callable[[str], str], view: Callable[[str], str | None]
) -> tuple[str, ...] | None:
    """The inputs of which a change does not move this output column, in the order in which they are named.

    Followed through CTEs, aliases, unions and views; `key` is how an input's name is known, `view` the query of a view
    by that key. Where it cannot be known who owns the column, nobody does. A query with one input misses none. None
    where the query cannot be parsed.
    """
    tree = parse_query(query)
    if tree is None or tree.root is None:
        return None
    lineage = _Lineage(tree, key, view)
    inputs = list(dict.fromkeys(lineage.inputs(tree.root)))
    missed = lineage.of_name(tree.root, column).missed if len(inputs) > 1 else _NONE
    return tuple(name for name in inputs if name in missed)


@dataclass(frozen=True, slots=True)
class _Owned:
    """The inputs that own a column, and those of which it misses changes."""

    owners: Names = _NONE
    missed: Names = _NONE


@dataclass(frozen=True, slots=True)
class _Lineage:
    tree: QueryTree
    key: Callable[[str], str]
    view: Callable[[str], str | None]

    def inputs(self, scope: Scope) -> Iterator[str]:
        """All that is read, by the names of tables; a view is what it reads."""
        for relation in self.tree.relations(scope):
            if relation.name is not None:
                name, viewed = self._known(relation.name)
                yield from viewed.inputs(viewed.tree.scopes[-1]) if viewed else (name,)
            elif relation.scope is not None:
                yield from self.inputs(relation.scope)
        for each in (*scope.set_operation_scopes, *scope.subquery_scopes):
            yield from self.inputs(each)

    def of_name(self, scope: Scope, name: str) -> _Owned:
        """Who owns the column of this name: it is listed, or there is one `*` that may bring it."""
        columns = self.tree.columns(scope)
        if listed := next((each for each in columns if each.has_name(name)), None):
            return self.of_column(scope, listed)
        stars = [each.relation for each in columns if each.is_open]
        if len(stars) != 1 or stars[0] is None or scope.set_operation_scopes:
            return _Owned(missed=frozenset(self.inputs(scope)))
        return self._of_select(scope, [self._of_relation(stars[0], name, None)])

    def of_column(self, scope: Scope, column: OutputColumn) -> _Owned:
        """What a row's time is made of: of several inputs, only GREATEST moves with each of them."""
        if column.branches:
            return self._of_union(scope, column)
        if column.relation is not None:
            return self._of_select(scope, [self._of_relation(column.relation, column.name, column.column)])
        found = [self._of_reference(scope, each) for each in column.made.find_all(exp.Column)] if column.made else []
        return self._of_select(scope, found, moves_with_all=isinstance(_bare(column.made), exp.Greatest))

    def _known(self, table: str) -> tuple[str, _Lineage | None]:
        """How a table is known; of a view, its query."""
        name = self.key(table)
        tree = parse_query(self.view(name) or "")
        return name, _Lineage(tree, self.key, self.view) if tree and tree.scopes else None

    def _of_relation(self, relation: Relation, name: str, column: OutputColumn | None) -> _Owned:
        if relation.scope is not None:
            return self.of_column(relation.scope, column) if column else self.of_name(relation.scope, name)
        if relation.name is None:
            return _Owned()
        known, viewed = self._known(relation.name)
        return viewed.of_name(viewed.tree.scopes[-1], name) if viewed else _Owned(frozenset({known}))

    def _of_reference(self, scope: Scope, column: exp.Column) -> _Owned:
        """Nobody owns it where only the data can tell whose it is."""
        owners = self.tree.owners(scope, column)
        if len(owners) != 1:
            return _Owned()
        relation, listed = owners[0]
        return self._of_relation(relation, column.name, listed and listed.column)

    def _of_union(self, union: Scope, column: OutputColumn) -> _Owned:
        """Each branch by itself: an input may own the column in one and be missed in another."""
        pairs = zip(union.set_operation_scopes, column.branches, strict=True)
        found = [
            self.of_column(scope, each) if each else _Owned(missed=frozenset(self.inputs(scope)))
            for scope, each in pairs
        ]
        return _Owned(_all(each.owners for each in found), _all(each.missed for each in found))

    def _of_select(self, select: Scope, found: list[_Owned], *, moves_with_all: bool = False) -> _Owned:
        owners = [each.owners for each in found]
        own = _all(owners) if moves_with_all else frozenset.intersection(*owners) if owners else _NONE
        return _Owned(own, _all(each.missed for each in found) | (frozenset(self.inputs(select)) - own))


def _bare(made: exp.Expr | None) -> exp.Expr | None:
    while isinstance(made, exp.Alias | exp.Cast | exp.Paren):
        made = made.this
    return made


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
    tree = parse_query(query)
    scopes = [scope for scope in tree.scopes if not _in_an_expression(scope)] if tree else []
    found = {part for scope in scopes for part in _parts(scope.expression)}
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
