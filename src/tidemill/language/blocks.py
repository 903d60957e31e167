"""The statements of one file in their order; IF blocks are resolved, and reading goes on after an error."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Protocol

from tidemill.language.boundaries import STATEMENTS, starts_statement
from tidemill.language.cursor import Cursor, CutShortError
from tidemill.language.errors import LanguageError, suggestion
from tidemill.language.grammar import (
    read_create_table,
    read_export,
    read_include,
    read_load,
    read_set,
    read_source,
)
from tidemill.language.jinja import template_in
from tidemill.language.names import Names
from tidemill.language.scope import Filling

if TYPE_CHECKING:
    from tidemill.language.cursor import Named
    from tidemill.language.scope import Scope
    from tidemill.language.statements import Statement
    from tidemill.language.tokens import Lexed, Token


_NUMBER = re.compile(r"-?\d+(\.\d+)?")


class Whole(Protocol):
    """What the files of a pipeline share."""

    scope: Scope
    names: Names
    statements: list[Statement]
    errors: list[LanguageError]

    def include(self, file: Named) -> None: ...


class FileReader:
    """Reads the statements of one file into the whole."""

    def __init__(self, lexed: Lexed, whole: Whole) -> None:
        self.whole = whole
        self.cursor = Cursor(lexed, Filling(lexed, whole.scope))

    def read(self) -> None:
        self._block(taken=True, inside=False)

    def _block(self, *, taken: bool, inside: bool) -> None:
        """Statements up to the end of the file, or of the branch that this is."""
        while (token := self.cursor.token) is not None:
            if token.upper in {"ELSE", "ELSEIF", "END"}:
                if inside:
                    return
                self._stray(token)
            elif token.upper == "IF":
                self._if(taken=taken)
            elif not self.cursor.take(";"):
                self._statement(taken=taken)

    def _statement(self, *, taken: bool) -> None:
        """A statement of a branch that is not taken is checked, as far as that needs no variable, and not used."""
        start = self.cursor.index
        filling = self.cursor.filling = Filling(self.cursor.lexed, self.whole.scope, blind=not taken)
        names = self.whole.names if taken else Names({}, self.whole.names.naming)
        try:
            self._read(names, taken=taken)
        except CutShortError:
            self.cursor.index = len(self.cursor.lexed.tokens)
        except LanguageError as error:
            if not filling.failed:
                self.whole.errors.append(error)
            self._recover(start)
            names.doubtful |= {token.raw.lower() for token in self.cursor.lexed.tokens[start : self.cursor.index]}
        self.whole.errors += filling.errors

    def _read(self, names: Names, *, taken: bool) -> None:
        cursor = self.cursor
        token = cursor.step()
        origin = cursor.span(token).origin
        statement: Statement
        match token.upper:
            case "SET":
                statement = read_set(cursor, origin)
                if taken:
                    self.whole.scope.assigned[statement.name] = statement.value
            case "INCLUDE":
                statement, file = read_include(cursor, origin)
                if taken:
                    self.whole.statements.append(statement)
                    self._include(file)
                return
            case "SOURCE":
                statement = read_source(cursor, names, origin)
            case "LOAD":
                statement = read_load(cursor, names, origin)
            case "CREATE":
                statement = read_create_table(cursor, names, origin)
            case "EXPORT":
                statement = read_export(cursor, names, origin)
            case _:
                raise self._unknown(token)
        if taken:
            self.whole.statements.append(statement)

    def _include(self, file: Named) -> None:
        if self.cursor.filling.failed:
            self.whole.names.whole = False  # which file it is depends on a value that is not there
        else:
            self.whole.include(file)

    def _recover(self, start: int) -> None:
        """Goes on after the next `;`, or where a line begins with a statement."""
        cursor = self.cursor
        cursor.index = max(cursor.index, start + 1)
        while cursor.token is not None and not cursor.take(";"):
            if starts_statement(cursor, cursor.index):
                return
            cursor.index += 1

    # IF … THEN … ELSE IF … THEN … ELSE … END IF;

    def _if(self, *, taken: bool) -> None:
        opener = self.cursor.step()
        done = self._branch(taken=taken, conditional=True)
        last = closed = False
        while not closed and (token := self.cursor.token) is not None:
            if token.upper != "END" and last:
                self._note(
                    token, "language.unexpected", "this IF has an ELSE already", "nothing but END IF; can follow it"
                )
            if self._take_else_if():
                done = self._branch(taken=taken and not done, conditional=True) or done
            elif self.cursor.take("ELSE"):
                last = True
                done = self._branch(taken=taken and not done, conditional=False) or done
            else:
                closed = self._end_if()
        if not closed and not self.cursor.lexed.cut:
            self._note(opener, "language.if_without_end", "this IF has no END IF", "write END IF; after it")

    def _branch(self, *, taken: bool, conditional: bool) -> bool:
        """Reads one branch; whether it was taken."""
        chosen = (self._condition(taken=taken) if conditional else True) and taken
        self._block(taken=chosen, inside=True)
        return chosen

    def _take_else_if(self) -> bool:
        """An IF on the line of its ELSE goes on with it; on a line of its own it is a block inside."""
        following = self.cursor.ahead(1)
        if following is not None and following.first_on_line:
            return self.cursor.take("ELSEIF")
        return self.cursor.take("ELSE", "IF") or self.cursor.take("ELSEIF")

    def _condition(self, *, taken: bool) -> bool:
        """Whether it holds; one that cannot be read does not."""
        cursor = self.cursor
        filling = cursor.filling = Filling(cursor.lexed, self.whole.scope, blind=not taken)
        try:
            holds = self._comparison()
        except CutShortError:
            return False
        except LanguageError as error:
            if not filling.failed:
                self.whole.errors.append(error)
            self._skip_to_then()
            holds = False
        self.whole.errors += filling.errors
        return holds and not filling.failed

    def _comparison(self) -> bool:
        cursor = self.cursor
        example = 'write IF ${name} == "value" THEN'
        left = cursor.value("IF needs a comparison", example)
        token = cursor.token
        if token is None or token.raw not in {"==", "!="}:
            cursor.fail_here("a condition compares with == or !=", example)
        cursor.index += 1
        right = cursor.value(f"{token.raw} needs a value after it", example)
        cursor.expect("THEN", "IF", "THEN after the condition")
        return _equal(left, right) is (token.raw == "==")

    def _skip_to_then(self) -> None:
        cursor = self.cursor
        place = cursor.index
        while (token := cursor.ahead(place - cursor.index)) is not None and token.raw != ";":
            place += 1
            if token.upper == "THEN":
                cursor.index = place
                return

    def _end_if(self) -> bool:
        start = self.cursor.index
        end = self.cursor.step()
        try:
            if not self.cursor.take("IF"):
                self.cursor.fail(end, "language.unexpected", f"{end.raw} closes nothing here", "write END IF;")
            self.cursor.end()
        except CutShortError:
            pass
        except LanguageError as error:
            self.whole.errors.append(error)
            self._recover(start)
        return True

    def _stray(self, token: Token) -> None:
        problem = f"no IF is open for this {token.upper}"
        self._note(token, "language.no_open_if", problem, "remove it, or write an IF")
        start = self.cursor.index
        self.cursor.step()
        if token.upper == "END":
            self._recover(start)

    def _unknown(self, token: Token) -> LanguageError:
        template = template_in(self.cursor.lexed.text, [token])
        return template or LanguageError(*_unknown_statement(token), span=self.cursor.span(token))

    def _note(self, token: Token, code: str, problem: str, remedy: str) -> None:
        self.whole.errors.append(LanguageError(code, problem, remedy, span=self.cursor.span(token)))


def _unknown_statement(token: Token) -> tuple[str, str, str]:
    remedy = suggestion(token.raw, STATEMENTS, f"statements start with {', '.join(STATEMENTS)}")
    return "language.unknown_statement", f"no statement starts with {token.raw}", remedy


def _equal(left: str, right: str) -> bool:
    numbers = _NUMBER.fullmatch(left) and _NUMBER.fullmatch(right)
    return Decimal(left) == Decimal(right) if numbers else left == right
