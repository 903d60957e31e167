"""An API that table functions fetch from, politely: at a pace, a few dates at once, and nothing twice in a run."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from tidemill.errors import ArgumentError, ConnectorError, TidemillError
from tidemill.model.variables import as_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future

    from tidemill.sources.http.fetch import Answer, Fetcher

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
        return self._answer(self._asked(path, params, query)).body

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
        from tidemill.model.source import Source  # noqa: PLC0415  slow to import, and every command imports this
        from tidemill.sources.http.rest import MOST_PAGES, pages, read_pagination  # noqa: PLC0415
        from tidemill.sources.params import Params  # noqa: PLC0415

        given = {"type": pagination} if isinstance(pagination, str) else pagination
        how = read_pagination(Params(Source(self.url, "rest", {"pagination": given})), None)
        found = pages(self._answer, self._asked(path, params, query), how, records, max_pages or MOST_PAGES)
        return (page.records for page in found if page.records)

    def each(self, dates: Iterable[Item], fetch: Callable[[Item], Found]) -> Iterator[tuple[Item, Found]]:
        """Every date with what `fetch` gives for it, in order; the next ones are fetched meanwhile.

        The first date that fails ends it, with an error that names the date.
        """
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

        waiting: deque[tuple[Item, Future[Found]]] = deque()
        with ThreadPoolExecutor(self.at_once, thread_name_prefix="tidemill-fetch") as pool:
            try:
                for item in dates:
                    waiting.append((item, pool.submit(fetch, item)))
                    if len(waiting) >= self.at_once:
                        yield _done(*waiting.popleft())
                while waiting:
                    yield _done(*waiting.popleft())
            finally:
                for _, left in waiting:
                    left.cancel()

    def _asked(self, path: str, params: Query | None, query: Mapping[str, object]) -> str:
        from tidemill.sources.http.fetch import with_query  # noqa: PLC0415

        return with_query(self._address(path), [*_pairs(params), *_pairs(query)])

    def _answer(self, url: str) -> Answer:
        """Within a run it is asked for once; of its headers only what leads to the next page is kept."""
        from tidemill.sources.http.fetch import Answer, remembered  # noqa: PLC0415

        def ask() -> list[Any]:
            answer = self._fetcher.fetch(url)
            return [answer.url, answer.body, answer.headers.get("Link", "")]

        at, body, link = remembered(f"{url} {sorted(self.headers.items())}", ask)
        return Answer(at, body, {"Link": link})

    def _address(self, path: str) -> str:
        if "://" in path:
            return path
        return f"{self.url.rstrip('/')}/{path.lstrip('/')}" if path else self.url

    @cached_property
    def _fetcher(self) -> Fetcher:
        from tidemill.sources.http.fetch import Fetcher, Pace  # noqa: PLC0415

        return Fetcher(
            self.url,
            headers=self.headers,
            timeout=self.timeout,
            retries=self.retries,
            pace=Pace(self.rate),
            fraction=float,
        )


def _done(item: Item, found: Future[Found]) -> tuple[Item, Found]:
    try:
        return item, found.result()
    except TidemillError as failure:
        raise ConnectorError(failure.code, f"{item}: {failure.problem}", failure.remedy) from failure


def _pairs(given: Query | None) -> list[tuple[str, str]]:
    """Each parameter with its text, those of lists several times."""
    try:
        items = list(given.items() if isinstance(given, Mapping) else given or ())
        flat = [(name, each) for name, value in items for each in (value if _is_list(value) else (value,))]
    except (TypeError, ValueError):
        flat = [(None, None)]
    if any(not isinstance(name, str) or isinstance(value, Mapping) for name, value in flat):
        raise ArgumentError(
            "api.bad_params", f"{given!r} are no parameters of a query.", 'Give a dict: params={"season": 2026}.'
        )
    return [(name, _text(value)) for name, value in flat if value is not None]


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple | set | frozenset)


def _text(value: object) -> str:
    return value.isoformat() if isinstance(value, date) else as_text(value)
