"""How a materialized view follows its inputs in one run: by what changed in them, or whole, and why."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidemill.ivm import NotIncremental, analyse
from tidemill.model.query import Query
from tidemill.model.strategy import Refresh
from tidemill.planning.windows import FIRST_RUN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidemill.errors import Origin
    from tidemill.formats.row_changes import InputChanges
    from tidemill.ivm import Rule, ViewQuery
    from tidemill.model.record import Record, Snapshot
    from tidemill.model.table import Table

_DISTURBED = "somebody else changed its rows since the last run"
DECLARED_FULL = "refresh = full: its query is computed whole, and what differs is written"
_MOST_CHANGED = 0.2  # of the rows of an input that is not small; then all of it is read as soon
_FEW_BYTES = 64 * 1024 * 1024  # of all inputs together: less is read sooner than changes are looked for


@dataclass(frozen=True, slots=True)
class InputState:
    """A table that a view reads: its version now, and what its log tells of the rows since the recorded one.

    `written` are the names by which the query calls it, `types` those of its columns. `changes` is None where nothing
    has changed, or where `recorded` is None: nobody knows what the view has read of it.
    """

    name: str
    written: tuple[str, ...]
    content: str | None
    recorded: str | None = None
    types: Mapping[str, str] | None = None
    changes: InputChanges | None = None
    rows: int | None = None
    size: int | None = None

    @property
    def is_changed(self) -> bool:
        return self.content is None or self.content != self.recorded


@dataclass(frozen=True, slots=True)
class ViewInputs:
    """What a view reads, as it is pinned for a run; `text` is its query with the views of the project inside.

    `changed_views` are those whose queries are not what they were. `own` is what the log of the table itself tells of
    rows that others changed in it since its last run; None where nobody did.
    """

    text: str
    states: tuple[InputState, ...]
    changed_views: tuple[str, ...] = ()
    own: InputChanges | None = None

    @property
    def changed(self) -> tuple[InputState, ...]:
        return tuple(each for each in self.states if each.is_changed)

    @property
    def size(self) -> int | None:
        """The bytes of all of them, where that is known."""
        sizes = [each.size for each in self.states]
        return None if None in sizes else sum(size for size in sizes if size is not None)


@dataclass(frozen=True, slots=True)
class RefreshPlan:
    """How one run makes the view what its query gives. Without a `rule`, it computes the query whole.

    `why` not by changes, and `place` is where in a file that stands. `refused`: the declaration wants no such run.
    """

    reason: str
    inputs: ViewInputs | None = None
    why: str = ""
    view: ViewQuery | None = None
    rule: Rule | None = None
    place: Origin | None = None
    refused: bool = False


def plan_refresh(
    table: Table, base: Snapshot | None, inputs: ViewInputs | None, unsafe: str | None = None
) -> RefreshPlan:
    """The refresh of a view whose rows are those of `base`; without one it is a first run.

    `unsafe` is why Spark says that its query must not be rewritten.
    """
    if base is None:
        return RefreshPlan(FIRST_RUN, inputs)
    if table.strategy.refresh is Refresh.FULL:
        return RefreshPlan(DECLARED_FULL, inputs, DECLARED_FULL)
    if inputs is None:
        return RefreshPlan("what changed in its inputs is read, where their logs tell")
    if unsafe is not None:
        return _whole(table, inputs, NotIncremental(unsafe))
    try:
        return _by_changes(table, base, inputs)
    except NotIncremental as why:
        return _whole(table, inputs, why)


def _whole(table: Table, inputs: ViewInputs, why: NotIncremental) -> RefreshPlan:
    wanted = table.strategy.refresh is Refresh.INCREMENTAL
    place = _place(table, why)
    return RefreshPlan(f"full refresh: {why.reason}", inputs, why.reason, place=place, refused=wanted)


def _by_changes(table: Table, base: Snapshot, inputs: ViewInputs) -> RefreshPlan:
    record = base.record
    _check_declaration(table, base, record)
    if inputs.own is not None and inputs.own.how is None:
        raise NotIncremental(f"{_DISTURBED}: {inputs.own.refusal}")
    _check_inputs(inputs)
    view = analyse(inputs.text, _types(inputs.states))
    rule = view.rule(frozenset(name for each in inputs.changed for name in each.written))
    if inputs.own is not None and not rule.on:
        raise NotIncremental(f"{_DISTURBED}, and no key tells which of them to compute again")
    if table.strategy.refresh is Refresh.AUTO:
        _check_cost(inputs)
    return RefreshPlan(_reason(inputs, rule), inputs, view=view, rule=rule)


def _check_declaration(table: Table, base: Snapshot, record: Record | None) -> None:
    """What the table holds is the same query's, over inputs that the record names, and nobody else changed it."""
    query = table.producer
    assert isinstance(query, Query)  # noqa: S101  a view has one
    if record is None:
        raise NotIncremental("its rows have no record: it was made elsewhere")
    if record.sql_hash != table.sql_hash:
        raise NotIncremental("its query changed")
    if record.config_hash != table.config_hash:
        raise NotIncremental("its declaration changed")
    if not table.reset_allowed or base.resists_reset:
        raise NotIncremental("its history is protected (reset_allowed = false), which only a whole result can keep")
    if table.checks:
        raise NotIncremental("it has checks, which are run on all of its rows")
    if query.parameters:
        raise NotIncremental(f"@{query.parameters[0]} may have another value in each run")
    if query.clock:
        raise NotIncremental("its rows depend on the clock, or on chance")


