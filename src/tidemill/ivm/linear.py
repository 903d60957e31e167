"""Rule A: where the changed rows of one table may simply stand in its place, and their signs are carried outwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from tidemill.ivm.blocks import SelectBlock, SetBlock, numbers_in, numbers_of
from tidemill.ivm.refusal import NotIncremental

if TYPE_CHECKING:
    from tidemill.ivm.blocks import Block, Source, Test

WEIGHT = "__w"


def is_linear(block: Block, changed: frozenset[int]) -> bool:
    try:
        check_linear(block, changed)
    except NotIncremental:
        return False
    return True


def check_linear(block: Block, changed: frozenset[int]) -> None:
    """Raises `NotIncremental` unless each row of the block comes from at most one changed row, and from nothing else
    that changes.
    """
    if not numbers_in(block) & changed:
        return
    if isinstance(block, SetBlock):
        if not block.is_union_all:
            raise NotIncremental(f"{block.node.key.upper()} compares rows with each other", block.node)
        check_linear(block.left, changed)
        check_linear(block.right, changed)
        return
    _check_select(block, changed)
    inner = changed_source(block, changed).block
    if inner:
        check_linear(inner, changed)


def _check_select(block: SelectBlock, changed: frozenset[int]) -> None:
    if block.is_aggregate:
        raise NotIncremental("groups need more than their changed rows", block.node.args.get("group") or block.node)
    if block.is_distinct:
        raise NotIncremental("DISTINCT needs more than the changed rows", block.node)
    if block.windows:
        raise NotIncremental("windows need more than the changed rows", block.windows[0])
    for test in block.tests:
        if numbers_in(test.block) & changed:
            raise NotIncremental(_of_test(test), test.node)
    source = changed_source(block, changed)
    if is_padded(block, source):
        raise NotIncremental("a changed table stands on the padded side of an outer join", source.node)


def _of_test(test: Test) -> str:
    if isinstance(test.node, exp.In) and isinstance(test.node.parent, exp.Not):
        return "one NULL in the rows of NOT IN changes its answer for all rows; NOT EXISTS is followed"
    return "a changed table stands in a subquery"


def changed_source(block: SelectBlock, changed: frozenset[int]) -> Source:
    """The only one that changes."""
    found = [each for each in block.sources if numbers_of(each) & changed]
    if len(found) != 1:
        raise NotIncremental("several changed tables are joined", block.node)
    return found[0]


def is_padded(block: SelectBlock, source: Source) -> bool:
    """Whether an outer join may put NULLs in place of the source's rows."""
    place = next((n for n, join in enumerate(block.joins) if join.source is source), -1)
    own = block.joins[place].kind if place >= 0 else "inner"
    return own in {"left", "full"} or any(join.kind in {"right", "full"} for join in block.joins[place + 1 :])


def weighted(block: Block, changed: frozenset[int]) -> exp.Query:
    """A copy of the block's query that gives the signs of changed rows as one more column.

    Tables keep the names of their occurrences; those that changed have to bring the column themselves.
    """
    query = _weighted(block, changed)
    query.set("order", None)
    return query


def _weighted(block: Block, changed: frozenset[int]) -> exp.Query:
    if isinstance(block, SetBlock):
        sides = [each for each in (block.left, block.right) if numbers_in(each) & changed]
        parts = [_weighted(each, changed) for each in sides]
        return parts[0] if len(parts) == 1 else exp.union(*parts, distinct=False, copy=False)
    source = changed_source(block, changed)
    place = block.sources.index(source)
    select = block.node.copy()
    select.set("order", None)
    if source.block is not None:
        _source_nodes(select)[place].set("this", _weighted(source.block, changed))
    weight = exp.column(WEIGHT, table=exp.to_identifier(source.alias, quoted=True))
    return select.select(exp.alias_(weight, WEIGHT), copy=False)


def _source_nodes(select: exp.Select) -> list[exp.Expr]:
    """In the order of a block's sources."""
    return [select.args["from_"].this, *(each.this for each in select.args.get("joins") or ())]
