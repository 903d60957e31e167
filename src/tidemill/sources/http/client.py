"""The asking itself: connections that are kept, and tries again where that may help."""

from __future__ import annotations

import email.utils
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import httpx
import tenacity

from tidemill.errors import ConnectorError
from tidemill.sources.http.fetch import Answer, origin, without_secrets

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidemill.sources.http.fetch import Fetcher

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
