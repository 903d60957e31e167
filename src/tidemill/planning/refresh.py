"""How a materialized view follows its inputs in one run: by what changed in them, or whole, and why."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tidemill.ivm import Linear, NotIncremental, Summed, Telescoped, analyse, check_text
from tidemill.model.query import Query
from tidemill.model.strategy import Refresh
from tidemill.planning.costs import changed_rows, why_whole
from tidemill.planning.windows import BY_LOGS, FIRST_RUN

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from tidemill.errors import Origin
    from tidemill.formats.port import InputChanges
    from tidemill.ivm import Rule, ViewQuery
    from tidemill.model.query import Producer
    from tidemill.model.record import Record, Snapshot
    from tidemill.model.table import Table
    from tidemill.planning.costs import PastRefresh

_PROTECTED = "its history is protected (reset_allowed = false), which only a whole result can keep"
_DISTURBED = "somebody else changed its rows since the last run"
_NO_SUMS = "no sums are kept beside it yet"
_SUMMED = "sums are added up"
_DECLARED_FULL = "its declaration says refresh = full"


@dataclass(frozen=True, slots=True)
class InputState:
    """A table that a view reads: its version now, and what its log says of the rows since the recorded one.

    `written` are the names by which the query calls it, `types` those of its columns. `changes` is None where nothing
    has changed, or where `recorded` is None: nobody knows what the view has read of it. One that is `pending` is
    brought up to date by an earlier step of the run that is planned; it may not be there yet.
    """

    name: str
    written: tuple[str, ...]
    content: str | None
    recorded: str | None = None
    types: Mapping[str, str] | None = None
    changes: InputChanges | None = None
    rows: int | None = None
    size: int | None = None
    pending: bool = False

    @property
    def shown(self) -> str:
        """The name that people know it by: that of the query."""
        return next(iter(self.written), self.name)

    @property
    def is_missing(self) -> bool:
        """Whether a run has to make it first."""
        return self.pending and self.content is None

    @property
    def is_changed(self) -> bool:
        """Whether its rows are others than those that the last run read, or may be by then."""
        return self.pending or self.content is None or self.content != self.recorded


@dataclass(frozen=True, slots=True)
class KeptSums:
    """The sums beside a view that its record names, as that has them (`content`). `lost`: why they are of no use."""

    content: str
    lost: str | None = None


@dataclass(frozen=True, slots=True)
class ViewInputs:
    """What a view reads, as it is pinned for a run; `text` is its query with the views of the project inside.

    `changed_views` are those whose queries are not what they were. `own` is what the log of the table itself says of
    rows that others changed in it since its last run; None where nobody did. `sums` are those that its record names.
    `past` asks its log what the last refreshes took.
    """

    text: str
    states: tuple[InputState, ...]
    changed_views: tuple[str, ...] = ()
    own: InputChanges | None = None
    sums: KeptSums | None = None
    past: Callable[[], Sequence[PastRefresh]] = field(default=lambda: (), compare=False)

    @property
    def changed(self) -> tuple[InputState, ...]:
        return tuple(each for each in self.states if each.is_changed)

    @property
    def size(self) -> int | None:
        """The bytes of all of them, where that is known."""
        sizes = [each.size for each in self.states]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    @property
    def with_sums(self) -> bool | None:
        """Whether changes can be added to sums that are kept; None before a first run, which may begin to keep them."""
        return None if all(each.recorded is None for each in self.states) else self.sums is not None

    def after(self, earlier: Collection[str]) -> ViewInputs:
        """The same in a run whose earlier steps bring these tables up to date, by their names in lower case."""
        states = (replace(each, pending=each.pending or each.name.lower() in earlier) for each in self.states)
        return replace(self, states=tuple(states))


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

    `unsafe` is why the run has found that it must not, or had better not, go by changes.
    """
    if base is None:
        return RefreshPlan(FIRST_RUN, inputs)
    if table.strategy.refresh is Refresh.FULL:
        return RefreshPlan(f"full refresh: {_DECLARED_FULL}", inputs, _DECLARED_FULL)
    if inputs is None:
        return RefreshPlan(BY_LOGS)
    if unsafe is not None:
        return _whole(table, inputs, unsafe)
    try:
        return _by_changes(table, base, inputs)
    except NotIncremental as why:
        return _whole(table, inputs, why.reason)


