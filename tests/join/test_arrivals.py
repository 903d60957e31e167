"""How far apart matches came: shares, lengths worth a look, and the histogram as a picture. No Spark is needed."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from tidemill.drawing.histogram import Histogram, histogram_svg
from tidemill.join.arrivals import Arrivals

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


def test_the_picture_is_xml_with_a_bar_for_each_distance_and_those_outside_marked() -> None:
    text = histogram_svg(Histogram("a < b & c", FOUND.counts, -6, 10, "days"))
    bars = [each for each in ET.fromstring(text).iter() if each.tag.endswith("rect")]
    assert [bar.get("class") for bar in bars] == ["outside", "bar", "bar", "bar", "outside"]
    assert max(float(bar.get("height", 0)) for bar in bars) == float(bars[2].get("height", 0))
    assert "a &lt; b &amp; c" in text
