"""`tidemill backup`, `restore`, `check`, `dedup`, `compact`, `vacuum` and `recover`."""

from __future__ import annotations

import re
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

import click

from tidemill.api import beside
from tidemill.api.logs import missing
from tidemill.cli import columns, examples, output, profiled, render, single_writer
from tidemill.cli.places import followers, known_path, on_spark, placed, upkeep
from tidemill.errors import ArgumentError
from tidemill.formats.base import VacuumRequest
from tidemill.formats.registry import kept_format
from tidemill.maintenance import files
from tidemill.model import absolute
from tidemill.model.cursor import duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidemill.api import Place
    from tidemill.cli import Output
    from tidemill.formats.base import Compacted, Finished, Vacuumed
    from tidemill.formats.port import TableFormat
    from tidemill.maintenance.backup import BackupResult, RestoreResult
    from tidemill.maintenance.repair import CheckedKeys, Repaired

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?\s*", re.IGNORECASE)
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


@click.command(
    epilog=examples(
        "tidemill backup bronze.player_game_stats",
        "tidemill backup bronze.player_game_stats --to bronze.stats_of_2025",
        "tidemill restore bronze.player_game_stats --from bronze.stats_of_2025",
    ),
)
@click.argument("table_path", metavar="TABLE")
@click.option("--to", metavar="NAME", help="The name or path of the copy; else it is TABLE__backup_ and the time.")
@profiled
@single_writer
@output
def backup(table_path: str, to: str | None, profile: str | None, alone: bool, out: Output) -> None:
    """Copy a table as it is: its rows, with its progress, in one commit of a new table.

    TABLE is the path of a table, or the name of one of the project's. The copy is a table like others: queries read it
    by its name, `tidemill restore TABLE --from NAME` goes back to it, `tidemill drop NAME` removes it.
    """
    name = to or beside(table_path)
    spark = on_spark(f"copying {table_path}", quiet=not out.lines, profile=profile)
    result = upkeep(spark).back_up(placed(table_path, profile), placed(name, profile, alone=alone))
    document = {"table": table_path, "backup": name, **asdict(result)}
    out.result(document, partial(show_backup, table_path, name, result))


def show_backup(table: str, name: str, result: BackupResult) -> None:
    facts = [f"copied to {name}", render.rows(result.total)]
    if result.watermark:
        facts.append(f"watermark {result.watermark}")
    render.done(render.last_name(table), facts, result.seconds)


@click.command(
    epilog=examples(
        "tidemill history lake/orders",
        "tidemill restore lake/orders --to 3",
        'tidemill restore lake/orders --at "2026-02-04 06:00"',
        "tidemill restore lake/orders --from lake/orders__backup_20260204_060000",
    ),
)
@click.argument("table_path", metavar="TABLE")
@click.option("--to", type=click.IntRange(min=0), metavar="VERSION", help="A version that history shows.")
@click.option("--at", metavar="TIME", help="The version of this moment, by your clock unless it has a zone.")
@click.option("--from", "backup", metavar="BACKUP", help="The name or path of a backup; the table need not be there.")
@profiled
@single_writer
@output
def restore(
    table_path: str,
    to: int | None,
    at: str | None,
    backup: str | None,
    profile: str | None,
    alone: bool,
    out: Output,
) -> None:
    """Take a table back: its rows and its progress together.

    TABLE is the path of a table, or the name of one of the project's.

    The restore is a commit of its own, so that nothing is lost: it can be undone by another restore. A backup may be
    any Delta table; of one that Tidemill did not make, the rows say how far it was read.
    """
    spark = on_spark(f"restoring {table_path}", quiet=not out.lines, profile=profile)
    copy = placed(backup, profile) if backup else None
    table = placed(table_path, profile, alone=alone)
    result = upkeep(spark).restore(table, to=to, at=at, backup=copy)
    document = {"table": table_path, "path": absolute(table.path), **asdict(result)}
    out.result(document, partial(show_restore, table_path, result))


def show_restore(path: str, result: RestoreResult) -> None:
    source = f"version {result.restored}" if result.backup is None else render.last_name(result.backup)
    facts = [f"restored to {source}", f"{render.rows(result.total)} in all"]
    if result.watermark:
        facts.append(f"watermark {result.watermark}")
    facts.append(f"now version {result.version}")
    if result.undo is not None:
        facts.append(f"to undo it: --to {result.undo}")
    render.done(render.last_name(path), facts, result.seconds)


@click.command(
    epilog=examples(
        "tidemill check lake/orders --on order_id",
    ),
)
@click.argument("target")
@columns("--on", required=True, help="The key columns.")
@output
def check(target: str, on: tuple[str, ...], out: Output) -> int:
    """Count the rows of TARGET that have no key, and the keys that it holds more than once; 1 is returned if any.

    TARGET is a Parquet dataset or a Delta table: a path, or the name of a table of the project.
    """
    path, spark = known_path(target), on_spark(f"checking {target}", quiet=not out.lines)
    found = upkeep(spark).check_keys(path, on)
    if out.as_json:
        render.document({"table": target, "keys": list(on), "ok": found.ok, **asdict(found)})
    elif not out.quiet or not found.ok:
        _show_check(target, on, found, err=out.quiet)
    return 0 if found.ok else 1


