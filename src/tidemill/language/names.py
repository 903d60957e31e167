"""What the statements declare and refer to: tables are one namespace over all pipelines, sources one per pipeline."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidemill.declare.names import is_foreign
from tidemill.language.errors import LanguageError, suggestion
from tidemill.language.statements import FullMerge

if TYPE_CHECKING:
    from collections.abc import Container

    from tidemill.declare.names import Naming
    from tidemill.declare.text import Span
    from tidemill.language.cursor import Named
    from tidemill.language.statements import Mode, SourceStatement


@dataclass(frozen=True, slots=True)
class _Loaded:
    source: Named
    mode: Mode
    mode_span: Span | None


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
    errors: list[LanguageError] = field(default_factory=list)
    _sources: dict[str, Named] = field(default_factory=dict)
    _incremental: dict[str, str] = field(default_factory=dict)
    _loaded: list[_Loaded] = field(default_factory=list)
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

    def complete_source(self, source: SourceStatement) -> None:
        if source.cursor:
            self._incremental[source.name.lower()] = source.cursor

    def load(self, source: Named, mode: Mode, mode_span: Span | None) -> None:
        self._loaded.append(_Loaded(source, mode, mode_span))

    def export(self, table: Named) -> None:
        self._check_catalog(table)
        self._exported.append(table)

    def check(self, known: Container[str]) -> None:
        """Notes what refers to nothing; `known` holds tables that are declared elsewhere or are there."""
        for loaded in self._loaded:
            self._check_load(loaded)
        for table in self._exported if self.whole else ():
            key = self.naming.key(table.text)
            is_known = key in self.tables or key in known or table.text in known
            if not is_known and table.text.lower() not in self.doubtful:
                self.errors.append(_unknown("table", table, [each.text for each in self.tables.values()]))

    def _check_load(self, loaded: _Loaded) -> None:
        key = loaded.source.text.lower()
        if key not in self._sources:
            if self.whole and key not in self.doubtful:
                self.errors.append(_unknown("source", loaded.source, [each.text for each in self._sources.values()]))
        elif isinstance(loaded.mode, FullMerge) and key in self._incremental:
            self.errors.append(
                LanguageError(
                    "language.full_merge_of_incremental",
                    f"FULL_MERGE reads its whole source, and {loaded.source.text} is INCREMENTAL BY "
                    f"{self._incremental[key]}",
                    "use MERGE ON, or drop INCREMENTAL BY from the source",
                    span=loaded.mode_span,
                )
            )

    def _check_catalog(self, name: Named) -> None:
        """A table of a pipeline is one of the warehouse."""
        if is_foreign(self.naming.full(name.text)):
            catalog = name.text.partition(".")[0]
            remedy = f'name it table or schema.table, or say [warehouse] catalog = "{catalog}" in tidemill.toml'
            problem = f"{name.text} cannot be a name here: {catalog} is not the catalog of this project"
            self.errors.append(LanguageError("language.bad_name", problem, remedy, span=name.span))

    def _declare(self, names: dict[str, Named], key: str, name: Named, word: str) -> None:
        first = names.setdefault(key, name)
        if first is not name:
            self.errors.append(_duplicate(word, name, first))


def _duplicate(word: str, name: Named, first: Named, hint: str = "") -> LanguageError:
    here = name.span.origin == first.span.origin
    there = f"the first is at {first.span.origin}{hint}"
    remedy = "two pipelines include it: declare it in one of them" if here else there
    return LanguageError("language.duplicate_name", f"{word} {name.text} is declared twice", remedy, span=name.span)


def _unknown(word: str, name: Named, known: list[str]) -> LanguageError:
    otherwise = f"the {word}s are {', '.join(sorted(known))}" if known else f"no {word} is declared"
    remedy = suggestion(name.text, known, otherwise)
    return LanguageError(f"language.unknown_{word}", f"no {word} is called {name.text}", remedy, span=name.span)
