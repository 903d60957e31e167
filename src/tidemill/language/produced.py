"""A query as a declaration: cut at its @names, with what it reads."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from tidemill.declare.producers import Query
from tidemill.language.parameters import cut_at_parameters
from tidemill.language.queries import inputs_of, unrepeatable
from tidemill.language.sums import sums_of
from tidemill.language.volatile import reads_clock

if TYPE_CHECKING:
    from tidemill.declare.names import Naming
    from tidemill.language import statements as said


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
