"""What stands between the condition of an INCREMENTAL JOIN and its SELECT: lengths, bounds and names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.declare.durations import Duration
from tidemill.declare.joins import STATUS, SUFFIXES, TIME, check_own_names
from tidemill.declare.starts import StartVariable
from tidemill.errors import ArgumentError
from tidemill.language.clauses import read_length
from tidemill.language.errors import LanguageError
from tidemill.language.statements import JoinClauses

if TYPE_CHECKING:
    from tidemill.language.cursor import Cursor

_SELECT = "SELECT"
_CLAUSES = ("LOOK BACK", "LOOK FORWARD", "START", "UP TO", "TIME AS", "STATUS AS", "SUFFIXES (", _SELECT)
_DEPTH = {"(": 1, ")": -1}


def end_of_condition(cursor: Cursor) -> int:
    """The index of the clause that follows the condition."""
    tokens, depth = cursor.lexed.tokens, 0
    for index in range(cursor.index, len(tokens)):
        token = tokens[index]
        if depth == 0 and index > cursor.index and tokens[index - 1].raw != "." and _clause_at(cursor, index):
            return index
        if token.raw == ";":
            cursor.index = index
            break
        depth += _DEPTH.get(token.raw, 0)
    problem, remedy = "INCREMENTAL JOIN needs LOOK BACK, LOOK FORWARD and SELECT", "write LOOK BACK 6 DAYS"
    return cursor.fail_at_end("language.incomplete", problem, remedy)


def read_join_clauses(cursor: Cursor) -> JoinClauses:
    """All of them, in any order, each once; two must be there."""
    clauses = _Clauses(cursor)
    clauses.read()
    back, forward = clauses.length("LOOK BACK"), clauses.length("LOOK FORWARD")
    return JoinClauses(back, forward, clauses.start, clauses.up_to, clauses.time, clauses.status, clauses.suffixes)


class _Clauses:
    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.lengths: dict[str, Duration | int] = {}
        self.start: str | None = None
        self.up_to: str | StartVariable | None = None
        self.time, self.status = TIME, STATUS
        self.suffixes = SUFFIXES
        self._seen: set[str] = set()

    def read(self) -> None:
        cursor = self.cursor
        while (clause := _clause_at(cursor, cursor.index)) not in {None, _SELECT}:
            assert clause is not None  # noqa: S101  mypy does not see it
            token = cursor.token
            if clause in self._seen and token is not None:
                cursor.fail(token, "language.repeated_clause", f"{_named(clause)} is given twice", "keep one of them")
            self._seen.add(clause)
            cursor.take(*clause.split())
            self._read(clause)

    def length(self, clause: str) -> Duration | int:
        if clause not in self.lengths:
            cursor = self.cursor
            cursor.fail_at_end("language.incomplete", f"INCREMENTAL JOIN needs {clause}", f"write {clause} 6 DAYS")
        return self.lengths[clause]

    def _read(self, clause: str) -> None:
        match clause:
            case "START":
                self.start = self.cursor.value("START needs a time", "write START '2024-01-31', or START '${first}'")
            case "UP TO":
                self.up_to = self._up_to()
            case "TIME AS":
                self.time = self._own_name(clause)
            case "STATUS AS":
                self.status = self._own_name(clause)
            case "SUFFIXES (":
                self.suffixes = self._suffixes()
            case _:
                self.lengths[clause] = self._length(clause)

    def _up_to(self) -> str | StartVariable:
        cursor = self.cursor
        if not cursor.take("@"):
            return cursor.value("UP TO needs a time", "write UP TO '2024-01-31' or UP TO @day")
        named = cursor.word("@ needs a name", "write UP TO @day")
        return StartVariable(named.text, named.span.origin)

    def _own_name(self, clause: str) -> str:
        cursor, token = self.cursor, self.cursor.token
        name = cursor.column(f"{clause} needs a name", f"write {clause} {_named(clause).lower()}_of_the_join")
        names = (name, self.status) if clause == "TIME AS" else (self.time, name)
        try:
            check_own_names(*names)
        except ArgumentError as bad:
            assert token is not None  # noqa: S101  there was a name
            raise LanguageError.at(cursor.span(token), bad) from bad
        return name

    def _suffixes(self) -> tuple[str, str]:
        cursor = self.cursor
        problem, remedy = "SUFFIXES needs two texts", "write SUFFIXES ('', '_b')"
        first = cursor.string(problem, remedy).text
        if not cursor.take(","):
            cursor.fail_here(problem, remedy)
        second = cursor.string(problem, remedy).text
        if not cursor.take(")"):
            cursor.fail_here(problem, remedy)
        return first, second

    def _length(self, clause: str) -> Duration | int:
        token = self.cursor.token
        found = read_length(self.cursor, clause)
        if isinstance(found, Duration) and found.unit in {"month", "year"} and token is not None:
            problem = f"{clause} {found} has no fixed length"
            self.cursor.fail(token, "language.varying_length", problem, "write it in days")
        return found


def _clause_at(cursor: Cursor, index: int) -> str | None:
    tokens = cursor.lexed.tokens
    words = [token.upper or token.raw for token in tokens[index : index + 2]]
    for clause in _CLAUSES:
        if words[: len(clause.split())] == clause.split():
            return clause
    return None


def _named(clause: str) -> str:
    """The clause by its first word where the second one only opens it."""
    return clause.split(maxsplit=1)[0] if clause.endswith(("AS", "(")) else clause
