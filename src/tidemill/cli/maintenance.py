"""`tidemill backup`, `restore`, `drop`, `check`, `dedup`, `compact`, `vacuum` and `recover`."""

from __future__ import annotations

import re
import sys
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

import click

from tidemill.cli import render
from tidemill.cli.console import Live
from tidemill.cli.options import (
    columns,
    located,
    named_in,
    output,
    placed,
    profiled,
    refuse_unknown,
    single_writer,
    spark_here,
    variables,
)
from tidemill.errors import ArgumentError
from tidemill.model.names import absolute

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from pyspark.sql import SparkSession

    from tidemill.api.maintenance import Place
    from tidemill.cli.options import Load
    from tidemill.formats.base import Finished, OnSpark, Vacuumed
    from tidemill.formats.port import TableFormat
    from tidemill.maintenance.backup import BackupResult, RestoreResult
    from tidemill.maintenance.repair import CheckedKeys
    from tidemill.model.record import Snapshot
    from tidemill.model.table import Table

    T = TypeVar("T")


@click.command(
    short_help="Copy a table, to go back to it later.",
    epilog="\b\nExamples:\n"
    "  tidemill backup bronze.player_game_stats\n"
    "  tidemill backup bronze.player_game_stats --to bronze.stats_of_2025\n"
    "  tidemill restore bronze.player_game_stats --from bronze.stats_of_2025",
)
@click.argument("table_path", metavar="TABLE")
@click.option("--to", metavar="NAME", help="The name or path of the copy; else it is TABLE__backup_ and the time.")
@profiled
@single_writer
@output
def backup(table_path: str, to: str | None, profile: str | None, alone: bool, form: str, quiet: bool) -> None:
    """Copy a table as it is: its rows, with its progress, in one commit of a new table.

    TABLE is the path of a table, or the name of one of the project's. The copy is a table like others: queries read it
    by its name, `tidemill restore TABLE --from NAME` goes back to it, `tidemill drop NAME` removes it.
    """
    from tidemill.maintenance.backup import beside  # noqa: PLC0415

    name = to or beside(table_path)
    result = _run_backup(table_path, name, profile, alone=alone, quiet=quiet or form == "json")
    if form == "json":
        render.document({"table": table_path, "backup": name, **asdict(result)})
    elif not quiet:
        show_backup(table_path, name, result)


def _run_backup(table: str, name: str, profile: str | None, *, alone: bool, quiet: bool) -> BackupResult:
    from tidemill.api.maintenance import back_up  # noqa: PLC0415
    from tidemill.cli.console import on_spark  # noqa: PLC0415

    with Live(f"copying {table}", quiet=quiet):
        return back_up(placed(table, profile), placed(name, profile, alone=alone), on_spark(profile))


def show_backup(table: str, name: str, result: BackupResult) -> None:
    facts = [f"copied to {name}", render.rows(result.total)]
    if result.watermark:
        facts.append(f"watermark {result.watermark}")
    render.done(table.rstrip("/").rpartition("/")[2], facts, result.seconds)


@click.command(
    short_help="Take a table back to an older version, or to a backup.",
    epilog="\b\nExamples:\n"
    "  tidemill history lake/orders\n"
    "  tidemill restore lake/orders --to 3\n"
    '  tidemill restore lake/orders --at "2026-02-04 06:00"\n'
    "  tidemill restore lake/orders --from lake/orders__backup_20260204_060000",
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
    form: str,
    quiet: bool,
) -> None:
    """Take a table back: its rows and its progress together.

    TABLE is the path of a table, or the name of one of the project's.

    The restore is a commit of its own, so that nothing is lost: it can be undone by another restore. A backup may be
    any Delta table; of one that Tidemill did not make, the rows say how far it was read.
    """
    result = _run_restore(table_path, (to, at, backup), profile, alone=alone, quiet=quiet or form == "json")
    if form == "json":
        render.document({"table": table_path, "path": absolute(located(table_path, profile)), **asdict(result)})
    elif not quiet:
        show_restore(table_path, result)


def _run_restore(
    name: str, way: tuple[int | None, str | None, str | None], profile: str | None, *, alone: bool, quiet: bool
) -> RestoreResult:
    from tidemill.api.maintenance import restore  # noqa: PLC0415
    from tidemill.cli.console import on_spark  # noqa: PLC0415

    to, at, backup = way
    copy = placed(backup, profile) if backup else None
    with Live(f"restoring {name}", quiet=quiet):
        return restore(placed(name, profile, alone=alone), on_spark(profile), to=to, at=at, backup=copy)


def show_restore(path: str, result: RestoreResult) -> None:
    name = path.rstrip("/").rpartition("/")[2]
    source = f"version {result.restored}" if result.backup is None else result.backup.rstrip("/").rpartition("/")[2]
    facts = [f"restored to {source}", f"{render.rows(result.total)} in all"]
    if result.watermark:
        facts.append(f"watermark {result.watermark}")
    facts.append(f"now version {result.version}")
    if result.undo is not None:
        facts.append(f"to undo it: --to {result.undo}")
    render.done(name, facts, result.seconds)


