"""The asking itself: connections that are kept, tries again where that may help, and what an `Api` is asked."""

from __future__ import annotations

import email.utils
import json
from collections import deque
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import httpx
import tenacity

from tidemill.errors import ArgumentError, ConnectorError, TidemillError
from tidemill.model.project import as_text
from tidemill.model.source import Source
from tidemill.sources.declared import Params
from tidemill.sources.http.fetch import Answer, Fetcher, Pace, origin, remembered, with_query, without_secrets
from tidemill.sources.http.rest import MOST_PAGES, pages, read_pagination

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future

    from tidemill.sources.http.fetch import Api, Query

LONGEST_PAUSE = 60.0  # seconds
_DOUBLED = tenacity.wait_exponential(multiplier=0.5, max=LONGEST_PAUSE)
_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
_REFUSED = frozenset({401, 403})


class Asking:
    """Asks as a `Fetcher` says. Connections are kept for the next request; threads may share it."""

    def __init__(self, how: Fetcher) -> None:
        self._how = how
        trusted = httpx.create_ssl_context()
        trusted.load_default_certs()  # a company's own authority is known to its machines only
        self._client = httpx.Client(
            headers=_headers(how),
            timeout=how.timeout,
            verify=trusted,
            follow_redirects=True,
            event_hooks={"request": [self._without_headers_elsewhere]},
        )

    def fetch(self, url: str) -> Answer:
        """The answer, or a `ConnectorError` once there is no point in trying again."""
        tries = tenacity.Retrying(
            retry=tenacity.retry_if_exception(_may_pass),
            stop=tenacity.stop_after_attempt(self._how.retries + 1),
            wait=self._pause,
            sleep=self._how.sleep,
            reraise=True,
        )
        try:
            response = tries(self._once, url)
        except httpx.HTTPStatusError as refusal:
            raise _status(url, refusal.response, tries.statistics["attempt_number"]) from None
        except httpx.RequestError as lost:
            raise _unreachable(url, lost, tries.statistics["attempt_number"]) from None
        return Answer(str(response.url), _json(url, response.content, self._how.fraction), response.headers)

    def _once(self, url: str) -> httpx.Response:
        if self._how.pace:
            self._how.pace.wait()
        return self._client.request(self._how.method, url, content=self._how.body).raise_for_status()

    def _pause(self, tried: tenacity.RetryCallState) -> float:
        """As long as the server asks, which then all wait who share the pace; else twice as long as before."""
        asked = _asked_pause(tried)
        if asked is None:
            return _DOUBLED(tried)
        if self._how.pace:
            self._how.pace.hold(asked)
        return 0.0 if self._how.pace else asked

    def _without_headers_elsewhere(self, request: httpx.Request) -> None:
        """A redirect may lead to another host, which is not meant by the headers."""
        if origin(str(request.url)) != origin(self._how.url):
            for name in self._how.headers:
                request.headers.pop(name, None)


def _headers(how: Fetcher) -> dict[str, str]:
    own = {"Accept": "application/json", "User-Agent": "tidemill"}
    if how.body is not None:
        own["Content-Type"] = "application/json"
    return own | dict(how.headers)


def _may_pass(failure: BaseException) -> bool:
    if isinstance(failure, httpx.HTTPStatusError):
        return failure.response.status_code in _AGAIN
    return isinstance(failure, httpx.TransportError) and not isinstance(failure, httpx.UnsupportedProtocol)


def _asked_pause(tried: tenacity.RetryCallState) -> float | None:
    """What `Retry-After` asks for, seconds or a moment, up to the longest."""
    failure = tried.outcome.exception() if tried.outcome else None
    if not isinstance(failure, httpx.HTTPStatusError):
        return None
    asked = failure.response.headers.get("Retry-After", "").strip()
    if asked.isdigit():
        return min(float(asked), LONGEST_PAUSE)
    try:
        seconds = (email.utils.parsedate_to_datetime(asked) - datetime.now(UTC)).total_seconds()
    except (TypeError, ValueError):
        return None
    return min(max(0.0, seconds), LONGEST_PAUSE)


def _status(url: str, refusal: httpx.Response, tries: int) -> ConnectorError:
    times = f" {tries} times" if tries > 1 else ""
    code, reason = refusal.status_code, refusal.reason_phrase
    remedy = "Check its credentials." if code in _REFUSED else "Check its url and params, or run again later."
    return ConnectorError("source.http_status", f"{without_secrets(url)} answered {code} {reason}{times}.", remedy)


def _unreachable(url: str, lost: httpx.RequestError, tries: int) -> ConnectorError:
    times = f", {tries} times" if tries > 1 else ""
    return ConnectorError(
        "source.unreachable",
        f"{without_secrets(url)} could not be reached{times}: {lost or type(lost).__name__}.",
        "Check its url and the network, or run again later.",
    )


def _json(url: str, content: bytes, fraction: Callable[[str], object]) -> Any:
    try:
        return json.loads(content, parse_float=fraction)
    except ValueError as bad:
        raise ConnectorError(
            "source.not_json",
            f"{without_secrets(url)} did not answer in JSON: {bad}",
            "Give the address of an API that does.",
        ) from None


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
