"""`tidemill merge`: rows of files enter a table by their keys."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from tidemill.api import merge_table
from tidemill.cli import Live, columns, interruptible, output, render, single_writer
from tidemill.cli.places import merged_into, promised_here, spark_here
from tidemill.cli.render import COUNTS
from tidemill.execution.journal import log_merge
from tidemill.formats import DEFAULT_FORMAT, FORMATS
from tidemill.formats.registry import log_at
from tidemill.model import absolute
from tidemill.model.project import given_pairs
from tidemill.model.strategy import MergeStrategy
from tidemill.model.table import SchemaPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidemill.cli import Output
    from tidemill.execution import StepResult
    from tidemill.model.table import Table

EXAMPLES = """\b
Examples:
  tidemill merge new_orders.csv lake/orders --on order_id
  tidemill merge staging/orders lake/orders --on order_id,region --strategy full_merge --max-shrink 0.1
  tidemill merge new_orders.parquet lake/orders --on order_id --table-format parquet
  tidemill merge events.json lake/events --on id --strategy deduplicate --dedup-order-by updated_at
  tidemill merge new_orders.csv lake/orders --on order_id --dry-run
  tidemill merge excel.csv lake/orders --on order_id --option sep=";" --option encoding=ISO-8859-1

\b
Strategies:
  upsert        new keys are inserted, known keys updated where something differs
  insert        new keys only; rows of known keys are ignored
  update        known keys only; rows of new keys are ignored
  full_merge    upsert, and keys that the source does not have are deleted
  deduplicate   upsert of one row per key: the highest by --dedup-order-by
