"""`tidemill test`: the checks of tables and views, on all the rows that they have."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from tidemill.cli import render
from tidemill.cli.live import Live
from tidemill.cli.options import examples, on_selection, output
from tidemill.errors import exit_code_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tidemill.change.checked import Checked
    from tidemill.verify.checks import TableChecks
    from tidemill.workspace import Workspace

FAILED = 1
_MARKS = {"passed": "✓", "failed": "✗", "warned": "!"}


@click.command(
    "test",
    short_help="Run the checks of tables on all their rows.",
    epilog=examples(
        "tidemill test",
        "tidemill test -s my_schema.orders --format json",
    ),
)
@on_selection
@output
def test(workspace: Workspace, form: str, quiet: bool) -> int:
    """Run the checks that a project declares on its tables and views as they are, whole.

    Changes nothing. Ends with 1 when a check of severity error fails.
    """
    as_json = form == "json"
    shown = _Shown(workspace, lines=not (quiet or as_json), failures=not as_json)
    results = _tested(workspace, shown.show, quiet=quiet or as_json) if workspace.checked else []
    if as_json:
        render.document(_data(workspace, results))
    elif not quiet:
        render.say(f"{render.INDENT}{_end(workspace, results)}")
    fails = any(not result.ok and result.error is None for result in results)
    return FAILED if fails else exit_code_of(result.error for result in results if result.error)


def _tested(workspace: Workspace, show: Callable[[TableChecks], None], *, quiet: bool) -> list[TableChecks]:
    from tidemill.cli.interrupts import interruptible  # noqa: PLC0415

    def all_of_them() -> list[TableChecks]:
        found = []
        for result in workspace.test():
            found.append(result)
            show(result)
        return found

    with Live(f"testing {workspace.project.name}", quiet=quiet):
        return interruptible(all_of_them)


@dataclass
class _Shown:
    """Shows results as they come. `lines` is false where only what failed is asked for, which then goes to stderr."""

    workspace: Workspace
    lines: bool
    failures: bool

    def __post_init__(self) -> None:
        checked = self.workspace.checked
        self.names = max((len(self.workspace.short(node.name)) for node in checked), default=0)
        self.checks = max((len(self._mask(str(check))) for node in checked for check in node.checks), default=0)

    def show(self, result: TableChecks) -> None:
        if not self.lines and (result.ok or not self.failures):
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
        check = self._mask(str(each.check)).ljust(self.checks)
        text = f"{click.style(name.ljust(self.names), bold=True)}  {check}  {self._mask(str(each))}"
        render.judged(_MARKS[each.verdict], text, err=not self.lines)
        if each.failures:
            self._under(each.check.origin)

    def _under(self, *lines: object) -> None:
        for line in lines:
            if line:
                render.say(f"{render.INDENT * 2}{self._mask(str(line))}", err=not self.lines)

    def _mask(self, text: str) -> str:
        return self.workspace.masking.mask(text)


def _end(workspace: Workspace, results: Sequence[TableChecks]) -> str:
    if not workspace.checked:
        return 'no checks are declared: a model has them in its metadata, such as "checks": [{"not_null": "id"}]'
    found = Counter(str(each.verdict) for result in results for each in result.checks)
    count = found.total()
    words = [f"{found[verdict]:,} {verdict}" for verdict in _MARKS if found[verdict]]
    broken = sum(result.error is not None for result in results)
    lost = [f"{broken} table{'' if broken == 1 else 's'} could not be tested"] if broken else []
    return render.SEPARATOR.join([f"{count:,} check{'' if count == 1 else 's'}", *words, *lost])


def _data(workspace: Workspace, results: Sequence[TableChecks]) -> dict[str, Any]:
    return {
        "project": workspace.project.name,
        "ok": all(result.ok for result in results),
        "tables": [workspace.masking.mask_data(_table(result, workspace.short(result.table))) for result in results],
    }


def _table(result: TableChecks, name: str) -> dict[str, Any]:
    status = "failed" if not result.ok else "tested" if result.there else "not there yet"
    return {
        "table": name,
        "status": status,
        "checks": [each.to_json() for each in result.checks],
        "error": render.error_data(result.error) if result.error else None,
    }
