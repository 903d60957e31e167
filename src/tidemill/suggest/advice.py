"""From facts to advice: a cursor, keys and a mode, each with its reason, as lines ready to paste. Knows no Spark."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING

from tidemill.frontends.pipeline.tokens import statement_at
from tidemill.model.cursor import CursorKind
from tidemill.model.strategy import MergeStrategy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tidemill.errors import TidemillError
    from tidemill.model.source import Source
    from tidemill.model.table import Table
    from tidemill.suggest.facts import ColumnFacts, SourceFacts

_CHANGED = re.compile(r"(?i)^(last_?)?(updated?|modified|changed|edited)(_?(at|on|ts|time|date|timestamp))?$|^mtime$")
_ARRIVED = re.compile(
    r"(?i)^(created|inserted|seen|received|loaded|ingested|logged|occurred|happened)(_?(at|on|ts|time|date))?$"
    r"|^event_?(time|ts|at|timestamp)$|^(ts|timestamp|at|time)$|_(at|ts|timestamp|time)$"
)
_KEY = re.compile(r"(?i)^(id|key|uuid|guid|pk)$|(_id|_key|_uuid|_no|_number|_code)$|[a-z]I[dD]$")


class Moves(IntEnum):
    """When the value of a cursor is set, by its name; the lower, the better a cursor it makes."""

    WITH_EVERY_CHANGE = 0
    WHEN_THE_ROW_COMES = 1
    UNKNOWN = 2


def moves(name: str) -> Moves:
    if _CHANGED.search(name):
        return Moves.WITH_EVERY_CHANGE
    return Moves.WHEN_THE_ROW_COMES if _ARRIVED.search(name) else Moves.UNKNOWN


def like_a_key(name: str) -> bool:
    return bool(_KEY.search(name))


def own_id(name: str, source: str) -> bool:
    """Whether an id is that of the rows themselves: `id`, or `order_id` of orders."""
    found = name.lower()
    return found == "id" or (found.endswith("_id") and source.lower().startswith(found.removesuffix("_id")))


_ENOUGH = 100  # in fewer rows a column may be unique by chance


@dataclass(frozen=True, slots=True)
class Choice:
    """Columns for a purpose, and why; `columns` is empty where none is safe."""

    columns: tuple[str, ...]
    reasons: tuple[str, ...]


def choose_keys(facts: SourceFacts, primary: tuple[str, ...], source: str) -> Choice:
    """Columns that are unique and never NULL over the sample: what is declared, an id, any other, or two together."""
    if primary:
        return _declared_keys(facts, primary)
    usable = [each for each in facts.columns if _may_be_key(each) and not each.nulls]
    ranked = sorted(usable, key=lambda each: (not own_id(each.name, source), not like_a_key(each.name)))
    for each in ranked:
        if each.distinct == facts.rows and (like_a_key(each.name) or facts.rows >= _ENOUGH):
            return Choice((each.name,), (f"{each.name} is unique and never NULL {_over(facts)}",))
    for pair, distinct in facts.pairs.items():
        both = [each for each in usable if each.name in pair]
        named = any(like_a_key(each.name) for each in both)
        if len(both) == len(pair) and distinct == facts.rows and named:
            return Choice(pair, (f"{' and '.join(pair)} together are unique and never NULL {_over(facts)}",))
    return Choice((), (_no_keys(ranked, facts),))


def _declared_keys(facts: SourceFacts, primary: tuple[str, ...]) -> Choice:
    found = [facts.column(name) for name in primary]
    lost = [name for name, each in zip(primary, found, strict=True) if each is None]
    if lost:
        return Choice((), (f"its primary_key {', '.join(lost)} is no column of it",))
    empty = [each for each in found if each and each.nulls]
    if empty:
        return Choice((), tuple(f"its primary_key {each.name} is NULL in {_rows(each.nulls)}" for each in empty))
    distinct = found[0].distinct if len(found) == 1 and found[0] else _pair(facts, primary)
    if distinct is not None and distinct < facts.rows:
        return Choice((), (f"its primary_key {', '.join(primary)} comes more than once {_over(facts)}",))
    return Choice(primary, (f"{', '.join(primary)} is declared as its primary_key, and never NULL {_over(facts)}",))


def _pair(facts: SourceFacts, names: tuple[str, ...]) -> int | None:
    wanted = {name.lower() for name in names}
    return next((count for pair, count in facts.pairs.items() if {each.lower() for each in pair} == wanted), None)


def _may_be_key(column: ColumnFacts) -> bool:
    if moves(column.name) is not Moves.UNKNOWN:
        return False
    return column.kind in {CursorKind.INTEGER, CursorKind.STRING, CursorKind.DECIMAL, CursorKind.DATE}


def _no_keys(ranked: list[ColumnFacts], facts: SourceFacts) -> str:
    near = next((each for each in ranked if like_a_key(each.name) and each.distinct < facts.rows), None)
    if near is None:
        return f"no column looks like a key and is unique and never NULL {_over(facts)}"
    return (
        f"no column is unique: {near.name} has {near.distinct:,} values in {_rows(facts.rows)}; if those are versions "
        f"of the same rows, MODE MERGE ON {near.name} keeps the newest of each"
    )


def choose_cursor(facts: SourceFacts, keys: Choice, source: str) -> Choice:
    """A column that tells what is new; one that is set when a row changes is best, and needs keys."""
    if not facts.rows:
        return Choice((), ("it has no rows yet",))
    against: list[str] = []
    candidates = sorted(
        (each for each in facts.columns if _may_be_cursor(each, source)),
        key=lambda each: (each.kind is CursorKind.INTEGER, moves(each.name)),
    )
    for each in candidates:
        doubts = [*doubts_about(each, facts), *_needs(each, keys)]
        if not doubts:
            return Choice((each.name,), (_why(each, facts),))
        against += doubts
    return Choice((), tuple(against) or ("it has no time column and no id that could tell what is new",))


def doubts_about(column: ColumnFacts, facts: SourceFacts, *, late_rows_taken: bool = False) -> Iterator[str]:
    """Why a column is no safe cursor. `late_rows_taken`: a lookback takes in what comes out of order."""
    name = column.name
    if column.nulls:
        yield f"{name} is NULL in {_rows(column.nulls)} of {facts.rows:,}: such rows have no place in time"
    if column.kind is CursorKind.STRING:
        yield f"{name} is a string, which need not sort as time does: cast it in the source"
    if column.future:
        yield f"{name} lies in the future in {_rows(column.future)}"
    if facts.rows > 1 and column.distinct == 1:
        yield f"{name} has the same value in all rows"
    if column.back and moves(column.name) is not Moves.WITH_EVERY_CHANGE and not late_rows_taken:
        yield (
            f"{name} goes back at {column.back:,} of {_rows(facts.rows)} in the order of reading: rows that come late "
            "would be missed; if you know how late they can be, INCREMENTAL BY with that LOOKBACK takes them"
        )


def _needs(column: ColumnFacts, keys: Choice) -> Iterator[str]:
    if moves(column.name) is Moves.WITH_EVERY_CHANGE and not keys.columns:
        yield f"{column.name} would tell what changed, but MERGE needs keys, and {keys.reasons[0]}"


def _may_be_cursor(column: ColumnFacts, source: str) -> bool:
    if column.kind is CursorKind.INTEGER:
        return own_id(column.name, source)
    if column.kind is CursorKind.STRING:
        return moves(column.name) is Moves.WITH_EVERY_CHANGE
    return column.kind is not None and column.kind.is_time


def _why(column: ColumnFacts, facts: SourceFacts) -> str:
    name, over = column.name, _over(facts)
    if moves(name) is Moves.WITH_EVERY_CHANGE:
        return f"{name} is never NULL {over}, and by its name it is set whenever a row changes"
    corrected = "a row that is changed later is not read again"
    return f"{name} is never NULL and never goes back {over}; {corrected}"


def saving(cursor: ColumnFacts, facts: SourceFacts) -> str:
    """What reading by this cursor would save."""
    if cursor.kind is CursorKind.INTEGER:
        return f"a run would read only what is above its last {cursor.name}, now it reads everything"
    share = cursor.recent / facts.rows if facts.rows else 0
    return f"a daily run would read about {cursor.recent:,} of {_rows(facts.rows)} ({share:.1%}) {_over(facts)}"


def _over(facts: SourceFacts) -> str:
    return "in all its rows" if facts.whole else f"in its first {_rows(facts.rows)}"


def _rows(count: int) -> str:
    return f"{count:,} row{'' if count == 1 else 's'}"


class Verdict(StrEnum):
    PROPOSED = "proposed"
    CONFIRMED = "confirmed"
    DOUBTED = "doubted"
    NOTHING = "nothing to propose"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Line:
    """A statement to paste, and why."""

    text: str
    reason: str


@dataclass(frozen=True, slots=True)
class Suggestion:
    """What is proposed for one source. `sampled` rows were looked at, all there are where `whole`."""

    source: str
    kind: str
    verdict: Verdict
    sampled: int = 0
    whole: bool = True
    lines: tuple[Line, ...] = ()
    saving: str | None = None
    reasons: tuple[str, ...] = ()
    error: TidemillError | None = None


def suggestion(
    source: Source, tables: Sequence[Table], facts: SourceFacts, short: Callable[[str], str] = str
) -> Suggestion:
    """The advice that these facts allow. `short` gives a table's name as the user wrote it."""
    return _Advising(source, tables, facts, short).suggestion()


