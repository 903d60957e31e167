"""`tidemill.Api`: what table functions fetch with, against a server that is at its limits."""

from __future__ import annotations

import threading
import time
from datetime import date, timedelta

import pytest

import tidemill
from tidemill.sources.http.fetch import Pace, remembering

DAYS = [date(2026, 2, 1) + timedelta(days=n) for n in range(8)]


class Clock:
    """Time passes when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 100.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def pace(self, rate: float | None = None) -> Pace:
        return Pace(rate, clock=lambda: self.now, sleep=self.sleep)


def test_requests_come_evenly_at_their_rate():
    clock, turns = Clock(), []
    pace = clock.pace(4)
    for _ in range(5):
        pace.wait()
        turns.append(clock.now - 100)
    assert turns == [0, 0.25, 0.5, 0.75, 1.0]
    clock.now += 10
    pace.wait()
    assert clock.now == 111, "time that nobody used is not saved up"


def test_a_pause_that_a_server_asks_for_is_everybodys():
    clock = Clock()
    pace = clock.pace()
    pace.wait()
    pace.hold(7)
    pace.wait()
    assert clock.now == 107


def test_the_server_that_asks_for_a_pause_gets_one_from_all_threads(api):
    refused, others = [], []

    def answer(asked):
        if asked.query["date"] == DAYS[0].isoformat() and not refused:
            refused.append(time.monotonic())
            return 429, {}, {"Retry-After": "1"}
        others.append(time.monotonic())
        if len(others) == 1:
            time.sleep(0.5)  # the other thread hears of the pause meanwhile
        return []

    api.answer = answer
    found = tidemill.Api(api.url, at_once=2)
    assert [day for day, _ in found.each(DAYS, lambda day: found.get("games", date=day))] == DAYS
    early = [moment for moment in others if moment < refused[0] + 0.9]
    assert len(others) == len(DAYS)
    assert len(early) <= 1, "one that was under way"


def test_a_path_and_parameters_are_put_to_the_address(api):
    api.answer = lambda asked: {"path": asked.path, **asked.query, "share": 0.5}
    found = tidemill.Api(f"{api.url}/v1/", headers={"X-Key": "geheim"})
    assert found.get("/games/2026-02-04", page=2, day=DAYS[0], final=True, team=None) == {
        "path": "/v1/games/2026-02-04",
        "page": "2",
        "day": "2026-02-01",
        "final": "true",
        "share": 0.5,
    }
    assert found.get()["path"] == "/v1/"
    assert found.get(f"{api.url}/v2/next?page=3")["page"] == "3"
    assert api.asked[0].headers["X-Key"] == "geheim"
    assert "geheim" not in repr(found)


def test_params_are_a_dict_or_pairs_as_with_every_client_and_lists_come_several_times(api):
    api.answer = lambda asked: asked.path
    found = tidemill.Api(api.url)
    given = {"season": 2026, "day": DAYS[0], "team": ["TOR", "MTL"], "final": False, "none": None}
    assert found.get("games", given) == "/games"
    assert found.get("games", params=[("team", "TOR"), ("team", "MTL")], limit=5) == "/games"
    assert [asked.raw for asked in api.asked] == [
        "season=2026&day=2026-02-01&team=TOR&team=MTL&final=false",
        "team=TOR&team=MTL&limit=5",
    ]
    for wrong in ("season=2026", 3, {"season": {"a": 1}}, {1: "a"}):
        with pytest.raises(ValueError, match=r"api\.bad_params.*are no parameters of a query"):
            found.get("games", params=wrong)


ROWS = [{"id": number} for number in range(5)]


def by_page(asked):
    start = (int(asked.query["page"]) - 1) * 2
    return {"data": {"items": ROWS[start : start + 2]}}


def by_offset(asked):
    start = int(asked.query["offset"])
    return {"data": {"items": ROWS[start : start + int(asked.query["limit"])]}}


def by_cursor(asked):
    start = int(asked.query.get("after", 0))
    return {"data": {"items": ROWS[start : start + 2]}, "next": start + 2 if start + 2 < 5 else None}


def by_header(asked):
    start = int(asked.query.get("from", 0))
    link = {"Link": f'</games?from={start + 2}>; rel="next"'} if start + 2 < 5 else {}
    return 200, {"data": {"items": ROWS[start : start + 2]}}, link


@pytest.mark.parametrize(
    ("answer", "pagination"),
    [
        (by_page, "page"),
        (by_offset, {"type": "offset", "size": 2}),
        (by_cursor, {"type": "cursor", "next": "next", "param": "after"}),
        (by_header, "link"),
    ],
)
def test_pages_are_asked_for_one_by_one_and_within_a_run_once(api, answer, pagination):
    api.answer = answer
    found = tidemill.Api(api.url)
    with remembering():
        for _ in range(2):
            pages = found.pages("games", {"season": 2026}, pagination=pagination, records="data.items")
            assert list(pages) == [ROWS[:2], ROWS[2:4], ROWS[4:]]
        assert len(api.asked) <= 4
    assert api.asked[0].query["season"] == "2026"


def test_pagination_that_is_wrong_or_has_no_end_is_an_error(api):
    api.answer = lambda _: ROWS
    found = tidemill.Api(api.url)
    with pytest.raises(ValueError, match="Did you mean cursor"):
        found.pages("games", pagination="curser")
    with pytest.raises(tidemill.TidemillError, match="Page 2 is one that was read before"):
        list(found.pages("games", pagination="page"))


def test_dates_come_in_order_and_so_many_are_fetched_at_once(api):
    busy, most, lock = 0, 0, threading.Lock()

    def answer(asked):
        nonlocal busy, most
        with lock:
            busy += 1
            most = max(most, busy)
        time.sleep(0.05 if asked.query["date"] == "2026-02-01" else 0.01)
        with lock:
            busy -= 1
        return [asked.query["date"]]

    api.answer = answer
    found = tidemill.Api(api.url, at_once=3)
    given = list(found.each(DAYS, lambda day: found.get(date=day)))
    assert given == [(day, [day.isoformat()]) for day in DAYS]
    assert 1 < most <= 3


def test_a_date_that_fails_is_named_and_ends_it(api):
    def answer(asked):
        return (404, {}, {}) if asked.query["date"] == "2026-02-03" else []

    api.answer = answer
    found = tidemill.Api(api.url, at_once=2)
    seen = []
    with pytest.raises(tidemill.TidemillError) as caught:
        seen.extend(day for day, _ in found.each(DAYS, lambda day: found.get(date=day)))
    assert caught.value.problem == f"2026-02-03: {api.url} answered 404 Not Found."
    assert len(api.asked) <= 4, "those after it that had begun"


def test_within_a_run_an_answer_is_asked_for_once(api):
    api.answer = lambda asked: {"of": asked.query["date"], "name": "Müller", "n": len(api.asked)}
    found = tidemill.Api(api.url)
    with remembering():
        first = [found.get(date=day) for day in DAYS]
        with remembering():
            assert [found.get(date=day) for day in DAYS] == first
        assert tidemill.Api(api.url).get(date=DAYS[0]) == first[0], "by its address, whoever asks"
        assert len(api.asked) == len(DAYS)
        other = tidemill.Api(api.url, headers={"X-Key": "another"})
        assert other.get(date=DAYS[0])["n"] == len(DAYS) + 1
    assert found.get(date=DAYS[0])["n"] == len(DAYS) + 2, "the next run asks again"


def test_a_failure_is_not_remembered(api):
    answers = [(404, {}, {}), {"ok": True}]
    api.answer = lambda _: answers.pop(0)
    found = tidemill.Api(api.url)
    with remembering():
        with pytest.raises(tidemill.TidemillError, match="answered 404"):
            found.get("x")
        assert found.get("x") == {"ok": True}


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"url": "ftp://host"}, "ftp://host is no address of HTTP."),
        ({"url": "https://host", "rate": 0}, "rate of an Api cannot be 0."),
        ({"url": "https://host", "at_once": 0}, "at_once of an Api cannot be 0."),
        ({"url": "https://host", "retries": -1}, "retries of an Api cannot be -1."),
    ],
)
def test_settings_that_cannot_be_are_reported_at_once(given, problem):
    with pytest.raises(ValueError, match=problem):
        tidemill.Api(**given)