def _whole(table: Table, inputs: ViewInputs, why: str, place: Origin | None = None) -> RefreshPlan:
    refused = table.strategy.refresh is Refresh.INCREMENTAL
    what = f"fails: {why}, and refresh = incremental allows no full refresh" if refused else f"full refresh: {why}"
    reason = f"{what} · {place}" if place else what
    return RefreshPlan(reason, inputs, why, place=place, refused=refused)


def _by_changes(table: Table, base: Snapshot, inputs: ViewInputs) -> RefreshPlan:
    _check_record(table, base)
    check_declaration(table)
    if inputs.own is not None and inputs.own.how is None:
        raise NotIncremental(f"{_DISTURBED}: {inputs.own.refusal}")
    _check_inputs(inputs)
    if inputs.sums is not None and inputs.sums.lost is not None:
        raise NotIncremental(inputs.sums.lost)
    try:
        view, changed = view_of(inputs), frozenset(name for each in inputs.changed for name in each.written)
        rules = rules_of(view, changed, with_sums=inputs.sums is not None)
    except NotIncremental as why:
        return _whole(table, inputs, why.reason, place_of(table.producer, inputs, why))
    rule = _readable_rule(rules, inputs)
    if inputs.own is not None and not rule.on:
        raise NotIncremental(f"{_DISTURBED}, and no key tells which of them to compute again")
    if table.strategy.refresh is Refresh.AUTO:
        _check_cost(inputs)
    if isinstance(rule, Summed) and inputs.sums is None:
        raise NotIncremental(_NO_SUMS)
    return RefreshPlan(_reason(inputs, rule), inputs, view=view, rule=rule)


def rules_of(view: ViewQuery, changed: frozenset[str], *, with_sums: bool | None = None) -> tuple[Rule, ...]:
    """The rules for a change of these tables, the best first.

    Where sums are kept, the rule that adds to them goes first, for another one would leave them behind; where none
    are, it counts only if there is no other.
    """
    found = view.rules(changed)
    if not found:
        view.rule(changed)  # which raises why
    if with_sums is None:
        return found
    others = tuple(each for each in found if not isinstance(each, Summed))
    return tuple(sorted(found, key=others.__contains__)) if with_sums else others or found


def _readable_rule(rules: Sequence[Rule], inputs: ViewInputs) -> Rule:
    """The best one that takes no table as the last run saw it whose version of then cannot be read any more."""
    gone = {name: each for each in inputs.states for name in each.written if each.changes and each.changes.unreadable}
    read = [{table for term in rule.terms for table in term.whole_before} & gone.keys() for rule in rules]
    found = next((rule for rule, lost in zip(rules, read, strict=True) if not lost), None)
    if found is None:
        state = gone[min(read[0])]
        raise NotIncremental(f"{state.shown}: {state.changes.unreadable if state.changes else ''}")
    return found


def key_of(rule: Rule) -> str | None:
    """The columns by whose values a rule computes rows again; None where it goes by changed rows alone."""
    return None if rule.name in {Linear.name, Telescoped.name} or _is_one_row(rule) else rule.key


def _is_one_row(rule: Rule) -> bool:
    return isinstance(rule, Summed) and not rule.key_columns


def view_of(inputs: ViewInputs) -> ViewQuery:
    """The query, analysed over the columns that its inputs have; `NotIncremental` where it can never be."""
    unknown = next((each for each in inputs.states if each.types is None), None)
    if unknown is not None:
        raise NotIncremental(_without_columns(unknown))
    return analyse(inputs.text, {name: each.types or {} for each in inputs.states for name in each.written})


