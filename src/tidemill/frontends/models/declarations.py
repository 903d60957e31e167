"""From the query and the metadata of a model to its declaration: columns, checks and joins included."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tidemill.errors import ArgumentError
from tidemill.frontends.joins import read_join_metadata
from tidemill.frontends.models.metadata import read_constant
from tidemill.frontends.sql.binding import syntax_error
from tidemill.frontends.sql.scopes import columns_of, output_columns
from tidemill.frontends.sql.volatile import volatile_columns
from tidemill.frontends.tables import (
    JOIN,
    OF_COLUMNS,
    SETTINGS,
    inputs_in,
    query_of,
    rows_of_join,
    rows_of_query,
    settings_of,
    sql_hash,
)
from tidemill.model import FileError, spelled, suggestion
from tidemill.model.check import AcceptedValues, Holds, NotNull, Relationships, RowCount, Severity, Unique
from tidemill.model.join import STATUS, TIME, WAITED
from tidemill.model.query import View
from tidemill.model.source import as_names
from tidemill.model.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from tidemill.frontends.models.metadata import Metadata
    from tidemill.frontends.pipeline.reader import Named
    from tidemill.frontends.shape import Document, Key
    from tidemill.model import Naming
    from tidemill.model.check import Check
    from tidemill.model.query import Query

KINDS = ("not_null", "unique", "accepted_values", "relationships", "row_count", "condition")


def read_checks(document: Document, given: list[Any], naming: Naming) -> list[tuple[Key, Check]]:
    """Each check with the key under which it stands; `naming` says what names of tables mean.

    None in `given` is a check with which something is wrong, and that has been reported.
    """
    reader = _Reader(document, naming)
    found = [reader.check(("checks", index), each) for index, each in enumerate(given) if each is not None]
    return [each for each in found if each is not None]


class _Reader:
    def __init__(self, document: Document, naming: Naming) -> None:
        self.document, self.naming = document, naming
        self.readers: dict[str, Callable[[Key, Any, dict[str, Any]], Check | None]] = {
            "not_null": lambda _, value, how: NotNull(as_names(value) or (), **how),
            "unique": lambda _, value, how: Unique(as_names(value) or (), **how),
            "accepted_values": lambda _, value, how: AcceptedValues(value["column"], tuple(value["values"]), **how),
            "relationships": self._relationships,
            "row_count": lambda _, value, how: RowCount(value.get("min"), value.get("max"), **how),
            "condition": self._condition,
        }

    def check(self, key: Key, given: str | Mapping[str, Any]) -> tuple[Key, Check] | None:
        entry = {"condition": given} if isinstance(given, str) else given
        kinds = [kind for kind in KINDS if kind in entry]
        if len(kinds) != 1:
            problem = f"a check is of one kind, and this one has {', '.join(kinds) or 'none'}"
            self.document.note(key, "models.bad_check", problem, f"give one of {', '.join(KINDS)}")
            return None
        place: Key = key if isinstance(given, str) else (*key, kinds[0])
        how = {
            "severity": Severity(entry.get("severity", Severity.ERROR)),
            "name": entry.get("name"),
            "origin": self.document.places.at(*place).origin,
        }
        try:
            found = self.readers[kinds[0]](place, entry[kinds[0]], how)
        except ArgumentError as bad:
            self.document.pass_on(place, bad)
            return None
        return None if found is None else (place, found)

    def _relationships(self, _: Key, value: Mapping[str, str], how: dict[str, Any]) -> Check:
        to = self.naming.key(value["to"])
        return Relationships(value["column"], to, value.get("field", value["column"]), **how)

    def _condition(self, key: Key, value: str, how: dict[str, Any]) -> Check | None:
        condition = read_constant(self.document, key, value, "a check takes no variables")
        return None if condition is None else Holds(value, columns_of(value) or (), **how)


_NAMED = ("unique_key", "time_column", *OF_COLUMNS)


def check_columns(query: str, metadata: Metadata, checks: Iterable[tuple[Key, Check]]) -> None:
    """Notes them all; nothing is known of a query whose columns only the data can name, such as `SELECT *`."""
    given = output_columns(query)
    if given is not None and metadata.kind == JOIN:
        of_join = metadata.given[JOIN]
        given = (*given, of_join.get("time", TIME), of_join.get("status", STATUS), WAITED)
    for key, name in _needed(metadata, checks) if given is not None else ():
        if given is not None and spelled(name, given) is None:
            remedy = suggestion(name, given, f"its columns are {', '.join(given)}")
            problem = f"{_word(key)} names {name}, which the query does not give"
            metadata.note(key, "unknown_column", problem, remedy)


def _needed(metadata: Metadata, checks: Iterable[tuple[Key, Check]]) -> Iterator[tuple[Key, str]]:
    for name in _NAMED:
        yield from ((metadata.place(name), column) for column in metadata.names(name))
    if isinstance(metadata.value("only_newer"), str):
        yield metadata.place("only_newer"), metadata.value("only_newer")
    if metadata.strategy and metadata.value("where_condition"):
        place = metadata.place("where_condition")
        yield from ((place, column) for column in columns_of(metadata.value("where_condition")) or ())
    for key, check in checks:
        yield from ((key, column) for column in check.columns)


def _word(key: Key) -> str:
    words = [part for part in key if isinstance(part, str)]
    return "this check" if words[0] == "checks" else words[-1]


_INPUT = "query"  # under which a table keeps how far it has read


def declare_model(
    name: str,
    query: Named,
    metadata: Metadata,
    checks: list[tuple[Key, Check]],
    path_of: Callable[[str], str],
    naming: Naming,
) -> Table | View | None:
    """The table or view; None where something has been noted in the document of `metadata`."""
    check_columns(query.text, metadata, checks)
    producer = query_of(query.text, query.span.origin)
    _check_query(producer, metadata)
    found = tuple(check for _, check in checks)
    inputs = _inputs(name, query, metadata, found, naming)
    join = read_join_metadata(query, metadata, naming) if metadata.kind == JOIN else None
    if metadata.document.errors:
        return None
    if metadata.strategy is None:
        # Whoever reads a view may compare its load time with a date: its volatile columns count too.
        clock = producer.clock or bool(volatile_columns(query.text))
        return View(
            name=name,
            path=path_of(name),
            query=replace(producer, clock=clock),
            inputs=inputs,
            sql_hash=sql_hash(producer),
            origin=producer.origin,
            description=metadata.value("description"),
            tags=metadata.names("tags"),
            checks=found,
        )
    if join is not None:
        rows = rows_of_join(join, metadata.value("max_shrink"), inputs)
    else:
        rows = rows_of_query(producer, metadata.strategy, metadata.window, inputs)
    given = {name: value for name in SETTINGS if (value := metadata.value(name)) is not None}
    return Table(
        name=name,
        path=path_of(name),
        input=_INPUT,
        origin=producer.origin,
        checks=found,
        **rows,
        **settings_of(given, volatile_columns(query.text)),
    )


def _check_query(query: Query, metadata: Metadata) -> None:
    if metadata.kind == "view" and query.parameters:
        name = query.parameters[0]
        problem = f"a view is read when no run is there to give @{name} a value"
        metadata.note(("materialization",), "view_with_variables", problem, f"write ${{{name}}}, or make it a table")
    unsteady = query.unrepeatable if metadata.kind == "append" else None
    if unsteady:
        problem = f"{unsteady} may give the same rows another value in the next run, and append would treat them as new"
        metadata.note(
            ("incremental", "strategy"), "unrepeatable", problem, f"order what {unsteady} reads, or use merge"
        )


def _inputs(name: str, query: Named, metadata: Metadata, checks: tuple[Check, ...], naming: Naming) -> tuple[str, ...]:
    """What the query reads, what its author says that it reads, and what its checks look at."""
    found = inputs_in(query.text, naming)
    named = [naming.key(each) for each in metadata.names("reads")]
    if found is None and not named:
        metadata.document.errors.append(_unknown_inputs(query))
    checked = [check.to for check in checks if isinstance(check, Relationships) and check.to != name.lower()]
    return tuple(dict.fromkeys([*(found or ()), *named, *checked]))


def _unknown_inputs(query: Named) -> FileError:
    reads = 'name its tables in the metadata: "reads": ["my_schema.orders"]'
    if wrong := syntax_error(query):
        place, why = wrong
        return FileError("models.syntax", f"the query cannot be parsed: {why}", f"correct it, or {reads}", span=place)
    problem = "what this query reads is not known: it names tables by a function"
    return FileError("models.unknown_inputs", problem, reads, span=query.span)
