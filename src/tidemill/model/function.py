"""Functions that give tables their rows: `@tidemill.table`, the expectations, and what these decorators record."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload
from zoneinfo import ZoneInfo

from tidemill.errors import ArgumentError, Origin
from tidemill.model.query import Producing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import date, datetime

    from tidemill.model.cursor import Duration
    from tidemill.typing import TableArguments

UTC = ZoneInfo("UTC")
DECLARED = "__tidemill_table__"  # the attribute of a function by which it is known as one of a table
EXPECTED = "__tidemill_expectations__"


class OnUnmet(StrEnum):
    """What happens to rows that do not meet an expectation: they enter and are counted, go aside, or fail the step."""

    COUNT = "count"
    DROP = "drop"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Expectation:
    """A condition that every row should make true; one that makes it false or NULL does not meet it."""

    name: str
    condition: str
    on_unmet: OnUnmet = OnUnmet.COUNT
    origin: Origin | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Function(Producing):
    """The rows that a function gives when it is called for some dates, or for none.

    `schema` is their columns as DDL, where declared. Dates are those of `timezone`; a call is given those of one
    `batch`, all where there is none.
    """

    call: Callable[..., Any]
    timezone: ZoneInfo = UTC
    batch: Duration | None = None
    schema: str | None = None
    expectations: tuple[Expectation, ...] = ()
    origin: Origin | None = field(default=None, repr=False, compare=False)

    @property
    def as_function(self) -> Function:
        return self

    def today(self, now: datetime) -> date:
        """The day that it is at this moment in its time zone."""
        return now.astimezone(self.timezone).date()


@dataclass(frozen=True, slots=True)
class Decorated:
    """A function with the arguments of its decorators, as written."""

    call: Callable[..., Any]
    given: Mapping[str, object]
    origin: Origin
    expectations: tuple[Expectation, ...] = ()


def decoration_of(function: object) -> Decorated | None:
    """What a function's decorators said; None where it is no table."""
    found = getattr(function, DECLARED, None)
    return found if isinstance(found, Decorated) else None


F = TypeVar("F", bound="Callable[..., Any]")


@overload
def table(function: F, /) -> F: ...


@overload
def table(**given: Unpack[TableArguments]) -> Callable[[F], F]: ...


def table(function: Callable[..., Any] | None = None, /, **given: object) -> Any:
    """Declares a table that the function keeps: it returns or yields new rows, and those that are here stay.

    It is called with a `tidemill.Run`, or without anything if it has no parameters. Its rows enter by their `keys`
    (`strategy="merge"`), beside what is here ("append"), or in the place of it ("replace"). With a `time_column` it is
    asked for dates: on the first run from `start` to today, later from the last date fetched minus the `lookback`.
    `tidemill.typing.TableArguments` has all that may be given.

    >>> @tidemill.table(name="bronze.stats", keys=["player", "game"], time_column="day", start="2026-02-01")
    ... def stats(run):
    ...     for day in run.dates:
    ...         yield fetch(day)
    """
    if function is not None:
        return _declare(function, {})
    return lambda function: _declare(function, given)


def expect(name: str, condition: str) -> Callable[[F], F]:
    """Rows that do not make the condition true enter, and are counted.

    >>> @tidemill.table(name="bronze.orders", keys=["order_id"])
    ... @tidemill.expect("positive", "amount > 0")
    ... def orders(run):
    ...     return fetch(run)
    """
    return _expecting({name: condition}, OnUnmet.COUNT)


def expect_or_drop(name: str, condition: str) -> Callable[[F], F]:
    """Rows that do not make the condition true go to `<table>__rejected`, with the reason.

    >>> @tidemill.table(name="bronze.orders", keys=["order_id"])
    ... @tidemill.expect_or_drop("positive", "amount > 0")
    ... def orders(run):
    ...     return fetch(run)
    """
    return _expecting({name: condition}, OnUnmet.DROP)


def expect_or_fail(name: str, condition: str) -> Callable[[F], F]:
    """A row that does not make the condition true fails the step; the table is as before.

    >>> @tidemill.table(name="bronze.orders", keys=["order_id"])
    ... @tidemill.expect_or_fail("positive", "amount > 0")
    ... def orders(run):
    ...     return fetch(run)
    """
    return _expecting({name: condition}, OnUnmet.FAIL)


def expect_all(expectations: Mapping[str, str]) -> Callable[[F], F]:
    """`expect` for each name and its condition.

    >>> @tidemill.table(name="bronze.orders", keys=["order_id"])
    ... @tidemill.expect_all({"positive": "amount > 0", "known": "region IS NOT NULL"})
    ... def orders(run):
    ...     return fetch(run)
    """
    return _expecting(expectations, OnUnmet.COUNT)


def expect_all_or_drop(expectations: Mapping[str, str]) -> Callable[[F], F]:
    """`expect_or_drop` for each name and its condition.

    >>> @tidemill.table(name="bronze.orders", keys=["order_id"])
    ... @tidemill.expect_all_or_drop({"positive": "amount > 0", "known": "region IS NOT NULL"})
    ... def orders(run):
    ...     return fetch(run)
    """
    return _expecting(expectations, OnUnmet.DROP)


def expect_all_or_fail(expectations: Mapping[str, str]) -> Callable[[F], F]:
    """`expect_or_fail` for each name and its condition.

    >>> @tidemill.table(name="bronze.orders", keys=["order_id"])
    ... @tidemill.expect_all_or_fail({"positive": "amount > 0", "known": "region IS NOT NULL"})
    ... def orders(run):
    ...     return fetch(run)
    """
    return _expecting(expectations, OnUnmet.FAIL)


def _declare(function: F, given: Mapping[str, object]) -> F:
    expectations = getattr(function, EXPECTED, ())
    function.__dict__[DECLARED] = Decorated(function, given, _origin(function), expectations)
    return function


def _expecting(conditions: Mapping[str, str], on_unmet: OnUnmet) -> Callable[[F], F]:
    """Decorators may stand above `table` or below it."""

    def expecting(function: F) -> F:
        origin = _origin(function)
        found = tuple(Expectation(name, condition, on_unmet, origin) for name, condition in conditions.items())
        known = (*found, *getattr(function, EXPECTED, ()))
        function.__dict__[EXPECTED] = known
        if declared := decoration_of(function):
            function.__dict__[DECLARED] = replace(declared, expectations=known)
        return function

    return expecting


def _origin(function: Callable[..., Any]) -> Origin:
    code = getattr(function, "__code__", None)
    if code is None:
        raise ArgumentError(
            "functions.no_function",
            f"A {type(function).__name__} is no function.",
            "Write the decorators above a def.",
        )
    here, file = Path.cwd(), Path(code.co_filename)
    return Origin(str(file.relative_to(here) if file.is_relative_to(here) else file), code.co_firstlineno)