def _check_record(table: Table, base: Snapshot) -> None:
    """What the table holds is the same query's, over inputs that the record names."""
    record = base.record
    if record is None:
        raise NotIncremental("its rows have no record: it was made elsewhere")
    if record.sql_hash != table.sql_hash:
        raise NotIncremental("its query changed")
    if record.config_hash != table.config_hash:
        raise NotIncremental("its declaration changed")
    if base.resists_reset:
        raise NotIncremental(_PROTECTED)


def check_declaration(table: Table) -> None:
    """`NotIncremental` where what is declared of the table prevents it, in this run and in all others."""
    if table.strategy.refresh is Refresh.FULL:
        raise NotIncremental(_DECLARED_FULL)
    if not table.reset_allowed:
        raise NotIncremental(_PROTECTED)
    if table.checks:
        raise NotIncremental("it has checks, which are run on all of its rows")
    if isinstance(table.producer, Query):
        check_repeatable(table.producer)


def will_fail(table: Table, read: Iterable[Query]) -> str | None:
    """That runs after the first one have to fail, as they must not read everything; `read` are the queries of the
    view and of the views in it.
    """
    found = _prevented(table, read)
    again = "change the query, or leave refresh = incremental out"
    return f"{table.name}: runs after the first one will fail: {found}; {again}" if found else None


def _prevented(table: Table, read: Iterable[Query]) -> str | None:
    """What can be known without its inputs, and where that stands."""
    for query in read:
        try:
            check_text(query.text)
        except NotIncremental as why:
            return f"{why.reason} · {place_in(query, why)}"
    try:
        check_declaration(table)
    except NotIncremental as why:
        return f"{why.reason} · {table.origin}"
    return None


def check_repeatable(query: Query) -> None:
    """`NotIncremental` where the query gives other rows over the same inputs."""
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
            raise NotIncremental(_without_columns(each))
        if each.recorded is None:
            raise NotIncremental(f"the last run recorded no version of {each.shown}")
        if each.changes is not None and each.changes.how is None:
            raise NotIncremental(f"{each.shown}: {each.changes.refusal}")


def _without_columns(state: InputState) -> str:
    """Why an input has no columns that could be known without Spark."""
    if state.is_missing:
        return f"{state.shown} is not there yet"
    if state.content is None:
        return f"{state.shown} has no versions: LOAD it into a table to follow its changes"
    return f"the columns of {state.shown} are not known without Spark"


def _check_cost(inputs: ViewInputs) -> None:
    if why := why_whole(inputs):
        raise NotIncremental(why)


def _reason(inputs: ViewInputs, rule: Rule) -> str:
    """`at most 348 changed rows of orders and 2 of customers · by o_orderkey`."""
    counted = [(rows, each.shown) for each in inputs.changed if (rows := changed_rows(each)) is not None]
    parts = [f"{rows:,} of {name}" for rows, name in counted[1:]]
    if counted:
        rows, name = counted[0]
        parts.insert(0, f"at most {rows:,} changed row{'' if rows == 1 else 's'} of {name}")
    parts += [
        f"what this run changes in {each.shown}" if each.pending else f"changed rows of {each.shown}"
        for each in inputs.changed
        if changed_rows(each) is None
    ]
    by = _SUMMED if isinstance(rule, Summed) else f"by {key}" if (key := key_of(rule)) else rule.name
    repaired = ["rows that somebody else changed are computed again"] if inputs.own is not None else []
    return f"incremental: {' · '.join([' and '.join(parts), by, *repaired])}"


def place_of(query: Producer | None, inputs: ViewInputs, why: NotIncremental) -> Origin | None:
    """Where in a file stands what prevents it; the beginning of the query where that has no single place."""
    if not isinstance(query, Query):
        return None
    if inputs.text != query.text:  # with views inside it is a text of ours
        return query.origin
    return place_in(query, why)


def place_in(query: Query, why: NotIncremental) -> Origin | None:
    """The same in the text of the query alone."""
    return query.at(why.line, (why.column or 1) - 1, why.word or "") if why.line else query.origin


def recorded_versions(record: Record | None, name: str) -> Mapping[str, str]:
    """The content of each input that the last run read, by name; nothing where it could not tell."""
    try:
        found = json.loads(record.input_versions.get(name, "{}")) if record else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
