"""A table of orders, fed three times on the embedded Spark, and the proof that it equals a full rebuild.

`make demo` runs it. Everything happens in a temporary folder.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from rich.console import Console
from rich.live import Live
from rich.table import Table as Grid

from tidemill.changes.compare import difference
from tidemill.execution.step import run_step
from tidemill.formats.delta.store import DeltaStore
from tidemill.model.strategy import Merge
from tidemill.model.table import Table, Window, lookback
from tidemill.sources.frames import FrameSource
from tidemill.spark.session import embedded

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from tidemill.execution import StepResult

LAST_SEEN = datetime(2024, 1, 31, 21, tzinfo=UTC)  # the newest row of the first load, and so its watermark
LOOKBACK = "6 hours"


@dataclass(frozen=True)
class Order:
    order_id: int
    region: str
    amount: float
    updated_at: datetime


@dataclass(frozen=True)
class Feed:
    """What the source holds at one run, and what is new in it."""

    name: str
    orders: list[Order]
    news: str


def main() -> int:
    console = Console(highlight=False)
    with tempfile.TemporaryDirectory(prefix="tidemill-demo-") as folder:
        return show(console, Path(folder))


def show(console: Console, folder: Path) -> int:
    began = time.monotonic()
    feeds = (first_load(), day_two(), replace(day_two(), name="the same again", news="nothing is new"))
    console.print("\n  [bold]Tidemill[/] · a table of orders, fed three times\n")
    for feed in feeds:
        console.print(f"  {feed.name:<16} [dim]{feed.news}[/]")
    console.print()
    with console.status("starting Spark"):
        spark = embedded()
    orders = orders_table(folder / "orders")
    results = run_all(console, spark, orders, feeds)
    tell(console, feeds[1], results)
    with console.status("rebuilding from the final source, and comparing every row"):
        proved = prove(console, spark, orders, feeds[-1], folder / "rebuilt")
    console.print(f"\n  done in {time.monotonic() - began:.0f} s\n")
    return 0 if proved else 1


def run_all(console: Console, spark: SparkSession, orders: Table, feeds: Iterable[Feed]) -> list[StepResult]:
    """The three runs; the grid grows while one watches."""
    results: list[StepResult] = []
    shown = empty_grid()
    with Live(shown, console=console, refresh_per_second=4):
        for feed in feeds:
            result = run_step(spark, orders, source(feed))
            add_row(shown, feed, result)
            results.append(result)
    if not console.is_terminal:
        console.print()  # elsewhere a live grid ends without a line break
    return results


def orders_table(path: Path) -> Table:
    """The declaration: how rows enter, and which of them a run reads."""
    return Table(
        name="orders",
        path=str(path),
        strategy=Merge(keys=("order_id",)),
        window=Window(time_column="updated_at", lookback=lookback(LOOKBACK)),
    )


def first_load() -> Feed:
    dice = random.Random(7)
    orders = [order(number, LAST_SEEN - timedelta(minutes=44 * (1000 - number)), dice) for number in range(1, 1001)]
    return Feed("first load", orders, "1,000 orders of January")


def day_two() -> Feed:
    """The first load with everything in it that makes incremental loading hard."""
    dice, known = random.Random(8), first_load().orders
    new = [order(1001 + n, LAST_SEEN + timedelta(minutes=15 * (n + 1)), dice) for n in range(41)]
    ties = [order(2001 + n, LAST_SEEN, dice) for n in range(3)]
    late = [order(3001 + n, LAST_SEEN - timedelta(hours=n + 1), dice) for n in range(5)]
    corrected = {number: LAST_SEEN + timedelta(minutes=number) for number in range(100, 1000, 100)}
    kept = [corrected_order(o, corrected[o.order_id]) if o.order_id in corrected else o for o in known]
    news = f"{len(new)} new, {len(corrected)} corrections, {len(ties)} ties at the watermark, {len(late)} late"
    return Feed("day two", [*kept, *new, *ties, *late], news)


def order(number: int, moment: datetime, dice: random.Random) -> Order:
    return Order(number, dice.choice(["eu", "us", "asia"]), dice.randint(500, 90_000) / 100, moment)


def corrected_order(old: Order, moment: datetime) -> Order:
    return replace(old, amount=old.amount + 10, updated_at=moment)


def source(feed: Feed) -> FrameSource:
    return FrameSource(pa.Table.from_pylist([vars(order) for order in feed.orders]))


def empty_grid() -> Grid:
    grid = Grid(box=None, padding=(0, 1), collapse_padding=True, header_style="dim")
    grid.add_column(" run", min_width=18, no_wrap=True)
    for heading in ("read", "inserted", "updated", "deleted", "unchanged", "version", "time"):
        grid.add_column(heading, justify="right", no_wrap=True)
    return grid


def add_row(grid: Grid, feed: Feed, result: StepResult) -> None:
    c = result.counts
    numbers = (result.rows_read, c.inserted, c.updated, c.deleted, c.unchanged, result.version)
    cells = [f"{number:,}" for number in numbers]
    grid.add_row(f" [green]✓[/] {feed.name}", *cells, f"{result.seconds:.1f} s")


def tell(console: Console, second_feed: Feed, results: list[StepResult]) -> None:
    """One line per fact, each taken from the results."""
    first, second, third = results
    reason = second.window.reason if second.window else ""
    facts = (
        f"day two read {second.rows_read:,} of {len(second_feed.orders):,} rows: {reason}",
        f"ties and late rows entered once; {second.counts.unchanged:,} rows read again stayed as they were",
        f"the same input again wrote nothing: the table is still at version {third.version}",
        f"each commit holds its rows and its watermark: {first.watermark}, then {second.watermark}",
    )
    console.print()
    for fact in facts:
        console.print(f"  · {fact}", soft_wrap=True)


def prove(console: Console, spark: SparkSession, orders: Table, final: Feed, elsewhere: Path) -> bool:
    """Builds the table again from the final source, and compares all rows with all columns."""
    rebuilt = replace(orders, path=str(elsewhere))
    run_step(spark, rebuilt, source(final))
    held, wanted = (DeltaStore(table.path).read(spark) for table in (orders, rebuilt))
    apart = difference(held, wanted, frozenset())
    if apart.only_left or apart.only_right:
        console.print(f"  [red]✗[/] {apart.only_left} rows too many, {apart.only_right} missing")
        return False
    same = f"{held.count():,} rows, every column compared, none differs"
    console.print(f"  [green]✓[/] [bold]equal to a full rebuild[/]: {same}")
    return True


if __name__ == "__main__":
    sys.exit(main())
