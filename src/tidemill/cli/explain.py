"""`tidemill explain`: how tables are brought up to date, by which rules, and what prevents it; without Spark."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from tidemill import cli
from tidemill.api.explaining import explain_query, explain_tables
from tidemill.cli import examples, output, render
from tidemill.cli.projects import target_and_tables, variables
from tidemill.cli.render import Looks
from tidemill.errors import ArgumentError, Origin
from tidemill.graphs import MARKS, Shape, branched
from tidemill.ivm import BlockText
from tidemill.model.strategy import Refresh
from tidemill.planning.explanation import NextRun

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tidemill.cli import Output
    from tidemill.cli.projects import Load
    from tidemill.planning.explanation import ExplainedInput, ExplainedRule, Explanation

_INPUTS = ("input", "recorded", "now", "rows", "changes", "if it changes")
_INPUT_LOOKS = Looks(
    frozenset({"recorded", "now", "rows"}),
    {"if it changes": ("wrap", 26), "changes": ("wrap", 16), "rows": ("last", 0), "input": ("cut", 16)},
)
_QUERY = ("query", "")
_QUERY_LOOKS = Looks(gives={"": ("wrap", 20), "query": ("cut", 16)})
_LABEL = 10  # columns that "next run" and the like take


@click.command(
    epilog=examples(
        "tidemill explain",
        "tidemill explain revenue",
        'tidemill explain --query "SELECT region, count(*) AS orders FROM orders GROUP BY region"',
    ),
)
@click.argument("tables", nargs=-1, metavar="[TABLE]…")
@click.option("--query", metavar="SQL", help="Explain this SELECT over tables of the project instead.")
@click.option("--target", help="A pipeline file or a project's folder; a TABLE that is one of these counts as it.")
@variables
@output
def explain(tables: tuple[str, ...], query: str | None, target: str | None, load: Load, out: Output) -> None:
    """Show how the next run brings each TABLE, or all, up to date, and why. Starts no Spark and changes nothing.

    Of a materialized view, or with --query of a query that is in no file yet: which changes of its inputs can be read,
    the rule by which it follows each of them, and the sentence that prevents it. A linear rule reads nothing of the
    changed table but its changes; a local one computes the rows of the changed keys again, a grouped one the groups; a
    summed one adds the changes to sums that are kept beside the view.
    """
    target, names = target_and_tables(tables, target)
    workspace = load(target)
    if query is not None:
        if names:
            raise ArgumentError("explain.two", "Tables and --query are both given.", "Ask for one of them.")
        found = explain_query(workspace, query)
        out.result({"project": workspace.project.name, **_plain(found)}, partial(_show, found))
        return
    several = explain_tables(workspace, names)
    document = {"project": workspace.project.name, "tables": _plain(several)}
    out.result(document, partial(_show_all, several))


def _show_all(found: Sequence[Explanation]) -> None:
    if not found:
        render.say(f"{render.INDENT}{render.NOTHING_DECLARED}")
    for number, each in enumerate(found):
        if number:
            cli.write("")
        _show(each)


def _show(found: Explanation) -> None:
    if found.table is not None:
        facts = [found.strategy, f"refresh = {found.refresh}" if found.refresh else None, found.origin]
        shown = render.SEPARATOR.join(str(each) for each in facts if each)
        render.say(f"{render.INDENT}{click.style(found.table, bold=True)}  {shown}")
    for label, text in _sentences(found):
        render.say(f"{render.INDENT}{label:{_LABEL}}{text}", hang=len(render.INDENT) + _LABEL)
    if found.inputs:
        render.table(_INPUTS, [_input_line(each) for each in found.inputs], looks=_INPUT_LOOKS)
    if found.query is not None:
        render.table(_QUERY, list(_query_lines(found.query)), looks=_QUERY_LOOKS)
    for text in found.notices:
        render.notice(text)


def _sentences(found: Explanation) -> Iterator[tuple[str, str]]:
    if found.reason is not None:
        yield "next run", found.reason
    if found.rule is not None:
        yield "rule", f"{found.rule.name}: {found.rule.why}"
    if found.table is None:
        yield "refresh", _refresh(found)
    elif found.prevented and found.next_run not in {NextRun.FULL, NextRun.FAILS}:
        yield "later", f"{'fails' if found.refresh is Refresh.INCREMENTAL else 'full refresh'}: {found.prevented}"


def _refresh(found: Explanation) -> str:
    """How a query that nobody runs yet would be."""
    if found.prevented:
        return f"full refresh: {found.prevented}"
    without = [each.table for each in found.inputs if each.prevented or each.refusal]
    if len(without) == len(found.inputs):
        return "full refresh, whichever input changes"
    return f"incremental, but for changes of {', '.join(without)}" if without else "incremental"


def _input_line(each: ExplainedInput) -> tuple[str, ...]:
    counts = [None if count is None else f"{count:,}" for count in (each.recorded, each.version, each.rows)]
    return (each.table, *(count or "" for count in counts), _changes(each), _rules(each))


def _changes(each: ExplainedInput) -> str:
    """What is known of its changes, and how they can be read."""
    if each.refusal is not None:
        return f"cannot be read: {each.refusal}"
    if each.version is None:
        return "not there yet"
    how = f"by {each.read_by}"
    if each.pending:
        return f"updated by this run · {how}"
    if each.changed is None:
        return how
    if not each.changed:
        return f"none · {how}"
    if each.added is None and each.removed is None:
        return f"changed · {how}"
    added, removed = ("an unknown number" if count is None else f"{count:,}" for count in (each.added, each.removed))
    return f"at most {added} added, {removed} removed · {how}"


def _rules(each: ExplainedInput) -> str:
    """The best rule; where that has a key, with the others by which it could go."""
    if each.prevented is not None:
        return f"full refresh: {each.prevented}"
    if not each.rules or each.rules[0].key is None:
        return each.rules[0].name if each.rules else ""
    best: dict[str, ExplainedRule] = {}
    for rule in each.rules:
        if rule.key is not None:
            best.setdefault(rule.key, rule)
    return " or ".join(map(str, best.values()))


def _query_lines(root: BlockText) -> Iterator[tuple[str, str]]:
    """Each block above what it reads, as `tidemill graph` draws it."""
    roots: list[BlockText | str] = [root]
    for branch, item in branched(roots, _below):
        if isinstance(item, BlockText):
            yield f"{branch}{item.kind}", item.text
        else:
            yield f"{branch}{MARKS[Shape.TABLE]} {item}", ""


def _below(item: BlockText | str) -> list[BlockText | str]:
    return [*item.tables, *item.children] if isinstance(item, BlockText) else []


def _plain(found: Any) -> Any:
    """As JSON has it: places are texts, as in all other documents."""
    if isinstance(found, Origin):
        return str(found)
    if is_dataclass(found):
        return {each.name: _plain(getattr(found, each.name)) for each in fields(found)}
    return [_plain(each) for each in found] if isinstance(found, list | tuple) else found
