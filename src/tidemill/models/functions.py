"""Reads Python files whose functions keep tables: declarations like all others, or every error of every file."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from tidemill.declare.functions import decorated
from tidemill.declare.mistakes import FileErrors, in_order
from tidemill.language.errors import LanguageError
from tidemill.language.pipeline import read_text
from tidemill.models.arguments import Arguments
from tidemill.models.document import Document
from tidemill.models.errors import ModelError
from tidemill.models.expectations import EXPECTATIONS
from tidemill.models.modules import in_its_place, load_module
from tidemill.models.places import Places, assigned, places_of, span_of
from tidemill.models.shape import fitted
from tidemill.models.sidecar import parsed
from tidemill.typing import TableArguments

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tidemill.declare.functions import Decorated
    from tidemill.declare.mistakes import FileError
    from tidemill.declare.names import Naming
    from tidemill.declare.tables import Table
    from tidemill.declare.text import Span, Text
    from tidemill.models.files import FunctionFile
    from tidemill.models.places import Key

_NEEDED = {"name", "keys", "strategy", "time_column"}


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
            if isinstance(text, LanguageError):
                raise text
            found += _File(text, file.schema, (file.path.absolute().parent, project)).tables(path_of, naming, errors)
        except (ModelError, LanguageError) as error:
            errors.append(error)
    if errors:
        raise FileErrors(in_order(errors))
    return tuple(found)


class _File:
    def __init__(self, text: Text, schema: str, folders: tuple[Path, ...]) -> None:
        self.text, self.schema, self.folders = text, schema, folders
        self.tree = parsed(text)
        self.module = load_module(text, folders)

    def tables(self, path_of: Callable[[str], str], naming: Naming, errors: list[FileError]) -> list[Table]:
        found = []
        for function in self._functions():
            document = self._document(function)
            given = fitted(document, TableArguments, _NEEDED)
            if given is not None:
                called = replace(function, call=in_its_place(function.call, self.folders))
                table = Arguments(document, given, called, replace(naming, schema=self.schema)).table(path_of, naming)
                found += [table] if table else []
            errors += document.errors
        return found

    def _functions(self) -> list[Decorated]:
        """Those of this file, in its order; one that it imports is declared where it stands."""
        found: dict[int, Decorated] = {}
        for value in vars(self.module).values():
            declared = decorated(value)
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
        others = {name: value for name, (_, value) in assigned(self.tree).items()}
        places = places_of(self.text, written, root, others)
        names = [each.name for each in function.expectations]
        expected: dict[Key, Span] = {(EXPECTATIONS, name): self._expected(calls, name, root) for name in names}
        given = {name: value for name, value in function.given.items() if value is not None}
        return Document(given, Places(root, {**places.keys, **expected}), called="@table", spelling="{}=")

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
