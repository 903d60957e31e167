"""The rows of a view that a change of its inputs concerns: the changes, the keys in them, and the new rows of these."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import partial, singledispatch
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from tidemill.changes.compile import refuse_shrink
from tidemill.changes.few_keys import MOST as MOST_BROUGHT
from tidemill.changes.few_keys import few_keys
from tidemill.changes.match import within
from tidemill.changes.profile import profile
from tidemill.changes.replace_keys import change_contents, replace_keys
from tidemill.execution.attempt import Gathered, Refreshed, held_rows
from tidemill.execution.pins import version_in
from tidemill.execution.prepare import Prepared
from tidemill.execution.results import RefreshReport
from tidemill.formats.base import Change, Compiled, Profile
from tidemill.formats.registry import store_at
from tidemill.formats.row_changes import WEIGHT
from tidemill.ivm import Linear, Local
from tidemill.model.format import Capability
from tidemill.model.names import quote, spelled
from tidemill.model.record import Counts
from tidemill.spark.frames import settle

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from tidemill.execution.attempt import Attempt
    from tidemill.execution.query_source import ViewSource
    from tidemill.formats.base import HeldRows
    from tidemill.formats.port import Store
    from tidemill.ivm import Rule
    from tidemill.planning.plan import StepPlan
    from tidemill.planning.refresh import InputState, RefreshPlan, ViewInputs

_KEYS = "__tidemill_keys"


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
            found = refreshed_rows(refresh.rule, RefreshWork(attempt, relations, held, output, sum(changed.values())))
        else:
            found = Found(Compiled(None, Counts()))
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
        refreshed=Refreshed(report, found.compiled),
    )


def nothing_to_refresh(attempt: Attempt, source: ViewSource, plan: StepPlan) -> Gathered:
    """No change of a view whose record names the very versions that the run reads."""
    held = held_rows(attempt, attempt.spark)
    assert held is not None  # noqa: S101  it has a record
    done = Compiled(None)
    report = RefreshReport("incremental", plan.reason)
    prepared, version = _prepared(attempt, held, done, 0), source.version()
    return Gathered(plan, prepared, held, None, input_version=version, refreshed=Refreshed(report, done))


@dataclass(frozen=True, slots=True)
class Found:
    """What the change of a view comes to, and how many keys were computed again."""

    compiled: Compiled
    keys: int | None = None


@dataclass
class Relations:
    """The names by which the statements of a rule know the rows of a view's inputs, in one session."""

    session: SparkSession
    source: ViewSource
    refresh: RefreshPlan
    opened: ExitStack
    _stores: dict[str, Store] = field(default_factory=dict)
    _given: set[str] = field(default_factory=set)

    @property
    def keys(self) -> str:
        """The keys of the pieces that are computed again."""
        return _KEYS

    def now(self, table: str) -> str:
        """All rows of an input, at its pinned version."""
        return self._give("now", table, lambda store, state: store.read(self.session, self._pinned(store, state)))

    def before(self, table: str) -> str:
        """All rows of an input, at the version that the last run recorded."""
        return self._give("before", table, lambda store, state: store.read(self.session, version_in(state.recorded)))

    def changes(self, table: str) -> str:
        """The rows that came and went, which `settle_changes` has read."""
        return self._give("changes", table, lambda store, state: self._changes(store, state).where("false"))

    def settle_changes(self) -> dict[str, int]:
        """Reads the changes of all inputs once; how many rows came and went, by input."""
        found = {}
        for state in self._inputs.changed:
            rows = settle(self._changes(self._store(state), state))
            found[state.name] = rows.count()
            self._register(_relation("changes", state), rows)
        return found

    def settle_keys(self, rows: DataFrame, most: int | None) -> tuple[DataFrame, Profile]:
        """Keeps the keys of the pieces that are computed again, under their name; there are so many at most."""
        found = few_keys(rows) if most is not None and most <= MOST_BROUGHT else None
        if found is None:
            kept = settle(rows)
            found = kept, profile(kept, keys=kept.columns, listed=kept.columns)
        found[0].createOrReplaceTempView(self.keys)
        return found

    def _give(self, what: str, table: str, read: Callable[[Store, InputState], DataFrame]) -> str:
        state = next(each for each in self._inputs.states if table.lower() in each.written)
        name = _relation(what, state)
        if name not in self._given:
            self._register(name, read(self._store(state), state))
        return name

    def _register(self, name: str, rows: DataFrame) -> None:
        rows.createOrReplaceTempView(name)
        self._given.add(name)

    def _store(self, state: InputState) -> Store:
        if state.name not in self._stores:
            pin = self.source.pin(state.name)
            assert pin is not None  # noqa: S101  planned on it
            self._stores[state.name] = self.opened.enter_context(closing(store_at(pin.path)))
        return self._stores[state.name]

    def _pinned(self, store: Store, state: InputState) -> int | None:
        """The version to read; what has no older ones is read as it is, and looked at again before the commit."""
        pin = self.source.pin(state.name)
        return pin.version if pin and store.can(Capability.TIME_TRAVEL) else None

    @property
    def _inputs(self) -> ViewInputs:
        assert self.refresh.inputs is not None  # noqa: S101  planned on them
        return self.refresh.inputs

    def _used(self, state: InputState) -> list[str]:
        """The columns of an input that the query uses, wherever it stands there."""
        assert self.refresh.view is not None  # noqa: S101  it has a rule
        return list(dict.fromkeys(name for written in state.written for name in self.refresh.view.used(written)))

    def _changes(self, store: Store, state: InputState) -> DataFrame:
        """The net change as rows of weight 1 and -1, of the columns that the query uses."""
        assert state.changes is not None  # noqa: S101  planned on them
        used = self._used(state)
        rows = store.row_changes(self.session, state.changes.since, state.changes.until, used)
        net = rows.groupBy(*map(quote, used)).agg(F.sum(WEIGHT).alias(WEIGHT)).where(F.col(WEIGHT) != 0)
        copies = F.explode(F.array_repeat(F.signum(WEIGHT).cast("int"), F.abs(WEIGHT).cast("int"))).alias(WEIGHT)
        return net.select(*map(quote, used), copies)


