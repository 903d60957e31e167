"""One function for each statement: from its first word to its `;`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.errors import did_you_mean
from tidemill.frontends.joins import read_join_statement, refuse_mode
from tidemill.frontends.pipeline.clauses import (
    CLAUSES,
    EXPORT_MODES,
    LOAD_MODES,
    QUERY_WORDS,
    TABLE_MODES,
    VIEW_STATEMENT,
    export_end,
    query_end,
    read_lookback,
    read_mode_and_options,
    read_options,
    read_source_params,
)
from tidemill.frontends.pipeline.declarations import LoadStatement, Mode
from tidemill.frontends.pipeline.reader import read_object
from tidemill.frontends.pipeline.tokens import Kind, template_in
from tidemill.frontends.tables import query_of
from tidemill.model import FileError, suggestion
from tidemill.model.source import source_of
from tidemill.model.strategy import MaterializedView

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidemill.errors import Origin
    from tidemill.frontends.pipeline.declarations import DeclarationCollector, Names, Options
    from tidemill.frontends.pipeline.reader import JsonObject, Named, TokenReader
    from tidemill.model.cursor import Duration

_CREATED = ("TABLE", "MATERIALIZED")
# clauses of other systems' CREATE
_OPTIONS_ELSEWHERE = {
    "CLUSTER": "cluster_by",
    "PARTITIONED": "partition_by",
    "COMMENT": "description",
    "REFRESH": "refresh",
}
_FILES_WITHOUT_MERGE = {"csv", "json", "orc", "text", "avro", "xml"}


def read_set(reader: TokenReader) -> tuple[str, str]:
    """The name and its value; --var and the profile may have given another."""
    name = reader.word("SET needs a name", "write SET name = value;")
    reader.expect("=", "SET", "SET name = value;")
    value = reader.value("SET needs a value", "write SET name = value;")
    reader.end()
    return name.text, value


def read_include(reader: TokenReader) -> Named:
    """The file whose statements follow this one."""
    path = reader.string("INCLUDE needs a file", 'write INCLUDE "common.sql";')
    reader.end()
    return path


def read_source(reader: TokenReader, names: Names, into: DeclarationCollector, origin: Origin) -> None:
    name = reader.name(
        "SOURCE needs a name", 'write SOURCE orders TYPE CSV PARAMS { "path": "orders.csv" };', dotted=False
    )
    if not reader.filling.failed:
        names.declare_source(name)
    kind = _source_kind(reader)
    given: JsonObject | None = None
    if reader.at("PARAMS") or reader.at("OPTIONS"):
        given = read_object(reader, reader.step().upper)
    column, lookback = _incremental_by(reader)
    reader.end(("PARAMS", "INCREMENTAL BY"))
    shared = read_source_params(given, column) if given else {"params": {}, "cursor": column}
    into.add_source(source_of(name.text, kind, lookback=lookback, origin=origin, **shared))


def read_load(reader: TokenReader, names: Names, into: DeclarationCollector, origin: Origin) -> None:
    table = _declared_table(reader, names.declare_loaded, "LOAD", "write LOAD raw_orders FROM orders;")
    reader.expect("FROM", "LOAD", f"LOAD {table.text} FROM and the name of a source")
    source = reader.name("FROM needs the name of a source", f"write LOAD {table.text} FROM orders;", dotted=False)
    mode, options = read_mode_and_options(reader, "LOAD", LOAD_MODES)
    reader.end(CLAUSES)
    into.add_load(LoadStatement(table.text, source, mode, _options(options, "LOAD"), origin))


def read_create_table(reader: TokenReader, names: Names, into: DeclarationCollector, origin: Origin) -> None:
    reader.take("OR", "REPLACE")
    if reader.take("MATERIALIZED"):
        _read_materialized_view(reader, names, into, origin)
        return
    _expect_table(reader)
    table = _declared_table(reader, names.declare_table, "CREATE TABLE", "write CREATE TABLE daily AS SELECT …;")
    mode, given = read_mode_and_options(reader, "CREATE TABLE", TABLE_MODES)
    options = _options(given, "CREATE TABLE")
    _expect_as(reader, "CREATE TABLE", CLAUSES)
    if reader.at("INCREMENTAL"):
        refuse_mode(mode.span)
        into.add_join(table.text, *read_join_statement(reader, names.naming, origin), options)
        return
    expect_query(reader, "AS")
    query = reader.query(query_end(reader))
    reader.end()
    into.add_table(table.text, mode, options, query_of(query.text, query.span.origin), origin)


def _expect_table(reader: TokenReader) -> None:
    token = reader.token
    if token is not None and token.kind is Kind.WORD and did_you_mean(token.raw, _CREATED) == "MATERIALIZED":
        reader.fail_here("CREATE needs TABLE or MATERIALIZED VIEW", "did you mean MATERIALIZED?")
    reader.expect("TABLE", "CREATE", "CREATE TABLE name AS SELECT …; or CREATE MATERIALIZED VIEW name AS SELECT …;")


def _read_materialized_view(reader: TokenReader, names: Names, into: DeclarationCollector, origin: Origin) -> None:
    statement = VIEW_STATEMENT
    reader.expect("VIEW", "CREATE MATERIALIZED", f"{statement} name AS SELECT …;")
    table = _declared_table(reader, names.declare_table, statement, f"write {statement} daily AS SELECT …;")
    given = read_object(reader, "OPTIONS") if reader.take("OPTIONS") else None
    if reader.at("MODE"):
        remedy = "leave it out: the view is what its query gives, whichever way its rows enter"
        reader.fail_here(f"{statement} takes no MODE", remedy)
    options = _options(given, statement)
    _expect_as(reader, statement, ("OPTIONS",))
    expect_query(reader, "AS")
    query = reader.query(query_end(reader))
    reader.end()
    mode = Mode(MaterializedView(), text="MATERIALIZED VIEW")
    into.add_table(table.text, mode, options, query_of(query.text, query.span.origin), origin)


def read_export(reader: TokenReader, names: Names, into: DeclarationCollector, origin: Origin) -> None:
    end = export_end(reader)
    if _is_name(reader, end):
        table = reader.name("EXPORT needs a table or a query", 'write EXPORT daily TO "out/daily" TYPE PARQUET;')
        text = f"SELECT * FROM {table.text}"
    else:
        table = None
        expect_query(reader, "EXPORT")
        text = reader.query(end).text
    reader.expect("TO", "EXPORT", 'TO "out/daily" TYPE PARQUET')
    target = reader.string("TO needs a place in quotes", 'write TO "out/daily"')
    reader.expect("TYPE", "EXPORT", "TYPE and a kind, such as TYPE PARQUET")
    kind = _kind(reader, "TYPE")
    mode, options = read_mode_and_options(reader, "EXPORT", EXPORT_MODES)
    reader.end(CLAUSES)
    if mode.strategy.keys and kind in _FILES_WITHOUT_MERGE:
        raise FileError(
            "language.mode_of_kind",
            f"{kind.upper()} files cannot be merged into",
            "use MODE REPLACE or APPEND, or TYPE PARQUET, DELTA or JDBC",
            span=mode.span,
        )
    if table is not None:
        names.export(table)
    into.add_export(target.text, query_of(text, origin), kind, mode, options.values if options else {}, origin)


STATEMENTS = {"SOURCE": read_source, "LOAD": read_load, "CREATE": read_create_table, "EXPORT": read_export}


def _declared_table(reader: TokenReader, declare: Callable[[Named], None], statement: str, remedy: str) -> Named:
    table = reader.name(f"{statement} needs the name of a table", remedy)
    if not reader.filling.failed:
        declare(table)
    return table


def _options(given: JsonObject | None, statement: str) -> Options:
    return read_options(given, statement) if given else {}


def _source_kind(reader: TokenReader) -> str:
    for word in ("TYPE", "FROM"):
        if reader.take(word):
            return _kind(reader, word)
    reader.expect("TYPE", "SOURCE", "TYPE and a kind, such as TYPE CSV")
    raise AssertionError  # it raises


def _kind(reader: TokenReader, after: str) -> str:
    """The kind of a source or a target, in lower case but for names of classes."""
    token = reader.token
    problem, remedy = f"{after} needs a kind", "write CSV, JSON, PARQUET, DELTA, POSTGRES or another kind"
    if token is not None and token.kind is Kind.STRING:
        kind = reader.string(problem, remedy).text
    else:
        kind = reader.word(problem, remedy).text
    return kind if "." in kind else kind.lower()


def _incremental_by(reader: TokenReader) -> tuple[str | None, Duration | int | None]:
    if not reader.take("INCREMENTAL"):
        return None, None
    reader.expect("BY", "INCREMENTAL", "INCREMENTAL BY and the cursor column")
    column = reader.column("INCREMENTAL BY needs a column", "name the column that orders the source in time")
    return column, read_lookback(reader)


def _expect_as(reader: TokenReader, statement: str, clauses: tuple[str, ...]) -> None:
    if reader.take("AS"):
        return
    token = reader.token
    remedy = "write AS and a query"
    clause = token.raw.upper().split()[0] if token is not None else ""  # "CLUSTER BY" is one token
    if option := _OPTIONS_ELSEWHERE.get(clause):
        reader.fail_here(f"{statement} has no clause {clause}", f'it is an option: OPTIONS {{ "{option}": … }}')
    if token is not None and token.kind is Kind.WORD:
        remedy = suggestion(token.raw, (*clauses, "AS"), remedy)
    reader.fail_here(f"{statement} needs AS and a query", remedy)


def expect_query(reader: TokenReader, after: str) -> None:
    token = reader.token
    if token is None or token.raw == ";":
        reader.fail_here(f"{after} needs a query", "write SELECT …")
    if template := template_in(reader.lexed.text, [token]):
        raise template
    if token.upper not in QUERY_WORDS and token.raw != "(" and "${" not in token.raw:
        remedy = suggestion(token.raw, QUERY_WORDS, f"a query starts with {', '.join(QUERY_WORDS)} or (")
        reader.fail(token, "language.not_a_query", f"no query starts with {token.raw}", remedy)


def _is_name(reader: TokenReader, end: int) -> bool:
    """All that comes before `end` is a name with dots or without."""
    tokens = reader.lexed.tokens[reader.index : end]
    pairs = zip(tokens[::2], tokens[1::2], strict=False)
    return len(tokens) % 2 == 1 and tokens[-1].kind is not Kind.STRING and all(dot.raw == "." for _, dot in pairs)
