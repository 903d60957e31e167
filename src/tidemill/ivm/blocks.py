"""The query as blocks: what a SELECT joins and how, which queries stand in its expressions, whose a column is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from sqlglot import exp

from tidemill.ivm.functions import aggregates_of
from tidemill.ivm.reading import own_nodes
from tidemill.ivm.refusal import NotIncremental

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

JoinKind = Literal["inner", "left", "right", "full"]
_KINDS: dict[str, JoinKind] = {"": "inner", "LEFT": "left", "RIGHT": "right", "FULL": "full"}
Place = Literal["condition", "outer condition", "generator", "value"]


@dataclass(eq=False, slots=True)
class Source:
    """What a SELECT reads from by an alias: a table (`number` of its occurrence), a query (`block`), or neither."""

    alias: str
    node: exp.Expr
    number: int | None = None
    block: Block | None = None


@dataclass(eq=False, slots=True)
class Join:
    """A further source; `on` are the conjuncts of its condition."""

    source: Source
    kind: JoinKind
    on: tuple[exp.Expr, ...]


@dataclass(eq=False, slots=True)
class Test:
    """A query inside an expression: EXISTS, IN or a scalar subquery; `node` is what holds it.

    `asserted` where the whole expression is one of the conjuncts that every row has to meet.
    """

    block: Block
    node: exp.Expr
    place: Place
    asserted: bool


@dataclass(eq=False, slots=True)
class SelectBlock:
    """One SELECT. `around` is the SELECT in whose expressions it stands, if it stands in any."""

    node: exp.Select
    around: SelectBlock | None
    first: Source | None = None
    joins: list[Join] = field(default_factory=list)
    generators: list[Source] = field(default_factory=list)
    where: tuple[exp.Expr, ...] = ()
    tests: list[Test] = field(default_factory=list)

    @property
    def sources(self) -> list[Source]:
        return [each for each in (self.first, *(join.source for join in self.joins), *self.generators) if each]

    @property
    def names(self) -> list[str]:
        return [each.alias_or_name for each in self.node.expressions]

    def value(self, name: str) -> exp.Expr:
        """The expression of an output column."""
        found: exp.Expr = next(each for each in self.node.expressions if each.alias_or_name == name)
        return found.unalias()

    @property
    def keys(self) -> list[exp.Expr]:
        """The expressions of GROUP BY."""
        return list(self.node.args["group"].expressions) if self.node.args.get("group") else []

    @property
    def is_aggregate(self) -> bool:
        parts = [*self.node.expressions, self.node.args.get("having"), self.node.args.get("order")]
        return bool(self.keys) or next(aggregates_of([each for each in parts if each]), None) is not None

    @property
    def windows(self) -> list[exp.Window]:
        parts = [*self.node.expressions, self.node.args.get("order")]
        return [each for part in parts if part for each in own_nodes(part) if isinstance(each, exp.Window)]

    @property
    def is_distinct(self) -> bool:
        return self.node.args.get("distinct") is not None


@dataclass(eq=False, slots=True)
class SetBlock:
    """UNION, EXCEPT or INTERSECT of two blocks; `keeps_all` where it ends with ALL."""

    node: exp.SetOperation
    left: Block
    right: Block

    @property
    def keeps_all(self) -> bool:
        return not self.node.args.get("distinct")

    @property
    def is_union_all(self) -> bool:
        return isinstance(self.node, exp.Union) and self.keeps_all

    @property
    def names(self) -> list[str]:
        return self.left.names


Block = SelectBlock | SetBlock
Column = tuple[Source, str]


def children_of(block: Block) -> Iterator[Block]:
    """The blocks directly inside."""
    if isinstance(block, SetBlock):
        yield from (block.left, block.right)
        return
    yield from (each.block for each in block.sources if each.block)
    yield from (each.block for each in block.tests)


def numbers_in(block: Block) -> frozenset[int]:
    """The occurrences of tables in this block and in those inside."""
    own = (
        {each.number for each in block.sources if each.number is not None} if isinstance(block, SelectBlock) else set()
    )
    return frozenset(own).union(*(numbers_in(each) for each in children_of(block)))


def numbers_of(source: Source) -> frozenset[int]:
    if source.block is not None:
        return numbers_in(source.block)
    return frozenset() if source.number is None else frozenset({source.number})


def owner_of(column: exp.Column, block: SelectBlock) -> Source:
    """The source that a column is of: one of the SELECT's own, or of one around it."""
    look: SelectBlock | None = block
    while look is not None:
        for source in look.sources:
            if source.alias == column.table:
                return source
        look = look.around
    raise NotIncremental(f"it is not known whose column {column.name} is", column)