@click.command(
    short_help="Remove a table with all its history.",
    epilog="\b\nExamples:\n  tidemill drop bronze.stats_of_2025\n  tidemill drop lake/orders --confirm",
)
@click.argument("table_path", metavar="TABLE")
@click.option("--confirm", is_flag=True, help="Do not ask.")
@variables
@output
def drop(table_path: str, confirm: bool, load: Load, form: str, quiet: bool) -> None:
    """Remove a table: its rows, its versions, and what is known of its progress. It cannot be undone.

    TABLE is the path of a table, or the name of one of the project's, declared or not. One that is declared with
    reset_allowed = false, or has the property pipelines.reset.allowed = false, stays.
    """
    from tidemill.api import maintenance as upkeep  # noqa: PLC0415

    workspace = named_in(table_path, load)
    path = absolute(workspace.project.table_path(table_path) if workspace else table_path)
    names = [workspace.short(table.name) for table in workspace.tables] if workspace else []
    place = upkeep.Place(table_path, path, declared=lambda: names)
    asked = () if confirm else (partial(_ask, table_path),)
    result = upkeep.drop(place, partial(_declared, path, load), *asked)
    if form == "json":
        render.document(asdict(result))
    elif not quiet:
        render.judged("✓", f"{table_path.rstrip('/').rpartition('/')[2]}  dropped{_with_rows(result.rows, ' · ')}")


def _declared(path: str, load: Load) -> Table | None:
    """The table that the project of the current folder declares at this path."""
    from tidemill.frontends.project import ProjectSettings  # noqa: PLC0415
    from tidemill.model.project import find_project, is_project  # noqa: PLC0415

    if not is_project():
        return None
    if find_project() is None and not path.startswith(f"{absolute(ProjectSettings.load().warehouse.path)}/"):
        return None  # files beside it that are about other tables
    return next((table for table in load(None).tables if absolute(table.path) == path), None)


def _ask(name: str, snapshot: Snapshot) -> None:
    whole = f"{name}{_with_rows(snapshot.rows, ' with ')}"
    if not sys.stdin.isatty():
        raise ArgumentError(
            "drop.not_confirmed",
            f"Dropping {whole} cannot be undone, and nobody is there to be asked.",
            f"Say --confirm. A copy to go back to: tidemill backup {name}",
        )
    click.confirm(f"Drop {whole}? It cannot be undone.", abort=True)


def _with_rows(rows: int | None, word: str) -> str:
    return "" if rows is None else f"{word}{render.rows(rows)}"


_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?\s*", re.IGNORECASE)
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


@click.command(
    short_help="Count NULL and duplicate keys of a table.",
    epilog="\b\nExamples:\n  tidemill check lake/orders --on order_id",
)
@click.argument("target")
@columns("--on", required=True, help="The key columns.")
@output
def check(target: str, on: tuple[str, ...], form: str, quiet: bool) -> int:
    """Count the rows of TARGET that have no key, and the keys that it holds more than once; 1 is returned if any.

    TARGET is a Parquet dataset or a Delta table: a path, or the name of a table of the project.
    """
    from tidemill.maintenance import repair  # noqa: PLC0415

    path = _path(target)
    found = _on_spark(lambda spark: repair.check_keys(spark, path, on), f"checking {target}", quiet or form == "json")
    if form == "json":
        render.document({"table": target, "keys": list(on), "ok": found.ok, **asdict(found)})
    elif not quiet or not found.ok:
        _show_check(target, on, found, err=quiet)
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
        render.done(_name(target), facts, found.seconds)
        return
    render.failed(_name(target), render.SEPARATOR.join(facts), err=err)
    if found.shown:
        render.notice(f"such as {found.shown}; repair it with: tidemill dedup {target} --on {','.join(on)}", err=err)


@click.command(
    short_help="Leave one row of each key in a dataset.",
    epilog="\b\nExamples:\n  tidemill dedup lake/orders --on order_id --order-by updated_at",
)
@click.argument("target")
@columns("--on", required=True, help="The key columns.")
@columns("--order-by", help="Keep the highest by these columns, NULLs last; ties are broken by all columns.")
@output
def dedup(target: str, on: tuple[str, ...], order_by: tuple[str, ...], form: str, quiet: bool) -> None:
    """Leave one row of each key in the Parquet dataset TARGET, in one commit; rows without a key stay.

    Only files that lose a row are rewritten.
    """
    from tidemill.maintenance import repair  # noqa: PLC0415

    path = _path(target)
    done = _on_spark(
        lambda spark: repair.dedup(spark, path, on, order_by), f"repairing {target}", quiet or form == "json"
    )
    if form == "json":
        render.document({"table": target, "keys": list(on), **asdict(done)})
    elif not quiet:
        rewritten = f"files: {done.files_rewritten:,} rewritten, {done.files_kept:,} kept"
        what = [f"{done.deleted:,} deleted", rewritten] if done.deleted else ["each key stands once", "nothing written"]
        render.done(_name(target), [*what, f"{render.rows(done.total)} in all"], done.seconds)


