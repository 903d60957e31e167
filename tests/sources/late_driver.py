"""A process whose engine is started without PostgreSQL's driver, and then reads from it, in several sessions."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

from tidemill.declarations import Source
from tidemill.sources import Reading
from tidemill.sources.registry import connector_for
from tidemill.spark import session
from tidemill.spark.jars import drivers_at_hand

spark = session.embedded(small=True)
print("at hand before:", len(drivers_at_hand()))
source = Source("numbers", "POSTGRES", {"url": sys.argv[1], "user": "postgres", "query": "SELECT 1 AS one"})


def read(_: int) -> int:
    reading = Reading(session.step_session(spark))
    return connector_for(source).read(reading).count()


print("rows:", read(0), connector_for(source).read(Reading(spark)).count())
with ThreadPoolExecutor(3) as threads:
    print("rows:", *threads.map(read, range(3)))
print("at hand after:", len(drivers_at_hand()))
