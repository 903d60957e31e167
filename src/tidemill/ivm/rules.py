"""The rules by which a view is brought up to date, each as the SQL that its execution sends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from tidemill.ivm import rendering as sql
from tidemill.ivm.linear import weighted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from tidemill.ivm.blocks import Block
    from tidemill.ivm.pieces import Pieces
    from tidemill.ivm.reading import Occurrence
    from tidemill.ivm.rendering import Names

    Near = Callable[[str, int], str | None]


@dataclass(frozen=True, slots=True, eq=False)
class Body:
    """A query with its tables; those of `before` are meant as the last run saw them."""

    block: Block
    occurrences: Mapping[int, Occurrence]
    before: frozenset[int] = frozenset()

    @property
    def tree(self) -> exp.Query:
        return self.block.node

    @property
    def output(self) -> tuple[str, ...]:
        return tuple(self.block.names)

    def whole(self, names: Names, but: Collection[int] = ()) -> dict[int, exp.Expr]:
        """All tables in full, but for some."""
        return {
            number: sql.relation(names.before(each.table) if number in self.before else names.now(each.table))
            for number, each in self.occurrences.items()
            if number not in but
        }

    def whole_before(self, but: Collection[int] = ()) -> frozenset[str]:
        """The tables of which `whole` takes all rows as the last run saw them."""
        return frozenset(self.occurrences[number].table for number in self.before if number not in but)


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    """Rule A: the changed rows stand in their table's place, and nothing else of it is read."""

    body: Body
    changed: frozenset[int]

    name = "linear"
    by_content = True
    on: tuple[str, ...] = ()

    @property
    def terms(self) -> tuple[Term, ...]:
        return (self,)

    @property
    def key(self) -> str:
        return ", ".join(sorted({self.body.occurrences[each].table for each in self.changed}))

    @property
    def why(self) -> str:
        return f"every row comes from one row of {self.key} at most"

    def signed(self, names: Names, near: Near | None = None, dialect: str = "spark") -> str:
        """The view's columns and `__w`, of all rows that come and go."""
        return sql.render(self.signed_tree(names, near), dialect)

    def signed_tree(self, names: Names, near: Near | None = None) -> exp.Query:
        del near  # there are no keys
        tables = self.body.occurrences
        changes = {each: sql.relation(names.changes(tables[each].table)) for each in self.changed}
        whole = self.body.whole(names, self.changed)
        return sql.fill(weighted(self.body.block, self.changed), {**whole, **changes})

    @property
    def whole_before(self) -> frozenset[str]:
        """The tables of which all rows are read as the last run saw them."""
        return self.body.whole_before(self.changed)


