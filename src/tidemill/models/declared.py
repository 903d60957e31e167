"""From the query and the metadata of a model to its declaration."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tidemill.declare.checks import Relationships
from tidemill.declare.formats import OF_WAREHOUSE
from tidemill.declare.tables import KeptRows, SchemaPolicy, Table
from tidemill.declare.views import View
from tidemill.language.joins import kept_by_join
from tidemill.language.produced import inputs_in, produced, sql_hash, takes_charge
from tidemill.language.statements import Query as Written
from tidemill.language.syntax import syntax_error
from tidemill.language.volatile import volatile_columns
from tidemill.models.columns import check_columns
from tidemill.models.errors import ModelError
from tidemill.models.joins import KIND, read_join

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidemill.declare.checks import Check
    from tidemill.declare.joins import Join
    from tidemill.declare.names import Naming
    from tidemill.declare.producers import Query
    from tidemill.language.cursor import Named
    from tidemill.models.meaning import Meaning
    from tidemill.models.places import Key

_INPUT = "query"  # under which a table keeps how far it has read


def declared(
    name: str,
    query: Named,
    meaning: Meaning,
    checks: list[tuple[Key, Check]],
    path_of: Callable[[str], str],
    naming: Naming,
) -> Table | View | None:
    """The table or view; None where something has been noted in the document of `meaning`."""
    check_columns(query.text, meaning, checks)
    producer = produced(Written(query.text, query.span.origin))
    _check_query(producer, meaning)
    found = tuple(check for _, check in checks)
    inputs = _inputs(name, query, meaning, found, naming)
    join = read_join(query, meaning, naming) if meaning.kind == KIND else None
    if meaning.document.errors:
        return None
    if join is not None:
        return _joined(name, query, meaning, found, join, inputs, path_of)
    if meaning.strategy is None:
        # Whoever reads a view may compare its load time with a date: its volatile columns count too.
        clock = producer.clock or bool(volatile_columns(query.text))
        return View(
            name=name,
            path=path_of(name),
            query=replace(producer, clock=clock),
            inputs=inputs,
            sql_hash=sql_hash(producer),
            origin=producer.origin,
            description=meaning.value("description"),
            tags=meaning.names("tags"),
            checks=found,
        )
    return Table(
        name=name,
        path=path_of(name),
        strategy=meaning.strategy,
        window=meaning.window,
        volatile=tuple(dict.fromkeys([*meaning.names("volatile"), *volatile_columns(query.text)])),
        schema_policy=SchemaPolicy(meaning.value("on_schema_change", SchemaPolicy.FAIL)),
        partition_by=meaning.names("partition_by"),
        cluster_by=meaning.names("cluster_by"),
        format=meaning.value("format", OF_WAREHOUSE),
        sql_hash=sql_hash(producer),
        input=_INPUT,
        owns_window=meaning.window is not None and takes_charge(producer),
        origin=producer.origin,
        producer=producer,
        inputs=inputs,
        reset_allowed=meaning.value("reset_allowed", otherwise=True),
        description=meaning.value("description"),
        tags=meaning.names("tags"),
        checks=found,
        kept_rows=KeptRows(meaning.value("kept_rows")) if meaning.value("kept_rows") else None,
    )


def _joined(
    name: str,
    query: Named,
    meaning: Meaning,
    checks: tuple[Check, ...],
    join: Join,
    others: tuple[str, ...],
    path_of: Callable[[str], str],
) -> Table:
    kept = kept_by_join(join, meaning.value("max_shrink"))
    kept["inputs"] = tuple(dict.fromkeys([*kept["inputs"], *others]))
    return Table(
        name=name,
        path=path_of(name),
        **kept,
        volatile=tuple(dict.fromkeys([*meaning.names("volatile"), *volatile_columns(query.text)])),
        schema_policy=SchemaPolicy(meaning.value("on_schema_change", SchemaPolicy.FAIL)),
        partition_by=meaning.names("partition_by"),
        cluster_by=meaning.names("cluster_by"),
        format=meaning.value("format", OF_WAREHOUSE),
        input=_INPUT,
        origin=join.origin,
        reset_allowed=meaning.value("reset_allowed", otherwise=True),
        description=meaning.value("description"),
        tags=meaning.names("tags"),
        checks=checks,
    )


def _check_query(query: Query, meaning: Meaning) -> None:
    if meaning.kind == "view" and query.parameters:
        name = query.parameters[0]
        problem = f"a view is read when no run is there to give @{name} a value"
        meaning.note(("materialization",), "view_with_variables", problem, f"write ${{{name}}}, or make it a table")
    unsteady = query.unrepeatable if meaning.kind == "append" else None
    if unsteady:
        problem = f"{unsteady} may give the same rows another value in the next run, and append would treat them as new"
        meaning.note(("incremental", "strategy"), "unrepeatable", problem, f"order what {unsteady} reads, or use merge")


def _inputs(name: str, query: Named, meaning: Meaning, checks: tuple[Check, ...], naming: Naming) -> tuple[str, ...]:
    """What the query reads, what its author says that it reads, and what its checks look at."""
    found = inputs_in(query.text, naming)
    named = [naming.key(each) for each in meaning.names("reads")]
    if found is None and not named:
        meaning.document.errors.append(_unknown_inputs(query))
    checked = [check.to for check in checks if isinstance(check, Relationships) and check.to != name.lower()]
    return tuple(dict.fromkeys([*(found or ()), *named, *checked]))


def _unknown_inputs(query: Named) -> ModelError:
    reads = 'name its tables in the metadata: "reads": ["my_schema.orders"]'
    if wrong := syntax_error(query):
        place, why = wrong
        return ModelError("models.syntax", f"the query cannot be parsed: {why}", f"correct it, or {reads}", span=place)
    problem = "what this query reads is not known: it names tables by a function"
    return ModelError("models.unknown_inputs", problem, reads, span=query.span)
