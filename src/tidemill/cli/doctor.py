"""`tidemill doctor` and `tidemill setup`: what the engine needs on this machine."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path

import click

from tidemill.cli.options import examples
from tidemill.engine.archive import archive_path, build_archive, why_not_built
from tidemill.engine.doctor import Check, Health, examine
from tidemill.engine.jars import JARS, ensure_jars, missing_jars
from tidemill.engine.java import Java, find_java

MARKS = {
    Health.OK: click.style("✓", fg="green"),
    Health.WARN: click.style("!", fg="yellow"),
    Health.FAIL: click.style("✗", fg="red"),
}


@click.command(
    short_help="Say what this machine has of what Spark needs.",
    epilog=examples(
        "tidemill doctor",
        "tidemill doctor --warehouse /lake",
    ),
)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="How to print it.")
@click.option(
    "--warehouse",
    type=click.Path(path_type=Path),
    default=Path(),
    help="The folder of the tables; the current one unless given.",
)
@click.pass_context
def doctor(context: click.Context, form: str, warehouse: Path) -> None:
    """Say what is right on this machine, and what to do about the rest."""
    checks = examine(warehouse)
    if form == "json":
        click.echo(json.dumps({"ok": _all_well(checks), "checks": [asdict(check) for check in checks]}, indent=2))
    else:
        for line in _lines(checks):
            click.echo(line)
    context.exit(0 if _all_well(checks) else 1)


@click.command(
    short_help="Fetch Delta's jars and prepare a quick start.",
    epilog=examples(
        "tidemill setup",
    ),
)
@click.option("--again", is_flag=True, help="Build the start-up archive again, also after a failed try.")
def setup(again: bool) -> None:
    """Fetch Delta's jars and build the start-up archive, once; quick when all is there."""
    java = find_java()
    fetched = _fetch_jars()
    built = _prepare_archive(java, again=again)
    if not fetched and not built:
        click.echo(f"  {MARKS[Health.OK]} engine ready: Java {java.version}, Delta {JARS[0].version}")


def _fetch_jars() -> bool:
    if not missing_jars():
        return False
    click.echo("  fetching Delta's jars, once")
    folder = ensure_jars()[0].parent
    click.echo(f"  {MARKS[Health.OK]} jars     Delta {JARS[0].version} in {folder}")
    return True


def _prepare_archive(java: Java, *, again: bool) -> bool:
    jars = ensure_jars()
    if not again and (archive_path(java, jars).exists() or why_not_built(java, jars)):
        return False
    click.echo("  building the start-up archive, once (about a minute)")
    began = time.monotonic()
    reason = build_archive(java, jars)
    seconds = time.monotonic() - began
    if reason:
        click.echo(f"  {MARKS[Health.WARN]} archive  not built ({reason}); all works, Spark starts slower")
    else:
        click.echo(f"  {MARKS[Health.OK]} archive  built in {seconds:.0f} s; Spark starts faster with it")
    return True


def _all_well(checks: list[Check]) -> bool:
    return all(check.health is not Health.FAIL for check in checks)


def _lines(checks: list[Check]) -> list[str]:
    width = max(len(check.name) for check in checks)
    lines = []
    for check in checks:
        lines.append(f"  {MARKS[check.health]} {check.name:<{width}}  {check.what}")
        if check.remedy:
            lines.append(f"    {'':<{width}}  → {check.remedy}")
    failed = sum(check.health is Health.FAIL for check in checks)
    warned = sum(check.health is Health.WARN for check in checks)
    worked = "all is well" if not failed else f"{failed} to mend"
    return [*lines, f"  {worked}" + (f" · {warned} to look at" if warned else "")]
