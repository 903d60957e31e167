"""The incremental join of a model: what its metadata says of both sides, and what its SELECT names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tidemill.declare import tables
from tidemill.declare.durations import Duration
from tidemill.declare.joins import STATUS, SUFFIXES, TIME, Join, JoinSide, check_own_names, join_type
from tidemill.declare.names import of
from tidemill.declare.starts import StartVariable
from tidemill.errors import ArgumentError
from tidemill.language.parameters import cut_at_parameters
from tidemill.language.projections import join_condition, join_text, select_items
from tidemill.models.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from tidemill.declare.names import Naming
    from tidemill.declare.templates import Template
    from tidemill.language.cursor import Named
    from tidemill.models.meaning import Meaning

KIND = "incremental_join"
_NAME = re.compile(r"\w+")


def read_join(query: Named, meaning: Meaning, naming: Naming) -> Join | None:
    """None where something has been noted in the document of `meaning`."""
    given: Mapping[str, Any] = meaning.metadata[KIND]
    back, forward = (_length(meaning, name, given[name]) for name in ("look_back", "look_forward"))
    select, on = _select(meaning, query), _condition(meaning, given["on"])
    time, status, suffixes = _names(meaning, given)
    if meaning.document.errors or back is None or forward is None or on is None:
        return None
    return Join(
        a=JoinSide(naming.key(given["a"]), "a", given["a_time"]),
        b=JoinSide(naming.key(given["b"]), "b", given["b_time"]),
        on=on,
        how=join_type(given.get("how", "left")),
        look_back=back,
        look_forward=forward,
        select=select,
        start=None if given.get("start") is None else str(given["start"]),
        up_to=_up_to(meaning, given.get("up_to")),
        time=time,
        status=status,
        suffixes=suffixes,
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


def _select(meaning: Meaning, query: Named) -> tuple[Template, ...]:
    try:
        return tuple(join_text(item) for item in select_items(query.text))
    except ArgumentError as bad:
        meaning.document.errors.append(ModelError.at(query.span, bad))
        return ()


def _condition(meaning: Meaning, on: str | list[str | list[str]]) -> Template | None:
    """Columns that both sides have, and pairs of columns, are equal in a pair; any other text is a condition itself."""
    try:
        return join_condition(" AND ".join(_equal(each) for each in ([on] if isinstance(on, str) else on)))
    except ArgumentError as bad:
        meaning.document.pass_on((KIND, "on"), bad)
        return None


def _equal(given: str | list[str]) -> str:
    match given:
        case str() as text:
            return f"{of('a', text)} = {of('b', text)}" if _NAME.fullmatch(text) else text
        case [str() as a, str() as b]:
            return f"{of('a', a)} = {of('b', b)}"
        case _:
            names = ", ".join(given)
            remedy = 'Write "reference", ["id", "order_id"], or "a.id = b.order_id".'
            raise ArgumentError("join.bad_keys", f"{names} in on is neither a column nor a pair of columns.", remedy)


def _names(meaning: Meaning, given: Mapping[str, Any]) -> tuple[str, str, tuple[str, str]]:
    time, status = given.get("time", TIME), given.get("status", STATUS)
    try:
        check_own_names(time, status)
    except ArgumentError as bad:
        meaning.document.pass_on((KIND, "time" if "time" in given else "status"), bad)
    suffixes = given.get("suffixes", {})
    return time, status, (suffixes.get("a", SUFFIXES[0]), suffixes.get("b", SUFFIXES[1]))


def _up_to(meaning: Meaning, value: str | int | None) -> str | StartVariable | None:
    if value is None or not str(value).startswith("@"):
        return None if value is None else str(value)
    pieces, names = cut_at_parameters(str(value))
    if pieces != ("", ""):
        problem = f"up_to cannot be {value}"
        meaning.note((KIND, "up_to"), "bad_up_to", problem, 'write "2024-01-31" or "@name"')
        return None
    return StartVariable(names[0], meaning.document.places.at(KIND, "up_to").origin)
