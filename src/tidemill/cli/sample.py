"""The data of a new project: a month of orders, and the day after it. The same rows each time."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ORDERS = ("order_id", "customer_id", "status", "amount", "created_at", "updated_at")
CUSTOMERS = ("customer_id", "name", "region")
Row = tuple[object, ...]

_CUSTOMERS = 120
_OPENS, _CLOSES = timedelta(hours=7), timedelta(hours=21)
_FIRST_DAY = datetime(2024, 1, 1)  # noqa: DTZ001  files of a shop have the time of its clock
_LAST_DAY = datetime(2024, 1, 31)  # noqa: DTZ001
_NEXT_DAY = datetime(2024, 2, 1)  # noqa: DTZ001
_WATERMARK = _LAST_DAY + _CLOSES


def first_month() -> list[Row]:
    """A thousand orders; the last one of the month was changed when the shop closed."""
    days = [_FIRST_DAY + timedelta(days=n) for n in range(31)]
    moments = [moment for day in days for moment in _moments(day, 40 if day == _LAST_DAY else 32)]
    return [_order(number, at, min(at + _shipping(number), _WATERMARK)) for number, at in enumerate(moments, 1)]


def next_day() -> list[Row]:
    """What the second run meets: new orders, ties with the watermark, late orders, corrections."""
    after = [_order(1006 + n, at, at) for n, at in enumerate(_moments(_NEXT_DAY, 36))]
    return [*_ties(), *_late(), *after, *_corrections()]


def customers() -> list[Row]:
    return [(n, f"Customer {n:03}", "eu" if n % 3 else "us") for n in range(1, _CUSTOMERS + 1)]


def as_csv(columns: Iterable[str], rows: Iterable[Row]) -> str:
    return "".join(",".join(map(str, row)) + "\n" for row in (tuple(columns), *rows))


def _ties() -> Iterator[Row]:
    """Changed at the very moment up to which the first run has read."""
    return (_order(number, _WATERMARK, _WATERMARK) for number in (1001, 1002))


def _late() -> Iterator[Row]:
    """Older than what the first run has read, by less than the lookback."""
    for number, minutes in ((1003, 20), (1004, 55), (1005, 110)):
        at = _WATERMARK - timedelta(minutes=minutes)
        yield _order(number, at, at)


def _corrections() -> Iterator[Row]:
    """Orders of the first month that came to another amount."""
    month = first_month()
    for n in range(9):
        number, customer, _, amount, created, _ = month[100 * n + 17]
        yield number, customer, "refunded", f"{float(str(amount)) / 2:.2f}", created, _NEXT_DAY + timedelta(hours=8 + n)


def _order(number: int, created: datetime, updated: datetime) -> Row:
    customer = number * 37 % _CUSTOMERS + 1
    status = "new" if updated == created else "shipped"
    return number, customer, status, f"{5 + number * 7919 % 19500 / 100:.2f}", created, updated


def _moments(day: datetime, count: int) -> Iterator[datetime]:
    """Spread over the opening hours, from the first minute to the last."""
    for n in range(count):
        minutes = int((_CLOSES - _OPENS) / timedelta(minutes=1)) * n // (count - 1)
        yield day + _OPENS + timedelta(minutes=minutes)


def _shipping(number: int) -> timedelta:
    return timedelta(minutes=10 * (number % 4))
