"""Parts that several statements share: modes, keys, lookbacks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidemill.declare.durations import UNITS, Duration
from tidemill.language.errors import LanguageError, suggestion
from tidemill.language.objects import read_object
from tidemill.language.statements import Append, FullMerge, IncrementalBy, Merge, Replace
from tidemill.language.tokens import Kind

if TYPE_CHECKING:
    from tidemill.declare.text import Span
    from tidemill.language.cursor import Cursor, Named
    from tidemill.language.objects import JsonObject
    from tidemill.language.statements import Mode

LOAD_MODES = ("REPLACE", "APPEND", "MERGE ON", "FULL_MERGE ON")
TABLE_MODES = ("REPLACE", "APPEND", "MERGE ON", "FULL_MERGE ON", "INCREMENTAL_MERGE ON", "INCREMENTAL BY")
EXPORT_MODES = ("REPLACE", "APPEND", "MERGE ON")
CLAUSES = ("MODE", "OPTIONS")
_KEYED: dict[str, type[Merge | FullMerge]] = {"MERGE": Merge, "INCREMENTAL_MERGE": Merge, "FULL_MERGE": FullMerge}
_NO_UNITS = {"AS", "OPTIONS", "PARAMS", "MODE", "LOOK", "START", "UP", "TIME", "STATUS", "SUFFIXES", "SELECT"}
_AMOUNT_AND_UNIT = re.compile(r"(\d+)\s*([^\W\d]\w*)?")


@dataclass(frozen=True, slots=True)
class Clauses:
    """What was given of MODE and OPTIONS."""

    mode: Mode
    mode_span: Span | None
    options: JsonObject | None


def read_clauses(cursor: Cursor, statement: str, modes: tuple[str, ...]) -> Clauses:
    """MODE and OPTIONS, each at most once, in any order; REPLACE is the mode where none is given."""
    mode: Mode | None = None
    span: Span | None = None
    options: JsonObject | None = None
    while token := cursor.token:
        if cursor.at("MODE") or cursor.at("UPSERT", "KEY"):
            _only_once(cursor, mode, "MODE")
            cursor.take("MODE")
            mode, span = _mode(cursor, statement, modes)
        elif cursor.at("OPTIONS"):
            _only_once(cursor, options, "OPTIONS")
            cursor.take("OPTIONS")
            options = read_object(cursor, "OPTIONS")
        elif cursor.at("ON"):
            cursor.fail(token, *_keys_without_merge("REPLACE" if mode is None else str(mode)))
        else:
            break
    return Clauses(mode or Replace(), span, options)


def read_lookback(cursor: Cursor) -> Duration | int | None:
    """LOOKBACK and a length of time, or a plain number for cursors that are numbers; None when there is none."""
    return read_length(cursor, "LOOKBACK") if cursor.take("LOOKBACK") else None


def read_length(cursor: Cursor, clause: str) -> Duration | int:
    """What follows a clause that takes a length of time, or a plain number."""
    token = cursor.token
    amount = cursor.value(f"{clause} needs a number", f"write {clause} 2 HOURS")
    assert token is not None  # noqa: S101  or there would have been no value
    found = _AMOUNT_AND_UNIT.fullmatch(amount)
    if found is None:
        cursor.fail(token, *_bad_lookback(f"{amount} is no number of units"))
    if found[2]:
        return Duration(int(found[1]), _unit(found[2], cursor.span(token)))
    following = cursor.token
    if following is None or following.kind is not Kind.WORD or following.upper in _NO_UNITS:
        return int(found[1])
    word = cursor.word(f"{clause} needs a unit", f"write {clause} 2 HOURS")
    return Duration(int(found[1]), _unit(word.text, word.span))


def _unit(word: str, span: Span) -> str:
    unit = word.lower()
    for known in (unit, unit.removesuffix("s")):
        if known in UNITS:
            return known
    code, problem, units = _bad_lookback(f"{word} is no unit of time")
    raise LanguageError(code, problem, suggestion(word, [f"{each}s".upper() for each in UNITS], units), span=span)


def _bad_lookback(problem: str) -> tuple[str, str, str]:
    return "language.bad_lookback", problem, f"the units are {', '.join(f'{each}s'.upper() for each in UNITS)}"


def _mode(cursor: Cursor, statement: str, modes: tuple[str, ...]) -> tuple[Mode, Span]:
    word = cursor.word("MODE needs a mode", f"write one of {', '.join(modes)}")
    name = word.text.upper()
    if name == "UPSERT" and cursor.take("KEY"):
        return Merge(_key_columns(cursor)), word.span
    if name not in {mode.split()[0] for mode in modes}:
        raise _unknown_mode(word, statement, modes)
    if name == "INCREMENTAL":
        return _incremental(cursor), word.span
    if name in _KEYED:
        if not cursor.take("ON"):
            raise LanguageError(
                "language.merge_without_keys",
                f"MODE {name} needs ON and the key columns",
                f"write {name} ON and the columns that make a row unique",
                span=word.span,
            )
        return _KEYED[name](_key_columns(cursor)), word.span
    return (Replace() if name == "REPLACE" else Append()), word.span


def _incremental(cursor: Cursor) -> IncrementalBy:
    cursor.expect("BY", "MODE INCREMENTAL", "INCREMENTAL BY and the time column")
    column = cursor.column("INCREMENTAL BY needs a column", "name the time column")
    return IncrementalBy(column, read_lookback(cursor))


def _key_columns(cursor: Cursor) -> tuple[str, ...]:
    return cursor.columns("ON needs key columns", "name the columns that make a row unique, with , between them")


def _unknown_mode(word: Named, statement: str, modes: tuple[str, ...]) -> LanguageError:
    names = [mode.split()[0] for mode in modes]
    listed = f"the modes are {', '.join(modes)}"
    close = suggestion(word.text, names, "")
    remedy = f"{close} {listed}" if close else listed
    return LanguageError("language.unknown_mode", f"{statement} has no mode {word.text}", remedy, span=word.span)


def _keys_without_merge(mode: str) -> tuple[str, str, str]:
    return "language.keys_without_merge", f"MODE {mode} takes no ON", "write MERGE ON, or drop the ON and its columns"


def _only_once(cursor: Cursor, found: object, clause: str) -> None:
    token = cursor.token
    if found is not None and token is not None:
        cursor.fail(token, "language.repeated_clause", f"{clause} is given twice", "keep one of them")
