"""`tidemill check`, `dedup`, `compact`, `vacuum` and `recover`: what keeps dataset folders in order."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidemill.cli import render
from tidemill.cli.live import Live
from tidemill.cli.naming import located, refuse_unknown, spark_here
from tidemill.cli.options import columns, output
from tidemill.declare.paths import absolute
from tidemill.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from pyspark.sql import SparkSession

    from tidemill.dataset.folder import Folder
    from tidemill.run.upkeep.repair import CheckedKeys

    T = TypeVar("T")

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
    from tidemill.run.upkeep import repair  # noqa: PLC0415

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
        stand = "1 key stands" if found.duplicate_keys == 1 else f"{found.duplicate_keys:,} keys stand"
        facts.append(f"{stand} more than once, in {render.rows(found.extra_rows)} too many")
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
    from tidemill.run.upkeep import repair  # noqa: PLC0415

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
    short_help="Join the small files of a dataset.",
    epilog="\b\nExamples:\n  tidemill compact lake/orders --target-size 128MB",
)
@click.argument("target")
@click.option("--target-size", default="128MB", show_default=True, metavar="SIZE", help="About how large files become.")
@output
def compact(target: str, target_size: str, form: str, quiet: bool) -> None:
    """Join the small files of the Parquet dataset TARGET, partition by partition, in one commit; starts no Spark.

    Rows stay as they are, and so do files of the size and above.
    """
    from tidemill.dataset import compacting  # noqa: PLC0415
    from tidemill.dataset.protocol import Moved  # noqa: PLC0415
    from tidemill.errors import ConflictError  # noqa: PLC0415

    folder, size = _folder(target), _bytes(target_size)
    try:
        done = compacting.compact(folder, size)
    except Moved as moved:
        raise ConflictError("run.conflict", f"{moved}.", "Nothing was changed. Compact it again.") from moved
    if form == "json":
        render.document({"table": target, **asdict(done)})
    elif not quiet:
        joined = f"{done.joined:,} files joined to {done.written:,}" if done.joined else "nothing to join"
        render.say(f"{render.INDENT}✓ {_name(target)}  {joined}{render.SEPARATOR}{done.kept:,} kept")


@click.command(
    short_help="Remove what interrupted runs left in a dataset.",
    epilog="\b\nExamples:\n  tidemill vacuum lake/orders",
)
@click.argument("target")
@output
def vacuum(target: str, form: str, quiet: bool) -> None:
    """Remove the files that interrupted runs have staged in the Parquet dataset TARGET and never committed.

    Files of runs that are still at work stay. Starts no Spark.
    """
    _finish(target, form, quiet=quiet)


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
    _finish(target, form, quiet=quiet)


def _finish(target: str, form: str, *, quiet: bool) -> None:
    from tidemill.dataset.folder import not_written  # noqa: PLC0415
    from tidemill.dataset.protocol import finishing, walk  # noqa: PLC0415

    folder = _folder(target)
    before = _staged_bytes(folder)
    try:
        done = walk(finishing(folder))
    except OSError as failure:
        raise not_written(target, failure) from failure
    freed = max(before - _staged_bytes(folder), 0) if done.attempts else 0
    if form == "json":
        render.document({"table": target, "finished_commit": done.commit, "cleared": done.attempts, "bytes": freed})
    elif not quiet:
        facts = [f"commit {done.commit} finished"] if done.commit is not None else []
        cleared = f"{done.attempts:,} interrupted attempt{'' if done.attempts == 1 else 's'} cleared ({freed:,} bytes)"
        facts += [cleared] if done.attempts else []
        render.say(f"{render.INDENT}✓ {_name(target)}  {render.SEPARATOR.join(facts) or 'whole, nothing to do'}")


def _staged_bytes(folder: Folder) -> int:
    """What lies there now; writers at work add and move files meanwhile."""
    found = 0
    for inside, _, names in os.walk(folder.staging):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                found += (Path(inside) / name).stat().st_size
    return found


def _folder(target: str) -> Folder:
    """The folder of a dataset; what is something else is an error."""
    from tidemill.dataset.folder import Folder  # noqa: PLC0415
    from tidemill.declare.formats import DELTA  # noqa: PLC0415
    from tidemill.state.logs import check_place, format_at  # noqa: PLC0415

    path = _path(target)
    check_place(path)
    folder, kind = Folder(path), format_at(path)
    if kind is None and not folder.staging.is_dir():
        raise ArgumentError("table.missing", f"There is no dataset at {target}.", "Give the path of one.")
    if kind == DELTA:
        raise ArgumentError(
            "dataset.only_parquet",
            f"{target} is a Delta table, and this is for Parquet datasets.",
            "Give one of those.",
        )
    return folder


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


def _on_spark(work: Callable[[SparkSession], T], doing: str, quiet: bool) -> T:
    from tidemill.cli.interrupts import interruptible  # noqa: PLC0415
    from tidemill.engine.session import session_for  # noqa: PLC0415
    from tidemill.engine.translate import translated  # noqa: PLC0415

    settings = spark_here()
    with Live(doing, quiet=quiet), translated(f"{doing[0].upper()}{doing[1:]}"):
        return interruptible(lambda: work(session_for(small=True, settings=settings)))
