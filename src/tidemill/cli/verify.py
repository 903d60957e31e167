"""`tidemill verify`: incremental equals full, on the user's own data."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from tidemill.cli import render
from tidemill.cli.live import Live
from tidemill.cli.naming import target_and_tables
from tidemill.cli.options import output, variables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidemill.cli.options import Load
    from tidemill.plan.backfills import Backfill
    from tidemill.verify.result import Found, Sample, Verified
    from tidemill.workspace import Workspace

DIFFERS = 1
_SHOWN = ("missing", "extra", "different", "kept", "ignored")
_WRONG = ("missing", "extra", "different")


@click.command(short_help="Prove that tables equal a full run over their sources.")
@click.argument("tables", nargs=-1, metavar="[TABLE]…")
@click.option("--target", help="A pipeline file or a project's folder; a TABLE that is one of these counts as it.")
@click.option("--start", metavar="DATE", help="Ask functions again for the dates from here on.")
@click.option("--end", metavar="DATE", help="The last of these dates; else today.")
@variables
@output
def verify(
    tables: tuple[str, ...],
    target: str | None,
    start: str | None,
    end: str | None,
    load: Load,
    form: str,
    quiet: bool,
) -> int:
    """Compare each TABLE, or all, with what one full run over its source as it is now would give.

    Reads all of both and changes nothing. Ends with 1 when rows are missing, extra or different. Of a table that a
    function keeps, the dates from --start to --end are fetched again and compared.
    """
    from tidemill.plan.backfills import backfill_of  # noqa: PLC0415

    target, names = target_and_tables(tables, target)
    workspace = load(target)
    workspace.select(names)  # a wrong name is told before Spark starts
    results = _verified(workspace, names, backfill_of(start, end, None), shown=form == "text" and not quiet)
    if form == "json":
        render.document(workspace.masking.mask_data(_data(workspace, results)))
    return 0 if all(result.equal for result in results) else DIFFERS


def _verified(workspace: Workspace, names: Sequence[str], dates: Backfill | None, *, shown: bool) -> list[Verified]:
    from tidemill.cli.interrupts import interruptible  # noqa: PLC0415

    def all_of_them() -> list[Verified]:
        found = []
        for result in workspace.verify(names, dates=dates):
            found.append(result)
            if shown:
                _show(workspace, result)
        return found

    with Live(f"verifying {workspace.project.name}", quiet=not shown):
        return interruptible(all_of_them)


def _show(workspace: Workspace, result: Verified) -> None:
    mask, name = workspace.masking.mask, workspace.short(result.table)
    if result.error is not None:
        render.failed(name, f"error[{result.error.code}] {mask(result.error.problem)}")
        _under(mask(result.error.remedy))
        return
    if not result.there:
        render.passed_over(name, "not there yet: tidemill run makes it")
        return
    if not result.verifiable:
        render.passed_over(name, f"not verifiable: {', '.join(result.notes)}")
        return
    if result.equal:
        render.verdict(name, f"equals {result.against} ({render.rows(result.rows)})", good=True)
    else:
        render.verdict(name, f"differs from {result.against}: {_counts(result)}", good=False)
    for kind in _SHOWN:
        for sample in getattr(result, kind).samples:
            _under(mask(f"{kind}  {_sample(sample)}"))
    for line in (*result.remedies, *result.notes):
        _under(mask(line))


def _counts(result: Verified) -> str:
    found: list[tuple[str, Found]] = [(kind, getattr(result, kind)) for kind in _WRONG]
    words = [(kind, each.count) for kind, each in found if each.count]
    (first, count), *rest = words
    return ", ".join([f"{render.rows(count)} {first}", *(f"{count:,} {kind}" for kind, count in rest)])


def _sample(sample: Sample) -> str:
    row = _pairs({name: value for name, value in sample.row.items() if name not in sample.instead})
    if not sample.instead:
        return row
    apart = [f"{name} {_value(sample.row[name])} → {_value(value)}" for name, value in sample.instead.items()]
    return f"{row}: {', '.join(apart)}"


def _pairs(row: Mapping[str, str | None]) -> str:
    return " ".join(f"{name}={_value(value)}" for name, value in row.items())


def _value(value: str | None) -> str:
    return "NULL" if value is None else value


def _under(line: str) -> None:
    render.say(f"{render.INDENT}{render.INDENT}{line}")


def _data(workspace: Workspace, results: Sequence[Verified]) -> dict[str, Any]:
    return {"ok": all(each.equal for each in results), "tables": [_table(workspace, each) for each in results]}


def _table(workspace: Workspace, result: Verified) -> dict[str, Any]:
    found: dict[str, Any] = {"table": workspace.short(result.table), "against": result.against}
    if result.error is not None:
        return {**found, "status": "failed", "equal": False, "error": render.error_data(result.error)}
    if not result.there:
        return {**found, "status": "not there yet", "equal": None}
    if not result.verifiable:
        return {**found, "status": "not verifiable", "equal": None, "notes": list(result.notes)}
    return {
        **found,
        "status": "equal" if result.equal else "different",
        "equal": result.equal,
        "rows": result.rows,
        **{kind: asdict(getattr(result, kind)) for kind in _SHOWN},
        "remedies": list(result.remedies),
        "notes": list(result.notes),
    }
