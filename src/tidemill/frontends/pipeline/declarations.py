"""What the statements of a pipeline declare: its names, and tables, sources and exports as all front ends give them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from tidemill.errors import ArgumentError
from tidemill.frontends.sql.volatile import volatile_columns
from tidemill.frontends.tables import SETTINGS, inputs_in, rows_of_join, rows_of_query, settings_of, with_settings
from tidemill.model import FileError, Reads, is_foreign, naming_remedy, suggestion
from tidemill.model.query import Export, Query
from tidemill.model.source import Load, Loaded, Loads, Source
from tidemill.model.strategy import Merge, MergeStrategy, Replace
from tidemill.model.table import NullTime, Table, Window

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping
    from pathlib import Path

    from tidemill.errors import Origin
    from tidemill.frontends.pipeline.clauses import OptionValue
    from tidemill.frontends.pipeline.reader import Named
    from tidemill.model import Naming, Span
    from tidemill.model.join import Join
    from tidemill.model.query import View
    from tidemill.model.strategy import Append, Strategy

Options = dict[str, "OptionValue"]


@dataclass(frozen=True, slots=True)
class Declared:
    """What one pipeline declares, in its order; or what all models do, which have views as well.

    `secrets` are the values that came from `.env` or the environment: nothing that is shown or kept may hold one.
    """

    pipeline: str
    tables: tuple[Table, ...]
    exports: tuple[Export, ...] = ()
    sources: tuple[Source, ...] = ()
    views: tuple[View, ...] = ()
    secrets: frozenset[str] = field(default=frozenset(), repr=False)


@dataclass(frozen=True, slots=True)
class Mode:
    """How rows enter, as far as MODE says it: options and the cursor of a source have their say as well.

    `text` is how it is written, at `span`; there is none where no MODE is given.
    """

    strategy: Strategy = field(default_factory=Replace)
    window: Window | None = None
    text: str = "REPLACE"
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class LoadStatement:
    """A LOAD, until all sources of its pipeline are known."""

    table: str
    source: Named
    mode: Mode
    options: Options
    origin: Origin

    @property
    def source_key(self) -> str:
        return self.source.text.lower()


@dataclass(frozen=True, slots=True)
class Locations:
    """How tables are named and where they are; paths of sources and exports are relative to `folder`."""

    naming: Naming
    path_of: Callable[[str], str]
    folder: Path


class DeclarationCollector:
    """Collects what the statements of one pipeline declare. A declaration that finds a mistake in itself raises it."""

    def __init__(self, pipeline: str, places: Locations) -> None:
        self.pipeline, self.places = pipeline, places
        self.sources: dict[str, Source] = {}
        self.loads: list[LoadStatement] = []
        self.reads: list[Reads] = []
        self._tables: dict[str, Table | None] = {}
        self._exports: list[Export] = []

    def add_source(self, source: Source) -> None:
        self.sources.setdefault(source.name.lower(), replace(source, folder=self.places.folder))

    def add_load(self, load: LoadStatement) -> None:
        """Its place among the tables is that of the first LOAD into the same."""
        self._tables.setdefault(self.places.naming.key(load.table), None)
        self.loads.append(load)
        self._note_reads(load.table, (), load.origin)

    def add_table(self, name: str, mode: Mode, options: Options, query: Query, origin: Origin) -> None:
        """The table of a query."""
        inputs = inputs_in(query.text, self.places.naming) or ()
        self._note_reads(name, inputs, origin)
        strategy = with_settings(mode.strategy, options, _only_newer(mode.strategy, options, None))
        window = mode.window and replace(mode.window, null_time=_null_time(options))
        self._add(
            Table(
                name=self.places.naming.full(name),
                path=self.places.path_of(name),
                input=self.pipeline,
                **rows_of_query(query, strategy, window, inputs),
                **settings_of(options, volatile_columns(query.text)),
                origin=origin,
            )
        )

    def add_join(self, name: str, join: Join, query: str, options: Options) -> None:
        """The table of an incremental join; `query` is its SELECT."""
        rows = rows_of_join(join, cast("float | None", options.get("max_shrink")))
        self._note_reads(name, rows["inputs"], join.origin)
        self._add(
            Table(
                name=self.places.naming.full(name),
                path=self.places.path_of(name),
                input=self.pipeline,
                **rows,
                **settings_of(options, volatile_columns(query)),
                origin=join.origin,
            )
        )

    def add_export(
        self, target: str, query: Query, kind: str, mode: Mode, options: Mapping[str, object], origin: Origin
    ) -> None:
        inputs = inputs_in(query.text, self.places.naming) or ()
        self.reads.append(Reads(target, inputs, origin))
        export = Export(
            name=target,
            query=query,
            inputs=inputs,
            target=target,
            kind=kind,
            mode=cast("Replace | Append | Merge", mode.strategy),
            options=options,
            origin=origin,
            folder=self.places.folder,
        )
        self._exports.append(export)

    def finish(self, secrets: frozenset[str]) -> tuple[Declared, list[ArgumentError]]:
        """All that is declared, LOADs included, and what is wrong with those."""
        self.sources = {name: replace(each, secrets=secrets) for name, each in self.sources.items()}
        errors: list[ArgumentError] = []
        for key in [key for key, table in self._tables.items() if table is None]:
            try:
                self._tables[key] = self._table_of_loads(key)
            except ArgumentError as wrong:
                wrong.origin = wrong.origin or self._loads_of(key)[0].origin
                errors.append(wrong)
        tables = tuple(table for table in self._tables.values() if table)
        exports = tuple(replace(each, secrets=secrets) for each in self._exports)
        return Declared(self.pipeline, tables, exports, tuple(self.sources.values()), secrets=secrets), errors

    def _add(self, table: Table) -> None:
        self._tables[f"{table.name.lower()} {table.origin}"] = table

    def _note_reads(self, name: str, inputs: tuple[str, ...], origin: Origin | None) -> None:
        self.reads.append(Reads(self.places.naming.full(name), inputs, origin))

    def _loads_of(self, key: str) -> list[LoadStatement]:
        return [each for each in self.loads if self.places.naming.key(each.table) == key]

    def _table_of_loads(self, key: str) -> Table | None:
        """None where a source could not be declared, which has been reported."""
        statements = self._loads_of(key)
        if any(each.source_key not in self.sources for each in statements):
            return None
        loads = tuple(self._load(each) for each in statements)
        load = loads[0] if len(loads) == 1 else Loads(loads)
        return Table(
            name=self.places.naming.full(statements[0].table),
            path=self.places.path_of(statements[0].table),
            strategy=load.strategy,
            window=load.window,
            input=load.input if isinstance(load, Load) else self.pipeline,
            producer=Loaded(load.source) if isinstance(load, Load) else load,
            **settings_of(_shared_options(statements)),
            origin=statements[0].origin,
        )

    def _load(self, statement: LoadStatement) -> Load:
        source = self.sources[statement.source_key]
        mode, options, window = statement.mode.strategy, statement.options, None
        strategy = with_settings(mode, options, _only_newer(mode, options, source.cursor), source.cursor)
        if source.cursor is not None and not strategy.is_whole:
            window = Window(source.cursor, source.start, source.lookback, _null_time(options))
        return Load(source, strategy, f"{self.pipeline}.{source.name}", window, statement.origin)


def _only_newer(strategy: Strategy, options: Options, cursor: str | None) -> str | None:
    value = options.get("only_newer")
    if value is True and cursor is None and strategy.keys and not strategy.is_whole:
        raise ArgumentError(
            "table.only_newer", "only_newer = true needs a source with a cursor.", "Name the column instead."
        )
    return cursor if value is True else cast("str | None", value or None)


def _null_time(options: Options) -> NullTime:
    return NullTime(str(options.get("null_time", NullTime.FAIL)))


def _shared_options(statements: list[LoadStatement]) -> Options:
    """The options of the table, which any of its LOADs may give, and no two otherwise."""
    found: Options = {}
    for each in statements:
        for name, value in each.options.items():
            if not SETTINGS[name].of_load and found.setdefault(name, value) != value:
                raise ArgumentError(
                    "load.other_option",
                    f"{name} of {each.table} is given twice, with different values.",
                    "Give it in one of its LOADs: it holds for the table.",
                    origin=each.origin,
                )
    return found


@dataclass
class Names:
    """The names of one pipeline; `tables` is shared with the others. `naming` says what their names mean.

    `whole` is False when a file could not be read: then a name that is not found may be in there. `doubtful` are the
    words of statements that could not be read, which may be such names.
    """

    tables: dict[str, Named]
    naming: Naming
    whole: bool = True
    doubtful: set[str] = field(default_factory=set)
    errors: list[FileError] = field(default_factory=list)
    _sources: dict[str, Named] = field(default_factory=dict)
    _exported: list[Named] = field(default_factory=list)
    _load_targets: set[str] = field(default_factory=set)

    def declare_table(self, name: Named) -> None:
        self._check_catalog(name)
        self._declare(self.tables, self.naming.key(name.text), name, "table")

    def declare_loaded(self, name: Named) -> None:
        """The table of a LOAD: others of the same file may load into it too."""
        key = self.naming.key(name.text)
        first = self.tables.get(key)
        if first is None:
            self.declare_table(name)
            self._load_targets.add(key)
        elif first.span.text.file != name.span.text.file:
            self.errors.append(_duplicate("table", name, first, "; several LOADs of one table have to be in one file"))
        elif key not in self._load_targets:
            self.declare_table(name)

    def declare_source(self, name: Named) -> None:
        self._declare(self._sources, name.text.lower(), name, "source")

    def export(self, table: Named) -> None:
        self._check_catalog(table)
        self._exported.append(table)

    def check(self, declarations: DeclarationCollector, known: Container[str]) -> None:
        """Notes what refers to nothing; `known` holds tables that are declared elsewhere or are there."""
        for load in declarations.loads:
            self._check_load(load, declarations.sources.get(load.source_key))
        for table in self._exported if self.whole else ():
            key = self.naming.key(table.text)
            is_known = key in self.tables or key in known or table.text in known
            if not is_known and table.text.lower() not in self.doubtful:
                self.errors.append(_unknown("table", table, [each.text for each in self.tables.values()]))

    def _check_load(self, load: LoadStatement, source: Source | None) -> None:
        if load.source_key not in self._sources:
            if self.whole and load.source_key not in self.doubtful:
                self.errors.append(_unknown("source", load.source, [each.text for each in self._sources.values()]))
        elif source and source.cursor and load.mode.strategy.form is MergeStrategy.FULL_MERGE:
            self.errors.append(
                FileError(
                    "language.full_merge_of_incremental",
                    f"FULL_MERGE reads its whole source, and {load.source.text} is INCREMENTAL BY {source.cursor}",
                    "use MERGE ON, or drop INCREMENTAL BY from the source",
                    span=load.mode.span,
                )
            )

    def _check_catalog(self, name: Named) -> None:
        """A table of a pipeline is one of the warehouse; a statement that names another cannot be read."""
        full = self.naming.full(name.text)
        if is_foreign(full):
            catalog = name.text.partition(".")[0]
            problem = f"{name.text} cannot be a name here: {catalog} is not the catalog of this project"
            raise FileError("language.bad_name", problem, naming_remedy(full), span=name.span)

    def _declare(self, names: dict[str, Named], key: str, name: Named, word: str) -> None:
        first = names.setdefault(key, name)
        if first is not name:
            self.errors.append(_duplicate(word, name, first))


def _duplicate(word: str, name: Named, first: Named, hint: str = "") -> FileError:
    here = name.span.origin == first.span.origin
    there = f"the first is at {first.span.origin}{hint}"
    remedy = "two pipelines include it: declare it in one of them" if here else there
    return FileError("language.duplicate_name", f"{word} {name.text} is declared twice", remedy, span=name.span)


def _unknown(word: str, name: Named, known: list[str]) -> FileError:
    otherwise = f"the {word}s are {', '.join(sorted(known))}" if known else f"no {word} is declared"
    remedy = suggestion(name.text, known, otherwise)
    return FileError(f"language.unknown_{word}", f"no {word} is called {name.text}", remedy, span=name.span)
