"""Rule S: counts, sums and averages of exact numbers, kept up to date by adding up what changes.

The state has a row per group: k0, k1, … (the group), n (rows), and for each aggregate i of the query: c_i (values that
are not NULL), s_i (their sum), a_i (the sum of their absolute values, where Spark averages as doubles).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from tidemill.ivm import rendering as sql
from tidemill.ivm.blocks import SelectBlock, build
from tidemill.ivm.decimals import average_of, size_of
from tidemill.ivm.functions import aggregates_of
from tidemill.ivm.kinds import kind_of
from tidemill.ivm.linear import WEIGHT
from tidemill.ivm.reading import own_nodes
from tidemill.ivm.rules import signed_by

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tidemill.ivm.blocks import Block
    from tidemill.ivm.decimals import Size
    from tidemill.ivm.rendering import Names
    from tidemill.ivm.rules import Body, Linear, Local, Near, Telescoped, Term

ROWS = "n"
_EXACT_DOUBLES = 2**53


@dataclass(frozen=True, slots=True, eq=False)
class Total:
    """One aggregate call: its argument (under its FILTER), and what of the state it needs besides the count."""

    call: exp.Expr
    argument: exp.Expr | None
    is_summed: bool = False
    as_double: bool = False
    average: Size | None = None
    most: int = 0  # from this many values on, or for doubles from this sum of absolute values, it is not known

    def columns(self, number: int) -> tuple[str, ...]:
        if self.argument is None:
            return ()
        return (
            f"c{number}",
            *((f"s{number}",) if self.is_summed else ()),
            *((f"a{number}",) if self.as_double else ()),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Totals:
    """A SELECT of groups all of whose aggregates can be added up. Its groups are `keys`; `on` are the view's columns
    that hold some of them, by the numbers of the keys.
    """

    block: SelectBlock
    keys: tuple[exp.Expr, ...]
    calls: tuple[Total, ...]
    on: Mapping[int, str]

    @property
    def key_names(self) -> tuple[str, ...]:
        return tuple(f"k{n}" for n, _ in enumerate(self.keys))

    @property
    def state(self) -> tuple[str, ...]:
        return (*self.key_names, ROWS, *(each for n, call in enumerate(self.calls) for each in call.columns(n)))

    def body(self) -> Block:
        """The rows before they are grouped: k0, … and the arguments x0, …"""
        select = self.block.node.copy()
        named = [exp.alias_(each.copy(), f"k{n}", quoted=True) for n, each in enumerate(self.keys)]
        arguments = [
            exp.alias_(each.argument.copy(), f"x{n}", quoted=True)
            for n, each in enumerate(self.calls)
            if each.argument is not None
        ]
        select.set("expressions", [*named, *arguments] or [exp.alias_(exp.Literal.number(1), "one")])
        for part in ("group", "having", "order"):
            select.set(part, None)
        return build(select)


@dataclass(frozen=True, slots=True, eq=False)
class Summed:
    """The state is maintained by adding up changes, and the view's rows are made from the state.

    Where `on` is empty no group is known in the view: all of its rows are to be replaced. `on` has the columns of
    the keys that `groups` gives.
    """

    body: Body
    totals: Totals
    rows: Linear | Local | Telescoped

    name = "summed"
    by_content = False

    @property
    def terms(self) -> tuple[Term, ...]:
        return self.rows.terms

    @property
    def on(self) -> tuple[str, ...]:
        return tuple(self.totals.on.values())

    @property
    def state(self) -> tuple[str, ...]:
        """The columns of the state."""
        return self.totals.state

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Those of the state that tell a group."""
        return self.totals.key_names

    @property
    def key(self) -> str:
        return ", ".join(self.on) or "one row"

    @property
    def why(self) -> str:
        return "sums and counts are added up"

    def initial(self, names: Names, dialect: str = "spark") -> str:
        """The whole state, from the tables as they are now. Its types are those that the state keeps."""
        block = self.rows.terms[0].body.block
        source = sql.fill(block.node, self.body.whole(names))
        rows = sql.select_from(source, [sql.column(each) for each in block.names], _as(exp.Literal.number(1), WEIGHT))
        return sql.render(self._added_up(rows), dialect)

    def change(self, names: Sequence[Names], near: Sequence[Near | None] = (), dialect: str = "spark") -> str:
        """What comes to the state, in its columns, by the terms with their own keys; to be settled."""
        return sql.render(self._added_up(signed_by(self.terms, names, near)), dialect)

    def merged(self, state: str, change: str, dialect: str = "spark") -> str:
        """The new rows of the groups in the change. Those with n = 0 are gone, except in a view of one row.

        Sums come wider than the state's types are: they are to be cast to these. A negative count anywhere means
        that the state does not belong to these inputs.
        """
        keys = {n: sql.of("_s", name) for n, name in enumerate(self.key_columns)}
        held = exp.Select(expressions=[sql.of("_s", each) for each in self.state])
        held.set("from_", exp.From(this=sql.relation(state, "_s")))
        if keys:
            held.set("where", exp.Where(this=sql.has_key(change, keys)))
        came = sql.select_from(sql.relation(change), [sql.column(each) for each in self.state])
        summed = [_as(exp.Sum(this=sql.column(each)), each) for each in self.state[len(keys) :]]
        plain = [sql.column(each) for each in self.key_columns]
        merged = sql.select_from(sql.all_of([held, came]), plain, *summed)
        if keys:
            merged.set("group", exp.Group(expressions=[each.copy() for each in plain]))
        return sql.render(merged, dialect)

    def groups(self, change: str, dialect: str = "spark") -> str:
        """The distinct keys of the view's rows to replace: k0, …, one for each of `on`."""
        columns = [_as(sql.column(f"k{n}"), f"k{m}") for m, n in enumerate(self.totals.on)]
        return sql.render(sql.select_from(sql.relation(change), columns).distinct(), dialect)

    def visible(self, state: str, keys: str | None = None, dialect: str = "spark") -> str:
        """The view's rows from the state; with `keys`, those of these groups."""
        tree = exp.Select(
            expressions=[
                _as(_from_state(each.unalias(), self.totals), each.alias_or_name)
                for each in self.totals.block.node.expressions
            ],
            from_=exp.From(this=sql.relation(state, "_s")),
        )
        if self.totals.keys:
            tree.where(exp.GT(this=sql.of("_s", ROWS), expression=exp.Literal.number(0)), copy=False)
        if having := self.totals.block.node.args.get("having"):
            tree.where(exp.Paren(this=_from_state(having.this, self.totals)), copy=False)
        if keys and self.on:
            values = {m: sql.of("_s", f"k{n}") for m, n in enumerate(self.totals.on)}
            tree.where(sql.has_key(keys, values), copy=False)
        return sql.render(tree, dialect)

    def beyond(self, state: str, dialect: str = "spark") -> str | None:
        """The number of groups whose sums or averages the state cannot tell: more than 0 calls for another rule.

        It is asked of the state, and of a change of it.
        """
        large = [each for n, call in enumerate(self.totals.calls) for each in _limits(call, n)]
        return _count_where(state, large, dialect) if large else None

    def impossible(self, state: str, dialect: str = "spark") -> str:
        """The number of groups that no rows have: more than 0 says that the state does not belong to the inputs."""
        rows, none = sql.of("_s", ROWS), exp.Literal.number(0)
        wrong: list[exp.Expr] = [exp.LT(this=rows.copy(), expression=none.copy())]
        for n, call in enumerate(self.totals.calls):
            if call.argument is not None:
                values = sql.of("_s", f"c{n}")
                wrong.append(exp.LT(this=values.copy(), expression=none.copy()))
                wrong.append(exp.GT(this=values, expression=rows.copy()))
        return _count_where(state, wrong, dialect)

    def _added_up(self, rows: exp.Query) -> exp.Select:
        plain = [sql.column(each) for each in self.key_columns]
        sums: list[exp.Expr] = [_as(_or_zero(exp.Sum(this=sql.column(WEIGHT))), ROWS)]
        for n, each in enumerate(self.totals.calls):
            sums += _sums_of(each, n)
        added = sql.select_from(rows, plain, *sums)
        if plain:
            added.set("group", exp.Group(expressions=[each.copy() for each in plain]))
        return added