def _check_inputs(inputs: ViewInputs) -> None:
    if inputs.changed_views:
        raise NotIncremental(f"the query of {inputs.changed_views[0]}, which it reads, changed")
    if not inputs.changed:
        raise NotIncremental(_DISTURBED if inputs.own is not None else "its inputs are unchanged")
    for each in inputs.states:
        if each.content is None:
            raise NotIncremental(f"{each.name} has no versions: LOAD it into a table to follow its changes")
        if each.recorded is None:
            raise NotIncremental(f"the last run did not record a version of {each.name}")
        if each.changes is not None and each.changes.how is None:
            raise NotIncremental(f"{each.name}: {each.changes.refusal}")
        if each.types is None:
            raise NotIncremental(f"the columns of {each.name} are not known without Spark")


def _check_cost(inputs: ViewInputs) -> None:
    """Looking for changes pays where little of much has changed; rules of thumb, measured by `make bench`."""
    if inputs.size is not None and inputs.size < _FEW_BYTES:
        raise NotIncremental(f"its inputs are small ({_megabytes(inputs.size)}), and read whole sooner")
    for each in inputs.changed:
        rows = _changed_rows(each)
        if rows and each.rows and rows > _MOST_CHANGED * each.rows:
            raise NotIncremental(f"{rows / each.rows:.0%} of the rows of {each.name} may have changed")


def _changed_rows(state: InputState) -> int | None:
    changes = state.changes
    if changes is None or changes.added is None or changes.removed is None:
        return None
    return changes.added + changes.removed


def _reason(inputs: ViewInputs, rule: Rule) -> str:
    parts = []
    for each in inputs.changed:
        rows = _changed_rows(each)
        parts.append(f"changes of {each.name}" if rows is None else f"at most {rows:,} changed rows of {each.name}")
    key = [f"by {rule.key}"] if rule.key else []
    repaired = ["rows that somebody else changed are computed again"] if inputs.own is not None else []
    return f"incremental: {' · '.join([', '.join(parts), *key, *repaired])}"


def _types(states: Sequence[InputState]) -> dict[str, Mapping[str, str]]:
    return {name: each.types or {} for each in states for name in each.written}


def _place(table: Table, why: NotIncremental) -> Origin | None:
    query = table.producer
    if why.line is None or not isinstance(query, Query):
        return None
    return query.at(why.line, why.column or 0, why.word or "")


def _megabytes(size: int) -> str:
    return f"{size / 1024 / 1024:,.1f} MiB"


def recorded_versions(record: Record | None, name: str) -> Mapping[str, str]:
    """The content of each input that the last run read, by name; nothing where it could not tell."""
    try:
        found = json.loads(record.input_versions.get(name, "{}")) if record else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
