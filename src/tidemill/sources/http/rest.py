"""APIs as a source: pages of JSON over HTTP, where the next page is, and when to stop."""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tidemill.errors import ArgumentError, ConnectorError, did_you_mean
from tidemill.model.source import bad_param
from tidemill.sources import Connector, select_columns
from tidemill.sources.declared import Params
from tidemill.sources.files.text import Types
from tidemill.sources.http.fetch import Fetcher, Pace, as_json_line, join_url, with_query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from tidemill.model.cursor import Cursor
    from tidemill.model.source import Source
    from tidemill.sources import Reading
    from tidemill.sources.http.fetch import Answer

MOST_PAGES = 100_000
_NEXT_LINK = re.compile(r'<([^>]*)>[^,]*?;\s*rel\s*=\s*"?next"?', re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Page:
    """One answer and its records; `number` counts from 0, `before` is how many records came before it."""

    answer: Answer
    records: list[Any]
    number: int
    before: int


class Pagination(Protocol):
    """How an API is asked for more."""

    def first(self) -> Mapping[str, str]:
        """Parameters of the first request."""

    def following(self, page: Page, url: str) -> str | None:
        """The URL of the page after this one; `url` is that of the first. None when there is none."""


@dataclass(frozen=True, slots=True)
class OnePage:
    def first(self) -> Mapping[str, str]:
        return {}

    def following(self, page: Page, url: str) -> str | None:  # noqa: ARG002
        return None


@dataclass(frozen=True, slots=True)
class ByLink:
    """The answer holds the next page's URL, at `next` in its JSON or in its Link header."""

    next: str | None = None

    def first(self) -> Mapping[str, str]:
        return {}

    def following(self, page: Page, url: str) -> str | None:  # noqa: ARG002
        link = dig(page.answer.body, self.next) if self.next else _link(page.answer.headers.get("Link", ""))
        return join_url(page.answer.url, str(link)) if link else None


@dataclass(frozen=True, slots=True)
class ByCursor:
    """The answer holds a value at `next`, which goes back as the parameter `param`."""

    next: str
    param: str
    size: Mapping[str, str]

    def first(self) -> Mapping[str, str]:
        return self.size

    def following(self, page: Page, url: str) -> str | None:
        value = dig(page.answer.body, self.next)
        return None if value in (None, "", False) else with_query(url, {self.param: str(value)})


@dataclass(frozen=True, slots=True)
class ByOffset:
    """`param` is the number of records to skip. The end is an empty page, or as many as `total` says.

    A page shorter than asked for is not the end: servers may have a limit of their own.
    """

    param: str
    size: Mapping[str, str]
    total: str | None = None

    def first(self) -> Mapping[str, str]:
        return {**self.size, self.param: "0"}

    def following(self, page: Page, url: str) -> str | None:
        seen = page.before + len(page.records)
        if not page.records or (self.total and seen >= _whole(page.answer.body, self.total)):
            return None
        return with_query(url, {self.param: str(seen)})


@dataclass(frozen=True, slots=True)
class ByPage:
    """`param` is the number of the page, from `start` on. The end is an empty page, or the number at `pages`."""

    param: str
    size: Mapping[str, str]
    start: int = 1
    pages: str | None = None

    def first(self) -> Mapping[str, str]:
        return {**self.size, self.param: str(self.start)}

    def following(self, page: Page, url: str) -> str | None:
        if not page.records or (self.pages and page.number + 1 >= _whole(page.answer.body, self.pages)):
            return None
        return with_query(url, {self.param: str(self.start + page.number + 1)})


def read_pagination(params: Params, batch_size: int | None) -> Pagination:
    """What the param `pagination` says; without it there is one page."""
    given = params.mapping("pagination")
    if given is None:
        return OnePage()
    inside = Params(params.source, given, "pagination")
    kind = inside.needed("type").lower()
    if kind not in _KINDS:
        close = did_you_mean(kind, _KINDS)
        raise ArgumentError(
            "source.bad_param",
            f"pagination.type of the source {params.source} must be one of {', '.join(_KINDS)}, not {kind}.",
            f"Did you mean {close}?" if close else "Correct it.",
            origin=params.source.origin,
        )
    found = _KINDS[kind](inside, batch_size)
    inside.end()
    return found


def pages(
    fetch: Callable[[str], Answer], url: str, pagination: Pagination, records: str | None, most: int
) -> Iterator[Page]:
    """The pages in order. One that was there before, or more than `most`, is an error: such a loop has no end."""
    first = asked = with_query(url, pagination.first())
    seen, last, before = {first}, "", 0
    for number in range(most):
        answer = fetch(asked)
        page = Page(answer, records_of(answer.body, records), number, before)
        digest = _digest(page.records)
        if page.records and digest == last:
            raise _repeats(number)
        yield page
        following = pagination.following(page, first)
        if following is None:
            return
        if following in seen:
            raise _repeats(number + 1)
        seen.add(following)
        asked, last, before = following, digest, before + len(page.records)
    raise ConnectorError(
        "source.too_many_pages",
        f"There are more than {most:,} pages.",
        "Raise max_pages if that is right; else look at its pagination.",
    )


def records_of(body: Any, path: str | None) -> list[Any]:
    """The list of records at a dotted path, or the whole answer; a missing or empty one has none."""
    found = dig(body, path) if path else body
    if found is None and path:
        return []
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        where = f"at {path} of the answer" if path else "in the answer"
        keys = f" It has {', '.join(body)}." if isinstance(body, dict) else ""
        raise ConnectorError(
            "source.no_records",
            f"There is no list of objects {where}.{keys}",
            'Give the path to it in its params, such as "records": "data.items".',
        )
    return found


def dig(body: Any, path: str) -> Any:
    """What is at a dotted path of objects; None when it is not there."""
    for part in path.split("."):
        if not isinstance(body, dict) or part not in body:
            return None
        body = body[part]
    return body


def _link(header: str) -> str | None:
    found = _NEXT_LINK.search(header)
    return found[1] if found else None


def _whole(body: Any, path: str) -> int:
    found = dig(body, path)
    try:
        return int(found)
    except (TypeError, ValueError):
        raise ConnectorError(
            "source.bad_page", f"The answer has no number at {path}.", "Correct the path in its pagination."
        ) from None


def _digest(records: list[Any]) -> str:
    return hashlib.sha256(json.dumps(records, default=str).encode()).hexdigest()


def _repeats(number: int) -> ConnectorError:
    return ConnectorError(
        "source.pages_repeat",
        f"Page {number + 1:,} is one that was read before, so reading it would never end.",
        "Look at its pagination: does the API take that parameter?",
    )


def _by_link(inside: Params, batch_size: int | None) -> Pagination:  # noqa: ARG001  the link knows the size
    return ByLink(inside.text("next"))


def _by_cursor(inside: Params, batch_size: int | None) -> Pagination:
    return ByCursor(inside.needed("next"), inside.text("param") or "cursor", _size(inside, batch_size, None))


def _by_offset(inside: Params, batch_size: int | None) -> Pagination:
    return ByOffset(inside.text("param") or "offset", _size(inside, batch_size, "limit"), inside.text("total"))


def _by_page(inside: Params, batch_size: int | None) -> Pagination:
    param = inside.text("param") or "page"
    return ByPage(param, _size(inside, batch_size, None), inside.retries("start", 1), inside.text("pages"))


def _size(inside: Params, batch_size: int | None, default: str | None) -> dict[str, str]:
    """The parameter that says how long pages are, where both its name and the size are known."""
    name = inside.text("size_param") or default
    size = inside.count("size", batch_size or 0)
    return {name: str(size)} if name and size else {}


_KINDS = {"link": _by_link, "cursor": _by_cursor, "offset": _by_offset, "page": _by_page}

_FORMATS = ("iso", "date", "epoch", "epoch_ms")


def rest_source(source: Source) -> RestSource:
    """The connector for a declared API."""
    params = Params(source)
    url = with_query(params.needed("url"), params.texts("query"))
    if not url.startswith(("http://", "https://")):
        raise bad_param(source, "url", "an address that begins with https:// or http://")
    body = params.mapping("body")
    fetcher = Fetcher(
        url,
        (params.text("method") or ("GET" if body is None else "POST")).upper(),
        params.texts("headers"),
        None if body is None else json.dumps(body).encode(),
        params.seconds("timeout", 30.0),
        params.retries("retries", 5),
        pace=_pace(params),
    )
    found = RestSource(
        source,
        fetcher,
        read_pagination(params, source.batch_size),
        params.text("records"),
        params.text("cursor_param"),
        _format(params),
        params.count("max_pages", MOST_PAGES),
        Types(params.text("schema"), params.texts("types"), source.name),
    )
    params.end()
    return found


@dataclass(frozen=True)
class RestSource(Connector):
    """The records of an API. They go through a file, page by page, so that memory does not grow with them.

    What comes back is kept beside the executors: the API is asked once, whatever is done with the frame.
    """

    source: Source
    fetcher: Fetcher
    pagination: Pagination
    records: str | None
    cursor_param: str | None
    cursor_format: str
    max_pages: int
    types: Types
    settled: bool = True

    def __str__(self) -> str:
        return self.source.name

    def schema(self, reading: Reading) -> StructType:
        """From the first page only."""
        return self._rows(reading, {}, (), most=1).schema

    def read(self, reading: Reading, columns: Sequence[str] = ()) -> DataFrame:
        return self._rows(reading, {}, columns)

    def read_since(self, reading: Reading, column: str, value: Cursor, columns: Sequence[str] = ()) -> DataFrame:  # noqa: ARG002
        """The value goes along as the query parameter that `cursor_param` names; what it does there is the API's."""
        query = {self.cursor_param: format_cursor(value, self.cursor_format)} if self.cursor_param else {}
        return self._rows(reading, query, columns)

    def _rows(
        self, reading: Reading, query: Mapping[str, str], columns: Sequence[str], most: int | None = None
    ) -> DataFrame:
        from tidemill.sources.files.reading import empty, kept, read_json  # noqa: PLC0415  it imports PySpark

        with tempfile.TemporaryDirectory(prefix="tidemill-rest-") as folder:
            file = Path(folder) / "records.json"
            if not self._download(file, with_query(self.fetcher.url, query), most):
                return select_columns(
                    self._check_known(empty(reading, self.types)), columns or self.source.columns, self
                )
            rows = read_json(reading, [str(file)], {}, self.types)
            return kept(select_columns(rows, columns or self.source.columns, self))

    def _download(self, file: Path, url: str, most: int | None) -> int:
        """Writes the records as lines, and answers how many there are."""
        count = 0
        with file.open("w", encoding="ascii") as lines:
            for page in pages(self.fetcher.fetch, url, self.pagination, self.records, self.max_pages):
                lines.writelines(f"{as_json_line(record)}\n" for record in page.records)
                count += len(page.records)
                if most is not None and page.number + 1 >= most:
                    break
        return count

    def _check_known(self, rows: DataFrame | None) -> DataFrame:
        if rows is None:
            raise ConnectorError(
                "source.no_columns",
                f"The source {self} gave no records yet, so its columns are not known.",
                'Give them in its params: "schema": "id BIGINT, updated_at TIMESTAMP".',
            )
        return rows


def _pace(params: Params) -> Pace | None:
    rate = params.rate("rate")
    return Pace(rate) if rate else None


def format_cursor(value: Cursor, form: str) -> str:
    """A cursor's value as an API takes it. Where the form is coarser, it is rounded down, so that no row is lost."""
    moment = value.value
    if form == "iso" or not isinstance(moment, date):
        return value.text()
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day, tzinfo=UTC)
    if form == "date":
        return moment.date().isoformat()
    seconds = int((moment.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() // 1)
    return str(seconds if form == "epoch" else seconds * 1000 + moment.microsecond // 1000)


def _format(params: Params) -> str:
    form = params.text("cursor_format") or "iso"
    if form not in _FORMATS:
        raise ArgumentError(
            "source.bad_param",
            f"cursor_format of the source {params.source} must be one of {', '.join(_FORMATS)}, not {form}.",
            "Correct it.",
            origin=params.source.origin,
        )
    return form
