"""Page after page of an API: where the next one is, and when to stop."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from tidemill.errors import ArgumentError, ConnectorError, did_you_mean
from tidemill.sources.http.fetch import joined, with_query
from tidemill.sources.params import Params

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

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
        return joined(page.answer.url, str(link)) if link else None


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
