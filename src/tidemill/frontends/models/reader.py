"""Finds the models of a project and reads them: declarations, or every error of every file.

A Python file `models/<schema>/<name>.py` that stands alone may hold functions that keep tables; it is loaded
as a module that stands for itself.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib.util
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidemill.frontends.models.declarations import declare_model, read_checks
from tidemill.frontends.models.document import (
    failed_run,
    gives_metadata,
    isolated,
    parse_python,
    read_comment,
    read_sidecar,
)
from tidemill.frontends.models.metadata import Metadata
from tidemill.frontends.pipeline.files import read_text
from tidemill.frontends.pipeline.grammar import expect_query
from tidemill.frontends.pipeline.reader import CutShortError, Named, TokenReader
from tidemill.frontends.pipeline.substitution import Substitution, VariableScope
from tidemill.frontends.pipeline.tokens import lex, template_in
from tidemill.frontends.shape import Document, Places, fit
from tidemill.model import FileError, FileErrors, Reads, in_order, suggestion
from tidemill.model.project import Masking, files_in
from tidemill.model.query import View
from tidemill.model.table import Table
from tidemill.typing import ModelMetadata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import ModuleType

    from tidemill.model import Naming, Text
    from tidemill.model.project import Variables


def declares_tables(text: Text) -> bool:
    """Whether a Python file may: it imports tidemill itself. It is not run."""
    try:
        tree = parse_python(text)
    except FileError:
        return "tidemill" in text.content
    return any(_imports_tidemill(node) for node in ast.walk(tree))


def _imports_tidemill(node: ast.AST) -> bool:
    match node:
        case ast.Import(names=names):
            return any(each.name == "tidemill" for each in names)
        case ast.ImportFrom(module="tidemill"):
            return True
        case _:
            return False


def load_module(text: Text, folders: Sequence[Path]) -> ModuleType:
    """Runs the file, which may import what stands in `folders`. Raises `FileError` where that fails.

    It is no module that others can import, so that Spark sends its functions to workers by value.
    """
    file = Path(text.file).absolute()
    name = f"tidemill table functions {file}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None  # noqa: S101  a file that ends in .py has a loader
    assert spec.loader is not None  # noqa: S101
    module = importlib.util.module_from_spec(spec)
    with isolated(file.parent), importable(folders):
        sys.modules[name] = module
        try:
            code = compile(text.content, text.file, "exec", dont_inherit=True)
            exec(code, module.__dict__)  # noqa: S102  it is the user's own
        except (Exception, SystemExit) as failure:  # whatever a user's code may raise
            raise failed_run(text, failure) from failure
        finally:
            del sys.modules[name]
    return module


def find_modules_beside(function: Callable[..., Any], folders: Sequence[Path]) -> Callable[..., Any]:
    """The function, which finds the modules beside it whenever it is called, and while what it yields is taken."""

    @functools.wraps(function)
    def call(*given: Any) -> Any:
        with importable(folders):
            found = function(*given)
        return _taken(found, folders) if hasattr(found, "__next__") else found

    return call


def _taken(found: Iterator[Any], folders: Sequence[Path]) -> Iterator[Any]:
    with importable(folders):
        yield from found


@contextlib.contextmanager
def importable(folders: Sequence[Path]) -> Iterator[None]:
    """Modules in these folders can be imported."""
    places = [str(folder.absolute()) for folder in folders]
    sys.path[:0] = places
    try:
        yield
    finally:
        for place in places:
            sys.path.remove(place)


FOLDER = "models"
_NAME = re.compile(r"\w+\.\w+")


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model by its name and the files that make it, as a user here would type them."""

    name: str
    sql: Path
    sidecar: Path | None = None


@dataclass(frozen=True, slots=True)
class FunctionFile:
    """A Python file as a user here would type it, and the schema of those of its tables that name none."""

    path: Path
    schema: str


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """All models of a folder, sorted by name; and the files in it that look like a part of one and are none."""

    models: tuple[ModelFile, ...] = ()
    functions: tuple[FunctionFile, ...] = ()
    errors: tuple[FileError, ...] = field(default=())


def find_models(project: Path, shown: Callable[[Path], Path]) -> ModelFiles:
    """Looks at names only, but for Python files that stand alone. `shown` gives the path that errors show."""
    found = [file for file in files_in(project / FOLDER, deep=True) if not _is_hidden(file, project)]
    queries = [file for file in found if file.suffix == ".sql"]
    models, errors = [], []
    for file in queries:
        name = ".".join(file.relative_to(project / FOLDER).with_suffix("").parts)
        if _NAME.fullmatch(name):
            sidecar = file.with_suffix(".py")
            models.append(ModelFile(name, shown(file), shown(sidecar) if sidecar in found else None))
        else:
            errors.append(_misplaced(shown(file)))
    lone = [file for file in found if file.suffix == ".py" and file.with_suffix(".sql") not in queries]
    texts = {file: text for file in lone if not isinstance(text := read_text(shown(file)), FileError)}
    functions = [FunctionFile(shown(file), file.parent.name) for file, text in texts.items() if declares_tables(text)]
    return ModelFiles(tuple(models), tuple(functions), (*errors, *_without_query(texts, queries)))


