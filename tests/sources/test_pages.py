from __future__ import annotations

import pytest

from tidemill.declarations import Source
from tidemill.errors import ArgumentError, ConnectorError
from tidemill.sources.declared import Params
from tidemill.sources.http.fetch import Fetcher
from tidemill.sources.http.rest import pages, read_pagination

ROWS = [{"id": number} for number in range(7)]


def read(api, pagination=None, records="items", most=50, batch_size=None):
    source = Source("orders", "REST", {"pagination": pagination} if pagination else {})
    found = read_pagination(Params(source), batch_size)
    url = f"{api.url}/orders?status=open"
    return [
        record for page in pages(Fetcher(url, retries=0).fetch, url, found, records, most) for record in page.records
    ]


def test_without_pagination_there_is_one_page(api):
    api.answer = lambda _: {"items": ROWS}
    assert read(api) == ROWS
    assert api.asked[0].query == {"status": "open"}


def test_pages_by_a_link_in_the_answer(api):
    def answer(asked):
        start = int(asked.query.get("from", 0))
        more = f"/orders?from={start + 3}" if start + 3 < 7 else None
        return {"items": ROWS[start : start + 3], "links": {"next": more}}

    api.answer = answer
    assert read(api, {"type": "link", "next": "links.next"}) == ROWS


def test_pages_by_the_link_header(api):
    def answer(asked):
        start = int(asked.query.get("from", 0))
        links = f'<{api.url}/orders?from=0>; rel="first", <{api.url}/orders?from={start + 3}>; rel="next"'
        return 200, {"items": ROWS[start : start + 3]}, {"Link": links} if start + 3 < 7 else {}

    api.answer = answer
    assert read(api, {"type": "link"}) == ROWS


def test_pages_by_a_cursor(api):
    def answer(asked):
        start = int(asked.query.get("after", 0))
        return {"items": ROWS[start : start + 2], "meta": {"next": start + 2 if start + 2 < 7 else ""}}

    api.answer = answer
    pagination = {"type": "cursor", "next": "meta.next", "param": "after", "size_param": "limit", "size": 2}
    assert read(api, pagination) == ROWS
    assert api.asked[1].query == {"status": "open", "limit": "2", "after": "2"}


def test_pages_by_an_offset_from_a_server_with_a_limit_of_its_own(api):
    def answer(asked):
        start = int(asked.query["offset"])
        return {"items": ROWS[start : start + min(3, int(asked.query["limit"]))]}

    api.answer = answer
    assert read(api, {"type": "offset", "size": 100}) == ROWS
    assert [asked.query["offset"] for asked in api.asked] == ["0", "3", "6", "7"]


def test_a_total_saves_the_last_request(api):
    api.answer = lambda asked: {"items": ROWS[int(asked.query["offset"]) :][:4], "total": 7}
    assert read(api, {"type": "offset", "total": "total"}) == ROWS
    assert len(api.asked) == 2


def test_pages_by_their_number(api):
    api.answer = lambda asked: {"items": ROWS[int(asked.query["p"]) * 3 :][:3], "pages": 3}
    assert read(api, {"type": "page", "param": "p", "start": 0, "size_param": "per_page"}, batch_size=3) == ROWS
    assert len(api.asked) == 4
    assert api.asked[0].query["per_page"] == "3"
    api.asked.clear()
    assert read(api, {"type": "page", "param": "p", "start": 0, "pages": "pages"}) == ROWS
    assert len(api.asked) == 3


@pytest.mark.parametrize(
    "pagination",
    [
        {"type": "link", "next": "next"},
        {"type": "cursor", "next": "cursor"},
        {"type": "offset"},
        {"type": "page"},
    ],
)
def test_pages_that_repeat_themselves_are_an_error(api, pagination):
    api.answer = lambda _: {"items": ROWS, "next": "/orders?page=2", "cursor": "same"}
    with pytest.raises(ConnectorError) as error:
        read(api, pagination)
    assert error.value.code == "source.pages_repeat"
    assert len(api.asked) <= 3


def test_pages_without_an_end_are_an_error(api):
    api.answer = lambda asked: {"items": [{"id": asked.query["page"]}]}
    with pytest.raises(ConnectorError, match="more than 5 pages"):
        read(api, {"type": "page"}, most=5)


def test_records_at_a_path_that_is_not_there_are_none(api):
    api.answer = lambda _: {"other": 1}
    assert read(api, records="data.items") == []


@pytest.mark.parametrize("answer", [{"items": "no"}, {"items": [1, 2]}, {"items": {"id": 1}}])
def test_records_that_are_no_objects_are_an_error(api, answer):
    api.answer = lambda _: answer
    with pytest.raises(ConnectorError, match=r"no list of objects at items of the answer. It has items."):
        read(api)


def test_a_wrong_pagination_is_found_before_anybody_is_asked(api):
    with pytest.raises(
        ArgumentError, match=r"must be one of link, cursor, offset, page, not pages. Did you mean page\?"
    ):
        read(api, {"type": "pages"})
    with pytest.raises(ArgumentError, match=r"needs pagination.next"):
        read(api, {"type": "cursor"})
    with pytest.raises(ArgumentError, match=r"no param pagination.parm. Did you mean param\?"):
        read(api, {"type": "page", "parm": "p"})
    assert api.asked == []
