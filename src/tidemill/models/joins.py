"""The incremental join of a model: what its metadata says of both sides, and what its SELECT names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tidemill.declare import tables
from tidemill.declare.durations import Duration
from tidemill.declare.joins import Join, JoinSide, join_type
from tidemill.declare.names import of
from tidemill.declare.sources import as_names
from tidemill.declare.starts import StartVariable
from tidemill.errors import ArgumentError
from tidemill.language.parameters import cut_at_parameters
from tidemill.language.produced import table_key
from tidemill.language.projections import select_items
from tidemill.models.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from tidemill.language.cursor import Named
    from tidemill.models.meaning import Meaning

KIND = "incremental_join"
_NAME = re.compile(r"\w+")


def read_join(query: Named, meaning: Meaning, schema: str) -> Join | None:
    """None where something has been noted in the document of `meaning`."""
    given: Mapping[str, Any] = meaning.metadata[KIND]
    back, forward = (_length(meaning, name, given[name]) for name in ("look_back", "look_forward"))
    try:
        select = select_items(query.text)
    except ArgumentError as bad:
        meaning.document.errors.append(ModelError.at(query.span, bad))
        return None
    if back is None or forward is None:
        return None
    return Join(
        a=JoinSide(table_key(given["a"], schema), "a", given["a_time"]),
        b=JoinSide(table_key(given["b"], schema), "b", given["b_time"]),
        on=_condition(given["on"]),
        how=join_type(given.get("how", "left")),
        look_back=back,
        look_forward=forward,
        select=select,
        start=None if given.get("start") is None else str(given["start"]),
        up_to=_up_to(meaning, given.get("up_to")),
        origin=query.span.origin,
    )


def _length(meaning: Meaning, name: str, value: str | int) -> Duration | int | None:
    try:
        found = tables.lookback(value)
    except ArgumentError as bad:
        meaning.document.pass_on((KIND, name), bad)
        return None
    if isinstance(found, Duration) and found.unit in {"month", "year"}:
        problem = f"{name} of {found} has no fixed length"
        meaning.note((KIND, name), "varying_length", problem, "write it in days")
        return None
    return found


def _condition(on: str | list[str]) -> str:
    """Columns that both sides have are equal in a pair; anything else is the condition itself."""
    names = as_names(on) or ()
    if all(_NAME.fullmatch(name) for name in names):
        return " AND ".join(f"{of('a', name)} = {of('b', name)}" for name in names)
    return " AND ".join(names)


def _up_to(meaning: Meaning, value: str | int | None) -> str | StartVariable | None:
    if value is None or not str(value).startswith("@"):
        return None if value is None else str(value)
    pieces, names = cut_at_parameters(str(value))
    if pieces != ("", ""):
        problem = f"up_to cannot be {value}"
        meaning.note((KIND, "up_to"), "bad_up_to", problem, 'write "2024-01-31" or "@name"')
        return None
    return StartVariable(names[0], meaning.document.places.at(KIND, "up_to").origin)
