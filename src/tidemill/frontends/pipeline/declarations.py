"""From the statements of pipelines to declarations: the tables, sources and exports that all front ends give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict, TypeVar, cast

from tidemill.errors import ArgumentError
from tidemill.frontends.pipeline import statements as said
from tidemill.frontends.pipeline.joins import joined, kept_by_join
from tidemill.frontends.pipeline.queries import inputs_in, produced, reads_of, sql_hash, takes_charge
from tidemill.frontends.sql.volatile import volatile_columns
from tidemill.model.mistakes import FileErrors, in_order
from tidemill.model.names import OF_WAREHOUSE
from tidemill.model.query import Export, Loaded
from tidemill.model.source import Load, Loads, Source
from tidemill.model.strategy import Append, DeleteInsert, Merge, MergeStrategy, Replace, Strategy
from tidemill.model.table import KeptRows, NullTime, SchemaPolicy, Table, Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from tidemill.errors import Origin
    from tidemill.frontends.pipeline.files import Pipeline
    from tidemill.model.names import Naming
    from tidemill.model.query import View

Made = TypeVar("Made")
_OF_ONE_LOAD = ("null_time", "dedup_order_by", "only_newer", "max_shrink")  # options that each LOAD has for itself


@dataclass(frozen=True, slots=True)
class Declared:
    """What one pipeline declares, in its order; or what all models do, which have views as well."""

    pipeline: str
    tables: tuple[Table, ...]
    exports: tuple[Export, ...]
    sources: tuple[Source, ...]
    views: tuple[View, ...] = ()


def declared(pipeline: Pipeline, path_of: Callable[[str], str], naming: Naming, folder: Path | None = None) -> Declared:
    """The declarations of a pipeline. `path_of` says where a table is, `naming` how tables are named.

    Paths of sources and exports are relative to `folder`, a project's; without one, to the pipeline's file.
    """
    reader = _Reader(pipeline, path_of, naming, folder or pipeline.folder)
    tables = tuple(reader.made(reader.table, _each_table_once(pipeline.tables, naming)))
    exports = tuple(reader.made(reader.export, pipeline.exports))
    if reader.errors:
        names = (naming.key(each.table) for each in pipeline.tables)
        raise FileErrors(in_order(reader.errors), reads_of(pipeline.statements, naming), names)
    return Declared(pipeline.name, tables, exports, tuple(reader.sources.values()))


@dataclass(frozen=True, slots=True)
class _Loading:
    """All LOADs of one table, in the order of the file."""

    loads: tuple[said.Load, ...]

    @property
    def origin(self) -> Origin:
        return self.loads[0].origin


_OfTable = _Loading | said.CreateTable | said.CreateJoin
Said = TypeVar("Said", bound=said.Statement | _Loading)


def _each_table_once(
    statements: Iterable[said.Load | said.CreateTable | said.CreateJoin], naming: Naming
) -> list[_OfTable]:
    """The statements in their order, with all LOADs of a table in the place of its first."""
    found: dict[object, _OfTable] = {}
    for each in statements:
        if not isinstance(each, said.Load):
            found[each.origin] = each
            continue
        key = naming.key(each.table)
        before = found.get(key)
        found[key] = _Loading((*(before.loads if isinstance(before, _Loading) else ()), each))
    return list(found.values())


class _Reader:
    def __init__(self, pipeline: Pipeline, path_of: Callable[[str], str], naming: Naming, folder: Path) -> None:
        self.pipeline, self.path_of, self.naming, self.folder = pipeline, path_of, naming, folder
        self.errors: list[ArgumentError] = []
        self.sources = {each.name.lower(): each for each in self.made(self._source, pipeline.sources.values())}

    def made(self, make: Callable[[Said], Made], statements: Iterable[Said]) -> Iterator[Made]:
        """What the statements declare; what is wrong with one is noted, with its place."""
        for each in statements:
            loads = each.loads if isinstance(each, _Loading) else ()
            if any(load.source.lower() not in self.sources for load in loads):
                continue  # what is wrong with its source is noted already
            try:
                yield make(each)
            except ArgumentError as wrong:
                wrong.origin = wrong.origin or each.origin
                self.errors.append(wrong)

    def table(self, statement: _OfTable) -> Table:
        match statement:
            case _Loading(loads):
                return self._load(loads[0]) if len(loads) == 1 else self._loads(loads)
            case said.CreateJoin():
                return self._join(statement)
            case said.CreateTable():
                return self._create(statement)

    def export(self, statement: said.Export) -> Export:
        text = statement.query.text if statement.query else f"SELECT * FROM {statement.table}"
        return Export(
            name=statement.target,
            query=produced(said.Query(text, statement.origin)),
            inputs=inputs_in(text, self.naming) or (),
            target=statement.target,
            kind=statement.kind,
            mode=_export_mode(statement.mode),
            options=dict(statement.options),
            origin=statement.origin,
            folder=self.folder,
            secrets=self.pipeline.secrets,
        )

    def _source(self, statement: said.SourceStatement) -> Source:
        params = dict(statement.params)
        return Source(
            name=statement.name,
            kind=statement.kind,
            columns=_columns(params.pop("columns", ())),
            batch_size=cast("int | None", params.pop("batch_size", None)),
            params=params,
            cursor=statement.cursor,
            lookback=statement.lookback,
            start=statement.start,
            primary_key=statement.primary_key,
            origin=statement.origin,
            folder=self.folder,
            secrets=self.pipeline.secrets,
        )

    def _load(self, statement: said.Load) -> Table:
        load = self._one_load(statement)
        return Table(
            name=self.naming.full(statement.table),
            path=self.path_of(statement.table),
            strategy=load.strategy,
            window=load.window,
            input=load.input,
            producer=Loaded(load.source),
            **_settings(statement.options),
            origin=statement.origin,
        )

    def _loads(self, statements: Sequence[said.Load]) -> Table:
        first = statements[0]
        loads = Loads(tuple(self._one_load(each) for each in statements))
        return Table(
            name=self.naming.full(first.table),
            path=self.path_of(first.table),
            strategy=loads.strategy,
            window=loads.window,
            input=self.pipeline.name,
            producer=loads,
            **_settings(_shared_options(statements)),
            origin=first.origin,
        )

    def _one_load(self, statement: said.Load) -> Load:
        source = self.sources[statement.source.lower()]
        whole = isinstance(statement.mode, said.Replace | said.FullMerge)
        window = None if whole or source.cursor is None else self._window(source, statement.options)
        strategy = _strategy(statement.mode, statement.options, source.cursor)
        return Load(source, strategy, f"{self.pipeline.name}.{source.name}", window, statement.origin)

    def _window(self, source: Source, options: Mapping[str, said.OptionValue]) -> Window:
        assert source.cursor is not None  # noqa: S101  asked only of sources that have one
        return Window(source.cursor, source.start, source.lookback, _null_time(options))

    def _create(self, statement: said.CreateTable) -> Table:
        query, mode = produced(statement.query), statement.mode
        window = None
        if isinstance(mode, said.IncrementalBy):
            window = Window(mode.column, None, mode.lookback, _null_time(statement.options))
        settings = _settings(statement.options)
        settings["volatile"] = tuple(dict.fromkeys([*settings["volatile"], *volatile_columns(query.text)]))
        return Table(
            name=self.naming.full(statement.table),
            path=self.path_of(statement.table),
            strategy=_strategy(mode, statement.options, None),
            window=window,
            input=self.pipeline.name,
            inputs=inputs_in(query.text, self.naming) or (),
            producer=query,
            sql_hash=sql_hash(query),
            owns_window=window is not None and takes_charge(query),
            **settings,
            origin=statement.origin,
        )

    def _join(self, statement: said.CreateJoin) -> Table:
        settings = _settings(statement.options)
        settings["volatile"] = tuple(dict.fromkeys([*settings["volatile"], *volatile_columns(statement.query.text)]))
        return Table(
            name=self.naming.full(statement.table),
            path=self.path_of(statement.table),
            input=self.pipeline.name,
            **kept_by_join(joined(statement, self.naming), statement.options.get("max_shrink")),
            **settings,
            origin=statement.origin,
        )


def _strategy(mode: said.Mode, options: Mapping[str, said.OptionValue], cursor: str | None) -> Strategy:
    shrink = cast("float | None", options.get("max_shrink"))
    match mode:
        case said.Replace():
            return Replace(shrink)
        case said.Append():
            return Append()
        case said.IncrementalBy():
            return DeleteInsert(max_shrink=shrink)
        case said.FullMerge(keys):
            return Merge(keys, MergeStrategy.FULL_MERGE, _order(options), max_shrink=shrink)
        case said.Merge(keys):
            order = _order(options)
            form = MergeStrategy.DEDUPLICATE if order else MergeStrategy.UPSERT
            newest = None if order else cursor
            return Merge(keys, form, order, _only_newer(options, cursor), newest_by=newest)


def _only_newer(options: Mapping[str, said.OptionValue], cursor: str | None) -> str | None:
    value = options.get("only_newer")
    if value is True and cursor is None:
        raise ArgumentError(
            "table.only_newer", "only_newer = true needs a source with a cursor.", "Name the column instead."
        )
    return cursor if value is True else cast("str | None", value or None)


def _order(options: Mapping[str, said.OptionValue]) -> tuple[str, ...]:
    return cast("tuple[str, ...]", options.get("dedup_order_by", ()))


def _null_time(options: Mapping[str, said.OptionValue]) -> NullTime:
    return NullTime(str(options.get("null_time", NullTime.FAIL)))


class _Settings(TypedDict):
    volatile: tuple[str, ...]
    schema_policy: SchemaPolicy
    partition_by: tuple[str, ...]
    cluster_by: tuple[str, ...]
    format: str
    reset_allowed: bool
    description: str | None
    tags: tuple[str, ...]
    kept_rows: KeptRows | None


def _settings(options: Mapping[str, said.OptionValue]) -> _Settings:
    """The options that every table takes alike; the language has checked their types."""
    return cast(
        "_Settings",
        {
            "volatile": options.get("volatile", ()),
            "schema_policy": SchemaPolicy(str(options.get("on_schema_change", SchemaPolicy.FAIL))),
            "partition_by": options.get("partition_by", ()),
            "cluster_by": options.get("cluster_by", ()),
            "format": options.get("format", OF_WAREHOUSE),
            "reset_allowed": options.get("reset_allowed", True),
            "description": options.get("description"),
            "tags": options.get("tags", ()),
            "kept_rows": KeptRows(str(options["kept_rows"])) if "kept_rows" in options else None,
        },
    )


def _shared_options(statements: Sequence[said.Load]) -> dict[str, said.OptionValue]:
    """The options of the table, which any of its LOADs may give, and no two otherwise."""
    found: dict[str, said.OptionValue] = {}
    for each in statements:
        for name, value in each.options.items():
            if name not in _OF_ONE_LOAD and found.setdefault(name, value) != value:
                raise ArgumentError(
                    "load.other_option",
                    f"{name} of {each.table} is given twice, with different values.",
                    "Give it in one of its LOADs: it holds for the table.",
                    origin=each.origin,
                )
    return found


def _columns(value: object) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(cast("list[str]", value))


def _export_mode(mode: said.ExportMode) -> Replace | Append | Merge:
    match mode:
        case said.Merge(keys):
            return Merge(keys)
        case said.Append():
            return Append()
        case said.Replace():
            return Replace()
