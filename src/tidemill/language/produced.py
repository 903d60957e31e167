"""A query as a declaration: cut at its @names, with what it reads."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from tidemill.declare.names import name_key
from tidemill.declare.producers import Query
from tidemill.language.parameters import cut_at_parameters
from tidemill.language.queries import inputs_of, unrepeatable
from tidemill.language.sums import sums_of
from tidemill.language.volatile import reads_clock

if TYPE_CHECKING:
    from tidemill.language import statements as said

_SCHEMA_AND_TABLE = 2


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


def inputs_in(query: str, schema: str) -> tuple[str, ...] | None:
    """The tables that it reads, by the names under which all front ends know them; None where nobody can tell."""
    found = inputs_of(query)
    return None if found is None else tuple(table_key(name, schema) for name in found)


def table_key(name: str, schema: str) -> str:
    """A table of ours in lower case with its schema; one of another catalog as it is written."""
    return name_key(name, schema) if name.count(".") < _SCHEMA_AND_TABLE else name


def sql_hash(query: Query) -> str:
    """Changes with the text of the query."""
    return hashlib.sha256(query.text.encode()).hexdigest()[:16]


def takes_charge(query: Query) -> bool:
    """Whether the query says itself where its window starts."""
    return bool({"start_dt", "start_date"} & set(query.parameters))
