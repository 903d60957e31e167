"""From trees to SQL: what stands in a table's place, cuts by keys, bags with signs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import sqlglot
from sqlglot import exp

from tidemill.ivm.linear import WEIGHT
from tidemill.ivm.reading import occurrence_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

COUNT = "__n"
Near = "Callable[[str, int], str | None]"


class Names(Protocol):
    """What the tables, their changes and the settled keys are called where the SQL will run."""

    @property
    def keys(self) -> str:
        """The relation of distinct key values: columns k0, k1, …"""

    def now(self, table: str) -> str:
        """All rows of the table as the run has pinned it."""

    def before(self, table: str) -> str:
        """All rows of the table as the last run saw it."""

    def changes(self, table: str) -> str:
        """Its changed rows: the columns that the query uses, and `__w`, 1 or -1."""


def render(tree: exp.Expr, dialect: str) -> str:
    return tree.sql(dialect=dialect, identify=True, comments=False)


def named(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)


def relation(name: str, alias: str | None = None) -> exp.Table:
    return exp.Table(this=named(name), alias=exp.TableAlias(this=named(alias)) if alias else None)


def of(alias: str, name: str) -> exp.Column:
    return exp.Column(this=named(name), table=named(alias))


def column(name: str) -> exp.Column:
    return exp.Column(this=named(name))


def fill(tree: exp.Query, places: Mapping[int, exp.Expr]) -> exp.Query:
    """A copy of the tree in which relations or queries stand in the places of the occurrences."""
    tree = tree.copy()
    names = {occurrence_name(number): place for number, place in places.items()}
    for table in list(tree.find_all(exp.Table)):
        if table.name in names and not table.args.get("db"):
            table.replace(_placed(names[table.name], table.alias))
    return tree


def _placed(place: exp.Expr, alias: str) -> exp.Expr:
    if isinstance(place, exp.Table):
        placed = place.copy()
        placed.set("alias", exp.TableAlias(this=named(alias)))
        return placed
    return exp.Subquery(this=place.copy(), alias=exp.TableAlias(this=named(alias)))


def has_key(keys: str, values: Mapping[int, exp.Expr]) -> exp.Exists:
    """Whether these values, by the numbers of their keys, are among the settled ones; NULL is a value like others."""
    same = [exp.NullSafeEQ(this=of("_k", f"k{n}"), expression=value) for n, value in values.items()]
    found = exp.Select(
        expressions=[exp.alias_(exp.Literal.number(1), "found")],
        from_=exp.From(this=relation(keys, "_k")),
        where=exp.Where(this=exp.and_(*same, copy=False)),
    )
    return exp.Exists(this=found)


def nearby(near: Callable[[str, int], str | None] | None, column: exp.Expr, number: int) -> exp.Expr | None:
    """The condition with literals that the execution gives, so that files can be skipped."""
    text = near(column.sql(dialect="spark", identify=True), number) if near else None
    return exp.Paren(this=sqlglot.parse_one(text, dialect="spark")) if text else None


def cut(
    table: str,
    used: Iterable[str],
    keys: str,
    columns: Mapping[int, str],
    near: Callable[[str, int], str | None] | None,
) -> exp.Select:
    """The rows of a table whose columns, by the numbers of their keys, are among the keys."""
    ties = {n: of("_u", each) for n, each in columns.items()}
    conditions = [has_key(keys, ties), *(nearby(near, tie, n) for n, tie in ties.items())]
    return exp.Select(
        expressions=[of("_u", each) for each in used],
        from_=exp.From(this=relation(table, "_u")),
        where=exp.Where(this=exp.and_(*(each.copy() for each in conditions if each), copy=False)),
    )


def taken_back(now: exp.Select, changes: str, used: Sequence[str], keep: exp.Expr | None = None) -> exp.Select:
    """The bag as it was before: what is there now, less the rows that came, with those that went.

    `keep` is a condition on the changes, by the alias `_d`; they are all meant without one.
    """
    plain = [exp.column(each, quoted=True) for each in used]
    here = select_from(now, plain, exp.alias_(exp.Literal.number(1), COUNT, quoted=True))
    back = exp.alias_(exp.Neg(this=of("_d", WEIGHT)), COUNT, quoted=True)
    gone = exp.Select(
        expressions=[*(of("_d", each) for each in used), back], from_=exp.From(this=relation(changes, "_d"))
    )
    if keep is not None:
        gone.set("where", exp.Where(this=keep))
    both = exp.union(here, gone, distinct=False, copy=False)
    summed = exp.alias_(exp.cast(exp.Sum(this=exp.column(COUNT, quoted=True)), "bigint"), COUNT, quoted=True)
    netted = select_from(both, plain, summed)
    netted.set("group", exp.Group(expressions=[each.copy() for each in plain]))
    held = select_from(netted, plain, exp.column(COUNT, quoted=True))
    held.set("where", exp.Where(this=exp.GT(this=exp.column(COUNT, quoted=True), expression=exp.Literal.number(0))))
    numbers = exp.GenerateSeries(start=exp.Literal.number(1), end=exp.column(COUNT, quoted=True))
    copies = select_from(held, plain, exp.alias_(exp.Explode(this=numbers), "__i", quoted=True))
    return select_from(copies, plain)


def select_from(query: exp.Expr, columns: Iterable[exp.Expr], *more: exp.Expr) -> exp.Select:
    """`SELECT columns, more FROM (query)`."""
    source = query if isinstance(query, exp.Table) else exp.Subquery(this=query, alias=exp.TableAlias(this=named("_q")))
    return exp.Select(expressions=[*(each.copy() for each in columns), *more], from_=exp.From(this=source))


def with_sign(query: exp.Query, columns: Sequence[str], sign: int) -> exp.Select:
    """Its rows, each with this weight."""
    weight: exp.Expr = exp.Literal.number(abs(sign))
    weight = exp.Neg(this=weight) if sign < 0 else weight
    return select_from(query, [exp.column(each, quoted=True) for each in columns], exp.alias_(weight, WEIGHT))


def all_of(queries: Sequence[exp.Query]) -> exp.Query:
    """Their rows together."""
    return queries[0] if len(queries) == 1 else exp.union(*queries, distinct=False, copy=False)


def unordered(tree: exp.Query) -> exp.Query:
    """A copy without the outermost ORDER BY: a table is a bag."""
    tree = tree.copy()
    tree.set("order", None)
    return tree
