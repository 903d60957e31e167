"""`tidemill doctor` and `tidemill setup`: what the engine needs on this machine."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidemill.cli import render
from tidemill.cli.options import examples, output

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidemill.engine.doctor import Check
    from tidemill.engine.java import Java

UNWELL = 1
MARKS = {"ok": "✓", "warn": "!", "fail": "✗"}
COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command(
    short_help="Say what this machine has of what Spark needs.",
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
def doctor(warehouse: Path, form: str, quiet: bool) -> int:
    """Say what is right on this machine, and what to do about the rest. Ends with 1 when something has to be fixed."""
    from tidemill.engine.doctor import examine  # noqa: PLC0415  slow to import

    checks = examine(warehouse)
    well = all(check.health != "fail" for check in checks)
    if form == "json":
        render.document({"ok": well, "checks": [asdict(check) for check in checks]})
    elif not (quiet and well):
        _show(checks)
    return 0 if well else UNWELL


def _show(checks: list[Check]) -> None:
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
    short_help="Fetch Delta's jars and prepare a quick start.",
    epilog=examples(
        "tidemill setup",
        "tidemill setup --again",
    ),
)
@click.option("--again", is_flag=True, help="Build the start-up archive again, also after a failed try.")
@output
def setup(again: bool, form: str, quiet: bool) -> None:
    """Fetch Delta's jars and build the start-up archive, once; quick when all is there."""
    from tidemill.engine.java import find_java  # noqa: PLC0415  slow to import

    tell = render.say if form == "text" and not quiet else _tell_nobody
    java = find_java()
    found = {"java": java.version} | _fetch_jars(tell) | _prepare_archive(java, tell, again=again)
    if form == "json":
        render.document(found)
    elif not found["fetched"] and not found["tried"]:
        tell(f"  {_mark('ok')} engine ready: Java {found['java']}, Delta {found['delta']}")


def _tell_nobody(line: str) -> None:
    del line


def _fetch_jars(tell: Callable[[str], None]) -> dict[str, Any]:
    from tidemill.engine.jars import JARS, ensure_jars, missing_jars  # noqa: PLC0415

    missing, delta = bool(missing_jars()), JARS[0].version
    if missing:
        tell("  fetching Delta's jars, once")
    folder = ensure_jars()[0].parent
    if missing:
        tell(f"  {_mark('ok')} jars     Delta {delta} in {folder}")
    return {"delta": delta, "jars": str(folder), "fetched": missing}


def _prepare_archive(java: Java, tell: Callable[[str], None], *, again: bool) -> dict[str, Any]:
    """Whether an archive was tried to build, where it is, and why there is none."""
    from tidemill.engine.archive import archive_path, build_archive, why_not_built  # noqa: PLC0415
    from tidemill.engine.jars import ensure_jars  # noqa: PLC0415

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
