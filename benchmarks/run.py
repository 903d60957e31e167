"""`make bench`: every claim about speed, measured in one run on this machine.

python benchmarks/run.py                 all of it (an hour on two cores, 10 GB of disk)
python benchmarks/run.py --small         a hundredth of the rows: does it run at all?
python benchmarks/run.py --only single,ten,tenth,first,cold,same,memory
python benchmarks/run.py --only thirty,overhead,incremental,python,join,parquet,logs,ivm,tpch
python benchmarks/run.py --only incremental --plot incremental.svg
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import cold
import datasets
import incremental
import joins
import logs
import memory
import merges
import pipelines
import python_tables
import refreshes
import same_table
import small_tables
import tpch_views
from rich.console import Console
from rich.table import Table
from stage import Stage

from tidemill.spark.session import embedded

if TYPE_CHECKING:
    from collections.abc import Callable

    Measures = dict[str, Callable[[], list[merges.Claim]]]

MERGES = ("first", "single", "ten", "tenth", "memory", "cold", "same")
PIPELINES = ("thirty", "overhead", "incremental", "python", "join", "parquet", "logs", "ivm", "tpch")
PARTS = (*MERGES, *PIPELINES)


def main() -> int:
    arguments = _arguments()
    folder = Path(tempfile.mkdtemp(prefix="tidemill-bench-", dir=arguments.folder))
    console = Console()
    try:
        claims = measure(arguments, folder, console)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if arguments.json:
        figures = [
            {"what": c.what, "figure": c.figure, "bound": c.bound, "holds": c.holds, "detail": c.detail} for c in claims
        ]
        Path(arguments.json).write_text(json.dumps(figures, indent=2))
    return 0 if all(claim.holds for claim in claims) or arguments.small else 1


def measure(arguments: argparse.Namespace, folder: Path, console: Console) -> list[merges.Claim]:
    """The claims of the parts asked for, each shown as soon as it is measured."""
    parts = arguments.only.split(",")
    measures = {
        **(_merges(arguments, folder, parts, console) if any(part in MERGES for part in parts) else {}),
        **_pipelines(arguments, folder, console),
    }
    claims: list[merges.Claim] = []
    for part in PARTS:
        if part in parts:
            found = measures[part]()
            claims.extend(found)
            console.print(_table(found))
    return claims


def _merges(arguments: argparse.Namespace, folder: Path, parts: list[str], console: Console) -> Measures:
    """The measures on one big table; making it takes a while."""
    small, repeat, scale = arguments.small, arguments.repeat, _scale(arguments)
    spark, sizes = embedded(), (10_000_000,) if arguments.ten or "single" not in parts else (10_000_000, 30_000_000)
    stages = [Stage(spark, folder, arguments.rows or rows // scale) for rows in sizes]
    console.print(f"[dim]making tables of {' and '.join(f'{stage.rows:,}' for stage in stages)} rows[/dim]")
    for stage in stages:
        stage.build()
    ten = stages[0]
    return {
        "first": lambda: [merges.first_load(ten, repeat, small=small)],
        "single": lambda: merges.single_claims(stages, sizes, repeat, small=small),
        "ten": lambda: merges.ten_changes(ten, repeat),
        "tenth": lambda: [merges.tenth_changed(ten, repeat)],
        "memory": lambda: memory.growing_changes(ten),
        "cold": lambda: cold.cold_command(ten, repeat),
        "same": lambda: same_table.same_table(ten, repeat, small=small),
    }


def _pipelines(arguments: argparse.Namespace, folder: Path, console: Console) -> Measures:
    """The measures on pipelines, each with sources of its own."""
    scale, repeat = _scale(arguments), arguments.repeat

    def overhead() -> list[merges.Claim]:
        shop = pipelines.Shop(embedded(), folder / "overhead", pipelines.ROWS // scale)
        shop.build()
        return pipelines.overhead(shop, repeat)

    def full_and_incremental() -> list[merges.Claim]:
        orders = incremental.Orders(embedded(), folder / "incremental", incremental.ROWS // scale)
        orders.build()
        return incremental.full_and_incremental(orders, repeat, console, arguments.plot)

    def python() -> list[merges.Claim]:
        season = python_tables.Season(embedded(), folder / "python", python_tables.ROWS // scale)
        season.build()
        return python_tables.new_rows(season, repeat)

    def join() -> list[merges.Claim]:
        rows, days = joins.ROWS // scale, joins.DAYS
        feeds = [joins.Feeds(embedded(), folder / f"join_{n}", rows * n, days * n) for n in (1, 2)]
        for each in feeds:
            each.build()
        return joins.one_day(*feeds, repeat)

    def parquet() -> list[merges.Claim]:
        data = datasets.Dataset(embedded(), folder / "parquet", datasets.ROWS // scale)
        data.build()
        return datasets.rewrites(data, repeat, console)

    return {
        "thirty": lambda: small_tables.one_row_changed(small_tables.Project(folder / "thirty"), repeat),
        "overhead": overhead,
        "incremental": full_and_incremental,
        "python": python,
        "join": join,
        "parquet": parquet,
        "logs": lambda: logs.many_files(folder / "logs", scale, repeat),
        "ivm": lambda: refreshes.refreshes(embedded(), folder, refreshes.ROWS // scale, repeat),
        "tpch": lambda: tpch_views.tpch(embedded(), folder, arguments.scale / scale, repeat, arguments.queries),
    }


def _scale(arguments: argparse.Namespace) -> int:
    return 100 if arguments.small else 1


def _table(claims: list[merges.Claim]) -> Table:
    table = Table("", "claim", "measured", "bound", "seconds", box=None, header_style="dim")
    for claim in claims:
        mark = "[green]✓[/green]" if claim.holds else "[red]✗[/red]"
        sign = "≥" if claim.at_least else "≤"
        table.add_row(mark, claim.what, f"{claim.figure:.2f}×", f"{sign} {claim.bound:g}×", claim.detail)
    return table


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="a hundredth of the rows")
    parser.add_argument("--only", default=",".join(PARTS), help=f"parts to run, of {','.join(PARTS)}")
    parser.add_argument("--ten", action="store_true", help="tables of 10 million rows only")
    parser.add_argument("--rows", type=int, help="rows of the one table that merges are measured on")
    parser.add_argument("--scale", type=float, default=1.0, help="of TPC-H; 1 is 6 million lines of orders")
    parser.add_argument("--queries", type=_numbers, default=(), help="of TPC-H, such as 1,6,14; all unless given")
    parser.add_argument("--repeat", type=int, default=3, help="how often each is timed; medians count")
    parser.add_argument("--folder", help="where to put the tables; the system's temporary folder unless given")
    parser.add_argument("--plot", help="also draw what `incremental` finds into this SVG file")
    parser.add_argument("--json", help="also write the figures to this file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
