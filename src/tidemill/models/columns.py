"""Columns that metadata names and that the query visibly does not give."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.declare.mistakes import suggestion
from tidemill.declare.names import spelled
from tidemill.declare.strategies import DeleteInsert
from tidemill.language.queries import columns_of
from tidemill.language.volatile import output_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tidemill.declare.checks import Check
    from tidemill.models.meaning import Meaning
    from tidemill.models.places import Key

_OF_JOINS = ("target_time", "join_status", "waited")
_NAMED = ("unique_key", "time_column", "dedup_order_by", "partition_by", "cluster_by", "volatile")


def check_columns(query: str, meaning: Meaning, checks: Iterable[tuple[Key, Check]]) -> None:
    """Notes them all; nothing is known of a query whose columns only the data can name, such as `SELECT *`."""
    given = output_columns(query)
    if given is not None and meaning.kind == "incremental_join":
        given = (*given, *_OF_JOINS)
    for key, name in _needed(meaning, checks) if given is not None else ():
        if given is not None and spelled(name, given) is None:
            remedy = suggestion(name, given, f"its columns are {', '.join(given)}")
            problem = f"{_word(key)} names {name}, which the query does not give"
            meaning.note(key, "unknown_column", problem, remedy)


def _needed(meaning: Meaning, checks: Iterable[tuple[Key, Check]]) -> Iterator[tuple[Key, str]]:
    for name in _NAMED:
        yield from ((meaning.place(name), column) for column in meaning.names(name))
    if isinstance(meaning.value("only_newer"), str):
        yield meaning.place("only_newer"), meaning.value("only_newer")
    if isinstance(meaning.strategy, DeleteInsert) and meaning.value("where_condition"):
        place = meaning.place("where_condition")
        yield from ((place, column) for column in columns_of(meaning.value("where_condition")) or ())
    for key, check in checks:
        yield from ((key, column) for column in check.columns)


def _word(key: Key) -> str:
    words = [part for part in key if isinstance(part, str)]
    return "this check" if words[0] == "checks" else words[-1]
