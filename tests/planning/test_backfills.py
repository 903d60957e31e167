"""A backfill is cut into batches that leave no gap and overlap nowhere, and a cut one is taken up again."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from tidemill.errors import ArgumentError
from tidemill.planning import Backfill, Request, backfill_of
from tidemill.results import CursorKind

NOW = datetime(2024, 3, 10, 12, tzinfo=UTC)


def parts(asked: Backfill | None, kind: str = "date", done: dict[str, str] | None = None) -> list[str]:
    assert asked is not None
    found = asked.parts(CursorKind(kind), NOW, done or {})
    return [f"{p.start.text() if p.start else ''}|{p.end.text() if p.end else ''}" for p in found]


def test_a_day_and_a_whole_number_are_included_and_a_moment_is_not():
    assert parts(backfill_of("2024-03-01", "2024-03-02", None)) == ["2024-03-01|2024-03-03"]
    assert parts(backfill_of("1", "5", None), "integer") == ["1|6"]
    day = "2024-03-01T00:00:00.000000Z|2024-03-03T00:00:00.000000Z"
    assert parts(backfill_of("2024-03-01", "2024-03-02", None), "timestamp") == [day]
    moment = "2024-03-01T00:00:00.000000Z|2024-03-02T06:00:00.000000Z"
    assert parts(backfill_of("2024-03-01", "2024-03-02 06:00", None), "timestamp") == [moment]


def test_a_day_as_the_end_of_a_text_column_is_included_with_all_its_hours():
    assert parts(backfill_of("2024-03-01", "2024-03-31", None), "string") == ["2024-03-01|2024-04-01"]
    assert parts(backfill_of("20240301", "20240331", None), "string") == ["20240301|20240401"]
    assert parts(backfill_of("a", "k", None), "string") == ["a|k"]


def test_a_day_begins_and_ends_in_the_zone_of_the_run_though_clocks_are_put_back_in_it():
    now = datetime(2024, 11, 10, 12, tzinfo=UTC).astimezone(ZoneInfo("America/New_York"))
    (part,) = Backfill("2024-11-03", "2024-11-03").parts(CursorKind.TIMESTAMP, now, {})
    assert (str(part.start), str(part.end)) == ("2024-11-03 04:00:00 UTC", "2024-11-04 05:00:00 UTC")


def test_the_last_day_that_there_is_is_no_end():
    assert parts(backfill_of("2024-03-01", "9999-12-31", None)) == ["2024-03-01|"]
    assert parts(backfill_of("2024-03-01", "9999-12-31", None), "timestamp") == ["2024-03-01T00:00:00.000000Z|"]


def test_batches_touch_each_other_and_the_last_is_cut_at_the_end():
    asked = backfill_of("2024-02-27", "2024-03-05", "3 days")
    assert parts(asked) == ["2024-02-27|2024-03-01", "2024-03-01|2024-03-04", "2024-03-04|2024-03-06"]
    assert parts(backfill_of("10", "14", "2"), "integer") == ["10|12", "12|14", "14|15"]


def test_months_are_counted_from_the_start_so_that_they_do_not_drift():
    asked = backfill_of("2023-12-31", "2024-03-31", "1 month")
    assert parts(asked) == [
        "2023-12-31|2024-01-31",
        "2024-01-31|2024-02-29",
        "2024-02-29|2024-03-31",
        "2024-03-31|2024-04-01",
    ]


def test_without_an_end_the_last_batch_is_open_above():
    assert parts(backfill_of("2024-03-08", None, "1 day")) == ["2024-03-08|2024-03-09", "2024-03-09|"]


def test_a_batch_shorter_than_a_day_takes_a_day_of_a_date():
    assert parts(backfill_of("2024-03-08", "2024-03-09", "1 hour")) == [
        "2024-03-08|2024-03-09",
        "2024-03-09|2024-03-10",
    ]


def test_the_same_backfill_goes_on_behind_the_batch_that_its_record_names_and_another_does_not():
    asked = backfill_of("2024-02-27", "2024-03-05", "3 days")
    assert asked is not None
    first = asked.parts(CursorKind.DATE, NOW, {})[0]
    assert parts(asked, done=first.mark) == ["2024-03-01|2024-03-04", "2024-03-04|2024-03-06"]
    other = backfill_of("2024-02-27", "2024-03-05", "2 days")
    assert len(parts(other, done=first.mark)) == 4


def test_the_last_batch_and_a_backfill_in_one_piece_leave_no_mark():
    asked = backfill_of("2024-03-08", None, "1 day")
    assert asked is not None
    assert asked.parts(CursorKind.DATE, NOW, {})[-1].mark == {}
    whole = backfill_of("2024-03-08", "2024-03-09", None)
    assert whole is not None
    assert whole.parts(CursorKind.DATE, NOW, {})[0].mark == {}


@pytest.mark.parametrize(
    ("start", "end", "batch", "kind", "text"),
    [
        (None, "2024-01-01", "1 day", "date", "[backfill.no_start] Batches need a start to be counted from."),
        ("2024-01-02", "2024-01-01", None, "date", "[backfill.empty] Nothing lies between 2024-01-02 and 2024-01-01."),
        ("a", "b", "1 day", "string", "[backfill.bad_batch] A string cursor (a) cannot be cut into batches of 1 day."),
        ("1", None, "2", "integer", "[backfill.no_end] Batches over a column of type integer need an end."),
        ("1", "2", "0", "integer", "[backfill.bad_batch] A batch of 0 is none."),
        ("soon", None, None, "date", "[window.bad_value] --start is 'soon', which is no date."),
        ("2024-01-01", None, "often", "date", "[window.bad_duration] 'often' is not a length of time."),
    ],
)
def test_bounds_that_mean_nothing_are_errors(start, end, batch, kind, text):
    with pytest.raises(ArgumentError) as caught:
        parts(backfill_of(start, end, batch), kind)
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize("end", ["2024-01-01", "2024-01-02T00:00", "2024-01-02 01:00+02:00"])
def test_times_in_the_wrong_order_are_reported_before_any_column_is_looked_at(end):
    with pytest.raises(ArgumentError) as caught:
        backfill_of("2024-01-02", end, None)
    assert str(caught.value) == (
        f"[backfill.empty] Nothing lies between 2024-01-02 and {end}. Give an --end after --start."
    )
    assert backfill_of("2024-01-02", "2024-01-02", None) is not None


def test_a_full_refresh_takes_no_bounds():
    with pytest.raises(ArgumentError, match="A full refresh reads everything"):
        Request(full_refresh=True, backfill=Backfill("2024-01-01"))
