"""The rows of a view that a change of its inputs concerns: the changes, the keys in them, and the new rows of these."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial, singledispatch
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from tidemill.changes import refuse_shrink
from tidemill.changes.replace_keys import change_contents, replace_keys
from tidemill.execution import RefreshReport
from tidemill.execution.adding import add_up
from tidemill.execution.attempt import Gathered, Refreshed, held_rows
from tidemill.execution.prepare import Prepared
from tidemill.execution.relations import Relations
from tidemill.execution.view_sums import same_sums
from tidemill.formats.base import Change, Compiled, Profile
from tidemill.formats.port import WEIGHT
from tidemill.ivm import NotIncremental
from tidemill.ivm.grouped import Grouped
from tidemill.ivm.rules import Linear, Local, Telescoped
from tidemill.ivm.sums import Summed
from tidemill.model import quote, spelled
from tidemill.model.record import Counts
from tidemill.model.strategy import Refresh
from tidemill.planning.costs import why_many_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame

    from tidemill.execution.attempt import Attempt
    from tidemill.execution.query_source import ViewSource
    from tidemill.execution.relations import KeyedRelations, SettledKeys
    from tidemill.execution.view_sums import Sums
    from tidemill.formats.base import HeldRows
    from tidemill.ivm.view import Rule
    from tidemill.planning import StepPlan

    Near = Callable[[str, int], str | None]


def refresh_by_changes(attempt: Attempt, source: ViewSource, plan: StepPlan) -> Gathered:
    """The change of a view by a rule, compiled; all that is read of its inputs was read when it ends."""
    refresh = plan.refresh
    assert refresh is not None  # noqa: S101  it has a rule
    assert refresh.rule is not None  # noqa: S101
    assert refresh.inputs is not None  # noqa: S101
    session, bound = source.bound(attempt.spark, source.query.text)
    output = session.sql(bound).columns
    held = held_rows(attempt, session)
    assert held is not None  # noqa: S101  a first run is no refresh
    with ExitStack() as opened:
        relations = Relations(session, source, refresh, opened)
        changed = relations.settle_changes()
        if any(changed.values()):
            found = refreshed_rows(refresh.rule, RefreshWork(attempt, relations, held, output))
        else:
            found = Found(Compiled(None, Counts()), sums=same_sums(attempt))
    _check_shrink(attempt, found.compiled)
    report = RefreshReport(
        "incremental", refresh.reason, refresh.rule.name, refresh.rule.key or None, changed, found.keys
    )
    return Gathered(
        plan=plan,
        prepared=_prepared(attempt, held, found.compiled, sum(changed.values())),
        held=held,
        window=None,
        input_version=source.version(),
        refreshed=Refreshed(report, found.compiled, sums=found.sums),
    )


def nothing_to_refresh(attempt: Attempt, source: ViewSource, plan: StepPlan) -> Gathered:
    """No change of a view whose record names the very versions that the run reads."""
    held = held_rows(attempt, attempt.spark)
    assert held is not None  # noqa: S101  it has a record
    done = Compiled(None)
    report = RefreshReport("incremental", plan.reason)
    prepared, version = _prepared(attempt, held, done, 0), source.version()
    refreshed = Refreshed(report, done, sums=same_sums(attempt))
    return Gathered(plan, prepared, held, None, input_version=version, refreshed=refreshed)


@dataclass(frozen=True, slots=True)
class Found:
    """What the change of a view comes to, how many keys were computed again, and the sums that go with it."""

    compiled: Compiled
    keys: int | None = None
    sums: Sums | None = None


@dataclass(frozen=True, slots=True)
class RefreshWork:
    """What a rule works on: names of relations, the rows that the view holds, and the columns that its query gives."""

    attempt: Attempt
    relations: Relations
    held: HeldRows
    output: Sequence[str]

    @property
    def volatile(self) -> frozenset[str]:
        return frozenset(name.lower() for name in self.attempt.table.volatile)

    def statement(self, text: str) -> DataFrame:
        return self.relations.session.sql(text)

    def rows(self, statement: str, *more: str) -> DataFrame:
        """What a statement gives, with the columns of the view and these: its own are those of the query, by place."""
        rows = self.statement(statement).toDF(*self.output, *more)
        return rows.select(*[F.col(quote(name)) for name in self.held.columns], *more)

    def most_keys(self, rule: Local) -> int | None:
        """How many keys its changed rows can have; None where others changed the view too."""
        inputs = self.relations.refresh.inputs
        return None if inputs and inputs.own else len(rule.changed) * self.relations.changed_rows

    def with_foreign_keys(self, keys: DataFrame, on: Sequence[str]) -> DataFrame:
        """These keys, and those of rows that others changed in the view: they are computed again too."""
        inputs = self.relations.refresh.inputs
        own = inputs.own if inputs else None
        if own is None:
            return keys
        rows = self.attempt.store.row_changes(self.relations.session, own.since, own.until, on)
        return keys.union(rows.select(*map(quote, on))).distinct()

    def check_keys(self, keys: SettledKeys, on: Sequence[str]) -> None:
        """`NotIncremental` where so many pieces are to be computed that all of them are sooner."""
        table, snapshot = self.attempt.table, self.attempt.snapshot
        why = why_many_keys(keys.known.rows, ", ".join(on), snapshot.rows if snapshot else None)
        if why and table.strategy.refresh is Refresh.AUTO:
            raise NotIncremental(why)

    def named(self, columns: Sequence[str]) -> list[str]:
        """Columns of the rewritten query as the view calls them."""
        view = self.relations.refresh.view
        assert view is not None  # noqa: S101  it has a rule
        names = [self.output[view.output.index(each)] for each in columns]
        return [spelled(name, self.held.columns) or name for name in names]


@singledispatch
def refreshed_rows(rule: Rule, work: RefreshWork) -> Found:
    """What the rule makes of the changes: an operation on the rows that the view holds."""
    raise NotImplementedError(rule)


@refreshed_rows.register
def _(rule: Linear, work: RefreshWork) -> Found:
    return Found(_by_content(work, rule.signed(work.relations.keyed())))


@refreshed_rows.register
def _(rule: Local, work: RefreshWork) -> Found:
    names = work.relations.keyed(0)
    if not rule.on:
        keys = names.settle(work.statement(rule.keys(names)), work.most_keys(rule))
        return Found(_by_content(work, rule.signed(names, keys.near)), keys.known.rows)
    on = work.named(rule.on)
    keys = names.settle(work.with_foreign_keys(work.statement(rule.keys(names)), on), work.most_keys(rule))
    work.check_keys(keys, on)
    return _by_key(work, rule.new(names, keys.near), keys, on)


@refreshed_rows.register
def _(rule: Telescoped, work: RefreshWork) -> Found:
    names, nears, keys = _settled_terms(rule.terms, work)
    return Found(_by_content(work, rule.signed(names, nears)), keys)


@refreshed_rows.register
def _(rule: Grouped, work: RefreshWork) -> Found:
    names, nears, _ = _settled_terms(rule.terms, work)
    on, groups = work.named(rule.on), work.relations.keyed()
    keys = groups.settle(work.with_foreign_keys(work.statement(rule.keys(names, nears)), on))
    work.check_keys(keys, on)
    return _by_key(work, rule.new(groups, keys.near), keys, on)


@refreshed_rows.register
def _(rule: Summed, work: RefreshWork) -> Found:
    names, nears, _ = _settled_terms(rule.terms, work)
    added = add_up(work.attempt, work.relations, rule, rule.change(names, nears))
    if not rule.on:
        return Found(_of_one_row(_by_content(work, added.signed), rule), added.groups, added.sums)
    on, groups = work.named(rule.on), work.relations.keyed()
    touched = work.statement(rule.groups(added.change))
    keys = work.with_foreign_keys(touched, on)
    alone = keys is touched
    settled = groups.settle(keys, added.groups if alone else None)
    found = _by_key(work, added.visible(groups.keys, alone=alone), settled, on)
    return replace(found, keys=added.groups, sums=added.sums)


def _of_one_row(compiled: Compiled, rule: Summed) -> Compiled:
    """Where there is one row, and no key, it is updated."""
    exchanged = not rule.key_columns and compiled.counts == Counts(inserted=1, deleted=1)
    return replace(compiled, counts=Counts(updated=1)) if exchanged else compiled


def _settled_terms(
    terms: Sequence[Linear | Local], work: RefreshWork
) -> tuple[list[KeyedRelations], list[Near | None], int]:
    """The names that each term goes by, with its own keys where it has some, and how many keys there are in all."""
    found: list[KeyedRelations] = []
    nears: list[Near | None] = []
    count = 0
    for number, term in enumerate(terms):
        names = work.relations.keyed(number)
        local = term if isinstance(term, Local) else None
        keys = names.settle(work.statement(local.keys(names)), work.most_keys(local)) if local else None
        found.append(names)
        nears.append(keys.near if keys else None)
        count += keys.known.rows if keys else 0
    return found, nears, count


def _by_key(work: RefreshWork, statement: str, keys: SettledKeys, on: Sequence[str]) -> Found:
    """The rows that the view holds of these keys become those that the statement gives."""
    names = dict(zip(keys.rows.columns, on, strict=True))
    ranges = tuple(replace(span, column=names[span.column]) for span in keys.known.ranges)
    known = replace(keys.known, ranges=ranges)
    new, held = work.rows(statement), work.held.rows
    compiled = replace_keys(held, new, keys.rows.toDF(*on), on, known, volatile=work.volatile)
    return Found(compiled, keys.known.rows)


def _by_content(work: RefreshWork, statement: str) -> Compiled:
    """Rows enter the view, and leave it, as the signs of the statement say."""
    signed, table = work.rows(statement, WEIGHT), work.attempt.table
    known = partial(change_contents, volatile=work.volatile, row_key=table.strategy.row_key, is_sure=True)
    return known(work.held.rows, signed, table.name)  # rows that others changed have no rule by content


def _check_shrink(attempt: Attempt, compiled: Compiled) -> None:
    share, held = attempt.table.strategy.max_shrink, attempt.snapshot.rows if attempt.snapshot else None
    if share is not None and held is not None:
        refuse_shrink(share, compiled.counts.deleted - compiled.counts.inserted, held, attempt.table.name)


def _prepared(attempt: Attempt, held: HeldRows, compiled: Compiled, read: int) -> Prepared:
    """The change as a step's other parts know it."""
    counts = compiled.counts
    rows = counts.inserted + counts.updated + counts.unchanged
    return Prepared(Change(held.none, Profile(rows)), attempt.table.strategy, read, held.columns)
