"""What a run over several sources of one table sends: what each LOAD reads, and what comes of all of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidemill.declare.loads import Loads, common_cursor, strategy_of
from tidemill.declare.names import of
from tidemill.declare.strategies import Append, Merge
from tidemill.plan.windows import NOT_READ_YET
from tidemill.statements.operations import COMING, HELD, Entering, created, written

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tidemill.contracts.snapshots import Snapshot
    from tidemill.declare.loads import Load
    from tidemill.declare.tables import Table
    from tidemill.statements.runs import RunStatements

    Alone = Callable[[Table], tuple[RunStatements, RunStatements]]

_ALL_AS_ONE = "sources with a common cursor are read from the lowest of these starts on, so that they are as one"


@dataclass(frozen=True, slots=True)
class LoadStatements:
    """`alone` gives what a run would send if a LOAD were the only one of its table."""

    table: Table
    loads: Loads
    snapshot: Snapshot | None
    alone: Alone

    def all(self) -> tuple[RunStatements, ...]:
        """A first run, and the next: a run of APPENDs and MERGEs takes two commits."""
        first = self._first()
        if not self.loads.recomputed:
            return (first, *(self._next(together) for together in self.loads.rounds))
        entered = written(self.table.strategy, Entering(self.table, None, None))
        notes = (*self._notes(first), *entered.notes)
        return first, replace(first, run="next", writes=entered.sql, notes=notes)

    def _first(self) -> RunStatements:
        by_input = {load.input: self.alone(self.table.alone(load))[0] for load in self.loads.loads}
        firsts = list(by_input.values())
        steps, last = [], ""
        for number, together in enumerate(self.loads.rounds, 1):
            reads = _in_one([by_input[load.input].reads for load in together])
            steps.append(f"load_{number} AS (\n{_applied(together[0], reads, last)}\n)")
            last = f"load_{number}"
        chain = f"WITH {', '.join(steps)}\nSELECT * FROM {last}"
        text = chain if len(steps) > 1 else _in_one([first.reads for first in firsts])
        made = created(self.table)
        by_all = self._winners() or made.notes
        notes = dict.fromkeys([*(note for first in firsts for note in first.notes), *by_all])
        return replace(firsts[0], reads=text, filter=None, writes=made.sql, notes=tuple(notes))

    def _next(self, together: tuple[Load, ...]) -> RunStatements:
        found = [self._part(load) for load in together]
        reasons = " · ".join(f"{load.source.name} {each.reason}" for load, each in zip(together, found, strict=True))
        window = next((each.filter for each in found if each.filter), None)
        entered = written(strategy_of(together), Entering(self.table, window, None))
        apart = [note for each in found for note in each.notes if note not in entered.notes]
        winners = self._winners() if isinstance(together[0].strategy, Merge) else ()
        as_one = (_ALL_AS_ONE,) if len(together) > 1 and common_cursor(together) else ()
        by_all = (*winners, *entered.notes[1:]) if winners else entered.notes
        notes = tuple(dict.fromkeys([*apart, *as_one, *by_all]))
        reads = _in_one([each.reads for each in found])
        return replace(found[0], reason=reasons, reads=reads, filter=None, writes=entered.sql, notes=notes)

    def _part(self, load: Load) -> RunStatements:
        first, following = self.alone(self.table.alone(load))
        record = self.snapshot.record if self.snapshot else None
        unread = record is not None and load.window and load.input not in {*record.progress, *record.reset}
        return replace(first, run="next", reason=NOT_READ_YET) if unread else following

    def _notes(self, first: RunStatements) -> tuple[str, ...]:
        return first.notes[: len(first.notes) - len(created(self.table).notes)]

    def _winners(self) -> tuple[str, ...]:
        """What decides where MERGEs meet in a key."""
        merges = tuple(load for load in self.loads.loads if isinstance(load.strategy, Merge))
        if self.loads.recomputed or len(merges) < len(self.loads.loads[:2]):
            return ()
        cursor = common_cursor(merges)
        if cursor:
            return (f"of a key in several sources the row with the highest {cursor} enters; ties go to the later LOAD",)
        return ("a key that several sources have with different rows is an error: they have no common cursor",)


def _in_one(reads: Sequence[str]) -> str:
    return "\nUNION ALL BY NAME\n".join(reads)


def _applied(load: Load, reads: str, before: str) -> str:
    """The rows of a table that was what the statement before says, after this LOAD."""
    if not before:
        return reads
    if isinstance(load.strategy, Append):
        return f"SELECT * FROM {before}\nUNION ALL BY NAME\n{reads}"
    keys = load.strategy.keys if isinstance(load.strategy, Merge) else ()
    same = " AND ".join(f"{of(HELD, key)} = {of(COMING, key)}" for key in keys)
    rest = f"SELECT {HELD}.* FROM {before} AS {HELD} LEFT ANTI JOIN (\n{reads}\n) AS {COMING} ON {same}"
    return f"{reads}\nUNION ALL BY NAME\n{rest}"