def _sums_of(total: Total, number: int) -> Iterator[exp.Expr]:
    """Never `__w * x`, which would widen decimals until they lose digits."""
    if total.argument is None:
        return
    value, weight = sql.column(f"x{number}"), sql.column(WEIGHT)
    there = exp.Not(this=exp.Is(this=value.copy(), expression=exp.Null()))
    counted = exp.Case().when(there, weight.copy()).else_(exp.Literal.number(0))
    yield _as(_or_zero(exp.Sum(this=counted)), f"c{number}")
    if total.is_summed:
        yield _as(exp.Sum(this=_with_sign(value)), f"s{number}")
    if total.as_double:
        yield _as(exp.Sum(this=_with_sign(exp.Abs(this=value.copy()))), f"a{number}")


def _limits(total: Total, number: int) -> Iterator[exp.Expr]:
    """Where the state does not give its value: the count or the sum has become too large."""
    if total.most:
        large = sql.of("_s", f"a{number}" if total.as_double else f"c{number}")
        yield exp.GTE(this=large, expression=exp.Literal.number(total.most))
    if total.is_summed:  # without ANSI a sum that is too large for its type is NULL, and stays it
        some = exp.NEQ(this=sql.of("_s", f"c{number}"), expression=exp.Literal.number(0))
        yield exp.and_(some, exp.Is(this=sql.of("_s", f"s{number}"), expression=exp.Null()), copy=False)


def _count_where(state: str, conditions: Sequence[exp.Expr], dialect: str) -> str:
    """How many groups meet any of these."""
    counted = exp.Select(expressions=[_as(exp.Count(this=exp.Star()), ROWS)])
    counted.set("from_", exp.From(this=sql.relation(state, "_s")))
    return sql.render(counted.where(exp.or_(*conditions, copy=False), copy=False), dialect)


def _with_sign(value: exp.Expr) -> exp.Expr:
    comes = exp.GT(this=sql.column(WEIGHT), expression=exp.Literal.number(0))
    return exp.Case().when(comes, value.copy()).else_(exp.Neg(this=value.copy()))