class _Advising:
    def __init__(
        self, source: Source, tables: Sequence[Table], facts: SourceFacts, short: Callable[[str], str]
    ) -> None:
        self.source, self.tables, self.facts, self.short = source, tables, facts, short
        self.keys = choose_keys(facts, source.primary_key, source.name)

    def suggestion(self) -> Suggestion:
        return self._reviewed() if self.source.cursor else self._proposed()

    def _proposed(self) -> Suggestion:
        cursor = choose_cursor(self.facts, self.keys, self.source.name)
        if not cursor.columns:
            return self._made(Verdict.NOTHING, reasons=cursor.reasons)
        synced = [table for table in self.tables if _deletes(table)]
        if synced:
            names = ", ".join(self.short(table.name) for table in synced)
            why = f"{cursor.columns[0]} would do, but FULL_MERGE of {names} needs all rows to see which are gone"
            return self._made(Verdict.NOTHING, reasons=(why,))
        (name,) = cursor.columns
        first = Line(f"{self._declaration()} INCREMENTAL BY {name};", cursor.reasons[0])
        return self._made(Verdict.PROPOSED, (first, *self._loads(name)), name)

    def _reviewed(self) -> Suggestion:
        """A source that is incremental already."""
        assert self.source.cursor is not None  # noqa: S101
        column = self.facts.column(self.source.cursor)
        if column is None:
            return self._made(Verdict.DOUBTED, reasons=(f"it has no column {self.source.cursor}",))
        taken = self.source.lookback is not None
        doubts = (*doubts_about(column, self.facts, late_rows_taken=taken), *self._doubted_keys())
        lines = tuple(self._loads(column.name))
        verdict = Verdict.DOUBTED if doubts or lines else Verdict.CONFIRMED
        return self._made(verdict, lines, column.name, doubts)

    def _doubted_keys(self) -> Iterator[str]:
        for table in self.tables:
            for key in table.strategy.keys:
                column = self.facts.column(key)
                if column is None or column.nulls:
                    what = "is not there" if column is None else f"is NULL in {column.nulls:,} rows"
                    yield f"the key {key} of {self.short(table.name)} {what}"

    def _loads(self, cursor: str) -> Iterator[Line]:
        """The LOADs that should have another mode to go with this cursor."""
        changes = moves(cursor) is Moves.WITH_EVERY_CHANGE
        for table in self.tables:
            if table.strategy.appends and changes and self.keys.columns:
                yield self._load(table, f"MERGE ON {_names(self.keys)}", "APPEND keeps every version of a changed row")
            if table.strategy.replaces and changes and self.keys.columns:
                why = f"{self.keys.reasons[0]}; rows deleted at the source then stay here"
                yield self._load(table, f"MERGE ON {_names(self.keys)}", why)
            if table.strategy.replaces and not changes:
                why = f"rows come with a new {cursor}; rows changed or deleted at the source then stay as they are here"
                yield self._load(table, "APPEND", why)

    def _load(self, table: Table, mode: str, why: str) -> Line:
        options = statement_at(table.origin, "OPTIONS")
        text = f"LOAD {self.short(table.name)} FROM {self.source.name} MODE {mode}{f' {options}' if options else ''};"
        return Line(text, why)

    def _declaration(self) -> str:
        """The SOURCE statement as it stands in its file; none of its secrets is shown."""
        text = (
            statement_at(self.source.origin)
            or f"SOURCE {self.source.name} TYPE {self.source.kind.upper()} PARAMS {{ … }}"
        )
        return self.source.masking.mask(text)

    def _made(
        self, verdict: Verdict, lines: tuple[Line, ...] = (), cursor: str | None = None, reasons: tuple[str, ...] = ()
    ) -> Suggestion:
        column = self.facts.column(cursor) if cursor else None
        return Suggestion(
            self.source.name,
            self.source.kind.upper(),
            verdict,
            sampled=self.facts.rows,
            whole=self.facts.whole,
            lines=lines,
            saving=saving(column, self.facts) if column and self.facts.rows else None,
            reasons=reasons,
        )


def _deletes(table: Table) -> bool:
    return table.strategy.form is MergeStrategy.FULL_MERGE


def _names(choice: Choice) -> str:
    return ", ".join(choice.columns)
