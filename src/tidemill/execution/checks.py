"""Checks run on a change before its commit, on views when they are made, and on all the rows of a table.

Rows that break one of severity error never enter a table, and nothing is made of a view that has such rows.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidemill.changes.apply import entering
from tidemill.changes.checks import Checking
from tidemill.errors import CheckError, TidemillError
from tidemill.formats.base import AppendRows, Conflict, UpsertRows
from tidemill.formats.registry import store_of
from tidemill.model import quoted_name
from tidemill.model.check import Place, Relationships, Unique, Verdict
from tidemill.model.query import View
from tidemill.spark.errors import as_tidemill, file_is_gone, is_conflict, one_line
from tidemill.spark.session import SPARK_FAILURES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from tidemill.execution.catalog import Catalog
    from tidemill.execution.prepare import Prepared
    from tidemill.formats.base import Compiled, HeldRows, Operation
    from tidemill.model.check import Check, Checked
    from tidemill.model.record import Record
    from tidemill.model.table import Table


class FailedChecksError(CheckError):
    """Some checks of severity error do not hold; `checks` are all that were run."""

    def __init__(self, table: str, checks: Sequence[Checked]) -> None:
        broken = sorted((each for each in checks if each.failures), key=lambda each: each.verdict is Verdict.WARNED)
        alone = len(broken) == 1
        enter = f"enter, and are reported. {table} is unchanged." if broken[0].place.entering else "are only reported."
        super().__init__(
            "checks.failed",
            _one(table, broken[0]) if alone else _several(table, broken, len(checks)),
            f'Correct the rows or their query; with "severity": "warn" such rows {enter}',
            origin=broken[0].check.origin if alone else None,
        )
        self.checks = tuple(checks)


def check_change(
    table: Table, prepared: Prepared, compiled: Compiled, record: Record, held: HeldRows | None
) -> tuple[Checked, ...]:
    """Runs the table's checks on what is about to enter it; raises when one of severity error does not hold.

    `held` are the table's rows, None where it is yet to be made. Where nothing is written, nothing is checked.
    """
    if compiled.operation is None or not table.checks:
        return ()
    with _running(table.name):
        landing = entering(compiled.operation, held.rows if held else None)
        results = Checking(
            place=Place(table.name, entering=True),
            rows=landing.rows,
            beside=landing.beside,
            parent=lambda name: landing.rows.sparkSession.table(quoted_name(name)),
            unique_on=record.keys if record.unique else (),
            known_by=known_by(prepared.strategy.keys, table.checks),
            total=_total(compiled.operation, compiled, prepared, record.held or 0),
            held=record.held or 0,
        ).results(table.checks)
    return _passed(table.name, results)


def check_view(view: View, rows: DataFrame) -> tuple[Checked, ...]:
    """Runs the view's checks on all its rows; raises when one of severity error does not hold."""
    if not view.checks:
        return ()
    with _running(view.name):
        results = check_rows(view, rows)
    return _passed(view.name, results)


def check_rows(node: Table | View, rows: DataFrame) -> tuple[Checked, ...]:
    """How the checks fare on all rows of a table or view, in whose session the tables are that they name."""
    keys = () if isinstance(node, View) else node.strategy.keys
    checking = Checking(
        place=Place(node.name, entering=False),
        rows=rows,
        parent=lambda name: rows.sparkSession.table(quoted_name(name)),
        known_by=known_by(keys, node.checks),
    )
    return checking.results(node.checks)


def _passed(table: str, results: tuple[Checked, ...]) -> tuple[Checked, ...]:
    if any(each.verdict is Verdict.FAILED for each in results):
        raise FailedChecksError(table, results)
    return results


def warnings(results: Sequence[Checked]) -> tuple[str, ...]:
    """The notices of a step whose checks let its rows pass."""
    return tuple(f"check {each.check}: {each}" for each in results if each.verdict is Verdict.WARNED)


def known_by(keys: Sequence[str], checks: Sequence[Check]) -> tuple[str, ...]:
    """The columns that identify a row: its keys, or what has to be unique."""
    return tuple(keys) or next((check.columns for check in checks if isinstance(check, Unique)), ())


def _total(operation: Operation, compiled: Compiled, prepared: Prepared, held: int) -> int | None:
    """How many rows the table has after the commit; None where only the rows that are appended tell."""
    match operation:
        case AppendRows():
            return None
        case UpsertRows(delete_missing=True):
            return prepared.change.profile.rows
        case _:
            return held + compiled.counts.inserted - compiled.counts.deleted


@contextmanager
def _running(table: str) -> Iterator[None]:
    try:
        yield
    except SPARK_FAILURES as failure:
        if is_conflict(failure) or file_is_gone(failure):
            raise Conflict(one_line(failure)) from failure
        raise CheckError(
            "checks.not_run",
            f"The checks of {table} could not be run: {one_line(failure)}",
            f"Correct the check, or the rows that it cannot read. {table} is unchanged.",
        ) from failure


def _one(table: str, broken: Checked) -> str:
    return f"The check {broken.check} of {table} failed: {broken}."


def _several(table: str, broken: Sequence[Checked], count: int) -> str:
    lines = [f"\n      {_line(each)}" for each in broken]
    return f"{len(broken)} of {count} checks of {table} failed:{''.join(lines)}"


def _line(broken: Checked) -> str:
    only_warns = " (warns only)" if broken.verdict is Verdict.WARNED else ""
    where = f" · {broken.check.origin}" if broken.check.origin else ""
    return f"{broken.check}{only_warns}: {broken}{where}"


@dataclass(frozen=True, slots=True)
class TableChecks:
    """How the checks of one table or view fared. Without checks and error it is not there yet.

    >>> [each.table for each in tidemill.Project.load("shop").test() if not each.ok]
    []
    """

    table: str
    checks: tuple[Checked, ...] = ()
    error: TidemillError | None = None

    @property
    def there(self) -> bool:
        return bool(self.checks or self.error)

    @property
    def ok(self) -> bool:
        """Nothing has failed; checks of severity warn never do."""
        return self.error is None and all(each.verdict is not Verdict.FAILED for each in self.checks)


def table_checks(spark: SparkSession, node: Table | View, catalog: Catalog) -> TableChecks:
    """Runs the checks, and writes nothing; an error of the table is its result."""
    try:
        return TableChecks(node.name, check_rows(node, _rows(spark, node, catalog)))
    except TidemillError as failure:
        return TableChecks(node.name, error=failure)
    except Exception as failure:  # noqa: BLE001  Spark raises many kinds; each is this table's own
        return TableChecks(node.name, error=as_tidemill(failure, doing=f"Testing {node.name}"))


def _rows(spark: SparkSession, node: Table | View, catalog: Catalog) -> DataFrame:
    """Its rows, in a session that knows the tables which its checks name."""
    if isinstance(node, View):
        return catalog.view(spark, node)
    named = [check.to for check in node.checks if isinstance(check, Relationships)]
    return store_of(node).read(catalog.session(spark, named))