def _or_zero(value: exp.Expr) -> exp.Expr:
    return exp.Coalesce(this=value, expressions=[exp.Literal.number(0)])


def _as(value: exp.Expr, name: str) -> exp.Expr:
    return exp.alias_(value, name, quoted=True)


def _from_state(node: exp.Expr, totals: Totals) -> exp.Expr:
    """The user's expression, with state columns for groups and aggregates."""
    for n, key in enumerate(totals.keys):
        if node == key:
            return sql.of("_s", f"k{n}")
    for n, total in enumerate(totals.calls):
        if node == total.call:
            return _value_of(total, n)
    copied: exp.Expr = node.copy()
    for child, twin in zip(list(node.iter_expressions()), list(copied.iter_expressions()), strict=True):
        twin.replace(_from_state(child, totals))
    return copied


def _value_of(total: Total, number: int) -> exp.Expr:
    if total.argument is None:
        return sql.of("_s", ROWS)
    count = sql.of("_s", f"c{number}")
    value: exp.Expr = sql.of("_s", f"s{number}")
    if not total.is_summed:
        return count
    some = exp.GT(this=count.copy(), expression=exp.Literal.number(0))
    if total.as_double:
        value = exp.Div(this=exp.cast(value, "double"), expression=exp.cast(count, "double"))
    elif total.average:
        quotient = exp.Div(this=value, expression=exp.cast(count, "decimal(20,0)"))
        value = exp.cast(quotient, f"decimal({total.average[0]},{total.average[1]})")
    return exp.Paren(this=exp.Case().when(some, value))


def totals_of(root: Block, types: Mapping[int, Mapping[str, str]]) -> Totals | None:
    """None where an aggregate is of another kind, or something else than groups and aggregates is used."""
    if not isinstance(root, SelectBlock) or not root.is_aggregate or root.windows or root.is_distinct:
        return None
    if any(each.place == "value" for each in root.tests):
        return None
    having = root.node.args.get("having")
    parts = [*(each.unalias() for each in root.node.expressions), *([having.this] if having else [])]
    calls: list[Total] = []
    for call in _calls_in(parts):
        total = _total_of(call, root, types)
        if total is None:
            return None
        if not any(each.call == call for each in calls):
            calls.append(total)
    keys = tuple(dict.fromkeys(root.keys))
    if any(kind_of(each, root, types) in {None, "float"} or each.find(exp.Query) for each in keys):
        return None
    on = {
        n: next(each.alias_or_name for each in root.node.expressions if each.unalias() == key)
        for n, key in enumerate(keys)
        if any(each.unalias() == key for each in root.node.expressions)
    }
    found = Totals(root, keys, tuple(calls), on)
    used = [node for each in parts for node in own_nodes(_from_state(each, found)) if isinstance(node, exp.Column)]
    return found if all(each.table == "_s" for each in used) else None


def _calls_in(parts: Sequence[exp.Expr]) -> Iterator[exp.Expr]:
    """Aggregates, each with its FILTER."""
    for call in aggregates_of(list(parts)):
        yield call.parent if isinstance(call.parent, exp.Filter) else call


def _total_of(call: exp.Expr, block: SelectBlock, types: Mapping[int, Mapping[str, str]]) -> Total | None:
    inner = call.this if isinstance(call, exp.Filter) else call
    condition = call.expression.this if isinstance(call, exp.Filter) else None
    argument = inner.this
    if isinstance(argument, exp.Distinct) or inner.args.get("expressions"):
        return None
    match inner:
        case exp.Count() if isinstance(argument, exp.Star | exp.Literal):
            return Total(call, _filtered(exp.Literal.number(1), condition) if condition else None)
        case exp.Count():
            return Total(call, _filtered(argument, condition))
        case exp.CountIf():
            both = exp.and_(argument.copy(), condition.copy()) if condition else argument
            return Total(call, _filtered(exp.Literal.number(1), both))
        case exp.Sum() | exp.Avg():
            return _sum_of(call, inner, _filtered(argument, condition), block, types)
    return None


def _sum_of(
    call: exp.Expr, inner: exp.Expr, argument: exp.Expr, block: SelectBlock, types: Mapping[int, Mapping[str, str]]
) -> Total | None:
    kind = kind_of(inner.this, block, types)
    if kind == "whole":
        is_average = isinstance(inner, exp.Avg)
        # Spark averages whole numbers as doubles: what it can average may be too large for its sums of them.
        wide = exp.cast(argument.copy(), "decimal(20,0)" if is_average else "bigint")
        return Total(call, wide, is_summed=True, as_double=is_average, most=_EXACT_DOUBLES if is_average else 0)
    if kind != "decimal":
        return None
    if isinstance(inner, exp.Sum):
        return Total(call, argument, is_summed=True)
    size = size_of(inner.this, block, types)
    average = average_of(size) if size else None
    return Total(call, argument, is_summed=True, average=average[0], most=average[1]) if average else None


def _filtered(value: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
    return exp.Case().when(condition.copy(), value.copy()) if condition is not None else value.copy()
