"""A query as a materialized view: what it reads, of what blocks it is, and by which rules it can be kept up to date."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from tidemill.frontends.sql import volatile_columns
from tidemill.ivm.blocks import SelectBlock, SetBlock, all_blocks, build, children_of, owner_of
from tidemill.ivm.exact import drifting
from tidemill.ivm.grouped import Grouped, grouping_of
from tidemill.ivm.linear import check_linear, is_linear
from tidemill.ivm.reading import own_nodes, read_query, read_text
from tidemill.ivm.refusal import NotIncremental
from tidemill.ivm.rendering import fill, relation, render
from tidemill.ivm.rules import Body, Linear, Local, Telescoped
from tidemill.ivm.sums import Summed, totals_of
from tidemill.ivm.telescope import Chooser

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tidemill.ivm.blocks import Block
    from tidemill.ivm.reading import Occurrence

Rule = Linear | Local | Summed | Grouped | Telescoped


@dataclass(frozen=True, slots=True)
class BlockText:
    """A block for people: its kind ("join", "aggregate", "window", "distinct", "union all", …), what it is by, what it
    reads.
    """

    kind: str
    text: str
    tables: tuple[str, ...]
    children: tuple[BlockText, ...]


def analyse(
    text: str,
    columns: Mapping[str, Mapping[str, str]],
    *,
    not_null: Mapping[str, frozenset[str]] | None = None,
    deterministic: frozenset[str] = frozenset(),
) -> ViewQuery:
    """The query, understood; `NotIncremental` where it cannot be kept up to date whatever changes.

    `columns` has each table's columns and their Spark types, by the table's name as it stands in the query, in lower
    case; `not_null` those that are declared so. `deterministic` are functions of users that always give the same
    from the same.
    """
    lower = {table.lower(): {name.lower(): kind for name, kind in each.items()} for table, each in columns.items()}
    shown = frozenset(name.lower() for name in volatile_columns(text))
    tree, occurrences = read_query(text, lower, frozenset(each.lower() for each in deterministic), shown)
    block = build(tree)
    types = {number: lower[each.table] for number, each in occurrences.items()}
    occurrences = _with_used(block, occurrences, types)
    _check_collations(occurrences, types)
    shown_names = tuple(each for each in block.names if each in shown)
    return ViewQuery(block, occurrences, types, shown_names, _solid(occurrences, not_null or {}))


def check_text(text: str, deterministic: frozenset[str] = frozenset()) -> None:
    """Raises `NotIncremental` where the query alone shows that it can never be kept up to date by changes."""
    own, shown = (frozenset(each.lower() for each in names) for names in (deterministic, volatile_columns(text)))
    read_text(text, own, shown)


@dataclass(frozen=True, slots=True, eq=False)
class ViewQuery:
    """A query that can be kept up to date, at least for some changes."""

    block: Block
    by_number: Mapping[int, Occurrence]
    types: Mapping[int, Mapping[str, str]]
    volatile: tuple[str, ...]
    not_null: frozenset[tuple[int, str]]

    @property
    def text(self) -> str:
        """The query as it was understood, over the tables as they are called in the original."""
        return self.render("spark")

    def render(self, dialect: str, names: Mapping[str, str] | None = None) -> str:
        """The same in another dialect, and over other relations where `names` has some for tables."""
        places = {
            number: relation(names[each.table]) if names and each.table in names else each.written
            for number, each in self.by_number.items()
        }
        return render(fill(self.block.node, places), dialect)

    @property
    def output(self) -> tuple[str, ...]:
        """The names of its columns in `text`; Spark may call those without an alias otherwise, in the same order."""
        return tuple(self.block.names)

    @property
    def occurrences(self) -> tuple[Occurrence, ...]:
        return tuple(self.by_number.values())

    @property
    def tables(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.table for each in self.by_number.values()))

    def used(self, table: str) -> tuple[str, ...]:
        """The columns of a table that the query reads, at any of its places, in the table's order."""
        here = [each for each in self.by_number.values() if each.table == table.lower()]
        named = {name for each in here for name in each.used}
        return tuple(name for name in self.types[here[0].number] if name in named) if here else ()

    @property
    def blocks(self) -> BlockText:
        return _told(self.block, self.by_number)

    def rule(self, changed: frozenset[str]) -> Rule:
        """The rule for a change of these tables; `NotIncremental` where there is none."""
        rules = self.rules(changed)
        if not rules:
            raise self._refusal(self._numbers(changed))
        return rules[0]

    def rules(self, changed: frozenset[str]) -> tuple[Rule, ...]:
        """All rules for a change of these tables, the most promising first."""
        return tuple(self._rules(self._numbers(changed)))

    def _rules(self, numbers: frozenset[int]) -> Iterator[Rule]:
        body = Body(self.block, self.by_number)
        chooser = self._chooser(self.block)
        firm = drifting(self.block, self.types) is None
        if firm and is_linear(self.block, numbers):
            yield Linear(body, numbers)
        pieces = chooser.pieces(numbers)
        keyed = [Local(body, numbers, (each,), _first_of(body.output, each.out)) for each in pieces if each.out]
        joined = [
            each for each in keyed if len(each.pieces[0].cuts) > 1
        ]  # a key that tables are joined by is a fine one
        yield from joined
        if summed := self._summed(body, numbers):
            yield summed
        yield from (each for each in keyed if each not in joined)
        if grouped := self._grouped(body, numbers, is_firm=firm):
            yield grouped
        if firm and chooser.can_take_back():
            yield from (Local(body, numbers, (each,)) for each in pieces if not each.out)
        if firm and (telescoped := chooser.telescoped(numbers)):
            yield telescoped

    def _chooser(self, block: Block) -> Chooser:
        return Chooser(block, self.by_number, self.types, self.not_null)

    def _summed(self, body: Body, numbers: frozenset[int]) -> Summed | None:
        totals = totals_of(self.block, self.types)
        rows = totals and self._chooser(totals.body()).signed(numbers)
        return Summed(body, totals, rows) if totals and rows else None

    def _grouped(self, body: Body, numbers: frozenset[int], *, is_firm: bool) -> Grouped | None:
        grouping = grouping_of(self.block, numbers, self.types, is_firm=is_firm)
        if grouping is None:
            return None
        rows = self._chooser(grouping.body()).signed(numbers)
        return Grouped(body, grouping, rows) if rows else None

    def _numbers(self, changed: frozenset[str]) -> frozenset[int]:
        lower = {each.lower() for each in changed}
        numbers = frozenset(number for number, each in self.by_number.items() if each.table in lower)
        if not numbers:
            raise ValueError(f"the query reads none of {', '.join(sorted(changed))}")
        return numbers

    def _refusal(self, numbers: frozenset[int]) -> NotIncremental:
        pieces = self._chooser(self.block).pieces(numbers)
        call = drifting(self.block, self.types)
        if call is not None and (pieces or is_linear(self.block, numbers)):
            what = "the order among ties" if isinstance(call, exp.Window) else "the last digits of a sum of floats"
            return NotIncremental(f"{what} may differ from run to run, and no output column is the key", call)
        try:
            check_linear(self.block, numbers)
        except NotIncremental as refusal:
            return refusal
        return NotIncremental("no column ties its changed tables together")


