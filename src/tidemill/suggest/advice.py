"""From facts to advice: a cursor, keys and a mode, each with its reason, or why there is none. Knows no Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidemill.declare.cursors import CursorKind
from tidemill.suggest.names import Moves, like_a_key, moves, own_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidemill.suggest.facts import ColumnFacts, SourceFacts

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