def _show_check(target: str, on: tuple[str, ...], found: CheckedKeys, *, err: bool) -> None:
    keys = ", ".join(on)
    facts = [f"{render.rows(found.rows)}"]
    facts.append(f"{found.null_keys:,} without {keys}" if found.null_keys else f"none without {keys}")
    if found.duplicate_keys:
        occur = "1 key occurs" if found.duplicate_keys == 1 else f"{found.duplicate_keys:,} keys occur"
        facts.append(f"{occur} more than once, in {render.rows(found.extra_rows)} too many")
    else:
        facts.append("each key once")
    if found.ok:
        render.done(render.last_name(target), facts, found.seconds)
        return
    render.failed(render.last_name(target), render.SEPARATOR.join(facts), err=err)
    if found.shown:
        render.notice(f"such as {found.shown}; repair it with: tidemill dedup {target} --on {','.join(on)}", err=err)


@click.command(
    epilog=examples(
        "tidemill dedup lake/orders --on order_id --order-by updated_at",
    ),
)
@click.argument("target")
@columns("--on", required=True, help="The key columns.")
@columns("--order-by", help="Keep the highest by these columns, NULLs last; ties are broken by all columns.")
@output
def dedup(target: str, on: tuple[str, ...], order_by: tuple[str, ...], out: Output) -> None:
    """Leave one row of each key in the Parquet dataset TARGET, in one commit; rows without a key stay.

    Only files that lose a row are rewritten.
    """
    path, spark = known_path(target), on_spark(f"repairing {target}", quiet=not out.lines)
    done = upkeep(spark).dedup(path, on, order_by)
    out.result({"table": target, "keys": list(on), **asdict(done)}, partial(_show_dedup, target, done))


def _show_dedup(target: str, done: Repaired) -> None:
    rewritten = f"files: {done.files_rewritten:,} rewritten, {done.files_kept:,} kept"
    what = [f"{done.deleted:,} deleted", rewritten] if done.deleted else ["each key stands once", "nothing written"]
    render.done(render.last_name(target), [*what, f"{render.rows(done.total)} in all"], done.seconds)


@click.command(
    epilog=examples(
        "tidemill compact lake/orders --target-size 128MB",
        "tidemill compact orders",
    ),
)
@click.argument("target")
@click.option("--target-size", default="128MB", show_default=True, metavar="SIZE", help="About how large files become.")
@single_writer
@output
def compact(target: str, target_size: str, alone: bool, out: Output) -> None:
    """Join the small files of TARGET, partition by partition, in one commit.

    TARGET is a Delta table or a Parquet dataset: a path, or the name of a table of the project. Rows and progress stay
    as they are, and so do files of the size and above. The files of a Delta table are joined by Delta's OPTIMIZE, and
    the old ones stay for older versions, until a vacuum; a dataset needs no Spark for it.
    """
    size, place = _bytes(target_size), placed(target, alone=alone)
    spark = on_spark(f"compacting {target}", quiet=not out.lines)
    done = files.compact(_format_of(place), absolute(place.path), size, spark, single_writer=place.single_writer)
    joined = f"{done.joined:,} files joined to {done.written:,}" if done.joined else "nothing to join"
    _report(target, done, [joined, f"{done.kept:,} kept"], out)


@click.command(
    epilog=examples(
        "tidemill vacuum lake/orders",
        "tidemill vacuum orders --dry-run",
        'tidemill vacuum orders --retain "2 days" --confirm',
    ),
)
@click.argument("target")
@click.option(
    "--retain",
    metavar="LENGTH",
    help='Of a Delta table: how long removed files stay, such as "2 days"; else as long as the table says, or 7 days.',
)
@click.option("--confirm", is_flag=True, help="Retain them for less than the table says: older versions are lost.")
@click.option("--dry-run", is_flag=True, help="Say what would be removed, and remove nothing.")
@single_writer
@output
def vacuum(target: str, retain: str | None, confirm: bool, dry_run: bool, alone: bool, out: Output) -> None:
    """Remove the files that TARGET no longer needs: a path, or the name of a table of the project.

    Of a Delta table these are files that were replaced, or that failed writes have left, longer ago than the retention:
    versions that ended before it can then no longer be read or restored. Of a Parquet dataset they are the files that
    interrupted runs have staged and never committed; that needs no Spark. Files of runs that are still at work stay.

    Files that a materialized view of the project of this folder needs to follow TARGET are not removed: the error
    says which view has to be run first.
    """
    place = placed(target, alone=alone)
    asked = VacuumRequest(duration(retain) if retain else None, confirm, dry_run, partial(followers, place.path))
    spark = on_spark(f"vacuuming {target}", quiet=not out.lines)
    done = files.vacuum(_format_of(place), absolute(place.path), asked, spark, single_writer=place.single_writer)
    _report(target, done, done.facts, out)


@click.command(
    epilog=examples(
        "tidemill recover lake/orders",
    ),
)
@click.argument("target")
@output
def recover(target: str, out: Output) -> None:
    """Finish a commit of the Parquet dataset TARGET that was interrupted, and clear what never came to its commit.

    Every read and write through Tidemill does the same first. Starts no Spark.
    """
    place = placed(target)
    done = _format_of(place).recover(absolute(place.path), place.name)
    _report(target, done, done.facts, out)


def _report(target: str, done: Compacted | Vacuumed | Finished, facts: Sequence[str], out: Output) -> None:
    line = f"{render.INDENT}✓ {render.last_name(target)}  {render.SEPARATOR.join(facts)}"
    out.result({"table": target, **asdict(done)}, partial(render.say, line))


def _format_of(place: Place) -> TableFormat:
    """The format of a table that is there."""
    found = kept_format(absolute(place.path))
    if found is None:
        raise missing(place)
    return found


def _bytes(text: str) -> int:
    found = _SIZE.fullmatch(text)
    size = int(float(found.group(1)) * _UNITS[found.group(2).lower()]) if found else 0
    if not size:
        raise ArgumentError("dataset.bad_size", f"{text!r} is no size.", "Write it like 128MB or 1GB.")
    return size