@dataclass(frozen=True, slots=True, eq=False)
class Local:
    """Rule L: only the pieces of the changed keys are looked at again, by the user's own query.

    `pieces` has one entry for each part of the key. Where `on` is empty no output column holds the key, and the
    rows that come and go are entered by their content.
    """

    body: Body
    changed: frozenset[int]
    pieces: tuple[Pieces, ...]
    on: tuple[str, ...] = ()

    name = "local"

    @property
    def terms(self) -> tuple[Term, ...]:
        return (self,)

    @property
    def by_content(self) -> bool:
        return not self.on

    @property
    def key(self) -> str:
        return ", ".join(_equation(each, self.body.occurrences) for each in self.pieces)

    @property
    def why(self) -> str:
        return f"the query falls into independent pieces by {self.key}"

    def keys(self, names: Names, dialect: str = "spark") -> str:
        """The distinct keys of all changed rows, old and new: k0, k1, …"""
        queries = [self._keys_of(number, names) for number in sorted(self.changed)]
        return sql.render(queries[0].distinct() if len(queries) == 1 else exp.union(*queries, copy=False), dialect)

    def _keys_of(self, number: int, names: Names) -> exp.Select:
        columns = [sql.of("_d", each.cuts[number]) for each in self.pieces]
        named = [exp.alias_(each, f"k{n}", quoted=True) for n, each in enumerate(columns)]
        changes = sql.relation(names.changes(self.body.occurrences[number].table), "_d")
        return exp.Select(expressions=named, from_=exp.From(this=changes))

    def new(self, names: Names, near: Near | None = None, dialect: str = "spark") -> str:
        """The view's rows in the pieces of the keys, as they are now."""
        return sql.render(self._rows(names, near, old=False), dialect)

    def signed(self, names: Names, near: Near | None = None, dialect: str = "spark") -> str:
        """The view's columns and `__w`: its rows in these pieces, those of now as 1 and those of before as -1."""
        return sql.render(self.signed_tree(names, near), dialect)

    def signed_tree(self, names: Names, near: Near | None = None) -> exp.Query:
        return sql.all_of(
            [
                sql.with_sign(self._rows(names, near, old=False), self.body.output, 1),
                sql.with_sign(self._rows(names, near, old=True), self.body.output, -1),
            ]
        )

    def _rows(self, names: Names, near: Near | None, *, old: bool) -> exp.Query:
        tree = sql.unordered(sql.fill(self.body.tree, self._places(names, near, old=old)))
        if not self.on:
            return tree
        kept = sql.select_from(tree, [exp.column(each, quoted=True) for each in self.body.output])
        kept.set(
            "where", exp.Where(this=sql.has_key(names.keys, {n: sql.of("_q", each) for n, each in enumerate(self.on)}))
        )
        return kept

    def _places(self, names: Names, near: Near | None, *, old: bool) -> dict[int, exp.Expr]:
        """Tables cut down to the keys where they have some, in the state that is asked for."""
        places = self.body.whole(names, self._keyed)
        for number in self._keyed:
            parts = {n: each.cuts[number] for n, each in enumerate(self.pieces) if number in each.cuts}
            was = number in self.body.before or (old and number in self.changed)
            places[number] = _cut(self.body.occurrences[number], parts, names, near, was=was)
        return places

    @property
    def _keyed(self) -> frozenset[int]:
        """The places of tables that are cut down to the keys."""
        return frozenset(number for each in self.pieces for number in each.cuts)

    @property
    def whole_before(self) -> frozenset[str]:
        """The tables of which all rows are read as the last run saw them."""
        return self.body.whole_before(self._keyed)


def _cut(occurrence: Occurrence, parts: Mapping[int, str], names: Names, near: Near | None, *, was: bool) -> exp.Expr:
    now = sql.cut(names.now(occurrence.table), occurrence.used, names.keys, parts, near)
    if not was:
        return now
    keep = sql.has_key(names.keys, {n: sql.of("_d", each) for n, each in parts.items()})
    return sql.taken_back(now, names.changes(occurrence.table), occurrence.used, keep)


def _equation(pieces: Pieces, occurrences: Mapping[int, Occurrence]) -> str:
    """`o_orderkey = l_orderkey`: the columns of the class, each name once, in the order of the tables."""
    return " = ".join(dict.fromkeys(pieces.cuts[number] for number in occurrences if number in pieces.cuts))


Term = Linear | Local


@dataclass(frozen=True, slots=True, eq=False)
class Telescoped:
    """Several changed tables without a common key: each of the terms is for some of them.

    In a term the tables of those before it are meant as they are now, the tables of those after it as they were.
    """

    terms: tuple[Term, ...]

    name = "telescoped"
    by_content = True
    on: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return "; ".join(each.key for each in self.terms)

    @property
    def why(self) -> str:
        return "; ".join(f"{each.name} in {each.key}" for each in self.terms)

    def signed(self, names: Sequence[Names], near: Sequence[Near | None] = (), dialect: str = "spark") -> str:
        """The view's columns and `__w`; names, with the settled keys, and literals for each term by itself."""
        return sql.render(signed_by(self.terms, names, near), dialect)


def signed_by(terms: Sequence[Term], names: Sequence[Names], near: Sequence[Near | None] = ()) -> exp.Query:
    """What all terms give together."""
    nears = [*near, *(None for _ in terms[len(near) :])]
    return sql.all_of([term.signed_tree(a, b) for term, a, b in zip(terms, names, nears, strict=True)])
