"""Which tables the statements of a pipeline read: known also where other statements are wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.declare.mistakes import Reads
from tidemill.language.produced import inputs_in
from tidemill.language.statements import CreateJoin, CreateTable, Export

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tidemill.declare.names import Naming
    from tidemill.language.statements import Statement


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
