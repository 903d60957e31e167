"""`tidemill verify` and `tidemill test`: incremental equals full, and checks on all rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import click

from tidemill.cli import Live, examples, interruptible, output, render
from tidemill.cli.projects import on_selection, target_and_tables, variables
from tidemill.errors import exit_code_of
from tidemill.planning import backfill_of
from tidemill.verify.result import BY_STRATEGY, WRONG, Kind, Verified, VerifyOutcome
from tidemill.verify.share import share_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from tidemill.api.workspace import Workspace
    from tidemill.cli import Output
    from tidemill.cli.projects import Load
    from tidemill.execution.checks import TableChecks
    from tidemill.model.check import Checked
    from tidemill.verify.result import Sample

DIFFERS = 1
_MARKS = {VerifyOutcome.EQUAL: "✓", VerifyOutcome.KEPT: "!", VerifyOutcome.DIFFERENT: "✗"}


@click.command(
    epilog=examples(
        "tidemill verify",
        "tidemill verify raw_orders daily",
        "tidemill verify bronze.stats --start 2026-02-01",
        "tidemill verify sales --sample 1%",
    ),
)
@click.argument("tables", nargs=-1, metavar="[TABLE]…")
@click.option("--target", help="A pipeline file or a project's folder; a TABLE that is one of these counts as it.")
@click.option("--start", metavar="DATE", help="Ask functions again for the dates from here on.")
@click.option("--end", metavar="DATE", help="The last of these dates; else today.")
@click.option("--sample", metavar="SHARE", help="Compare only a share of a materialized view's keys, such as 1%.")
@variables
@output
def verify(
    tables: tuple[str, ...],
    target: str | None,
    start: str | None,
    end: str | None,
    sample: str | None,
    load: Load,
    out: Output,
) -> int:
    """Compare each TABLE, or all, with what one full run over its source as it is now would give.

    Reads all of both, or of a materialized view with --sample only the rows of a share of its keys, and changes
    nothing. ✓ means that they are equal. ✗ means that rows are missing, extra or
    different, and ends with 1. ! means that they are equal except for rows that the source or query no longer returns
    (or that the strategy ignores): it ends with 1 for a query, unless its declaration says kept_rows = "intended". Of
    a table that a function maintains, the dates from --start to --end are fetched again and compared.
    """
    target, names = target_and_tables(tables, target)
    workspace = load(target)
    workspace.select(names)  # a wrong name is an error before Spark starts
    dates, share = backfill_of(start, end, None), share_of(sample) if sample else None
    shown = _ShownTables(workspace, lines=out.lines, failures=not out.as_json)
    results = _as_they_come("verifying", partial(workspace.logged_verify, names, dates=dates, share=share), shown)
    if out.as_json:
        render.document(workspace.masking.mask_data(_data(workspace, results)))
    elif out.lines and not results:
        render.say(f"{render.INDENT}{render.NOTHING_DECLARED}")
    differs = any(not result.ok and result.error is None for result in results)
    return DIFFERS if differs else exit_code_of(result.error for result in results if result.error)


Result = TypeVar("Result")


@dataclass
class _Shown(Generic[Result]):
    """Shows results as they come. `lines` is false where only what is wrong is asked for, which then goes to stderr."""

    workspace: Workspace
    lines: bool
    failures: bool

    def show(self, result: Result) -> None:
        raise NotImplementedError

    def _is_hidden(self, *, ok: bool) -> bool:
        return not self.lines and (ok or not self.failures)

    def _under(self, *lines: object) -> None:
        for line in lines:
            if line:
                render.say(f"{render.INDENT * 2}{self._mask(str(line))}", err=not self.lines)

    def _mask(self, text: str) -> str:
        return self.workspace.masking.mask(text)


def _as_they_come(doing: str, results: Callable[[], Iterable[Result]], shown: _Shown[Result]) -> list[Result]:
    """All results, each shown when it is there."""

    def found() -> Iterator[Result]:
        for result in results():
            shown.show(result)
            yield result

    with Live(f"{doing} {shown.workspace.project.name}", quiet=not shown.lines):
        return interruptible(lambda: list(found()))


class _ShownTables(_Shown[Verified]):
    def show(self, result: Verified) -> None:
        name = self.workspace.short(result.table)
        if self._is_hidden(ok=result.ok):
            return
        if result.error is not None:
            render.failed(name, f"error[{result.error.code}] {self._mask(result.error.problem)}", err=not self.lines)
            self._under(result.error.remedy)
        elif not result.there:
            run = self.workspace.command("run")
            render.verdict(render.NOT_KNOWN, name, f"not there yet: {run} makes it")
        elif not result.verifiable:
            render.verdict(render.NOT_KNOWN, name, f"not verifiable: {', '.join(result.notes)}")
        else:
            self._show_rows(name, result)

    def _show_rows(self, name: str, result: Verified) -> None:
        render.verdict(_MARKS[result.outcome], name, _fact(result), err=not self.lines)
        for kind in Kind:
            for sample in result.of(kind).samples:
                self._under(f"{kind}  {_sample(sample)}")
        for line in (*result.remedies, *result.notes):
            self._under(line)


def _fact(result: Verified) -> str:
    """What is found, in a sentence."""
    against = f"{result.against} {result.extent}".rstrip()
    count = f"{result.rows:,} of {render.rows(result.total)}" if result.extent else render.rows(result.rows)
    equal = f"equals {against} ({count})"
    match result.outcome:
        case VerifyOutcome.EQUAL:
            return equal
        case VerifyOutcome.KEPT:
            return f"{equal} but for {_apart(result)} · {render.rows(result.total)} in all"
        case _:
            return f"differs from {against}: {_counts(result)}"


def _apart(result: Verified) -> str:
    giver = next((word for word in ("query", "function") if result.against.startswith(f"its {word}")), "source")
    kept, ignored = result.kept.count, result.ignored.count
    words = [f"{render.rows(kept)} that the {giver} no longer returns"] if kept else []
    words += [f"{render.rows(ignored)} that its strategy ignores"] if ignored else []
    return " and ".join(words)


def _counts(result: Verified) -> str:
    """The rows that make the difference; those that were kept or ignored are counted apart."""
    words = [(kind, result.of(kind).count) for kind in (*WRONG, *BY_STRATEGY) if result.of(kind).count]
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
        "ok": all(each.ok for each in results),
        "tables": [_table(each) | {"table": workspace.short(each.table)} for each in results],
    }


def _table(result: Verified) -> dict[str, Any]:
    """Every table has every key, whatever became of it; numbers are null where nothing could be compared."""
    compared = result.outcome in _MARKS
    return {
        "table": result.table,
        "against": result.against,
        "status": str(result.outcome),
        "equal": result.equal,
        "ok": result.ok,
        "rows": result.rows if compared else None,
        "total": result.total if compared else None,
        "sample": result.sample,
        **{kind: result.of(kind).count if compared else None for kind in Kind},
        "found": {kind: asdict(result.of(kind)) for kind in Kind if result.of(kind).count},
        "remedies": list(result.remedies),
        "notes": list(result.notes),
        "error": render.error_data(result.error) if result.error else None,
    }


FAILED = 1
_CHECK_MARKS = {"passed": "✓", "failed": "✗", "warned": "!"}


@click.command(
    "test",
    epilog=examples(
        "tidemill test",
        "tidemill test -s my_schema.orders --format json",
    ),
)
@on_selection
@output
def test(workspace: Workspace, out: Output) -> int:
    """Run the checks that a project declares on its tables and views as they are, whole.

    Changes nothing. Ends with 1 when a check of severity error fails.
    """
    shown = ShownChecks(workspace, lines=out.lines, failures=not out.as_json)
    results = _as_they_come("testing", workspace.test, shown) if workspace.checked else []
    out.result(_check_data(workspace, results), lambda: render.say(f"{render.INDENT}{_end(workspace, results)}"))
    fails = any(not result.ok and result.error is None for result in results)
    return FAILED if fails else exit_code_of(result.error for result in results if result.error)


class ShownChecks(_Shown["TableChecks"]):
    @cached_property
    def _widest_name(self) -> int:
        return max((len(self.workspace.short(node.name)) for node in self.workspace.checked), default=0)

    @cached_property
    def _widest_check(self) -> int:
        checks = (check for node in self.workspace.checked for check in node.checks)
        return max((len(self._mask(str(check))) for check in checks), default=0)

    def show(self, result: TableChecks) -> None:
        if self._is_hidden(ok=result.ok):
            return
        name = self.workspace.short(result.table)
        if result.error is not None:
            render.failed(name, f"error[{result.error.code}] {self._mask(result.error.problem)}", err=not self.lines)
            self._under(result.error.origin, result.error.remedy)
        elif not result.there:
            render.passed_over(name, f"not there yet: {self.workspace.command('run')} makes it")
        for each in result.checks:
            self._check(name, each)

    def _check(self, name: str, each: Checked) -> None:
        if not self.lines and each.verdict != "failed":
            return
        check = self._mask(str(each.check)).ljust(self._widest_check)
        text = f"{click.style(name.ljust(self._widest_name), bold=True)}  {check}  {self._mask(str(each))}"
        render.judged(_CHECK_MARKS[each.verdict], text, err=not self.lines)
        if each.failures:
            self._under(each.check.origin)


def _end(workspace: Workspace, results: Sequence[TableChecks]) -> str:
    if not workspace.checked:
        return 'no checks are declared: a model has them in its metadata, such as "checks": [{"not_null": "id"}]'
    found = Counter(str(each.verdict) for result in results for each in result.checks)
    count = found.total()
    words = [f"{found[verdict]:,} {verdict}" for verdict in _CHECK_MARKS if found[verdict]]
    broken = sum(result.error is not None for result in results)
    lost = [f"{broken} table{'' if broken == 1 else 's'} could not be tested"] if broken else []
    return render.SEPARATOR.join([f"{count:,} check{'' if count == 1 else 's'}", *words, *lost])


def _check_data(workspace: Workspace, results: Sequence[TableChecks]) -> dict[str, Any]:
    return {
        "project": workspace.project.name,
        "ok": all(result.ok for result in results),
        "tables": [
            workspace.masking.mask_data(_check_table(result, workspace.short(result.table))) for result in results
        ],
    }


def _check_table(result: TableChecks, name: str) -> dict[str, Any]:
    status = "failed" if not result.ok else "tested" if result.there else "not there yet"
    return {
        "table": name,
        "status": status,
        "checks": [each.to_json() for each in result.checks],
        "error": render.error_data(result.error) if result.error else None,
    }