def build(node: exp.Expr, around: SelectBlock | None = None) -> Block:
    """The block of a qualified query."""
    node = node.unnest() if isinstance(node, exp.Subquery | exp.Paren) else node
    if isinstance(node, exp.SetOperation):
        return SetBlock(node, build(node.left, around), build(node.right, around))
    if not isinstance(node, exp.Select):
        raise NotIncremental("this kind of query is not analysed", node)
    return _build_select(node, around)


def _build_select(node: exp.Select, around: SelectBlock | None) -> SelectBlock:
    block = SelectBlock(node, around)
    if from_ := node.args.get("from_"):
        block.first = _source(from_.this, around)
    for join in node.args.get("joins") or ():
        kind = _KINDS[join.side]
        block.joins.append(Join(_source(join.this, around), kind, tuple(conjuncts(join.args.get("on")))))
    block.generators = [Source(each.alias, each) for each in node.args.get("laterals") or ()]
    where = node.args.get("where")
    block.where = tuple(conjuncts(where.this)) if where else ()
    _check_aliases(block)
    block.tests = list(_tests(block))
    return block


def _check_aliases(block: SelectBlock) -> None:
    aliases = [each.alias for each in block.sources]
    if len(set(aliases)) < len(aliases) or "" in aliases:
        raise NotIncremental("two of its sources have the same name", block.node)


def _source(node: exp.Expr, around: SelectBlock | None) -> Source:
    """A query in FROM sees what the SELECT around sees from outside, and none of its neighbours."""
    match node:
        case exp.Table():
            return Source(node.alias, node, number=int(node.name.rsplit("_", 1)[1]))
        case exp.Subquery() if isinstance(node.this, exp.Query):
            return Source(node.alias, node, block=build(node.this, around))
        case exp.Values():
            return Source(node.alias, node)
    raise NotIncremental("this kind of source is not analysed", node)


def conjuncts(condition: exp.Expr | None) -> Iterator[exp.Expr]:
    """What has to be true at once for the condition to be true."""
    condition = condition.unnest() if isinstance(condition, exp.Paren) else condition
    if isinstance(condition, exp.And):
        yield from conjuncts(condition.left)
        yield from conjuncts(condition.right)
    elif condition is not None:
        yield condition


def _tests(block: SelectBlock) -> Iterator[Test]:
    for each in block.where:
        yield from _tests_in(each, block, "condition", asserted=True)
    padding = [n for n, join in enumerate(block.joins) if join.kind in {"right", "full"}]
    for n, join in enumerate(block.joins):
        inner = join.kind == "inner" and not any(later > n for later in padding)
        for each in join.on:
            yield from _tests_in(each, block, "condition" if inner else "outer condition", asserted=inner)
    for generator in block.generators:
        yield from _tests_in(generator.node, block, "generator", asserted=False)
    for part in ("group", "having", "order"):
        if node := block.node.args.get(part):
            yield from _tests_in(node, block, "value", asserted=False)
    for projection in block.node.expressions:
        yield from _tests_in(projection, block, "value", asserted=False)


def _tests_in(root: exp.Expr, block: SelectBlock, place: Place, *, asserted: bool) -> Iterator[Test]:
    for node in own_nodes(root):
        if isinstance(node, exp.Query):
            holder = node.parent if isinstance(node.parent, exp.Exists | exp.In | exp.All | exp.Any) else node
            yield Test(build(node, block), holder, place, asserted and holder is root)


def all_blocks(root: Block) -> Sequence[Block]:
    """The block and all inside."""
    return [root, *(each for child in children_of(root) for each in all_blocks(child))]
