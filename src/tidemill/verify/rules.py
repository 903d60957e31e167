"""What of a table is compared, by its strategy, and what to do about each difference."""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from typing import TYPE_CHECKING

from tidemill.model.strategy import Append, DeleteInsert, IncrementalJoin, Merge, MergeStrategy, Replace, one_predicate
from tidemill.planning.starts import start_variable
from tidemill.verify.result import Found, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tidemill.model.strategy import Strategy
    from tidemill.model.table import Table
    from tidemill.planning.windows import WindowPlan


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
