"""A process of its own that merges a few batches of its own keys into a table that others write to as well."""

from __future__ import annotations

import sys

from support import events, keyed

from tidemill.execution.step import run_step
from tidemill.sources.frames import FrameSource
from tidemill.spark.session import embedded

BATCHES = 2  # both start at once, and a cold engine takes longer to begin than to be out of step


def rows_of(writer: int) -> list[tuple[int, float, str]]:
    return [(writer * 100 + batch * 10 + n, 1.0, f"writer {writer}") for batch in range(BATCHES) for n in range(10)]


def main() -> None:
    path, writer = sys.argv[1], int(sys.argv[2])
    rows = rows_of(writer)
    spark = embedded(small=True)
    for batch in range(BATCHES):
        run_step(spark, keyed(path), FrameSource(events(*rows[batch * 10 : batch * 10 + 10])))


if __name__ == "__main__":
    main()