def _relation(what: str, state: InputState) -> str:
    return f"__tidemill_{what}_{state.name.replace('.', '_')}"


@dataclass(frozen=True, slots=True)
class RefreshWork:
    """What a rule works on: names of relations, the rows that the view holds, and the columns that its query gives.

    So many rows of its inputs have `changed`.
    """

    attempt: Attempt
    relations: Relations
    held: HeldRows
    output: Sequence[str]
    changed: int

    @property
    def volatile(self) -> frozenset[str]:
        return frozenset(name.lower() for name in self.attempt.table.volatile)

    def rows(self, statement: str, *more: str) -> DataFrame:
        """What a statement gives, with the columns of the view and these: its own are those of the query, by place."""
        rows = self.relations.session.sql(statement).toDF(*self.output, *more)
        return rows.select(*[F.col(quote(name)) for name in self.held.columns], *more)

    def most_keys(self, places: int) -> int | None:
        """How many there can be, of tables that stand in so many places; None where others changed the view too."""
        inputs = self.relations.refresh.inputs
        return None if inputs and inputs.own else places * self.changed

    def with_foreign_keys(self, keys: DataFrame, on: Sequence[str]) -> DataFrame:
        """These keys, and those of rows that others changed in the view: they are computed again too."""
        inputs = self.relations.refresh.inputs
        own = inputs.own if inputs else None
        if own is None:
            return keys
        rows = self.attempt.store.row_changes(self.relations.session, own.since, own.until, on)
        return keys.union(rows.select(*map(quote, on))).distinct()

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
    return Found(_by_content(work, rule.signed(work.relations)))


@refreshed_rows.register
def _(rule: Local, work: RefreshWork) -> Found:
    relations = work.relations
    on = work.named(rule.on)
    rows = work.with_foreign_keys(relations.session.sql(rule.keys(relations)), on)
    keys, known = relations.settle_keys(rows, work.most_keys(len(rule.changed)))
    near = partial(_near, known)
    if not rule.on:
        return Found(_by_content(work, rule.signed(relations, near)), known.rows)
    replaced = keys.toDF(*on)
    names = dict(zip(keys.columns, on, strict=True))
    named = replace(known, ranges=tuple(replace(span, column=names[span.column]) for span in known.ranges))
    new = work.rows(rule.new(relations, near))
    return Found(replace_keys(work.held.rows, new, replaced, on, named, volatile=work.volatile), known.rows)


def _by_content(work: RefreshWork, statement: str) -> Compiled:
    signed = work.rows(statement, WEIGHT)
    table = work.attempt.table
    return change_contents(work.held.rows, signed, table.name, volatile=work.volatile, row_key=table.strategy.row_key)


def _near(known: Profile, column: str, number: int) -> str | None:
    """A condition by which files without any of the keys are not read."""
    span = next((each for each in known.ranges if each.column == f"k{number}"), None)
    if span is None:
        return None
    near = within(column, span)
    return f"({near} OR {column} IS NULL)" if known.null_keys else near


def _check_shrink(attempt: Attempt, compiled: Compiled) -> None:
    share, held = attempt.table.strategy.max_shrink, attempt.snapshot.rows if attempt.snapshot else None
    if share is not None and held is not None:
        refuse_shrink(share, compiled.counts.deleted - compiled.counts.inserted, held, attempt.table.name)


def _prepared(attempt: Attempt, held: HeldRows, compiled: Compiled, read: int) -> Prepared:
    """The change as a step's other parts know it."""
    counts = compiled.counts
    rows = counts.inserted + counts.updated + counts.unchanged
    return Prepared(Change(held.none, Profile(rows)), attempt.table.strategy, read, held.columns)
