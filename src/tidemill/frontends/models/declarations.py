"""From the query and the metadata of a model to its declaration: columns, checks and joins included."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tidemill.errors import ArgumentError
from tidemill.frontends.models.metadata import read_condition
from tidemill.frontends.pipeline.joins import join_condition, join_text, select_items
from tidemill.frontends.pipeline.tokens import cut_at_parameters
from tidemill.frontends.sql import columns_of, output_columns, syntax_error, volatile_columns
from tidemill.frontends.tables import SETTINGS, inputs_in, query_of, rows_of_join, rows_of_query, settings_of, sql_hash
from tidemill.model import table
from tidemill.model.check import AcceptedValues, Holds, NotNull, Relationships, RowCount, Severity, Unique
from tidemill.model.cursor import Duration
from tidemill.model.join import STATUS, SUFFIXES, TIME, WAITED, Join, JoinSide, check_own_names, join_type
from tidemill.model.mistakes import FileError, suggestion
from tidemill.model.names import of, spelled
from tidemill.model.query import View
from tidemill.model.source import as_names
from tidemill.model.table import Table
from tidemill.model.window import StartVariable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from tidemill.frontends.models.metadata import Metadata
    from tidemill.frontends.pipeline.reader import Named
    from tidemill.frontends.shape import Document, Key
    from tidemill.model.check import Check
    from tidemill.model.names import Naming
    from tidemill.model.query import Query
    from tidemill.model.window import Template

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
        condition = read_condition(self.document, key, value)
        if condition is not None and condition.parameters:
            problem = "a check takes no variables"
            self.document.note(key, "models.bad_condition", problem, "write its values into the condition")
            return None
        return None if condition is None else Holds(value, columns_of(value) or (), **how)


_NAMED = ("unique_key", "time_column", "dedup_order_by", "partition_by", "cluster_by", "volatile")


def check_columns(query: str, metadata: Metadata, checks: Iterable[tuple[Key, Check]]) -> None:
    """Notes them all; nothing is known of a query whose columns only the data can name, such as `SELECT *`."""
    given = output_columns(query)
    if given is not None and metadata.kind == "incremental_join":
        of_join = metadata.given["incremental_join"]
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


KIND = "incremental_join"
_NAME = re.compile(r"\w+")


def read_join(query: Named, metadata: Metadata, naming: Naming) -> Join | None:
    """None where something has been noted in the document of `metadata`."""
    given: Mapping[str, Any] = metadata.given[KIND]
    back, forward = (_length(metadata, name, given[name]) for name in ("look_back", "look_forward"))
    select, on = _select(metadata, query), _condition(metadata, given["on"])
    time, status, suffixes = _names(metadata, given)
    if metadata.document.errors or back is None or forward is None or on is None:
        return None
    return Join(
        a=JoinSide(naming.key(given["a"]), "a", given["a_time"]),
        b=JoinSide(naming.key(given["b"]), "b", given["b_time"]),
        on=on,
        how=join_type(given.get("how", "left")),
        look_back=back,
        look_forward=forward,
        select=select,
        start=None if given.get("start") is None else str(given["start"]),
        up_to=_up_to(metadata, given.get("up_to")),
        time=time,
        status=status,
        suffixes=suffixes,
        origin=query.span.origin,
    )


def _length(metadata: Metadata, name: str, value: str | int) -> Duration | int | None:
    try:
        found = table.lookback(value)
    except ArgumentError as bad:
        metadata.document.pass_on((KIND, name), bad)
        return None
    if isinstance(found, Duration) and found.unit in {"month", "year"}:
        problem = f"{name} of {found} has no fixed length"
        metadata.note((KIND, name), "varying_length", problem, "write it in days")
        return None
    return found


def _select(metadata: Metadata, query: Named) -> tuple[Template, ...]:
    try:
        return tuple(join_text(item) for item in select_items(query.text))
    except ArgumentError as bad:
        metadata.document.errors.append(FileError.at(query.span, bad))
        return ()


def _condition(metadata: Metadata, on: str | list[str | list[str]]) -> Template | None:
    """Columns that both sides have, and pairs of columns, are equal in a pair; any other text is a condition itself."""
    try:
        return join_condition(" AND ".join(_equal(each) for each in ([on] if isinstance(on, str) else on)))
    except ArgumentError as bad:
        metadata.document.pass_on((KIND, "on"), bad)
        return None


def _equal(given: str | list[str]) -> str:
    match given:
        case str() as text:
            return f"{of('a', text)} = {of('b', text)}" if _NAME.fullmatch(text) else text
        case [str() as a, str() as b]:
            return f"{of('a', a)} = {of('b', b)}"
        case _:
            names = ", ".join(given)
            remedy = 'Write "reference", ["id", "order_id"], or "a.id = b.order_id".'
            raise ArgumentError("join.bad_keys", f"{names} in on is neither a column nor a pair of columns.", remedy)


def _names(metadata: Metadata, given: Mapping[str, Any]) -> tuple[str, str, tuple[str, str]]:
    time, status = given.get("time", TIME), given.get("status", STATUS)
    try:
        check_own_names(time, status)
    except ArgumentError as bad:
        metadata.document.pass_on((KIND, "time" if "time" in given else "status"), bad)
    suffixes = given.get("suffixes", {})
    return time, status, (suffixes.get("a", SUFFIXES[0]), suffixes.get("b", SUFFIXES[1]))


def _up_to(metadata: Metadata, value: str | int | None) -> str | StartVariable | None:
    if value is None or not str(value).startswith("@"):
        return None if value is None else str(value)
    pieces, names = cut_at_parameters(str(value))
    if pieces != ("", ""):
        problem = f"up_to cannot be {value}"
        metadata.note((KIND, "up_to"), "bad_up_to", problem, 'write "2024-01-31" or "@name"')
        return None
    return StartVariable(names[0], metadata.document.places.at(KIND, "up_to").origin)


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
    join = read_join(query, metadata, naming) if metadata.kind == KIND else None
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
