"""An API that table functions fetch from, politely: at a pace, a few dates at once, and nothing twice in a run."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from tidemill.declare.variables import as_text
from tidemill.errors import ArgumentError, ConnectorError, TidemillError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from concurrent.futures import Future

    from tidemill.sources.http.fetch import Fetcher

Item = TypeVar("Item")
Found = TypeVar("Found")


@dataclass(frozen=True)
class Api:
    """An API that answers in JSON, asked from a table function.

    A request is tried again after 429, 5xx and lost connections, `retries` times, with pauses that double or that the
    server asks for. There are at most `rate` requests a second, and `at_once` of them at a time. Within a run an answer
    is asked for once. `headers` go to the host of `url` only.
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

    def get(self, path: str = "", **query: object) -> Any:
        """The answer to a GET of `path`, below the API's own address, with these parameters; None is left out."""
        from tidemill.sources.http.fetch import with_query  # noqa: PLC0415  slow to import, and every command imports this
        from tidemill.sources.http.remembering import remembered  # noqa: PLC0415

        given = {name: _text(value) for name, value in query.items() if value is not None}
        url = with_query(self._address(path), given)
        return remembered(f"{url} {sorted(self.headers.items())}", lambda: self._fetcher.fetch(url).body)

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

    def _address(self, path: str) -> str:
        if "://" in path:
            return path
        return f"{self.url.rstrip('/')}/{path.lstrip('/')}" if path else self.url

    @cached_property
    def _fetcher(self) -> Fetcher:
        from tidemill.sources.http.fetch import Fetcher  # noqa: PLC0415
        from tidemill.sources.http.pace import Pace  # noqa: PLC0415

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


def _text(value: object) -> str:
    return value.isoformat() if isinstance(value, date) else as_text(value)
