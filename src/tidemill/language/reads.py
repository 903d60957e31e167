"""Which tables the statements of a pipeline read: known also where other statements are wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.declare.mistakes import Reads
from tidemill.declare.names import qualified
from tidemill.language.produced import inputs_in, table_key
from tidemill.language.statements import CreateJoin, CreateTable, Export

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tidemill.language.statements import Statement


def reads_of(statements: Iterable[Statement], schema: str) -> Iterator[Reads]:
    """The tables and exports of a pipeline that have a query or join tables."""
    for each in statements:
        match each:
            case CreateTable(table, query=query):
                yield Reads(qualified(table, schema), inputs_in(query.text, schema) or (), each.origin)
            case CreateJoin(table, a=a, b=b):
                sides = tuple(table_key(side.table, schema) for side in (a, b))
                yield Reads(qualified(table, schema), sides, each.origin)
            case Export(query=query) if query:
                yield Reads(each.target, inputs_in(query.text, schema) or (), each.origin)
