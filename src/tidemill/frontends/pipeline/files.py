"""Reads pipeline files with all that they include and their IF blocks: declarations, or every error of every file."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.errors import ArgumentError
from tidemill.frontends.pipeline.clauses import QUERY_WORDS, STATEMENT_WORDS, starts_statement
from tidemill.frontends.pipeline.declarations import DeclarationCollector, Locations, Names
from tidemill.frontends.pipeline.grammar import STATEMENTS, read_include, read_set
from tidemill.frontends.pipeline.reader import CutShortError, TokenReader
from tidemill.frontends.pipeline.substitution import Substitution, VariableScope
from tidemill.frontends.pipeline.tokens import lex, template_in
from tidemill.model import FileError, FileErrors, Naming, Text, in_order, suggestion
from tidemill.model.project import Masking, Variables

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Sequence

    from tidemill.frontends.pipeline.declarations import Declared
    from tidemill.frontends.pipeline.reader import Named
    from tidemill.frontends.pipeline.tokens import Lexed, Token

_PLAIN = Naming()
_NUMBER = re.compile(r"-?\d+(\.\d+)?")


def read_pipelines(
    paths: Iterable[Path | str],
    variables: Variables | None = None,
    *,
    path_of: Callable[[str], str] = str,
    folder: Path | None = None,
    naming: Naming = _PLAIN,
    known: Container[str] = (),
) -> tuple[Declared, ...]:
    """What these files declare. Raises `FileErrors` with everything that is wrong in any of them.

    Tables are one namespace over all of them; `naming` says what their names mean, `path_of` where a table is. Paths of
    sources and exports are relative to `folder`, a project's; without one, to the pipeline's file. `known` holds tables
    that are declared elsewhere or exist (as `schema.table` in lower case): EXPORT may name them.
    """
    tables: dict[str, Named] = {}
    readers = []
    for path in map(Path, paths):
        declarations = DeclarationCollector(path.stem, Locations(naming, path_of, folder or path.parent))
        readers.append(PipelineReader(path, variables or Variables(), Names(tables, naming), declarations))
    for reader in readers:
        reader.read_file(reader.path, None)
    found = tuple(reader.finish(known) for reader in readers)
    errors = [error for reader in readers for error in reader.errors]
    if errors:
        reads = [each for reader in readers for each in reader.declarations.reads]
        perhaps = {naming.key(word) for reader in readers for word in reader.names.doubtful}
        whole = all(reader.names.whole for reader in readers)
        raise FileErrors(in_order(errors), reads if whole else None, perhaps.union(tables))
    return found


class PipelineReader:
    """Reads one pipeline: what its files share is here."""

    def __init__(self, path: Path, variables: Variables, names: Names, declarations: DeclarationCollector) -> None:
        self.path, self.names, self.declarations = path, names, declarations
        self.scope = VariableScope(variables)
        self.errors: list[ArgumentError] = []
        self._open: list[Path] = []
        self._done: set[Path] = set()

    def finish(self, known: Container[str]) -> Declared:
        """What the pipeline declares; what is wrong beyond single statements is noted, and no error has a secret."""
        secrets = frozenset(self.scope.secrets)
        self.names.check(self.declarations, known)
        found, wrong = self.declarations.finish(secrets)
        self.errors += [*self.names.errors, *wrong]
        for error in self.errors:
            if isinstance(error, FileError):
                error.hide(Masking(secrets))
        return found

    def include(self, file: Named) -> None:
        """Reads a file that an INCLUDE names, once however often it is named."""
        path = Path(file.span.text.file).parent / file.text
        if path.resolve() in self._open:
            self.errors.append(self._circular(file))
        elif path.resolve() not in self._done:
            self.read_file(path, file)

    def read_file(self, path: Path, asked_by: Named | None) -> None:
        text = read_text(path, asked_by)
        if isinstance(text, FileError):
            self.errors.append(text)
            self.names.whole = False
            return
        lexed = lex(text)
        self.errors += lexed.errors
        self.names.whole = self.names.whole and not lexed.cut
        self._open.append(path.resolve())
        FileReader(lexed, self).read()
        self._done.add(self._open.pop())

    def _circular(self, file: Named) -> FileError:
        names = [path.name for path in self._open]
        chain = " → ".join([*names, Path(file.text).name])
        return FileError(
            "language.circular_include", f"files include each other: {chain}", "remove this INCLUDE", span=file.span
        )


def read_text(path: Path, asked_by: Named | None = None) -> Text | FileError:
    """The text of a file, or why there is none; `asked_by` is the place that names it."""
    span = asked_by.span if asked_by else None
    shown = asked_by.text if asked_by else str(path)
    try:
        return Text(str(path), path.read_bytes().decode("utf-8-sig"))
    except UnicodeDecodeError:
        return FileError("language.not_text", f"{shown} is not UTF-8 text", "save it as UTF-8", span=span)
    except OSError as failure:
        if path.is_file() or path.is_dir():
            reason = failure.strerror or "it cannot be read"
            return FileError("language.unreadable", f"{shown} cannot be read", reason.lower(), span=span)
        remedy = suggestion(path.name, _neighbours(path), f"looked in {path.parent.absolute()}")
        return FileError("language.missing_file", f"there is no file {shown}", remedy, span=span)


def _neighbours(path: Path) -> Sequence[str]:
    return [each.name for each in path.parent.glob("*.sql")] if path.parent.is_dir() else []


class FileReader:
    """Reads the statements of one file into the whole."""

    def __init__(self, lexed: Lexed, whole: PipelineReader) -> None:
        self.whole = whole
        self.reader = TokenReader(lexed, Substitution(lexed, whole.scope))

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
        filling = self.reader.filling = Substitution(self.reader.lexed, self.whole.scope, blind=not taken)
        names, into = self.whole.names, self.whole.declarations
        if not taken:
            names, into = Names({}, names.naming), DeclarationCollector(into.pipeline, into.places)
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

    def _read(self, token: Token, names: Names, into: DeclarationCollector, *, taken: bool) -> None:
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
        filling = reader.filling = Substitution(reader.lexed, self.whole.scope, blind=not taken)
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
    if token.upper in QUERY_WORDS:
        remedy = "write CREATE TABLE name AS before a query"
        return "language.unknown_statement", "a query alone is no statement", remedy
    remedy = suggestion(token.raw, STATEMENT_WORDS, f"statements start with {', '.join(STATEMENT_WORDS)}")
    return "language.unknown_statement", f"no statement starts with {token.raw}", remedy


def _equal(left: str, right: str) -> bool:
    numbers = _NUMBER.fullmatch(left) and _NUMBER.fullmatch(right)
    return Decimal(left) == Decimal(right) if numbers else left == right
