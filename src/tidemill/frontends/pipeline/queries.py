"""A query as a declaration, with what it reads; known also where other statements are wrong."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from tidemill.frontends.pipeline.statements import CreateJoin, CreateTable, Export
from tidemill.frontends.pipeline.tokens import cut_at_parameters
from tidemill.frontends.sql.queries import inputs_of, unrepeatable
from tidemill.frontends.sql.volatile import reads_clock, sums_of
from tidemill.model.mistakes import Reads
from tidemill.model.query import Query

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tidemill.frontends.pipeline import statements as said
    from tidemill.frontends.pipeline.statements import Statement
    from tidemill.model.names import Naming


def produced(query: said.Query) -> Query:
    pieces, names = cut_at_parameters(query.text)
    return Query(
        pieces,
        names,
        query.origin,
        clock=reads_clock(query.text),
        unrepeatable=unrepeatable(query.text),
        sums=sums_of(query.text),
    )


def inputs_in(query: str, naming: Naming) -> tuple[str, ...] | None:
    """The tables that it reads, by the names under which all front ends know them; None where nobody can tell."""
    found = inputs_of(query)
    return None if found is None else tuple(naming.key(name) for name in found)


def sql_hash(query: Query) -> str:
    """Changes with the text of the query."""
    return hashlib.sha256(query.text.encode()).hexdigest()[:16]


def takes_charge(query: Query) -> bool:
    """Whether the query says itself where its window starts."""
    return bool({"start_dt", "start_date"} & set(query.parameters))


def reads_of(statements: Iterable[Statement], naming: Naming) -> Iterator[Reads]:
    """The tables and exports of a pipeline that have a query or join tables."""
    for each in statements:
        match each:
            case CreateTable(table, query=query):
                yield Reads(naming.full(table), inputs_in(query.text, naming) or (), each.origin)
            case CreateJoin(table, a=a, b=b):
                sides = tuple(naming.key(side.table) for side in (a, b))
                yield Reads(naming.full(table), sides, each.origin)
            case Export(query=query) if query:
                yield Reads(each.target, inputs_in(query.text, naming) or (), each.origin)