def _solid(occurrences: Mapping[int, Occurrence], not_null: Mapping[str, frozenset[str]]) -> frozenset[tuple[int, str]]:
    """The columns that are never NULL, by the places of their tables."""
    names = {table.lower(): {each.lower() for each in columns} for table, columns in not_null.items()}
    return frozenset((number, name) for number, each in occurrences.items() for name in names.get(each.table, ()))


def _first_of(names: tuple[str, ...], out: frozenset[str]) -> tuple[str, ...]:
    return (next(each for each in names if each in out),)


def _with_used(
    block: Block, occurrences: Mapping[int, Occurrence], types: Mapping[int, Mapping[str, str]]
) -> dict[int, Occurrence]:
    used: dict[int, set[str]] = {number: set() for number in occurrences}
    for each in all_blocks(block):
        if isinstance(each, SelectBlock):
            for column in _columns(each):
                source = owner_of(column, each)
                if source.number is not None:
                    used[source.number].add(column.name)
    return {
        number: replace(each, used=tuple(name for name in types[number] if name in used[number]))
        for number, each in occurrences.items()
    }


def _check_collations(occurrences: Mapping[int, Occurrence], types: Mapping[int, Mapping[str, str]]) -> None:
    """'bob' and 'BOB' may be equal, and yet a change from one to the other is one."""
    for number, each in occurrences.items():
        for name in each.used:
            if "collate" in types[number][name].lower():
                raise NotIncremental(f"a collation tells what is equal in {name}", each.written, name)


def _columns(block: SelectBlock) -> Iterator[exp.Column]:
    """Those of the SELECT's own expressions; in ORDER BY also names of output columns stand, which are none."""
    for name, part in block.node.args.items():
        if name == "from_":
            continue
        for root in part if isinstance(part, list) else [part]:
            if isinstance(root, exp.Expr):
                start = root.args.get("on") if isinstance(root, exp.Join) else root
                nodes = own_nodes(start) if start else ()
                yield from (each for each in nodes if isinstance(each, exp.Column) and (each.table or name != "order"))


def _told(block: Block, occurrences: Mapping[int, Occurrence]) -> BlockText:
    children = tuple(_told(each, occurrences) for each in children_of(block))
    if isinstance(block, SetBlock):
        kind = block.node.key + (" all" if block.keeps_all else "")
        return BlockText(kind, "", (), children)
    tables = tuple(occurrences[each.number].table for each in block.sources if each.number is not None)
    return BlockText(*_kind_of_select(block), tables, children)


def _kind_of_select(block: SelectBlock) -> tuple[str, str]:
    if block.is_aggregate:
        return "aggregate", "by " + ", ".join(_short(each) for each in block.keys) if block.keys else "in one row"
    if block.windows:
        parts = {_short(part) for each in block.windows for part in each.args.get("partition_by") or ()}
        return "window", "by " + ", ".join(sorted(parts)) if parts else "over all rows"
    if block.is_distinct:
        return "distinct", ""
    if block.joins:
        return "join", " and ".join(_short(part) for each in block.joins for part in each.on)
    return "select", " and ".join(_short(each) for each in block.where)


def _short(node: exp.Expr) -> str:
    """As people read it."""
    return node.copy().transform(_shortened).sql(dialect="spark")


def _shortened(node: exp.Expr) -> exp.Expr:
    """Columns without their tables, and queries inside only as that: they are blocks of their own."""
    if isinstance(node, exp.Column):
        return exp.column(node.name)
    return exp.Var(this="…") if isinstance(node, exp.Select | exp.SetOperation) else node
