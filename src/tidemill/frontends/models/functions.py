"""Reads Python files whose functions keep tables: what the arguments of their decorators mean."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from tidemill.errors import ArgumentError
from tidemill.frontends.models.document import assignments_in, parse_python, places_of, span_of
from tidemill.frontends.models.metadata import read_constant
from tidemill.frontends.models.reader import find_modules_beside, load_module
from tidemill.frontends.pipeline.files import read_text
from tidemill.frontends.shape import Document, Places, Style, fit
from tidemill.frontends.sql.scopes import columns_of_ddl
from tidemill.frontends.tables import OF_COLUMNS, SETTINGS, settings_of
from tidemill.model import RESET_ALLOWED, FileError, FileErrors, in_order, naming_remedy, quote, spelled, suggestion
from tidemill.model.cursor import duration
from tidemill.model.function import UTC, Function, decoration_of
from tidemill.model.project import as_text
from tidemill.model.source import as_names
from tidemill.model.strategy import Append, Merge, MergeStrategy, Replace
from tidemill.model.table import NullTime, Table, Window
from tidemill.typing import TableArguments

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tidemill.frontends.models.reader import FunctionFile
    from tidemill.frontends.shape import Key
    from tidemill.model import Naming, Span, Text
    from tidemill.model.cursor import Duration
    from tidemill.model.function import Decorated, Expectation
    from tidemill.model.strategy import Strategy

_EXAMPLE = 'Write "id BIGINT, day DATE", or {"id": "BIGINT", "day": "DATE"}.'


def ddl_of(given: object) -> str:
    """The schema as DDL; what cannot be one is an error."""
    if isinstance(given, Mapping) and all(isinstance(each, str) for pair in given.items() for each in pair):
        return ", ".join(f"{quote(name)} {kind}" for name, kind in given.items())
    if isinstance(given, str):
        return given
    fields = getattr(given, "fields", None)
    if isinstance(fields, list):  # pyspark.sql.types.StructType, which is not imported for this
        return ", ".join(_field(each) for each in fields)
    raise ArgumentError("functions.bad_schema", f"A {type(given).__name__} is no schema.", _EXAMPLE)


def _columns_of(ddl: str) -> tuple[str, ...]:
    names = columns_of_ddl(ddl)
    if names is None:
        raise ArgumentError("functions.bad_schema", f"{ddl!r} is no list of columns and types.", _EXAMPLE)
    if len({name.lower() for name in names}) < len(names):
        raise ArgumentError("functions.bad_schema", "The schema has two columns of one name.", "Rename one of them.")
    return names


def _field(field: object) -> str:
    name, kind = getattr(field, "name", ""), getattr(field, "dataType", None)
    return (
        f"{quote(name)} {kind.simpleString() if kind else ''}{'' if getattr(field, 'nullable', True) else ' NOT NULL'}"
    )


EXPECTATIONS = "expectations"  # where their places stand in the document, by name


def read_expectations(document: Document, given: tuple[Expectation, ...]) -> tuple[Expectation, ...]:
    """Those that can be one; what cannot is noted."""
    found: dict[str, Expectation] = {}
    for each in given:
        key: Key = (EXPECTATIONS, str(each.name))
        if not (isinstance(each.name, str) and isinstance(each.condition, str) and each.name and each.condition):
            problem = "an expectation is a name and a condition, both texts"
            document.note(key, "models.bad_expectation", problem, 'write expect("positive", "amount > 0")')
        elif each.name.lower() in found:
            document.note(key, "models.bad_expectation", f"{each.name} is expected twice", "give one another name")
        elif read_constant(document, key, each.condition, "an expectation takes no variables") is not None:
            found[each.name.lower()] = replace(each, origin=document.places.at(*key).origin)
    return tuple(found.values())


INPUT = "function"  # under which a table keeps how far it has been fetched
MAX_SHRINK = 0.1  # of a table that is replaced by what a function gives
_FOR_DATES = ("start", "lookback", "timezone", "batch", "null_time")
_FORMS = {"merge": MergeStrategy.UPSERT, **{str(form): form for form in MergeStrategy}}
_OF_STRATEGY = ("dedup_order_by", "max_shrink", "kept_rows")
_COLUMNS = ("keys", "time_column", *OF_COLUMNS)
_NAME = re.compile(r"\w+\.\w+")


class Arguments:
    """Reads arguments whose types are right. What does not go together is noted in their document."""

    def __init__(self, document: Document, given: Mapping[str, Any], function: Decorated, naming: Naming) -> None:
        self.document, self.given, self.function, self.naming = document, given, function, naming

    def table(self, path_of: Callable[[str], str], reading: Naming) -> Table | None:
        """The declaration; None where something has been noted."""
        name = self._name()
        strategy, window, producer = self._strategy(), self._window(), self._producer()
        properties = {key: as_text(value) for key, value in self.given.get("table_properties", {}).items()}
        reset_allowed = self.given.get("reset_allowed", True) and _allows_reset(properties)
        reads = (reading.key(each) for each in self._names("reads"))
        if self.document.errors or strategy is None:
            return None
        try:
            return Table(
                name=name,
                path=path_of(name),
                strategy=strategy,
                window=window,
                properties=properties,
                input=INPUT,
                origin=self.document.places.root.origin,
                producer=producer,
                inputs=tuple(dict.fromkeys(each for each in reads if each != name.lower())),
                **settings_of({**self.given, "description": self.given.get("comment"), "reset_allowed": reset_allowed}),
            )
        except ArgumentError as bad:
            self.document.pass_on(("cluster_by",), bad)
            return None

    def _name(self) -> str:
        name = self.naming.full(self.given.get("name", self.function.call.__name__))
        if not _NAME.fullmatch(name):
            self.document.note(("name",), "table.bad_name", f"{name!r} is no name of a table", naming_remedy(name))
        return name

    def _names(self, name: str) -> tuple[str, ...]:
        return as_names(self.given.get(name)) or ()

    # how rows enter

    def _strategy(self) -> Strategy | None:
        word = self.given.get("strategy", "merge" if self._names("keys") else None)
        if word is None:
            remedy = 'give keys=[…], or strategy="append" or "replace"'
            self._note("strategy", "missing_key", "nothing says how its rows enter the table", remedy)
            return None
        self._check_belongs(word)
        try:
            return self._made(word)
        except ArgumentError as bad:
            self.document.pass_on(("max_shrink" if bad.code == "table.bad_max_shrink" else "keys",), bad)
            return None

    def _made(self, word: str) -> Strategy:
        shrink: float | None = self.given.get("max_shrink")
        if word == "replace":
            return Replace(MAX_SHRINK, by_default=True) if shrink is None else Replace(shrink)
        if word == "append":
            return Append()
        return Merge(self._names("keys"), _FORMS[word], self._names("dedup_order_by"), max_shrink=shrink)

    def _check_belongs(self, word: str) -> None:
        """Arguments that the strategy would silently ignore."""
        kind = {"replace": "table", "append": "append", "full_merge": "full_merge"}.get(word, "merge")
        kinds = {"keys": SETTINGS["dedup_order_by"].kinds, **{name: SETTINGS[name].kinds for name in _OF_STRATEGY}}
        for name in (name for name, taken_by in kinds.items() if name in self.given and kind not in taken_by):
            self._note(name, "misplaced_key", f"{word} takes no {name}", "leave it out, or use another strategy")
        if word in _FORMS and not self._names("keys"):
            self._note("strategy", "missing_key", f"{word} needs keys", 'write keys=["…"]')

    # dates

    def _window(self) -> Window | None:
        column = self.given.get("time_column")
        if column is None:
            for name in (name for name in _FOR_DATES if name in self.given):
                self._note(name, "missing_key", f"{name} needs time_column", 'write time_column="…"')
            return None
        null_time = NullTime(self.given.get("null_time", NullTime.FAIL))
        return Window(column, self._start(), self._duration("lookback"), null_time)

    def _start(self) -> str | None:
        given = self.given.get("start")
        if given is None:
            return None
        try:
            return date.fromisoformat(str(given).strip()).isoformat()
        except ValueError:
            self._note("start", "bad_start", f"start cannot be {given}", "write a date, such as 2023-10-01")
            return None

    def _duration(self, name: str) -> Duration | None:
        try:
            return duration(self.given[name]) if name in self.given else None
        except ArgumentError as bad:
            self.document.pass_on((name,), bad)
            return None

    def _timezone(self) -> ZoneInfo:
        name = self.given.get("timezone", "UTC")
        try:
            return ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):  # a folder of zones is an OSError
            remedy = suggestion(name, available_timezones(), 'write a name such as "America/New_York"')
            self._note("timezone", "bad_timezone", f"{name} is no time zone", remedy)
            return UTC

    # the function

    def _producer(self) -> Function:
        return Function(
            call=self.function.call,
            timezone=self._timezone(),
            batch=self._batch(),
            schema=self._schema(),
            expectations=read_expectations(self.document, self.function.expectations),
            origin=self.document.places.root.origin,
        )

    def _batch(self) -> Duration | None:
        found = self._duration("batch")
        if found and found.amount < 1:
            self._note("batch", "bad_batch", f"a batch of {found} is none", 'write "1 day" at least')
        return found

    def _schema(self) -> str | None:
        if "schema" not in self.given:
            return None
        try:
            ddl = ddl_of(self.given["schema"])
            columns = _columns_of(ddl)
        except ArgumentError as bad:
            self.document.pass_on(("schema",), bad)
            return None
        for name in _COLUMNS:
            for column in self._names(name):
                if spelled(column, columns) is None:
                    remedy = suggestion(column, columns, f"its columns are {', '.join(columns)}")
                    problem = f"{name} names {column}, which the schema does not have"
                    self._note(name, "unknown_column", problem, remedy)
        return ddl

    def _note(self, name: str, code: str, problem: str, remedy: str) -> None:
        self.document.note((name,), f"models.{code}", problem, remedy)


def _allows_reset(properties: Mapping[str, str]) -> bool:
    """The property by which others say it counts as well."""
    found = spelled(RESET_ALLOWED, properties)
    return found is None or properties[found].lower() != "false"


_NEEDED = frozenset({"name", "keys", "strategy", "time_column"})


def read_functions(
    files: Sequence[FunctionFile], path_of: Callable[[str], str], naming: Naming, project: Path
) -> tuple[Table, ...]:
    """Runs the files, each by itself. Raises `FileErrors` with everything that is wrong in any of them.

    `path_of` says where a table is; `naming` says what names of tables mean. Modules beside a file, and in
    the `project`, can be imported.
    """
    found: list[Table] = []
    errors: list[FileError] = []
    for file in files:
        try:
            text = read_text(file.path)
            if isinstance(text, FileError):
                raise text
            found += _File(text, file.schema, (file.path.absolute().parent, project)).tables(path_of, naming, errors)
        except FileError as error:
            errors.append(error)
    if errors:
        raise FileErrors(in_order(errors))
    return tuple(found)


class _File:
    def __init__(self, text: Text, schema: str, folders: tuple[Path, ...]) -> None:
        self.text, self.schema, self.folders = text, schema, folders
        self.tree = parse_python(text)
        self.module = load_module(text, folders)

    def tables(self, path_of: Callable[[str], str], naming: Naming, errors: list[FileError]) -> list[Table]:
        found = []
        for function in self._functions():
            document = self._document(function)
            given = fit(document, TableArguments, _NEEDED)
            if given is not None:
                called = replace(function, call=find_modules_beside(function.call, self.folders))
                table = Arguments(document, given, called, replace(naming, schema=self.schema)).table(path_of, naming)
                found += [table] if table else []
            errors += document.errors
        return found

    def _functions(self) -> list[Decorated]:
        """Those of this file, in its order; one that it imports is declared where it stands."""
        found: dict[int, Decorated] = {}
        for value in vars(self.module).values():
            declared = decoration_of(value)
            if declared and declared.call.__code__.co_filename == self.text.file:
                # What decorators above @table made of it is what the module calls by its name.
                found.setdefault(id(declared), replace(declared, call=value))
        return sorted(found.values(), key=lambda each: each.origin.line or 0)

    def _document(self, function: Decorated) -> Document:
        node = next((each for each in ast.walk(self.tree) if _is_def_of(each, function)), None)
        calls = [each for each in getattr(node, "decorator_list", ()) if isinstance(each, ast.Call)]
        call = next((each for each in calls if _last_name(each.func) == "table"), None)
        root = span_of(self.text, call.func) if call else self._line(function.origin.line or 1)
        written = ast.Call(ast.Name("dict"), [], call.keywords if call else [])
        others = {name: value for name, (_, value) in assignments_in(self.tree).items()}
        places = places_of(self.text, written, root, others)
        names = [each.name for each in function.expectations]
        expected: dict[Key, Span] = {(EXPECTATIONS, name): self._expected(calls, name, root) for name in names}
        given = {name: value for name, value in function.given.items() if value is not None}
        return Document(given, Places(root, {**places.keys, **expected}), style=Style("@table", "{}="))

    def _expected(self, calls: list[ast.Call], name: object, otherwise: Span) -> Span:
        texts = (node for call in calls for node in ast.walk(call) if isinstance(node, ast.Constant))
        return next((span_of(self.text, node) for node in texts if node.value == name), otherwise)

    def _line(self, number: int) -> Span:
        before = "\n".join(self.text.content.split("\n")[: number - 1])
        return self.text.span(len(before) + (number > 1), len(before) + (number > 1) + 1)


def _is_def_of(node: ast.AST, function: Decorated) -> bool:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or not node.decorator_list:
        return False
    return node.decorator_list[0].lineno == function.origin.line


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
