"""`tidemill init`, `doctor` and `setup`: a project that runs as it is, and what the engine needs on this machine."""

from __future__ import annotations

import re
import time
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from functools import partial
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidemill.cli import examples, output, render
from tidemill.errors import ArgumentError
from tidemill.spark.doctor import examine
from tidemill.spark.jars import (
    archive_path,
    build_archive,
    ensure_jars,
    find_java,
    formats_with_jars,
    missing_jars,
    why_not_built,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tidemill.cli import Output
    from tidemill.spark.doctor import Check
    from tidemill.spark.jars import Java

ORDERS = ("order_id", "customer_id", "status", "amount", "created_at", "updated_at")
CUSTOMERS = ("customer_id", "name", "region")
Row = tuple[object, ...]

_CUSTOMERS = 120
_OPENS, _CLOSES = timedelta(hours=7), timedelta(hours=21)
_FIRST_DAY = datetime(2024, 1, 1)  # noqa: DTZ001  files of a shop have the time of its clock
_LAST_DAY = datetime(2024, 1, 31)  # noqa: DTZ001
_NEXT_DAY = datetime(2024, 2, 1)  # noqa: DTZ001
_WATERMARK = _LAST_DAY + _CLOSES


def first_month() -> list[Row]:
    """A thousand orders; the last one of the month was changed when the shop closed."""
    days = [_FIRST_DAY + timedelta(days=n) for n in range(31)]
    moments = [moment for day in days for moment in _moments(day, 40 if day == _LAST_DAY else 32)]
    return [_order(number, at, min(at + _shipping(number), _WATERMARK)) for number, at in enumerate(moments, 1)]


def next_day() -> list[Row]:
    """What the second run meets: new orders, ties with the watermark, late orders, corrections."""
    after = [_order(1006 + n, at, at) for n, at in enumerate(_moments(_NEXT_DAY, 36))]
    return [*_ties(), *_late(), *after, *_corrections()]


def customers() -> list[Row]:
    return [(n, f"Customer {n:03}", "eu" if n % 3 else "us") for n in range(1, _CUSTOMERS + 1)]


def as_csv(columns: Iterable[str], rows: Iterable[Row]) -> str:
    return "".join(",".join(map(str, row)) + "\n" for row in (tuple(columns), *rows))


def _ties() -> Iterator[Row]:
    """Changed at the very moment up to which the first run has read."""
    return (_order(number, _WATERMARK, _WATERMARK) for number in (1001, 1002))


def _late() -> Iterator[Row]:
    """Older than what the first run has read, by less than the lookback."""
    for number, minutes in ((1003, 20), (1004, 55), (1005, 110)):
        at = _WATERMARK - timedelta(minutes=minutes)
        yield _order(number, at, at)


def _corrections() -> Iterator[Row]:
    """Orders of the first month that came to another amount."""
    month = first_month()
    for n in range(9):
        number, customer, _, amount, created, _ = month[100 * n + 17]
        yield number, customer, "refunded", f"{float(str(amount)) / 2:.2f}", created, _NEXT_DAY + timedelta(hours=8 + n)


def _order(number: int, created: datetime, updated: datetime) -> Row:
    customer = number * 37 % _CUSTOMERS + 1
    status = "new" if updated == created else "shipped"
    return number, customer, status, f"{5 + number * 7919 % 19500 / 100:.2f}", created, updated


def _moments(day: datetime, count: int) -> Iterator[datetime]:
    """Spread over the opening hours, from the first minute to the last."""
    for n in range(count):
        minutes = int((_CLOSES - _OPENS) / timedelta(minutes=1)) * n // (count - 1)
        yield day + _OPENS + timedelta(minutes=minutes)


def _shipping(number: int) -> timedelta:
    return timedelta(minutes=10 * (number % 4))


NEXT = ("tidemill run", "cp day2/*.csv data/orders/ && tidemill run")
_NAME = re.compile(r"[A-Za-z][\w-]*", re.ASCII)
_TEXTS = {
    "tidemill.toml": "tidemill.toml",
    "pipelines/shop.sql": "pipelines/shop.sql",
    "README.md": "README.md",
    ".gitignore": "gitignore",  # by its own name it would act on the package it lies in
}


@click.command(
    epilog=examples(
        "tidemill init shop && cd shop && tidemill run",
    ),
)
@click.argument("name")
@output
def init(name: str, out: Output) -> None:
    """Make a folder NAME with a pipeline, sample data and a second day of data."""
    folder = _free(name)
    files = _files(name)
    _write(folder, files)
    document = {"project": name, "path": str(folder.absolute()), "files": list(files), "next": _next(name)}
    out.result(document, partial(_show, name, files))


def _free(name: str) -> Path:
    """The folder to be made; it may be there if nothing is in it."""
    if not _NAME.fullmatch(name):
        raise ArgumentError(
            "init.bad_name",
            f"{name!r} is no name for a project.",
            "Name it in letters, digits, - and _, beginning with a letter, such as shop.",
        )
    folder = Path(name)
    if folder.is_dir() and not any(folder.iterdir()):
        return folder
    if folder.exists() or folder.is_symlink():
        kind = "a folder that is not empty" if folder.is_dir() else "a file"
        raise ArgumentError("init.exists", f"{name} is {kind}.", "Choose another name. Nothing was written.")
    return folder


def _files(name: str) -> dict[str, str]:
    """What is in a new project, by path."""
    starter = resources.files("tidemill.cli") / "starter"
    texts = {path: starter.joinpath(kept).read_text(encoding="utf-8") for path, kept in _TEXTS.items()}
    return {path: text.replace("{name}", name) for path, text in texts.items()} | {
        "data/orders/day1.csv": as_csv(ORDERS, first_month()),
        "data/customers.csv": as_csv(CUSTOMERS, customers()),
        "day2/orders.csv": as_csv(ORDERS, next_day()),
    }


def _write(folder: Path, files: dict[str, str]) -> None:
    try:
        for path, text in files.items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    except OSError as failure:
        raise ArgumentError(
            "init.cannot_write",
            f"{folder} could not be written: {failure.strerror or failure}.",
            "Choose a place where you may write, and remove what is there of it.",
        ) from failure


def _next(name: str) -> list[str]:
    return [f"cd {name}", *NEXT]


def _show(name: str, files: dict[str, str]) -> None:
    render.say(f"{render.INDENT}✓ {name} created: {len(files)} files. Next:")
    for command in _next(name):
        render.say(f"{render.INDENT * 2}{command}")


UNWELL = 1
MARKS = {"ok": "✓", "warn": "!", "fail": "✗"}
COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command(
    epilog=examples(
        "tidemill doctor",
        "tidemill doctor --warehouse /lake",
    ),
)
@click.option(
    "--warehouse",
    type=click.Path(path_type=Path),
    default=Path(),
    help="The folder of the tables; the current one unless given.",
)
@output
def doctor(warehouse: Path, out: Output) -> int:
    """Say what is right on this machine, and what to do about the rest. Ends with 1 when something has to be fixed."""
    checks = examine(warehouse)
    well = all(check.health != "fail" for check in checks)
    if out.as_json or not (out.quiet and well):
        document = {"ok": well, "checks": [asdict(check) for check in checks]}
        replace(out, quiet=False).result(document, partial(_show_health, checks))
    return 0 if well else UNWELL


def _show_health(checks: list[Check]) -> None:
    width = max(len(check.name) for check in checks)
    for check in checks:
        render.say(f"  {_mark(check.health)} {check.name:<{width}}  {check.what}", hang=width + 6)
        if check.remedy:
            render.say(f"    {'':<{width}}  → {check.remedy}", hang=width + 8)
    failed = sum(check.health == "fail" for check in checks)
    warned = sum(check.health == "warn" for check in checks)
    worked = "all is well" if not failed else f"{failed} to fix"
    render.say(f"  {worked}" + (f" · {warned} to look at" if warned else ""))


@click.command(
    epilog=examples(
        "tidemill setup",
        "tidemill setup --again",
    ),
)
@click.option("--again", is_flag=True, help="Build the start-up archive again, also after a failed try.")
@output
def setup(again: bool, out: Output) -> None:
    """Fetch Delta's jars and build the start-up archive, once; quick when all is there."""
    tell = render.say if out.lines else _tell_nobody
    java = find_java()
    found = {"java": java.version} | _fetch_jars(tell) | _prepare_archive(java, tell, again=again)
    if out.as_json:
        render.document(found)
    elif not found["fetched"] and not found["tried"]:
        tell(f"  {_mark('ok')} engine ready: Java {found['java']}, {_versions()}")


def _tell_nobody(line: str) -> None:
    del line


def _fetch_jars(tell: Callable[[str], None]) -> dict[str, Any]:
    missing, formats = bool(missing_jars()), formats_with_jars()
    if missing:
        tell(f"  fetching {' and '.join(each.spark.title for each in formats)}'s jars, once")
    folder = ensure_jars()[0].parent
    if missing:
        tell(f"  {_mark('ok')} jars     {_versions()} in {folder}")
    return {each.name: each.spark.version for each in formats} | {"jars": str(folder), "fetched": missing}


def _versions() -> str:
    """The formats that have jars, with their versions."""
    return ", ".join(f"{each.spark.title} {each.spark.version}" for each in formats_with_jars())


def _prepare_archive(java: Java, tell: Callable[[str], None], *, again: bool) -> dict[str, Any]:
    """Whether an archive was tried to build, where it is, and why there is none."""
    jars = ensure_jars()
    archive, reason = archive_path(java, jars), why_not_built(java, jars)
    tried = again or not (archive.exists() or reason)
    if tried:
        tell("  building the start-up archive, once (about a minute)")
        began = time.monotonic()
        reason = build_archive(java, jars)
        tell(_built(reason, time.monotonic() - began))
    return {"tried": tried, "archive": str(archive) if archive.exists() else None, "reason": reason or None}


def _built(reason: str, seconds: float) -> str:
    if reason:
        return f"  {_mark('warn')} archive  not built ({reason}); all works, Spark starts slower"
    return f"  {_mark('ok')} archive  built in {seconds:.0f} s; Spark starts faster with it"


def _mark(health: str) -> str:
    return click.style(MARKS[health], fg=COLOURS[health])
