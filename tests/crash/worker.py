"""A process that a test kills: merges one batch after the other into a table, as fast as it can."""

from __future__ import annotations

import sys

from support import events, events_table

from tidemill.declarations import Append, Merge
from tidemill.execution.step import run_step
from tidemill.sources.frames import FrameSource
from tidemill.spark.session import embedded

BATCH = 200


def batch(number: int) -> list[tuple[int, float, str]]:
    """Rows of one batch: all at the same moment, so that half a batch would show."""
    return [(number * BATCH + n, float(number), f"batch {number}") for n in range(BATCH)]


def source_up_to(number: int) -> list[tuple[int, float, str]]:
    return [row for n in range(number + 1) for row in batch(n)]


def main() -> None:
    path, strategy, kept_as = sys.argv[1], {"append": Append(), "merge": Merge(("id",))}[sys.argv[2]], sys.argv[3]
    table = events_table(path, strategy, back="1 hour", format=kept_as)
    spark = embedded(small=True)
    print("started", flush=True)
    for number in range(100):
        run_step(spark, table, FrameSource(events(*source_up_to(number))))
        print(f"committed {number}", flush=True)


if __name__ == "__main__":
    main()
