"""The calls of an `Api`: addresses, answers that a run remembers, pages, and several dates at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from typing import TYPE_CHECKING, Any, TypeVar

from tidemill.errors import ArgumentError, ConnectorError, TidemillError
from tidemill.model.source import Source
from tidemill.model.variables import as_text
from tidemill.sources.http.fetch import Answer, Fetcher, Pace, remembered, with_query
from tidemill.sources.http.rest import MOST_PAGES, pages, read_pagination
from tidemill.sources.params import Params

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future

    from tidemill.sources.http.api import Api, Query

Item = TypeVar("Item")
Found = TypeVar("Found")


class Calls:
    """Asks what an `Api` is asked."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.fetcher = Fetcher(
            api.url,
            headers=api.headers,
            timeout=api.timeout,
            retries=api.retries,
            pace=Pace(api.rate),
            fraction=float,
        )

    def url(self, path: str, params: Query | None, query: Mapping[str, object]) -> str:
        return with_query(self._address(path), [*_pairs(params), *_pairs(query)])

    def answer(self, url: str) -> Answer:
        """Within a run it is asked for once; of its headers only what leads to the next page is kept."""

        def ask() -> list[Any]:
            answer = self.fetcher.fetch(url)
            return [answer.url, answer.body, answer.headers.get("Link", "")]

        at, body, link = remembered(f"{url} {sorted(self.api.headers.items())}", ask)
        return Answer(at, body, {"Link": link})

    def pages(
        self, url: str, pagination: str | Mapping[str, object], records: str | None, most: int | None
    ) -> Iterator[list[Any]]:
        given = {"type": pagination} if isinstance(pagination, str) else pagination
        how = read_pagination(Params(Source(self.api.url, "rest", {"pagination": given})), None)
        found = pages(self.answer, url, how, records, most or MOST_PAGES)
        return (page.records for page in found if page.records)

    def each(self, dates: Iterable[Item], fetch: Callable[[Item], Found]) -> Iterator[tuple[Item, Found]]:
        waiting: deque[tuple[Item, Future[Found]]] = deque()
        with ThreadPoolExecutor(self.api.at_once, thread_name_prefix="tidemill-fetch") as pool:
            try:
                for item in dates:
                    waiting.append((item, pool.submit(fetch, item)))
                    if len(waiting) >= self.api.at_once:
                        yield _result(*waiting.popleft())
                while waiting:
                    yield _result(*waiting.popleft())
            finally:
                for _, left in waiting:
                    left.cancel()

    def _address(self, path: str) -> str:
        if "://" in path:
            return path
        return f"{self.api.url.rstrip('/')}/{path.lstrip('/')}" if path else self.api.url


def _result(item: Item, found: Future[Found]) -> tuple[Item, Found]:
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