"""


@click.command(epilog=EXAMPLES)
@click.argument("source")
@click.argument("target")
@columns("--on", required=True, help="The key columns.")
@click.option(
    "--strategy",
    type=click.Choice([str(form) for form in MergeStrategy], case_sensitive=False),
    default=str(MergeStrategy.UPSERT),
    show_default=True,
    help="What happens to new, known and missing keys; see below.",
)
@columns("--dedup-order-by", help="Of several rows of one key, keep the highest by these columns.")
@click.option(
    "--only-newer", metavar="COLUMN", help="A row replaces the stored one only if it is not older by this column."
)
@columns("--volatile", help="Columns that take no part in the comparison, such as a load time.")
@click.option(
    "--schema-policy",
    type=click.Choice([str(policy) for policy in SchemaPolicy], case_sensitive=False),
    default=str(SchemaPolicy.FAIL),
    show_default=True,
    help="What happens when the source's columns are not the table's.",
)
@click.option(
    "--max-shrink",
    type=float,
    metavar="SHARE",
    help="With full_merge: refuse to drop more than this share of the rows.",
)
@click.option(
    "--table-format",
    metavar="FORMAT",
    help=f"The format of the table: {' or '.join(FORMATS)}. What is there is asked; a new table is {DEFAULT_FORMAT}.",
)
@columns("--partition-by", help="The columns by which a new table is partitioned.")
@click.option("--compression", help="Of the files that are written to a dataset: snappy, zstd, gzip, lz4 or none.")
@click.option(
    "--option",
    "pairs",
    multiple=True,
    metavar="NAME=VALUE",
    help="How Spark reads SOURCE, such as sep=; or has_header=false; spark.NAME=VALUE passes any. May be given again.",
)
@click.option("--dry-run", is_flag=True, help="Say what would happen, and write nothing.")
@single_writer
@output
def merge(
    source: str,
    target: str,
    on: tuple[str, ...],
    strategy: str,
    dedup_order_by: tuple[str, ...],
    only_newer: str | None,
    volatile: tuple[str, ...],
    schema_policy: str,
    max_shrink: float | None,
    table_format: str | None,
    partition_by: tuple[str, ...],
    compression: str | None,
    pairs: tuple[str, ...],
    dry_run: bool,
    alone: bool,
    out: Output,
) -> None:
    """Merge the rows of SOURCE into the table TARGET, in one commit, or in none when nothing differs.

    SOURCE is a file or a folder of Parquet, CSV, JSON or ORC files, or a Delta table. TARGET is the folder of a
    Delta table or of a plain Parquet dataset; it is made if nothing is there. In a project, a TARGET without a / is
    the name of one of its tables; a path there needs ./
    """
    known = merged_into(target)
    path = known.path if known else target
    table = merge_table(
        path,
        on,
        strategy,
        dedup_order_by=dedup_order_by,
        only_newer=only_newer,
        volatile=volatile,
        policy=schema_policy,
        max_shrink=max_shrink,
        format_=table_format or (known.format if known else None),
        partition_by=partition_by,
        compression=compression,
        single_writer=alone or promised_here(absolute(path)),
    )
    table = replace(table, name=known.name) if known else table
    result = _merged(source, given_pairs("--option", pairs), table, dry_run=dry_run, quiet=not out.lines)
    if table.partition_by and not result.first_run:
        result = replace(result, notices=(*result.notices, *_kept_partitions(table)))
    document = _data(result, table, on) | ({"dry_run": True} if dry_run else {})
    out.result(document, partial(_show, result, table, on, would=dry_run))


def _kept_partitions(table: Table) -> list[str]:
    """That a table which was there before is not partitioned as it was asked for."""
    snapshot = log_at(absolute(table.path)).snapshot()
    held = snapshot.partition_columns if snapshot else ()
    if [name.lower() for name in held] == [name.lower() for name in table.partition_by]:
        return []
    stays = f"partitioned by {', '.join(held)}" if held else "without partitions"
    return [f"{table.name} stays {stays}: --partition-by is for new tables"]


def _merged(source: str, options: Mapping[str, str], table: Table, *, dry_run: bool, quiet: bool) -> StepResult:
    """What the merge did; or what it would do."""
    settings, doing = spark_here(), f"merging {source} into {table.name}"
    with Live(f"looking what {doing} would do" if dry_run else doing, quiet=quiet):
        from tidemill.api.merge_step import file_source, files_at, merge_step  # noqa: PLC0415  the border: it imports PySpark

        merged = partial(merge_step, partial(files_at, source, options), table, settings=settings)
        if dry_run:
            return interruptible(partial(merged, small=True, dry_run=True))
        if options:  # a wrong one is no run
            file_source(source, options)
        with log_merge(table, f"merge {source} {table.name}") as kept:
            return interruptible(partial(merged, small=None, listener=kept))


def _rows(result: StepResult) -> int:
    """The rows of the change: every one of them is in one of these counts."""
    return result.counts.written + result.counts.unchanged + result.counts.ignored


def _data(result: StepResult, table: Table, keys: tuple[str, ...]) -> dict[str, Any]:
    return {
        "table": table.name,
        "path": absolute(table.path),
        "strategy": str(table.strategy),
        "keys": list(keys),
        "status": result.status,
        "first_run": result.first_run,
        "rows": _rows(result),
        **{name: getattr(result.counts, name) for name in COUNTS},
        "total": result.total,
        "files_rewritten": result.files_rewritten,
        "files_kept": result.files_kept,
        "seconds": round(result.seconds, 3),
        "version": result.version,
        "notices": list(result.notices),
    }


def _show(result: StepResult, table: Table, keys: tuple[str, ...], *, would: bool = False) -> None:
    name = render.last_name(table.path)
    facts = _facts(result, ", ".join(keys))
    render.done(name, ["dry run, nothing written", *facts] if would else facts, result.seconds)
    for text in result.notices:
        render.notice(text)


def _facts(result: StepResult, keys: str) -> list[str]:
    merged = f"{render.rows(_rows(result))} on {keys}"
    counted = [f"{getattr(result.counts, name):,} {name}" for name in COUNTS if getattr(result.counts, name)]
    in_all = f"{render.rows(result.total or 0)} in all"
    match result.status:
        case "created":
            return ["first run", f"merged {merged}", *counted, in_all]
        case "changed":
            return [f"merged {merged}", *counted, in_all]
        case _:
            return [
                "unchanged",
                f"compared {merged}",
                *counted[1 if not result.counts.ignored else 0 :],
                "nothing written",
                in_all,
            ]
