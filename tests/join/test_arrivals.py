"""How far apart matches came: shares, lengths worth a look, and the histogram as a picture. No Spark is needed."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from tidemill.cli.suggest import lines_of
from tidemill.graphs.svg import Histogram, histogram_svg
from tidemill.join.rows import Arrivals

FOUND = Arrivals({-7: 1, -1: 9, 0: 80, 3: 8, 12: 2}, "day", look_back=6, look_forward=10)


def test_a_length_catches_what_came_at_most_so_far_apart() -> None:
    assert FOUND.matches == 100
    assert [FOUND.forward(n) for n in (0, 2, 3, 10, 12)] == [0.9, 0.9, 0.98, 0.98, 1.0]
    assert [FOUND.back(n) for n in (0, 1, 6, 7)] == [0.9, 0.99, 0.99, 1.0]
    assert FOUND.caught == 0.97
    assert Arrivals().caught == 1.0


def test_lengths_worth_a_look_end_where_all_are_caught_and_have_the_declared_one_among_them() -> None:
    assert FOUND.steps_forward() == [0, 1, 2, 3, 5, 7, 10, 12]
    assert FOUND.steps_back() == [0, 1, 2, 3, 5, 6, 7]
    assert Arrivals({0: 5}, look_forward=4).steps_forward() == [0, 4]
    assert FOUND.to_json()["look_forward"] == {
        "declared": 10,
        "caught": {str(n): FOUND.forward(n) for n in FOUND.steps_forward()},
    }


CATCHES = "a look forward of 10 days catches 98.0% of the matches"
BARS = {-7: "█ 1", -1: "████ 9", 0: f"{'█' * 40} 80", 3: "████ 8", 12: "█ 2"}


def test_the_text_says_what_the_declared_lengths_catch_and_what_longer_ones_would() -> None:
    assert list(lines_of("payments", FOUND)) == [
        "payments · 100 matches, whenever they came",
        "in days; * as declared",
        "look back         0     1     2     3     5    6*    7",
        "catches       90.0% 99.0% 99.0% 99.0% 99.0% 99.0% 100%",
        "look forward      0     1     2     3     5     7   10*   12",
        "catches       90.0% 90.0% 90.0% 98.0% 98.0% 98.0% 98.0% 100%",
        f"{CATCHES}, 12 days 100%; with the look back of 6 days it is 97.0%",
        *(f"{apart:>5} {BARS.get(apart, '')}".rstrip() for apart in range(-7, 13)),
    ]
    assert list(lines_of("payments", Arrivals())) == ["payments · 0 matches, whenever they came"]
    *_, shares, advice = lines_of("payments", Arrivals({0: 999, 400: 1}, "hour", look_forward=10))
    assert shares == f"catches       {' '.join(['99.9%'] * 17)} 100%"
    assert advice.startswith("a look forward of 10 hours catches 99.9% of the matches, 400 hours 100%; with")


def test_lengths_stand_above_their_shares_on_narrow_terminals_too() -> None:
    assert list(lines_of("payments", FOUND, 50))[2:8] == [
        "look back         0     1     2     3     5",
        "catches       90.0% 99.0% 99.0% 99.0% 99.0%",
        "look back        6*    7",
        "catches       99.0% 100%",
        "look forward      0     1     2     3     5",
        "catches       90.0% 90.0% 90.0% 98.0% 98.0%",
    ]


def test_the_picture_is_xml_with_a_bar_for_each_distance_and_those_outside_marked() -> None:
    text = histogram_svg(Histogram("a < b & c", FOUND.counts, -6, 10, "days"))
    bars = [each for each in ET.fromstring(text).iter() if each.tag.endswith("rect")]
    assert [bar.get("class") for bar in bars] == ["outside", "bar", "bar", "bar", "outside"]
    assert max(float(bar.get("height", 0)) for bar in bars) == float(bars[2].get("height", 0))
    assert "a &lt; b &amp; c" in text
