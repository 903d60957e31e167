"""Asking over HTTP: JSON answers, tries again where that may help, and headers only for whom they are meant."""

from __future__ import annotations

import email.utils
import http.client
import json
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit, urlunsplit

from tidemill.errors import ConnectorError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from email.message import Message

    from tidemill.sources.pace import Pace

FIRST_PAUSE = 0.5  # seconds; doubled each time
LONGEST_PAUSE = 60.0
_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
_REFUSED = frozenset({401, 403})


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back. Numbers with a fraction are what `Fetcher.fraction` makes of them."""

    url: str
    body: Any
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Fetcher:
    """Asks one host, again after 429, 5xx and lost connections: `retries` times, with pauses that double.

    A `Retry-After` is honoured up to a minute, and no request comes before its turn by the `pace`. Headers go to the
    host of `url` only, never along a redirect elsewhere. Numbers with a fraction are `Decimal`s, so none loses a digit,
    unless `fraction` says otherwise.
    """

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)
    timeout: float = 30.0
    retries: int = 5
    sleep: Callable[[float], None] = time.sleep
    pace: Pace | None = None
    fraction: Callable[[str], object] = Decimal

    def fetch(self, url: str) -> Answer:
        for tried in range(self.retries + 1):
            last = tried == self.retries
            try:
                return self._once(url)
            except urllib.error.HTTPError as refusal:
                with refusal:
                    if last or refusal.code not in _AGAIN:
                        raise _status(url, refusal, tried) from None
                    pause = _asked_pause(refusal.headers)
            except (urllib.error.URLError, TimeoutError, ConnectionError, http.client.HTTPException) as lost:
                if last:
                    raise _unreachable(url, lost, tried) from None
                pause = None
            self._pause(pause, tried)
        raise AssertionError  # pragma: no cover  the last try returns or raises

    def _pause(self, asked: float | None, tried: int) -> None:
        """As long as the server asks, which then all wait who share the pace; else twice as long as before."""
        seconds = min(FIRST_PAUSE * 2**tried if asked is None else asked, LONGEST_PAUSE)
        if asked is not None and self.pace:
            self.pace.hold(seconds)
        else:
            self.sleep(seconds)

    def _once(self, url: str) -> Answer:
        if self.pace:
            self.pace.wait()
        request = urllib.request.Request(url, data=self.body, method=self.method)  # noqa: S310  checked by `origin`
        for name, value in self._headers(url).items():
            request.add_header(name, value)
        opener = urllib.request.build_opener(_Redirects(self.url))
        with opener.open(request, timeout=self.timeout) as response:
            return Answer(response.url, _json(url, response.read(), self.fraction), response.headers)

    def _headers(self, url: str) -> dict[str, str]:
        if origin(url) != origin(self.url):
            raise ConnectorError(
                "source.foreign_link",
                f"The next page is at {shown(url)}, which is another host than {shown(self.url)}.",
                "Its headers are not sent there. Give the address that answers for all pages.",
            )
        own = {"Accept": "application/json", "User-Agent": "tidemill"}
        if self.body is not None:
            own["Content-Type"] = "application/json"
        return own | dict(self.headers)


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects; to another host without our headers."""

    def __init__(self, url: str) -> None:
        self._origin = origin(url)

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        following = super().redirect_request(req, fp, code, msg, headers, newurl)
        if following is not None and origin(newurl) != self._origin:
            following.headers.clear()
        return following


def origin(url: str) -> tuple[str, str, int]:
    """Scheme, host and port; anything but HTTP is an error."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConnectorError("source.bad_url", f"{shown(url)} is no address of HTTP.", "Write https://host/path.")
    return parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)


def with_query(url: str, more: Mapping[str, str]) -> str:
    """The URL with these parameters, each once."""
    parts = urlsplit(url)
    query = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name not in more]
    return urlunsplit(parts._replace(query=urlencode([*query, *more.items()])))


def joined(url: str, link: str) -> str:
    """A link as it is from the page that holds it."""
    return urljoin(url, link)


def shown(url: str) -> str:
    """The URL without what may be secret in it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def as_json_line(record: object) -> str:
    """A record as one line of JSON, its numbers as they came."""
    text = json.dumps(record, default=_number, ensure_ascii=True, separators=(",", ":"))
    return text.replace(f'"{_MARK}', "").replace(f'{_MARK}"', "")


_MARK = "\\u0000\\u0001"  # around numbers that Python's json cannot write as such; no text holds it


def _number(value: Decimal) -> str:
    return f"\0\1{value}\0\1"


def _json(url: str, content: bytes, fraction: Callable[[str], object]) -> Any:
    try:
        return json.loads(content, parse_float=fraction)
    except ValueError as bad:
        raise ConnectorError(
            "source.not_json",
            f"{shown(url)} did not answer in JSON: {bad}",
            "Give the address of an API that does.",
        ) from None


def _asked_pause(headers: Message) -> float | None:
    """What `Retry-After` asks for: seconds, or a moment."""
    asked = headers.get("Retry-After", "").strip()
    if asked.isdigit():
        return float(asked)
    try:
        return max(0.0, (email.utils.parsedate_to_datetime(asked) - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):
        return None


def _status(url: str, refusal: urllib.error.HTTPError, tried: int) -> ConnectorError:
    times = f" {tried + 1} times" if tried else ""
    remedy = "Check its credentials." if refusal.code in _REFUSED else "Check its url and params, or run again later."
    return ConnectorError(
        "source.http_status", f"{shown(url)} answered {refusal.code} {refusal.reason}{times}.", remedy
    )


def _unreachable(url: str, lost: Exception, tried: int) -> ConnectorError:
    reason = getattr(lost, "reason", None) or lost
    return ConnectorError(
        "source.unreachable",
        f"{shown(url)} could not be reached, {tried + 1} times: {reason or type(lost).__name__}.",
        "Check its url and the network, or run again later.",
    )
