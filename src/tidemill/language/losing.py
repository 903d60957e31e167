"""What in a query can make a row disappear that it returned before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from tidemill.declare.templates import WINDOW_PARAMETERS
from tidemill.language.queries import scopes_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlglot.optimizer.scope import Scope

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
