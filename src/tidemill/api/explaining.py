"""What is known without Spark of how the next run brings tables up to date, and what prevents it; or of a query."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from tidemill.api.planning import catalog_of, plans_of
from tidemill.api.workspace import unknown_table
from tidemill.errors import ArgumentError, Origin
from tidemill.execution.pins import version_in
from tidemill.execution.producers import source_of
from tidemill.execution.query_source import ViewSource
from tidemill.frontends.sql.binding import unparsed
from tidemill.frontends.sql.scopes import parse_query
from tidemill.frontends.tables import inputs_in, query_of
from tidemill.ivm import NotIncremental, UnknownColumn, check_text
from tidemill.model import FileError, Text, is_foreign
from tidemill.planning import USUAL, Mode
from tidemill.planning.explanation import ExplainedInput, ExplainedRule, Explanation, NextRun, Prevented, reworded
from tidemill.planning.refresh import check_declaration, check_repeatable, key_of, place_in, place_of, rules_of, view_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidemill.api.planning import Planned
    from tidemill.api.workspace import Workspace
    from tidemill.execution.catalog import Catalog
    from tidemill.ivm import BlockText, Rule, ViewQuery
    from tidemill.model import Span
    from tidemill.model.query import Query
    from tidemill.model.table import Table
    from tidemill.planning import StepPlan
    from tidemill.planning.refresh import InputState, ViewInputs

QUERY = "query"  # what a query is called that is in no file
_NEXT = {
    Mode.FIRST: NextRun.FIRST,
    Mode.INCREMENTAL: NextRun.INCREMENTAL,
    Mode.UP_TO_DATE: NextRun.UP_TO_DATE,
}


def explain_tables(workspace: Workspace, names: Sequence[str] = ()) -> list[Explanation]:
    """How the next run brings these tables and views up to date, or all, each after what it reads."""
    chosen = {node.name for node in workspace.select_also_views(names)}
    catalog = catalog_of(workspace)
    with workspace.wording.errors():
        planned = plans_of(workspace, USUAL, catalog)
    found = [_explained(each, catalog) for each in planned if each.node.name in chosen]
    return [_worded(workspace, each) for each in found]


def explain_query(workspace: Workspace, text: str) -> Explanation:
    """How a query over tables of the project could be brought up to date."""
    catalog = catalog_of(workspace)
    query = _read(text)
    inputs = inputs_in(text, workspace.project.warehouse.naming) or ()
    for name in inputs:
        _check_known(workspace, catalog, name)
    source = ViewSource(QUERY, query, inputs, catalog, datetime.now(workspace.spark.zone))
    read = source.view_inputs(None)
    _check_made(workspace, read)
    _check_columns(query, read)
    analysed = Analysis.of(query, read)
    blocks = analysed.view.blocks if analysed.view else None
    found = Explanation(prevented=analysed.prevented, inputs=analysed.explained_inputs(source), query=blocks)
    return _worded(workspace, found)


@dataclass(frozen=True, slots=True)
class Analysis:
    """A query with its inputs, and what is found in it; without a `view`, what prevents it whatever changes."""

    query: Query
    inputs: ViewInputs
    view: ViewQuery | None = None
    prevented: Prevented | None = None

    @classmethod
    def of(cls, query: Query, inputs: ViewInputs, table: Table | None = None) -> Analysis:
        """`table` is where it is declared; its declaration may prevent it too."""
        view, prevented = None, None
        try:
            check_text(query.text)
        except NotIncremental as why:
            return cls(query, inputs, prevented=Prevented(why.reason, place_in(query, why)))
        try:
            if not any(each.is_missing for each in inputs.states):  # its columns are not known before that
                view = view_of(inputs)
        except NotIncremental as why:
            prevented = Prevented(why.reason, place_of(query, inputs, why))
        try:
            check_repeatable(query)
            if table is not None:
                check_declaration(table)
        except NotIncremental as why:
            prevented = prevented or Prevented(why.reason, table.origin if table else None)
        return cls(query, inputs, view, prevented)

    def explained_inputs(self, source: ViewSource) -> tuple[ExplainedInput, ...]:
        return tuple(self._explained(each, source) for each in self.inputs.states)

    def _explained(self, state: InputState, source: ViewSource) -> ExplainedInput:
        pin, changes = source.pin(state.name), state.changes
        if pin is not None and changes is None:  # nothing to read: how would it be?
            changes = pin.log.changes_since(pin.version, pin.version)
        counted = None if state.pending or state.recorded is None else changes
        rules, prevented = self._rules_for(state)
        return ExplainedInput(
            table=state.name,
            recorded=version_in(state.recorded),
            version=pin.version if pin else None,
            rows=state.rows,
            size=state.size,
            changed=None if state.recorded is None else state.content != state.recorded,
            pending=state.pending,
            added=counted.added if counted else None,
            removed=counted.removed if counted else None,
            read_by=changes.how if changes else None,
            refusal=changes.refusal if changes else None if state.is_missing else "it has no versions",
            rules=rules,
            prevented=prevented,
        )

    def _rules_for(self, state: InputState) -> tuple[tuple[ExplainedRule, ...], Prevented | None]:
        """The rules if this one alone changes; without any, why."""
        if self.view is None or not state.written:
            return (), None
        try:
            rules = rules_of(self.view, frozenset(state.written), with_sums=self.inputs.with_sums)
        except NotIncremental as why:
            return (), Prevented(why.reason, place_of(self.query, self.inputs, why))
        return tuple(map(explained_rule, rules)), None


def explained_rule(rule: Rule) -> ExplainedRule:
    """A rule for people."""
    return ExplainedRule(rule.name, key_of(rule), rule.on, rule.why)


def _explained(planned: Planned, catalog: Catalog) -> Explanation:
    step, plan = planned.step, planned.plan
    found = Explanation(step.table, step.strategy, planned.node.origin, reason=step.reason, notices=step.notices)
    return _of_table(found, plan, catalog) if plan else found


def _of_table(found: Explanation, plan: StepPlan, catalog: Catalog) -> Explanation:
    table, refresh = plan.table, plan.refresh
    found = replace(found, next_run=_next_run(plan), refresh=table.strategy.refresh)
    source = source_of(table, catalog, plan.now, {}) if refresh else None
    if refresh is None or refresh.inputs is None or not isinstance(source, ViewSource):
        return found
    analysed = Analysis.of(source.query, refresh.inputs, table)
    is_full = bool(refresh.why) and plan.mode is not Mode.UP_TO_DATE
    return replace(
        found,
        rule=explained_rule(refresh.rule) if refresh.rule else None,
        prevented=Prevented(refresh.why, refresh.place) if is_full else analysed.prevented,
        inputs=analysed.explained_inputs(source),
        query=analysed.view.blocks if analysed.view else None,
    )


def _next_run(plan: StepPlan) -> NextRun:
    refused = plan.refresh is not None and plan.refresh.refused and plan.mode is Mode.FULL
    return NextRun.FAILS if refused else _NEXT.get(plan.mode, NextRun.FULL)


def _worded(workspace: Workspace, found: Explanation) -> Explanation:
    """As users read it: short names, and no secrets."""
    found = reworded(found, lambda text: workspace.masking.mask(workspace.wording.text(text)))
    inputs = tuple(replace(each, table=workspace.short(each.table)) for each in found.inputs)
    table, query = found.table and workspace.short(found.table), found.query and _shortened(workspace, found.query)
    return replace(found, table=table, inputs=inputs, query=query)


def _shortened(workspace: Workspace, block: BlockText) -> BlockText:
    """The block with its tables as all else calls them."""
    tables, children = map(workspace.short, block.tables), (_shortened(workspace, each) for each in block.children)
    return replace(block, tables=tuple(tables), children=tuple(children))


def _read(text: str) -> Query:
    """The query, which has no file; an error at its place where it cannot be parsed."""
    wrong = unparsed(text)
    if wrong is not None:
        problem = f"The query cannot be parsed: {wrong.why}."
        span = _span_in(text, wrong.line, wrong.column, wrong.word)
        raise FileError("query.syntax", problem, "correct the query", span=span)
    if parse_query(text) is None:
        raise ArgumentError("query.not_one", "This is not one SELECT.", "Give the query that a table would have.")
    return query_of(text, Origin(QUERY, 1, 1))


def _span_in(text: str, line: int, column: int, word: str) -> Span:
    """The place of a word in a query that has no file: lines are counted from 1, columns from 0."""
    start = sum(len(each) + 1 for each in text.split("\n")[: line - 1]) + column
    return Text(QUERY, text).span(start, start + len(word))


def _check_known(workspace: Workspace, catalog: Catalog, name: str) -> None:
    """A wrong name is an error; what lies in other catalogs only Spark knows."""
    known = [*(each.name for each in workspace.all_tables), *(each.name for each in workspace.all_views.values())]
    known += workspace.outside
    if name not in map(str.lower, known) and catalog.place(name) is None and not is_foreign(name):
        raise unknown_table(workspace.short(name), [workspace.short(each) for each in known])


def _check_made(workspace: Workspace, inputs: ViewInputs) -> None:
    """Of a table that no run has made nobody knows the columns."""
    missing = next((each for each in inputs.states if each.is_missing), None)
    if missing is not None:
        name = workspace.short(missing.name)
        raise ArgumentError(
            "explain.not_made",
            f"{name} has not been created yet, so its columns are not known.",
            f"Create it first: {workspace.command('run')} --select +{name}",
        )


def _check_columns(query: Query, inputs: ViewInputs) -> None:
    """A column that no table has is a mistake, and no reason for a full refresh."""
    try:
        view_of(inputs)
    except UnknownColumn as unknown:
        span = _span_in(query.text, unknown.line or 1, (unknown.column or 1) - 1, unknown.name)
        problem = f"No table of the query has a column {unknown.name}."
        remedy = f"did you mean {unknown.close}?" if unknown.close else "correct it"
        raise FileError("query.unknown_column", problem, remedy, span=span) from unknown
    except NotIncremental:
        return
