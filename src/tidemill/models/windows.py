"""The window of a model: its time column, where runs start, how late rows may come."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

from tidemill.declare import tables
from tidemill.declare.mistakes import suggestion
from tidemill.declare.starts import CurrentDate, StartVariable
from tidemill.declare.tables import NullTime, Window
from tidemill.errors import ArgumentError
from tidemill.language.parameters import cut_at_parameters

if TYPE_CHECKING:
    from tidemill.declare.durations import Duration
    from tidemill.declare.starts import MovingStart
    from tidemill.models.meaning import Meaning

_FOR_TIMES = ("start_date", "lookback", "null_time")
_CURRENT_DATE = {"current_date", "current_date()"}
_STARTS = 'write "2024-01-31", "2024-01-31T10:30:00Z", "auto", "@name" or "CURRENT_DATE"'


def read_window(meaning: Meaning) -> Window | None:
    """None where no time column is given; then nothing may be given that needs one."""
    column = meaning.value("time_column")
    if column is None:
        for name in (name for name in _FOR_TIMES if meaning.value(name) is not None):
            meaning.note(meaning.place(name), "missing_key", f"{name} needs time_column", 'write "time_column": "…"')
        return None
    literal, moving = _start(meaning)
    return Window(column, literal, _lookback(meaning), NullTime(meaning.value("null_time", NullTime.FAIL)), moving)


def _lookback(meaning: Meaning) -> Duration | int | None:
    value = meaning.value("lookback")
    try:
        found = tables.lookback(value)
    except ArgumentError as bad:
        meaning.document.pass_on(meaning.place("lookback"), bad)
        return None
    if isinstance(found, int) and found < 0:
        meaning.note(
            meaning.place("lookback"), "bad_lookback", f"a lookback of {found} looks ahead", "write it without -"
        )
    return found


def _start(meaning: Meaning) -> tuple[str | None, MovingStart | None]:
    """The start as a literal, or as what only a run knows; neither for "auto", which is the watermark."""
    text = str(meaning.value("start_date", "auto")).strip()
    if text.lower() == "auto":
        return None, None
    if text.lower() in _CURRENT_DATE:
        return None, CurrentDate()
    place = meaning.document.places.at(*meaning.place("start_date")).origin
    if text.startswith("@"):
        pieces, names = cut_at_parameters(text)
        if pieces == ("", ""):
            return None, StartVariable(names[0], place)
    elif _is_literal(text):
        return text, None
    remedy = suggestion(text, ("auto", "CURRENT_DATE"), _STARTS)
    meaning.note(meaning.place("start_date"), "bad_start", f"start_date cannot be {text}", remedy)
    return None, None


def _is_literal(text: str) -> bool:
    """A date, a timestamp or a number; whether it fits the time column only its type can tell."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return _is_number(text)
    return True


def _is_number(text: str) -> bool:
    try:
        return Decimal(text).is_finite()
    except InvalidOperation:
        return False