@click.command(
    short_help="Join the small files of a table.",
    epilog="\b\nExamples:\n  tidemill compact lake/orders --target-size 128MB\n  tidemill compact orders",
)
@click.argument("target")
@click.option("--target-size", default="128MB", show_default=True, metavar="SIZE", help="About how large files become.")
@single_writer
@output
def compact(target: str, target_size: str, alone: bool, form: str, quiet: bool) -> None:
    """Join the small files of TARGET, partition by partition, in one commit.

    TARGET is a Delta table or a Parquet dataset: a path, or the name of a table of the project. Rows and progress stay
    as they are, and so do files of the size and above. The files of a Delta table are joined by Delta's OPTIMIZE, and
    the old ones stay for older versions, until a vacuum; a dataset needs no Spark for it.
    """
    size, place = _bytes(target_size), placed(target, alone=alone)
    on_spark = _later(f"compacting {target}", quiet or form == "json")
    table_format = _format_of(place)
    done = table_format.compact(absolute(place.path), size, on_spark, single_writer=place.single_writer)
    if form == "json":
        render.document({"table": target, **asdict(done)})
    elif not quiet:
        joined = f"{done.joined:,} files joined to {done.written:,}" if done.joined else "nothing to join"
        render.say(f"{render.INDENT}✓ {_name(target)}  {joined}{render.SEPARATOR}{done.kept:,} kept")


@click.command(
    short_help="Remove files that a table no longer needs.",
    epilog="\b\nExamples:\n  tidemill vacuum lake/orders\n  tidemill vacuum orders --dry-run\n"
    '  tidemill vacuum orders --retain "2 days" --confirm',
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
def vacuum(target: str, retain: str | None, confirm: bool, dry_run: bool, alone: bool, form: str, quiet: bool) -> None:
    """Remove the files that TARGET no longer needs: a path, or the name of a table of the project.

    Of a Delta table these are files that were replaced, or that failed writes have left, longer ago than the retention:
    versions that ended before it can then no longer be read or restored. Of a Parquet dataset they are the files that
    interrupted runs have staged and never committed; that needs no Spark. Files of runs that are still at work stay.
    """
    from tidemill.formats.base import VacuumRequest  # noqa: PLC0415
    from tidemill.model.cursor import duration  # noqa: PLC0415

    place, asked = placed(target, alone=alone), VacuumRequest(duration(retain) if retain else None, confirm, dry_run)
    on_spark = _later(f"vacuuming {target}", quiet or form == "json")
    table_format = _format_of(place)
    done = table_format.vacuum(absolute(place.path), asked, on_spark, single_writer=place.single_writer)
    _report(target, done, form, quiet=quiet)


@click.command(
    short_help="Finish an interrupted commit of a dataset.",
    epilog="\b\nExamples:\n  tidemill recover lake/orders",
)
@click.argument("target")
@output
def recover(target: str, form: str, quiet: bool) -> None:
    """Finish a commit of the Parquet dataset TARGET that was interrupted, and clear what never came to its commit.

    Every read and write through Tidemill does the same first. Starts no Spark.
    """
    place = placed(target)
    _report(target, _format_of(place).recover(absolute(place.path), place.name), form, quiet=quiet)


def _report(target: str, done: Vacuumed | Finished, form: str, *, quiet: bool) -> None:
    if form == "json":
        render.document({"table": target, **asdict(done)})
    elif not quiet:
        render.say(f"{render.INDENT}✓ {_name(target)}  {render.SEPARATOR.join(done.facts)}")


def _format_of(place: Place) -> TableFormat:
    """The format of a table that is there."""
    from tidemill.api.maintenance import missing  # noqa: PLC0415
    from tidemill.formats.registry import kept_format  # noqa: PLC0415

    found = kept_format(absolute(place.path))
    if found is None:
        raise missing(place)
    return found


def _path(target: str) -> str:
    path = located(target)
    refuse_unknown(target, path)
    return absolute(path)


def _name(target: str) -> str:
    return target.rstrip("/").rpartition("/")[2]


def _bytes(text: str) -> int:
    found = _SIZE.fullmatch(text)
    size = int(float(found.group(1)) * _UNITS[found.group(2).lower()]) if found else 0
    if not size:
        raise ArgumentError("dataset.bad_size", f"{text!r} is no size.", "Write it like 128MB or 1GB.")
    return size


def _later(doing: str, quiet: bool) -> OnSpark:
    """Work on Spark, which starts when it is asked for."""

    def done(work: Callable[[SparkSession], T]) -> T:
        return _on_spark(work, doing, quiet)

    return done


def _on_spark(work: Callable[[SparkSession], T], doing: str, quiet: bool) -> T:
    from tidemill.cli.console import interruptible  # noqa: PLC0415
    from tidemill.spark.errors import translated  # noqa: PLC0415
    from tidemill.spark.session import session_for  # noqa: PLC0415

    settings = spark_here()
    with Live(doing, quiet=quiet), translated(f"{doing[0].upper()}{doing[1:]}"):
        return interruptible(lambda: work(session_for(small=True, settings=settings)))
