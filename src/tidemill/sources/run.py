"""What a function is called with: the dates to fetch, and the tables that it may read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import TYPE_CHECKING, Literal, overload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Mode = Literal["first", "incremental", "backfill"]
_DAY = timedelta(days=1)


class Dates(Sequence[date]):
    """All dates from `start` to `end`, both included; none without a start. Each is reported as it comes."""

    def __init__(self, start: date | None, end: date | None, told: Callable[[date], None] = lambda _: None) -> None:
        self._start, self._end, self._told = start, end, told

    def __len__(self) -> int:
        return 0 if self._start is None or self._end is None else max(0, (self._end - self._start).days + 1)

    @overload
    def __getitem__(self, index: int) -> date: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[date]: ...

    def __getitem__(self, index: int | slice) -> date | Sequence[date]:
        return self._all()[index]

    def __iter__(self) -> Iterator[date]:
        for day in self._all():
            self._told(day)
            yield day

    def __repr__(self) -> str:
        return f"Dates({self._start} … {self._end})" if len(self) else "Dates()"

    def _all(self) -> list[date]:
        assert self._start is not None or not len(self)  # noqa: S101
        return [self._start + _DAY * number for number in range(len(self))] if self._start else []


def _no_spark() -> SparkSession:
    raise LookupError("this run has no Spark session")


def _no_table(name: str) -> DataFrame:
    raise LookupError(f"this run has no table {name}")


@dataclass(frozen=True, slots=True)
class Run:
    """One call of a function: it is asked for the rows of `dates`, those from `start` to `end`, both included.

    A function without a time column has no dates: `start` and `end` are None. `mode` is "first" where the table is not
    there yet or is empty, "backfill" where somebody said which dates, else "incremental". `vars` are the variables
    of the run.
    """

    start: date | None = None
    end: date | None = None
    mode: Mode = "first"
    vars: Mapping[str, str] = field(default_factory=dict)
    session: Callable[[], SparkSession] = field(default=_no_spark, repr=False)
    held: Callable[[], DataFrame | None] = field(default=lambda: None, repr=False)
    table: Callable[[str], DataFrame] = field(default=_no_table, repr=False)
    told: Callable[[date], None] = field(default=lambda _: None, repr=False)

    @property
    def dates(self) -> Dates:
        """The dates to fetch, in order. Going through them is what a run shows as its progress."""
        return Dates(self.start, self.end, self.told)

    @property
    def spark(self) -> SparkSession:
        """A session in which tables have their names."""
        return self.session()

    def existing(self) -> DataFrame | None:
        """The table as it is; None where it is not there yet."""
        return self.held()

    def read(self, name: str) -> DataFrame:
        """A table that the function declares in `reads`."""
        return self.table(name)
