"""Rules G and W: of groups, of partitions of windows, and of DISTINCT, those with a changed row are computed again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from tidemill.ivm import rendering as sql
from tidemill.ivm.blocks import SelectBlock, build, numbers_in
from tidemill.ivm.functions import aggregates_of
from tidemill.ivm.kinds import kind_of
from tidemill.ivm.linear import changed_source, is_padded
from tidemill.ivm.reading import own_nodes
from tidemill.ivm.refusal import NotIncremental
from tidemill.ivm.rules import signed_by

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tidemill.ivm.blocks import Block
    from tidemill.ivm.rendering import Names
    from tidemill.ivm.rules import Body, Linear, Local, Near, Telescoped, Term


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """The block that groups rows, and what is around it.

    `places` lead from the outermost SELECT to it: the number of a source for each step. `parts` are expressions over
    the rows that it groups; all rows of a group, or of a partition, agree in them. `on` are the view's columns that
    hold them.
    """

    block: SelectBlock
    places: tuple[int, ...]
    parts: tuple[exp.Expr, ...]
    on: tuple[str, ...]

    def body(self) -> Block:
        """The rows before they are grouped: what tells a group from others, as k0, k1, …"""
        select = self.block.node.copy()
        named = [exp.alias_(each.copy(), f"k{n}", quoted=True) for n, each in enumerate(self.parts)]
        select.set("expressions", named)
        for part in ("group", "having", "distinct", "order"):
            select.set(part, None)
        return build(select)


@dataclass(frozen=True, slots=True, eq=False)
class Grouped:
    """The user's own query, over the groups that rows come to or go from; `terms` give these rows."""

    body: Body
    grouping: Grouping
    rows: Linear | Local | Telescoped

    name = "grouped"
    by_content = False

    @property
    def terms(self) -> tuple[Term, ...]:
        return self.rows.terms

    @property
    def on(self) -> tuple[str, ...]:
        return self.grouping.on

    @property
    def key(self) -> str:
        return ", ".join(self.on)

    @property
    def why(self) -> str:
        return f"only groups of {self.key} with changed rows are computed again"

    def keys(self, names: Sequence[Names], near: Sequence[Near | None] = (), dialect: str = "spark") -> str:
        """The distinct groups of rows that come or go: k0, k1, …, by the terms with their own keys."""
        columns = [exp.column(f"k{n}", quoted=True) for n in range(len(self.on))]
        return sql.render(sql.select_from(signed_by(self.terms, names, near), columns).distinct(), dialect)

    def new(self, names: Names, near: Near | None = None, dialect: str = "spark") -> str:
        """The view's rows in these groups, as they are now."""
        tree = sql.unordered(self.body.tree)
        block = tree
        for place in self.grouping.places:
            sources = [block.args["from_"].this, *(each.this for each in block.args.get("joins") or ())]
            block = sources[place].unnest()
        parts = {n: each.copy() for n, each in enumerate(self.grouping.parts)}
        block.where(sql.has_key(names.keys, parts), copy=False)
        for n, part in parts.items():
            if isinstance(part, exp.Column) and (close := sql.nearby(near, part, n)):
                block.where(close, copy=False)
        return sql.render(sql.fill(tree, self.body.whole(names)), dialect)


def grouping_of(
    root: Block, changed: frozenset[int], types: Mapping[int, Mapping[str, str]], *, is_firm: bool
) -> Grouping | None:
    """The outermost block that groups changed rows, if only such blocks are around it as take its rows one by one."""
    block, places, names = root, [], {name: name for name in root.names}
    while isinstance(block, SelectBlock) and not (block.is_aggregate or block.windows or block.is_distinct):
        try:
            source = changed_source(block, changed)
        except NotIncremental:
            return None
        if is_padded(block, source) or source.block is None or any(numbers_in(t.block) & changed for t in block.tests):
            return None
        names = {inner: outer for outer, inner in _passed(block, source.alias, names)}
        places.append(block.sources.index(source))
        block = source.block
    if not isinstance(block, SelectBlock) or any(_decides(each, changed) for each in block.tests):
        return None
    found = [
        (part, names[name])
        for name, part in _shared(block)
        if name in names and _can_be_told(part, block, types, is_firm=is_firm)
    ]
    return Grouping(block, tuple(places), *(tuple(each) for each in zip(*found, strict=True))) if found else None


def _passed(block: SelectBlock, alias: str, names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The columns of the inner block that reach the view: (the view's name, the inner name)."""
    for projection in block.node.expressions:
        value = projection.unalias()
        if isinstance(value, exp.Column) and value.table == alias and projection.alias_or_name in names:
            yield names[projection.alias_or_name], value.name


def _decides(test: object, changed: frozenset[int]) -> bool:
    """A query over changed rows in SELECT or HAVING: it may change groups that have no changed row."""
    return test.place == "value" and bool(numbers_in(test.block) & changed)  # type: ignore[attr-defined]


def _shared(block: SelectBlock) -> Iterator[tuple[str, exp.Expr]]:
    """Output columns, with their expressions, that all rows of a group and of each partition agree in."""
    seen: list[exp.Expr] = []
    for projection in block.node.expressions:
        value = projection.unalias()
        if block.is_aggregate and value not in block.keys:
            continue
        if any(value not in (each.args.get("partition_by") or ()) for each in block.windows):
            continue
        if value not in seen and not any(isinstance(each, exp.Query | exp.Window) for each in own_nodes(value)):
            seen.append(value)
            yield projection.alias_or_name, value


def _can_be_told(part: exp.Expr, block: SelectBlock, types: Mapping[int, Mapping[str, str]], *, is_firm: bool) -> bool:
    """Whether equal values are equal in every run: they come from no sum of floats."""
    if part.find(exp.Column) is None or next(aggregates_of([part]), None) is not None:
        return False
    if part.find(exp.Explode, exp.Posexplode, exp.Inline) is not None:
        return False
    kind = kind_of(part, block, types)
    return kind != "float" and (kind is not None or is_firm)


__all__ = ["Grouped", "Grouping", "grouping_of"]
