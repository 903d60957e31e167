"""The statements of one file in their order, with IF blocks resolved, and the names that they declare."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Protocol

from tidemill.errors import ArgumentError
from tidemill.frontends.pipeline.clauses import STATEMENT_WORDS, starts_statement
from tidemill.frontends.pipeline.declarations import Declarations
from tidemill.frontends.pipeline.grammar import STATEMENTS, read_include, read_set
from tidemill.frontends.pipeline.reader import CutShortError, TokenReader
from tidemill.frontends.pipeline.substitution import Filling
from tidemill.frontends.pipeline.tokens import template_in
from tidemill.model.mistakes import FileError, suggestion
from tidemill.model.names import is_foreign, naming_remedy
from tidemill.model.strategy import MergeStrategy

if TYPE_CHECKING:
    from collections.abc import Container

    from tidemill.frontends.pipeline.declarations import LoadStatement
    from tidemill.frontends.pipeline.reader import Named
    from tidemill.frontends.pipeline.substitution import Scope
    from tidemill.frontends.pipeline.tokens import Lexed, Token
    from tidemill.model.names import Naming
    from tidemill.model.source import Source


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

    def check(self, declarations: Declarations, known: Container[str]) -> None:
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


_NUMBER = re.compile(r"-?\d+(\.\d+)?")


class Whole(Protocol):
    """What the files of a pipeline share."""

    scope: Scope
    names: Names
    declarations: Declarations
    errors: list[ArgumentError]

    def include(self, file: Named) -> None: ...


class FileReader:
    """Reads the statements of one file into the whole."""

    def __init__(self, lexed: Lexed, whole: Whole) -> None:
        self.whole = whole
        self.reader = TokenReader(lexed, Filling(lexed, whole.scope))

    def read(self) -> None:
        self._block(taken=True, inside=False)

    def _block(self, *, taken: bool, inside: bool) -> None:
        """Statements up to the end of the file, or of the branch that this is."""
        while (token := self.reader.token) is not None:
            if token.upper in {"ELSE", "ELSEIF", "END"}:
                if inside:
                    return
                self._stray(token)
            elif token.upper == "IF":
                self._if(taken=taken)
            elif not self.reader.take(";"):
                self._statement(taken=taken)

    def _statement(self, *, taken: bool) -> None:
        """A statement of a branch that is not taken is checked, as far as that needs no variable, and not used."""
        start = self.reader.index
        filling = self.reader.filling = Filling(self.reader.lexed, self.whole.scope, blind=not taken)
        names, into = self.whole.names, self.whole.declarations
        if not taken:
            names, into = Names({}, names.naming), Declarations(into.pipeline, into.places)
        token = self.reader.step()
        origin = self.reader.span(token).origin
        try:
            self._read(token, names, into, taken=taken)
        except CutShortError:
            self.reader.index = len(self.reader.lexed.tokens)
        except FileError as error:
            if not filling.failed:
                self.whole.errors.append(error)
            self._recover(start)
            names.doubtful |= {token.raw.lower() for token in self.reader.lexed.tokens[start : self.reader.index]}
        except ArgumentError as error:  # a declaration has found it in itself, after the statement was read
            if taken and not filling.failed:
                error.origin = error.origin or origin
                self.whole.errors.append(error)
        self.whole.errors += filling.errors

    def _read(self, token: Token, names: Names, into: Declarations, *, taken: bool) -> None:
        reader = self.reader
        if token.upper == "SET":
            name, value = read_set(reader)
            if taken:
                self.whole.scope.assigned[name] = value
        elif token.upper == "INCLUDE":
            file = read_include(reader)
            if taken:
                self._include(file)
        elif token.upper in STATEMENTS:
            STATEMENTS[token.upper](reader, names, into, reader.span(token).origin)
        else:
            raise self._unknown(token)

    def _include(self, file: Named) -> None:
        if self.reader.filling.failed:
            self.whole.names.whole = False  # which file it is depends on a value that is not there
        else:
            self.whole.include(file)

    def _recover(self, start: int) -> None:
        """Goes on after the next `;`, or where a line begins with a statement."""
        reader = self.reader
        reader.index = max(reader.index, start + 1)
        while reader.token is not None and not reader.take(";"):
            if starts_statement(reader, reader.index):
                return
            reader.index += 1

    # IF … THEN … ELSE IF … THEN … ELSE … END IF;

    def _if(self, *, taken: bool) -> None:
        opener = self.reader.step()
        done = self._branch(taken=taken, conditional=True)
        last = closed = False
        while not closed and (token := self.reader.token) is not None:
            if token.upper != "END" and last:
                self._note(
                    token, "language.unexpected", "this IF has an ELSE already", "nothing but END IF; can follow it"
                )
            if self._take_else_if():
                done = self._branch(taken=taken and not done, conditional=True) or done
            elif self.reader.take("ELSE"):
                last = True
                done = self._branch(taken=taken and not done, conditional=False) or done
            else:
                closed = self._end_if()
        if not closed and not self.reader.lexed.cut:
            self._note(opener, "language.if_without_end", "this IF has no END IF", "write END IF; after it")

    def _branch(self, *, taken: bool, conditional: bool) -> bool:
        """Reads one branch; whether it was taken."""
        chosen = (self._condition(taken=taken) if conditional else True) and taken
        self._block(taken=chosen, inside=True)
        return chosen

    def _take_else_if(self) -> bool:
        """An IF on the line of its ELSE goes on with it; on a line of its own it is a block inside."""
        following = self.reader.ahead(1)
        if following is not None and following.first_on_line:
            return self.reader.take("ELSEIF")
        return self.reader.take("ELSE", "IF") or self.reader.take("ELSEIF")

    def _condition(self, *, taken: bool) -> bool:
        """Whether it holds; one that cannot be read does not."""
        reader = self.reader
        filling = reader.filling = Filling(reader.lexed, self.whole.scope, blind=not taken)
        try:
            holds = self._comparison()
        except CutShortError:
            return False
        except FileError as error:
            if not filling.failed:
                self.whole.errors.append(error)
            self._skip_to_then()
            holds = False
        self.whole.errors += filling.errors
        return holds and not filling.failed

    def _comparison(self) -> bool:
        reader = self.reader
        example = 'write IF ${name} == "value" THEN'
        left = reader.value("IF needs a comparison", example)
        token = reader.token
        if token is None or token.raw not in {"==", "!="}:
            reader.fail_here("a condition compares with == or !=", example)
        reader.index += 1
        right = reader.value(f"{token.raw} needs a value after it", example)
        reader.expect("THEN", "IF", "THEN after the condition")
        return _equal(left, right) is (token.raw == "==")

    def _skip_to_then(self) -> None:
        reader = self.reader
        place = reader.index
        while (token := reader.ahead(place - reader.index)) is not None and token.raw != ";":
            place += 1
            if token.upper == "THEN":
                reader.index = place
                return

    def _end_if(self) -> bool:
        start = self.reader.index
        end = self.reader.step()
        try:
            if not self.reader.take("IF"):
                self.reader.fail(end, "language.unexpected", f"{end.raw} closes nothing here", "write END IF;")
            self.reader.end()
        except CutShortError:
            pass
        except FileError as error:
            self.whole.errors.append(error)
            self._recover(start)
        return True

    def _stray(self, token: Token) -> None:
        problem = f"no IF is open for this {token.upper}"
        self._note(token, "language.no_open_if", problem, "remove it, or write an IF")
        start = self.reader.index
        self.reader.step()
        if token.upper == "END":
            self._recover(start)

    def _unknown(self, token: Token) -> FileError:
        template = template_in(self.reader.lexed.text, [token])
        return template or FileError(*_unknown_statement(token), span=self.reader.span(token))

    def _note(self, token: Token, code: str, problem: str, remedy: str) -> None:
        self.whole.errors.append(FileError(code, problem, remedy, span=self.reader.span(token)))


def _unknown_statement(token: Token) -> tuple[str, str, str]:
    remedy = suggestion(token.raw, STATEMENT_WORDS, f"statements start with {', '.join(STATEMENT_WORDS)}")
    return "language.unknown_statement", f"no statement starts with {token.raw}", remedy


def _equal(left: str, right: str) -> bool:
    numbers = _NUMBER.fullmatch(left) and _NUMBER.fullmatch(right)
    return Decimal(left) == Decimal(right) if numbers else left == right
