"""What of a table is compared, by its strategy; what verifying it has found: counts, a few samples of each difference,
and what to do about them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import singledispatch
from typing import TYPE_CHECKING

from tidemill.display import html_table, text_table
from tidemill.model.strategy import Append, DeleteInsert, IncrementalJoin, Merge, MergeStrategy, Replace, one_predicate
from tidemill.planning.starts import start_variable
from tidemill.verify.share import share_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tidemill.errors import TidemillError
    from tidemill.model.strategy import Strategy
    from tidemill.model.table import Table
    from tidemill.planning.windows import WindowPlan


class VerifyOutcome(StrEnum):
    """What `verify` says of a table. Of several findings the worst counts: different outranks kept."""

    EQUAL = "equal"
    KEPT = "kept"
    DIFFERENT = "different"
    FAILED = "failed"
    NOT_VERIFIABLE = "not verifiable"
    NOT_THERE = "not there yet"

    @property
    def equal(self) -> bool | None:
        """Whether the table equals a full rebuild; None where nothing was compared."""
        nothing_compared = self in {VerifyOutcome.NOT_VERIFIABLE, VerifyOutcome.NOT_THERE}
        return None if nothing_compared else self is VerifyOutcome.EQUAL


class Kind(StrEnum):
    """How a row of the table and of a full run can lie to each other when they are not the same."""

    MISSING = "missing"
    EXTRA = "extra"
    DIFFERENT = "different"
    KEPT = "kept"
    IGNORED = "ignored"


WRONG = (Kind.MISSING, Kind.EXTRA, Kind.DIFFERENT)
BY_STRATEGY = (Kind.KEPT, Kind.IGNORED)


@dataclass(frozen=True, slots=True)
class Sample:
    """One row as text. `instead` has, of a different row, what a full run gives in the columns that differ."""

    row: Mapping[str, str | None]
    instead: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Found:
    """The rows of one kind. `late` of them lie below the window of the next run, which will not read them.

    `copies` of them stand in the table more often than a full run gives them.
    """

    count: int = 0
    late: int = 0
    copies: int = 0
    samples: tuple[Sample, ...] = ()


@dataclass(frozen=True, slots=True)
class Verified:
    """How one table compares with a full run over its source as it is now.

    `rows` is how many rows a full run returns, `total` how many the table holds. `kept` are rows of the table that a
    full run no longer returns and its strategy keeps, `ignored` rows of a full run that its strategy does not take.
    `keeps_rows`: such rows are what the declaration asks for, so they are no failure. A table that is not `verifiable`
    was not compared: its notes say why. With a `sample`, only the rows of that share of its keys were compared, and
    `rows` is how many these are.

    >>> found = tidemill.Project.load("shop").verify("daily")[0]
    >>> found.table, found.equal, found.missing.count
    ('daily', True, 0)
    """

    table: str
    against: str
    there: bool = True
    rows: int = 0
    found: Mapping[Kind, Found] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()
    error: TidemillError | None = None
    verifiable: bool = True
    total: int = 0
    keeps_rows: bool = False
    sample: float | None = None

    @property
    def extent(self) -> str:
        """`in a sample of 1%`, or nothing where all rows were compared."""
        return "" if self.sample is None else f"in a sample of {share_text(self.sample)}"

    @property
    def outcome(self) -> VerifyOutcome:
        if self.error is not None:
            return VerifyOutcome.FAILED
        if not self.there:
            return VerifyOutcome.NOT_THERE
        if not self.verifiable:
            return VerifyOutcome.NOT_VERIFIABLE
        if self._has(WRONG):
            return VerifyOutcome.DIFFERENT
        return VerifyOutcome.KEPT if self._has(BY_STRATEGY) else VerifyOutcome.EQUAL

    @property
    def equal(self) -> bool | None:
        """Whether the table equals a full rebuild; None where nothing was compared."""
        return self.outcome.equal

    @property
    def ok(self) -> bool:
        """Whether the command ends with 0 for this table."""
        kept = self.outcome is VerifyOutcome.KEPT
        return self.keeps_rows if kept else self.equal is not False

    @property
    def missing(self) -> Found:
        return self.of(Kind.MISSING)

    @property
    def extra(self) -> Found:
        return self.of(Kind.EXTRA)

    @property
    def different(self) -> Found:
        return self.of(Kind.DIFFERENT)

    @property
    def kept(self) -> Found:
        return self.of(Kind.KEPT)

    @property
    def ignored(self) -> Found:
        return self.of(Kind.IGNORED)

    def of(self, kind: Kind) -> Found:
        return self.found.get(kind, Found())

    def _has(self, kinds: tuple[Kind, ...]) -> bool:
        return any(self.of(kind).count for kind in kinds)

    def _repr_html_(self) -> str:
        return VerifiedTables([self])._repr_html_()

    def line(self) -> tuple[object, ...]:
        """The table as the cells of a line."""
        compared = self.equal is not None and self.error is None
        error = [f"[{self.error.code}] {self.error.problem}"] if self.error else []
        counts = (self.rows, self.total, *(self.of(kind).count for kind in Kind))
        shown = counts if compared else (None,) * len(counts)
        return (
            self.table,
            str(self.outcome),
            *shown,
            " · ".join(filter(None, [*error, self.extent, *self.notes, *self.remedies])),
        )


class VerifiedTables(list[Verified]):
    """What verifying tables has found, one by one; it prints as a table.

    >>> all(each.ok for each in tidemill.Project.load("shop").verify("daily"))
    True
    """

    def __repr__(self) -> str:
        return text_table(_HEADINGS, [each.line() for each in self]) if self else "no tables"

    def _repr_html_(self) -> str:
        return html_table(_HEADINGS, [each.line() for each in self])


_HEADINGS = ("table", "outcome", "rows", "total", *Kind, "notes")


@dataclass(frozen=True, slots=True)
class Rule:
    """How rows are compared: by `keys` where there are any.

    `only_here` and `only_full` say what a row is that only the table, or only a full run, holds; `differs` what one
    is that both hold with different values. With `only_newer`, a full run's row that is older by that column is
    ignored.
    """

    keys: tuple[str, ...] = ()
    differs: Kind = Kind.DIFFERENT
    only_newer: str | None = None
    only_here: Kind = Kind.EXTRA
    only_full: Kind = Kind.MISSING


@singledispatch
def rule_for(strategy: Strategy) -> Rule:
    raise NotImplementedError(strategy)


@rule_for.register(Replace)
@rule_for.register(Append)
@rule_for.register(DeleteInsert)
def _(strategy: Strategy) -> Rule:  # noqa: ARG001  dispatched on
    return Rule()


@rule_for.register(Merge)
def _(strategy: Merge) -> Rule:
    return Rule(
        keys=strategy.keys,
        differs=Kind.IGNORED if strategy.form is MergeStrategy.INSERT else Kind.DIFFERENT,
        only_newer=strategy.only_newer,
        only_here=Kind.KEPT if strategy.keeps_rows else Kind.EXTRA,
        only_full=Kind.IGNORED if strategy.form is MergeStrategy.UPDATE else Kind.MISSING,
    )


@singledispatch
def bounds_of(strategy: Strategy, window: str | None) -> str:  # noqa: ARG001  dispatched on
    """The rows of the table that a full run answers for; `window` is what it reads."""
    return window or "true"


@bounds_of.register(Merge)
def _(strategy: Merge, window: str | None) -> str:  # noqa: ARG001  dispatched on
    return "true"  # a row may have moved in time; its key stays


@bounds_of.register(DeleteInsert)
def _(strategy: DeleteInsert, window: str | None) -> str:
    return one_predicate(strategy, window)


_RUN = "tidemill run corrects it"


def remedies(
    table: Table, found: Mapping[Kind, Found], reach: WindowPlan | None, *, requeried: bool = False
) -> tuple[str, ...]:
    """A line for each thing that was found; `reach` is the window of the next run, None where it reads everything.

    `requeried`: some rows of the table were made by a query that it no longer has.
    """
    return (
        *_unread(table, found, reach, requeried=requeried),
        *_extra(table, found.get(Kind.EXTRA, Found()), requeried=requeried),
        *_kept(table, found.get(Kind.KEPT, Found())),
        *_ignored(table.strategy, found.get(Kind.IGNORED, Found())),
    )


def _unread(table: Table, found: Mapping[Kind, Found], reach: WindowPlan | None, *, requeried: bool) -> Iterator[str]:
    """Rows that a full run has and the table lacks, or has otherwise: will the next run read them?"""
    missing, different = found.get(Kind.MISSING, Found()), found.get(Kind.DIFFERENT, Found())
    what, start = "has not been read yet or was changed here by somebody else", start_variable(table)
    count = missing.count + different.count
    if table.join is not None:
        yield from _joined_too_early(table, count)
        return
    if start:
        if count:
            yield f"{_rows(count)} {_have(count, what)}: a run with an early enough {start} corrects it"
        return
    soon = count - missing.late - different.late
    if soon:
        yield f"{_rows(soon)} {_have(soon, what)}: {_RUN}"
    since = f"what a run reads ({reach.column} from {reach.start} on)" if reach and reach.start else "what a run reads"
    late = missing.late + different.late
    if late and requeried:
        yield (
            f"{_rows(late)} lie{_s(late)} below {since}: its query has changed since that time was read, or "
            f"{'it' if late == 1 else 'they'} came later than the lookback. {_rebuilt(table)}"
        )
    elif late:
        yield from _came_late(missing.late, different.late, since, reach.column if reach else "cursor")


def _came_late(missing: int, different: int, since: str, column: str) -> Iterator[str]:
    if missing:
        yield (
            f"{_rows(missing)} came later than the lookback, below {since}: a longer lookback takes such rows "
            "in time, a backfill (tidemill run --start) takes these"
        )
    if different:
        yield (
            f"{_rows(different)} changed without a newer {column}, below {since}: "
            "a backfill (tidemill run --start) writes them again"
        )


def _rebuilt(table: Table) -> str:
    now = "by the query as it is now"
    if not table.reset_allowed:
        return f"A backfill (tidemill run --start) makes those from a time on {now}"
    backfill = "a backfill (tidemill run --start) those from a time on"
    return f"{table.command} --full-refresh makes all rows {now}, {backfill}"


def _joined_too_early(table: Table, count: int) -> Iterator[str]:
    if count:
        late = "belongs to a window that was joined before it" if count == 1 else "belong to windows joined before them"
        first = table.window.time_column if table.window else ""
        yield (
            f"{_rows(count)} {late}: rows of its sides came or changed behind it. A backfill over those windows (the "
            f"samples have their {first}) joins them again: {table.command} --start …"
        )


def _extra(table: Table, extra: Found, *, requeried: bool) -> Iterator[str]:
    if extra.copies:
        often = f"{_rows(extra.copies)} occur{_s(extra.copies)} here more often than in the source"
        yield f"{often}: {_doubled(table.strategy, table)}"
    others = extra.count - extra.copies
    if others:
        made = "made by a query that it no longer has, " if requeried and table.strategy.appends else ""
        yield f"{_rows(others)} {_are(others)} here that the source does not give: {made}{_only_here(table.strategy)}"


@singledispatch
def _only_here(strategy: Strategy) -> str:  # noqa: ARG001  dispatched on
    return _RUN


@_only_here.register(Append)
def _(strategy: Append) -> str:  # noqa: ARG001  dispatched on
    return (
        "corrected there (then both versions are here), removed there, or added here by somebody else; "
        "a merge on the keys keeps one version of a row"
    )


@_only_here.register(DeleteInsert)
def _(strategy: DeleteInsert) -> str:  # noqa: ARG001  dispatched on
    return "tidemill run replaces those of its window, a backfill (tidemill run --start) the others"


@_only_here.register(IncrementalJoin)
def _(strategy: IncrementalJoin) -> str:  # noqa: ARG001  dispatched on
    return "a backfill over their windows puts the join's in their place"


@singledispatch
def _doubled(strategy: Strategy, table: Table) -> str:  # noqa: ARG001  dispatched on
    return _RUN


@_doubled.register(Append)
def _(strategy: Append, table: Table) -> str:  # noqa: ARG001  dispatched on
    if table.window is None:
        return "an append without a cursor adds all rows each time; by a time column (INCREMENTAL BY) each enters once"
    return "somebody else added them; tidemill restore goes back to a version without them"


@_doubled.register(Merge)
def _(strategy: Merge, table: Table) -> str:  # noqa: ARG001  dispatched on
    return f"somebody else added them; dedup_order_by leaves one row of each ({', '.join(strategy.keys)})"


def _kept(table: Table, kept: Found) -> Iterator[str]:
    """What removes them, unless they are declared as intended; of a query's, how to declare that."""
    if not kept.count or not table.strategy.keys or table.kept_rows:
        return
    whole = ", which reads all rows and takes no time column," if table.window else ""
    accepts = "" if table.keeps_rows else '; kept_rows = "intended" accepts them'
    yield f"{_rows(kept.count)} kept: FULL_MERGE ON {', '.join(table.strategy.keys)}{whole} removes them{accepts}"


def _ignored(strategy: Strategy, ignored: Found) -> Iterator[str]:
    if ignored.count and strategy.keys:
        yield f"{_rows(ignored.count)} ignored: {_why_ignored(strategy)}"


def _why_ignored(strategy: Strategy) -> str:
    match strategy.form:
        case MergeStrategy.INSERT:
            return "insert keeps the first values of a key; upsert takes the newest"
        case MergeStrategy.UPDATE:
            return "update changes only keys that are here; upsert takes new ones"
        case _:
            return f"only_newer keeps a row whose {strategy.only_newer} is higher than the source's"


def _rows(count: int) -> str:
    return f"{count:,} row{'' if count == 1 else 's'}"


def _have(count: int, what: str) -> str:
    return what if count == 1 else what.replace("has ", "have ", 1).replace("was ", "were ", 1)


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _s(count: int) -> str:
    return "s" if count == 1 else ""
