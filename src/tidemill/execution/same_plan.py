"""The guard of rewritten queries: what sqlglot has read and written again means to Spark what its author wrote.

Both texts have the same optimised plan, or the query is computed whole.
"""

from __future__ import annotations

import hashlib
import json
import re
from importlib.metadata import version
from typing import TYPE_CHECKING

from tidemill.spark.session import deciding_settings, statements

if TYPE_CHECKING:
    from tidemill.execution.attempt import Attempt
    from tidemill.execution.query_source import ViewSource
    from tidemill.ivm import ViewQuery
    from tidemill.planning.refresh import RefreshPlan

_MOST_FIELDS = "spark.sql.debug.maxToStringFields"
_OPTIMISED = re.compile(r"== Optimized Logical Plan ==\n(.*?)\n\n== Physical Plan ==", re.DOTALL)
_NUMBERED = re.compile(r"#(\d+)L?")
_ALIAS = re.compile(r" AS (.*?)#(\d+)")  # the rewritten text has names of its own where its author gave none
_DIFFERENT = "Spark would plan its rewritten text otherwise, so that it cannot be rewritten safely"
_READERS = ("pyspark", "sqlglot", "tidemill")  # what the answer depends on, beside query, columns and settings
_PLAIN = re.compile(r"Project \[[^,#\[\]]+#\d+L?(, [^,#\[\]]+#\d+L?)*\]")
_BRANCH = 3  # characters by which each level of a plan is set in
_NOT_REPEATABLE = re.compile(r"\b(rand|randn|uuid|shuffle|monotonically_increasing_id|PythonUDF|ScalaUDF)\(")


def guard_of(attempt: Attempt, source: ViewSource, refresh: RefreshPlan) -> str:
    """Two refreshes with the same one have the same answer, so that Spark need not be asked again."""
    assert refresh.inputs is not None  # noqa: S101  a rule was found for them
    assert refresh.view is not None  # noqa: S101
    types = {state.name: dict(state.types or {}) for state in refresh.inputs.states}
    texts = [source.query.text, refresh.inputs.text, refresh.view.text]
    readers = {name: version(name) for name in _READERS}
    asked = json.dumps([texts, types, readers, deciding_settings(attempt.spark)], sort_keys=True)
    return hashlib.sha256(asked.encode()).hexdigest()[:16]


def why_unsafe(attempt: Attempt, source: ViewSource, refresh: RefreshPlan) -> str | None:
    """Why the query must not be rewritten; None where it may be."""
    assert refresh.view is not None  # noqa: S101  a rule was found for it
    texts = (_but_volatile(text, refresh.view) for text in (source.query.text, refresh.view.text))
    original, rewritten = (optimised_plan(attempt, source, text) for text in texts)
    if original is None or original != rewritten:
        return _DIFFERENT
    if found := _NOT_REPEATABLE.search(original):
        return f"{found.group(1)} gives other values in each run"
    return None


def _but_volatile(text: str, view: ViewQuery) -> str:
    """The query without the columns that have other values in each run, which are no part of what its rows hold."""
    if not view.volatile:
        return text
    names = [f"c{number}" for number, _ in enumerate(view.output)]
    kept = [name for name, column in zip(names, view.output, strict=True) if column not in view.volatile]
    return f"SELECT {', '.join(kept) or '1'} FROM (\n{text}\n) AS v({', '.join(names)})"


def optimised_plan(attempt: Attempt, source: ViewSource, text: str) -> str | None:
    """What Spark makes of a query, its columns numbered in the order in which they come."""
    session, bound = source.bound(attempt.spark, text)
    with statements(session, {_MOST_FIELDS: "10000"}) as own:
        row = own.sql(f"EXPLAIN EXTENDED {bound}").first()
    found = _OPTIMISED.search(str(row[0])) if row else None
    return _numbered(found.group(1)) if found else None


def _numbered(plan: str) -> str:
    plan = _without_plain_projections(plan)
    for name, number in {(each[1], each[2]) for each in _ALIAS.finditer(plan)}:
        plan = re.sub(rf"{re.escape(name)}#{number}(?!\d)", f"#{number}", plan)
    numbers: dict[str, int] = {}
    plan = _NUMBERED.sub(lambda match: f"#{numbers.setdefault(match.group(1), len(numbers))}", plan)
    return plan.replace("Join Cross", "Join Inner")


def _without_plain_projections(plan: str) -> str:
    """The plan without the nodes that only leave columns out, or have them again: Spark puts some where aliases stand.

    All nodes know columns by their numbers, but for the uppermost one and unions, which go by the place.
    """
    lines = plan.split("\n")
    number = 1
    while number < len(lines):
        depth = _depth(lines[number])
        parent = next((line for line in reversed(lines[:number]) if _depth(line) < depth), "")
        is_free = depth > 0 and not parent[_depth(parent) * _BRANCH :].startswith("Union")
        if is_free and _PLAIN.fullmatch(lines[number][depth * _BRANCH :]):
            _take_out(lines, number)
        else:
            number += 1
    return "\n".join(lines)


def _take_out(lines: list[str], number: int) -> None:
    """The only child of the node in this line, with all below, moves to its place."""
    gone, cut = lines[number], _depth(lines[number]) * _BRANCH
    below = next((n for n in range(number + 1, len(lines)) if _depth(lines[n]) * _BRANCH <= cut), len(lines))
    child, *deeper = lines[number + 1 : below]
    moved = [gone[:cut] + child[cut + _BRANCH :], *(line[:cut] + line[cut + _BRANCH :] for line in deeper)]
    lines[number:below] = moved


def _depth(line: str) -> int:
    """How many levels deep its node stands."""
    return len(line[: len(line) - len(line.lstrip(" :+-"))]) // _BRANCH
