"""Requests over HTTP: JSON answers at a shared pace, each asked for once in a run, headers for their origin only; and
an API that table functions fetch from, a few dates at once.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit, urlunsplit

from tidemill.errors import ArgumentError, ConnectorError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tidemill.sources.http.client import Asking, Calls

    Query = Mapping[str, object] | Iterable[tuple[str, object]]


class Pace:
    """At most `rate` requests a second, evenly, whoever asks; without one nobody waits but for pauses."""

    def __init__(
        self,
        rate: float | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._gap = 1 / rate if rate else 0.0
        self._clock, self._sleep = clock, sleep
        self._next = 0.0
        self._lock = threading.Lock()

    def wait(self) -> None:
        """Until it is the caller's turn."""
        with self._lock:
            now = self._clock()
            turn = max(now, self._next)
            self._next = turn + self._gap
        if turn > now:
            self._sleep(turn - now)

    def hold(self, seconds: float) -> None:
        """Nobody's turn comes before this pause is over: a server that is asked for one means all of us."""
        with self._lock:
            self._next = max(self._next, self._clock() + seconds)


class _Memory:
    """A folder with a file per answer, from the beginning of a run to its end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs = 0
        self._folder: Path | None = None

    def begin(self) -> None:
        with self._lock:
            self._runs += 1
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="tidemill-answers-"))

    def end(self) -> None:
        """Runs of one process may overlap; the last one forgets."""
        with self._lock:
            self._runs -= 1
            if not self._runs and self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)
                self._folder = None

    def file(self, question: str) -> Path | None:
        folder = self._folder
        return folder / hashlib.sha256(question.encode()).hexdigest() if folder else None


_MEMORY = _Memory()


@contextmanager
def remembering() -> Iterator[None]:
    """A run: what it asks an API for is asked once, however often its functions are called."""
    _MEMORY.begin()
    try:
        yield
    finally:
        _MEMORY.end()


def remembered(question: str, ask: Callable[[], Any]) -> Any:
    """The answer, in JSON, which the run has had already, or has now; outside of a run it is asked for each time."""
    file = _MEMORY.file(question)
    if file is None:
        return ask()
    try:
        return json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        pass
    answer = ask()
    own = file.with_name(f"{file.name}-{threading.get_ident()}")  # another thread may have asked the same
    own.write_text(json.dumps(answer), "utf-8")
    own.replace(file)
    return answer


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
        if origin(url) != origin(self.url):
            raise ConnectorError(
                "source.foreign_link",
                f"The next page is at {without_secrets(url)}, which is another host than {without_secrets(self.url)}.",
                "Its headers are not sent there. Give the address that answers for all pages.",
            )
        return self._asking.fetch(url)

    @cached_property
    def _asking(self) -> Asking:
        return _client()[0](self)


def origin(url: str) -> tuple[str, str, int]:
    """Scheme, host and port; anything but HTTP is an error."""
    parts = urlsplit(url)
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        port = 0
    if parts.scheme not in {"http", "https"} or not parts.hostname or not port:
        raise ConnectorError(
            "source.bad_url", f"{without_secrets(url)} is no address of HTTP.", "Write https://host/path."
        )
    return parts.scheme, parts.hostname, port


def with_query(url: str, more: Mapping[str, str] | Sequence[tuple[str, str]]) -> str:
    """The URL with these parameters; those of the same names that it has are left out."""
    parts, added = urlsplit(url), dict(more)
    query = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name not in added]
    pairs = more.items() if isinstance(more, Mapping) else more
    return urlunsplit(parts._replace(query=urlencode([*query, *pairs])))


def join_url(url: str, link: str) -> str:
    """A link as it is from the page that holds it."""
    return urljoin(url, link)


def without_secrets(url: str) -> str:
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
        return _client()[1](self)


def _client() -> tuple[type[Asking], type[Calls]]:
    from tidemill.sources.http.client import Asking, Calls  # noqa: PLC0415  slow to import; every command imports this

    return Asking, Calls
