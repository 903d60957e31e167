"""OPTIONS of LOAD and CREATE TABLE, and the PARAMS of sources that have a meaning here."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar, cast

from tidemill.declare.formats import FORMATS
from tidemill.declare.tables import KeptRows, NullTime, SchemaPolicy
from tidemill.language.errors import LanguageError, suggestion

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidemill.language.objects import JsonObject
    from tidemill.language.statements import JsonValue, OptionValue, SourceStatement

T = TypeVar("T")


class _WrongError(Exception):
    """Says what the value must be."""


def read_options(given: JsonObject, statement: str) -> dict[str, OptionValue]:
    """The options with their values checked: lists are tuples, names of policies are in lower case."""
    found: dict[str, OptionValue] = {}
    for name, value in given.values.items():
        if name not in OPTIONS:
            remedy = suggestion(name, OPTIONS, f"the options are {', '.join(OPTIONS)}")
            problem = f"{statement} has no option {name}"
            raise LanguageError("language.unknown_option", problem, remedy, span=given.place(name))
        try:
            found[name] = OPTIONS[name](value)
        except _WrongError as wrong:
            raise _bad_option(given, name, wrong) from None
    return found


def read_source_params(source: SourceStatement, given: JsonObject | None) -> SourceStatement:
    """The source with its params; `primary_key`, `cursor_field` and `start_date` become its own."""
    if given is None:
        return source
    params = dict(given.values)
    keys = _taken(given, params, "primary_key", column_names) or ()
    cursor = _taken(given, params, "cursor_field", _text)
    start = _taken(given, params, "start_date", _text)
    if cursor and source.cursor and cursor.lower() != source.cursor.lower():
        raise LanguageError(
            "language.two_cursors",
            f"the cursor is {cursor} here and {source.cursor} after INCREMENTAL BY",
            "keep one of them",
            span=given.place("cursor_field"),
        )
    return replace(source, params=params, primary_key=keys, cursor=source.cursor or cursor, start=start)


def _taken(given: JsonObject, params: dict[str, JsonValue], name: str, check: Callable[[JsonValue], T]) -> T | None:
    if name not in params:
        return None
    try:
        return check(params.pop(name))
    except _WrongError as wrong:
        raise _bad_option(given, name, wrong) from None


def _bad_option(given: JsonObject, name: str, wrong: _WrongError) -> LanguageError:
    return LanguageError("language.bad_option", f"{name} must be {wrong}", "correct it", span=given.place(name))


def column_names(value: JsonValue) -> tuple[str, ...]:
    """One name or a list of names."""
    names = value if isinstance(value, list) else [value]
    if not names or not all(isinstance(name, str) and name for name in names):
        raise _WrongError("a name or a list of names")
    return tuple(cast("list[str]", names))


def _text(value: JsonValue) -> str:
    if not isinstance(value, str):
        raise _WrongError("a text")
    return value


def _yes_or_no(value: JsonValue) -> bool:
    if not isinstance(value, bool):
        raise _WrongError("true or false")
    return value


def _share(value: JsonValue) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
        raise _WrongError("a share from 0 to 1, such as 0.1")
    return float(value)


def _column_or_yes(value: JsonValue) -> str | bool:
    """A column, or true for the cursor of the source or the table."""
    if not isinstance(value, str | bool):
        raise _WrongError("true or the name of a column")
    return value


def _format(value: JsonValue) -> str:
    if not isinstance(value, str) or value.lower() not in FORMATS:
        raise _WrongError(f"one of {', '.join(FORMATS)}")
    return value.lower()


def _one_of(known: type[NullTime | SchemaPolicy | KeptRows]) -> Callable[[JsonValue], str]:
    def check(value: JsonValue) -> str:
        name = value.lower() if isinstance(value, str) else ""
        if name not in set(known):
            raise _WrongError(f"one of {', '.join(known)}")
        return name

    return check


OPTIONS: dict[str, Callable[[JsonValue], OptionValue]] = {
    "dedup_order_by": column_names,
    "only_newer": _column_or_yes,
    "null_time": _one_of(NullTime),
    "on_schema_change": _one_of(SchemaPolicy),
    "volatile": column_names,
    "partition_by": column_names,
    "cluster_by": column_names,
    "format": _format,
    "max_shrink": _share,
    "kept_rows": _one_of(KeptRows),
    "reset_allowed": _yes_or_no,
    "description": _text,
    "tags": column_names,
}
