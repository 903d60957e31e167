from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from tidemill.errors import ArgumentError
from tidemill.model.cursor import SESSION_ZONE, zone_named
from tidemill.model.project import SparkSettings


@pytest.mark.parametrize(
    ("name", "hours"),
    [("UTC", 0), ("Z", 0), ("Europe/Berlin", 1), ("+02:00", 2), ("-0530", -5.5), ("UTC+3", 3), ("GMT-08:00:00", -8)],
)
def test_a_zone_is_known_by_what_spark_calls_it(name: str, hours: float):
    offset = datetime(2024, 1, 1, tzinfo=zone_named(name)).utcoffset()
    assert offset == timedelta(hours=hours)


@pytest.mark.parametrize("name", ["Europe/Atlantis", "Europe", "", "../etc", "+99:00"])
def test_a_zone_that_nobody_knows_is_an_error_that_says_what_to_set(name: str):
    with pytest.raises(ArgumentError) as failure:
        zone_named(name)
    assert str(failure.value) == (
        f"[engine.unknown_zone] The Spark session has the time zone {name}, which is not known here. Set "
        "spark.sql.session.timeZone to a region such as Europe/Berlin, to an offset such as +02:00, or to UTC."
    )


def test_declared_settings_tell_their_zone():
    summer = datetime(2024, 7, 1, tzinfo=SparkSettings(conf={SESSION_ZONE: "Europe/Berlin"}).zone)
    assert summer.utcoffset() == timedelta(hours=2)
    assert datetime(2024, 7, 1, tzinfo=SparkSettings().zone).utcoffset() == timedelta(0)
