"""An API that table functions fetch from, politely: at a pace, a few dates at once, and nothing twice in a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from tidemill.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from tidemill.sources.http.client import Calls

    Query = Mapping[str, object] | Iterable[tuple[str, object]]

Item = TypeVar("Item")
Found = TypeVar("Found")


@dataclass(frozen=True)
class Api:
    """An API that answers in JSON, asked from a table function.

    A request is tried again after 429, 5xx and lost connections, `retries` times, with pauses that double or that the
    server asks for. There are at most `rate` requests a second, and `at_once` of them at a time. Within a run an answer
    is asked for once. `headers` go to the host of `url` only.

    >>> api = tidemill.Api("https://api.example.com/v1", rate=5)
    >>> @tidemill.table(name="bronze.games", keys=["id"], time_column="day", start="2026-02-01")
    ... def games(run):
    ...     for day in run.dates:
    ...         yield api.get(f"games/{day}")["games"]
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    rate: float | None = None
    at_once: int = 4
    retries: int = 5
    timeout: float = 30.0

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise ArgumentError("api.bad_url", f"{self.url} is no address of HTTP.", "Write https://host/path.")
        for name, least in (("rate", 0), ("at_once", 0), ("timeout", 0), ("retries", -1)):
            value = getattr(self, name)
            if value is not None and value <= least:
                raise ArgumentError("api.bad_setting", f"{name} of an Api cannot be {value}.", "Give a higher number.")

    def get(self, path: str = "", params: Query | None = None, **query: object) -> Any:
        """The answer to a GET of `path`, below the API's own address.

        The query's parameters are given as `params`, a dict or pairs, as keywords, or both. A list is a parameter that
        comes several times; None is left out.
        """
        return self._calls.answer(self._calls.url(path, params, query)).body

    def pages(
        self,
        path: str = "",
        params: Query | None = None,
        *,
        pagination: str | Mapping[str, object],
        records: str | None = None,
        max_pages: int | None = None,
        **query: object,
    ) -> Iterator[list[Any]]:
        """The records of page after page, a list for each: `yield from api.pages("games", pagination="link")`.

        `pagination` is what sources of the kind REST have: link, cursor, offset or page, or a dict with that as its
        `type`. `records` is the dotted path of the records in an answer; without it they are the answer. A page that
        was there before, and more than `max_pages`, are errors: such a loop has no end.
        """
        return self._calls.pages(self._calls.url(path, params, query), pagination, records, max_pages)

    def each(self, dates: Iterable[Item], fetch: Callable[[Item], Found]) -> Iterator[tuple[Item, Found]]:
        """Every date with what `fetch` gives for it, in order; the next ones are fetched meanwhile.

        The first date that fails ends it, with an error that names the date.
        """
        return self._calls.each(dates, fetch)

    @cached_property
    def _calls(self) -> Calls:
        from tidemill.sources.http.client import Calls  # noqa: PLC0415  slow to import, and every command imports this

        return Calls(self)
