"""`tidemill verify`: incremental equals full, on the user's own data."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import click

from tidemill.cli import render
from tidemill.cli.live import Live
from tidemill.cli.naming import target_and_tables
from tidemill.cli.options import examples, output, variables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidemill.cli.options import Load
    from tidemill.plan.backfills import Backfill
    from tidemill.verify.result import Found, Sample, Verified
    from tidemill.workspace import Workspace

DIFFERS = 1
_SHOWN = ("missing", "extra", "different", "kept", "ignored")
_WRONG = ("missing", "extra", "different")


@click.command(
    short_help="Prove that tables equal a full run over their sources.",
    epilog=examples(
        "tidemill verify",
        "tidemill verify raw_orders daily",
        "tidemill verify bronze.stats --start 2026-02-01",
    ),
)
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
    dates = backfill_of(start, end, None)
    shown = _Shown(workspace, lines=form == "text" and not quiet, failures=form == "text")
    results = _verified(workspace, names, dates, shown)
    if form == "json":
        render.document(workspace.masking.mask_data(_data(workspace, results)))
    elif shown.lines and not results:
        render.say(f"{render.INDENT}{render.NOTHING_DECLARED}")
    return 0 if all(result.equal for result in results) else DIFFERS


def _verified(workspace: Workspace, names: Sequence[str], dates: Backfill | None, shown: _Shown) -> list[Verified]:
    from tidemill.cli.interrupts import interruptible  # noqa: PLC0415

    def all_of_them() -> list[Verified]:
        found = []
        for result in workspace.verify(names, dates=dates):
            found.append(result)
            shown.show(result)
        return found

    with Live(f"verifying {workspace.project.name}", quiet=not shown.lines):
        return interruptible(all_of_them)


@dataclass
class _Shown:
    """Shows results as they come. `lines` is false where only what differs is asked for, which then goes to stderr."""

    workspace: Workspace
    lines: bool
    failures: bool

    def show(self, result: Verified) -> None:
        name = self.workspace.short(result.table)
        if not self.lines and (result.equal or not self.failures):
            return
        if result.error is not None:
            problem = self.workspace.masking.mask(result.error.problem)
            render.failed(name, f"error[{result.error.code}] {problem}", err=not self.lines)
            self._under(result.error.remedy)
        elif not result.there:
            render.passed_over(name, f"not there yet: {self.workspace.command('run')} makes it")
        elif not result.verifiable:
            render.passed_over(name, f"not verifiable: {', '.join(result.notes)}")
        else:
            self._show_rows(name, result)

    def _show_rows(self, name: str, result: Verified) -> None:
        equal = f"equals {result.against} ({render.rows(result.rows)})"
        fact = equal if result.equal else f"differs from {result.against}: {_counts(result)}"
        render.verdict(name, fact, good=result.equal, err=not self.lines)
        for kind in _SHOWN:
            for sample in getattr(result, kind).samples:
                self._under(f"{kind}  {_sample(sample)}")
        for line in (*result.remedies, *result.notes):
            self._under(line)

    def _under(self, line: str) -> None:
        render.say(f"{render.INDENT * 2}{self.workspace.masking.mask(line)}", err=not self.lines)


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


def _data(workspace: Workspace, results: Sequence[Verified]) -> dict[str, Any]:
    return {
        "project": workspace.project.name,
        "ok": all(each.equal for each in results),
        "tables": [_table(each) for each in results],
    }


def _table(result: Verified) -> dict[str, Any]:
    """Every table has every key, whatever became of it; numbers are null where nothing could be compared."""
    status = _status(result)
    compared = status in {"equal", "different"}
    return {
        "table": result.table,
        "against": result.against,
        "status": status,
        "equal": result.equal if compared or result.error else None,
        "rows": result.rows if compared else None,
        **{kind: asdict(getattr(result, kind)) if compared else None for kind in _SHOWN},
        "remedies": list(result.remedies),
        "notes": list(result.notes),
        "error": render.error_data(result.error) if result.error else None,
    }


def _status(result: Verified) -> str:
    if result.error is not None:
        return "failed"
    if not result.there:
        return "not there yet"
    if not result.verifiable:
        return "not verifiable"
    return "equal" if result.equal else "different"