def _is_hidden(file: Path, project: Path) -> bool:
    """Files that editors and notebooks keep for themselves."""
    return any(part.startswith((".", "__")) for part in file.relative_to(project).parts)


def _misplaced(file: Path) -> FileError:
    return FileError(
        "models.bad_name",
        f"{file} gives no model a name",
        "a model is models/<schema>/<name>.sql, named in letters, digits and _",
    )


def _without_query(texts: Mapping[Path, Text], queries: list[Path]) -> Iterator[FileError]:
    """Sidecars of models that are not there; other Python files are no business of ours."""
    for file, text in texts.items():
        if gives_metadata(text) and not declares_tables(text):
            wanted = file.with_suffix(".sql").name
            others = [query.name for query in queries if query.parent == file.parent]
            remedy = suggestion(wanted, others, f"write the query into {wanted}, or remove metadata")
            yield FileError(
                "models.no_query", f"there is no {wanted} beside this metadata", remedy, span=text.span(0, 1)
            )


def read_query(text: Text, scope: VariableScope) -> tuple[Named | None, list[FileError]]:
    """The query with the values of `${…}` in it, and its first word's place; or what is wrong with it."""
    lexed = lex(text)
    reader = TokenReader(lexed, Substitution(lexed, scope))
    if template := template_in(text, lexed.tokens):
        return None, [template]  # what else is wrong comes from it
    query, errors = None, [*lexed.errors]
    try:
        query = _only_query(reader)
    except CutShortError:
        pass  # an error already says so
    except FileError as error:
        errors.append(error)
    errors += reader.filling.errors
    return (None if errors else query), errors


def _only_query(reader: TokenReader) -> Named:
    expect_query(reader, "a model")
    tokens = reader.lexed.tokens
    first = tokens[reader.index]
    end = next((index for index, token in enumerate(tokens) if token.raw == ";"), len(tokens))
    query = reader.query(end)
    while reader.take(";"):
        pass
    if (token := reader.token) is not None:
        reader.fail(token, "models.two_queries", "a model is one query", "write this one into a file of its own")
    return Named(query.text, reader.span(first))


_DECISIVE = frozenset(
    {"materialization", "incremental", "incremental_join"}
)  # without them nothing can be said of the rest


@dataclass(frozen=True, slots=True)
class Models:
    """What the models of a project declare, by name. `secrets` are values that no text may show."""

    tables: tuple[Table, ...] = ()
    views: tuple[View, ...] = ()
    secrets: frozenset[str] = field(default=frozenset(), repr=False)


def read_models(files: ModelFiles, variables: Variables, path_of: Callable[[str], str], naming: Naming) -> Models:
    """Reads files and runs sidecars. Raises `FileErrors` with everything that is wrong in any of them.

    `path_of` says where a table is, `naming` what their names mean.
    """
    reader = _Reader(VariableScope(variables), path_of, naming, [*files.errors])
    found = [reader.model(each) for each in files.models]
    secrets = frozenset(reader.scope.secrets)
    if reader.errors:
        for error in reader.errors:
            error.hide(Masking(secrets))
        readable = [Reads(each.name, each.inputs, each.origin) for each in found if each]
        raise FileErrors(in_order(reader.errors), readable)
    views = tuple(each for each in found if isinstance(each, View))
    return Models(tuple(each for each in found if isinstance(each, Table)), views, secrets)


@dataclass
class _Reader:
    scope: VariableScope
    path_of: Callable[[str], str]
    naming: Naming
    errors: list[FileError]

    def model(self, file: ModelFile) -> Table | View | None:
        """One model; None where something is wrong with it."""
        text = read_text(file.sql)
        if isinstance(text, FileError):
            self.errors.append(text)
            return None
        query, errors = read_query(text, self.scope)
        self.errors += errors
        document = self._metadata(file, text)
        if document is None:
            return None
        found = self._declare(file.name, query, document)
        self.errors += document.errors
        return None if document.errors else found

    def _declare(self, name: str, query: Named | None, document: Document) -> Table | View | None:
        """What is known of a model is reported although some of its keys are wrong."""
        given = fit(document, ModelMetadata, _DECISIVE)
        if given is None:
            return None
        metadata = Metadata(document, given)
        checks = read_checks(document, metadata.value("checks", []), self.naming)
        return None if query is None else declare_model(name, query, metadata, checks, self.path_of, self.naming)

    def _metadata(self, file: ModelFile, text: Text) -> Document | None:
        """From the one place that has it; a model without metadata has an empty one."""
        before = len(self.errors)
        comment = self._collect(lambda: read_comment(text))
        sidecar = self._collect(lambda: _of_file(file))
        if comment and sidecar:
            problem = f"metadata stands here and in {file.sidecar}"
            self.errors.append(FileError("models.two_metadata", problem, "keep one of them", span=comment.places.root))
        if len(self.errors) > before:
            return None
        return comment or sidecar or Document({}, Places(text.span(0, 1)))

    def _collect(self, read: Callable[[], Document | None]) -> Document | None:
        try:
            return read()
        except FileError as error:
            self.errors.append(error)
            return None


def _of_file(file: ModelFile) -> Document | None:
    if file.sidecar is None:
        return None
    text = read_text(file.sidecar)
    if isinstance(text, FileError):
        raise text
    return read_sidecar(text)
