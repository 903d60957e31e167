"""The advice for one source and the tables that load it, as lines ready to paste."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from tidemill.declare.strategies import Append, Merge, MergeStrategy, Replace
from tidemill.language.written import written
from tidemill.suggest.advice import Choice, choose_cursor, choose_keys, doubts_about, saving
from tidemill.suggest.names import Moves, moves

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tidemill.declare.sources import Source
    from tidemill.declare.tables import Table
    from tidemill.errors import TidemillError
    from tidemill.suggest.facts import SourceFacts


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
            for key in table.strategy.keys if isinstance(table.strategy, Merge) else ():
                column = self.facts.column(key)
                if column is None or column.nulls:
                    what = "is not there" if column is None else f"is NULL in {column.nulls:,} rows"
                    yield f"the key {key} of {self.short(table.name)} {what}"

    def _loads(self, cursor: str) -> Iterator[Line]:
        """The LOADs that should have another mode to go with this cursor."""
        changes = moves(cursor) is Moves.WITH_EVERY_CHANGE
        for table in self.tables:
            if isinstance(table.strategy, Append) and changes and self.keys.columns:
                yield self._load(table, f"MERGE ON {_names(self.keys)}", "APPEND keeps every version of a changed row")
            if isinstance(table.strategy, Replace) and changes and self.keys.columns:
                why = f"{self.keys.reasons[0]}; rows deleted at the source then stay here"
                yield self._load(table, f"MERGE ON {_names(self.keys)}", why)
            if isinstance(table.strategy, Replace) and not changes:
                why = f"rows come with a new {cursor}; rows changed or deleted at the source then stay as they are here"
                yield self._load(table, "APPEND", why)

    def _load(self, table: Table, mode: str, why: str) -> Line:
        options = written(table.origin, "OPTIONS")
        text = f"LOAD {self.short(table.name)} FROM {self.source.name} MODE {mode}{f' {options}' if options else ''};"
        return Line(text, why)

    def _declaration(self) -> str:
        """The SOURCE statement as it stands in its file; none of its secrets is shown."""
        text = (
            written(self.source.origin) or f"SOURCE {self.source.name} TYPE {self.source.kind.upper()} PARAMS {{ … }}"
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
    return isinstance(table.strategy, Merge) and table.strategy.form is MergeStrategy.FULL_MERGE


def _names(choice: Choice) -> str:
    return ", ".join(choice.columns)
