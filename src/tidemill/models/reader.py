"""Reads the models of a project: the same declarations that pipelines become, or every error of every file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidemill.declare.mistakes import FileErrors, Reads, in_order
from tidemill.declare.secrets import Masking
from tidemill.declare.tables import Table
from tidemill.declare.views import View
from tidemill.language.errors import LanguageError
from tidemill.language.pipeline import read_text
from tidemill.language.scope import Scope
from tidemill.models.checks import read_checks
from tidemill.models.comment import read_comment
from tidemill.models.declared import declared
from tidemill.models.document import Document
from tidemill.models.errors import ModelError
from tidemill.models.meaning import Meaning
from tidemill.models.places import Places
from tidemill.models.query import read_query
from tidemill.models.shape import fitted
from tidemill.models.sidecar import read_sidecar
from tidemill.typing import ModelMetadata

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidemill.declare.mistakes import FileError
    from tidemill.declare.names import Naming
    from tidemill.declare.text import Text
    from tidemill.declare.variables import Variables
    from tidemill.language.cursor import Named
    from tidemill.models.files import ModelFile, ModelFiles

_DECISIVE = {"materialization", "incremental", "incremental_join"}  # without them nothing can be said of the rest


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
    reader = _Reader(Scope(variables), path_of, naming, [*files.errors])
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
    scope: Scope
    path_of: Callable[[str], str]
    naming: Naming
    errors: list[FileError]

    def model(self, file: ModelFile) -> Table | View | None:
        """One model; None where something is wrong with it."""
        text = read_text(file.sql)
        if isinstance(text, LanguageError):
            self.errors.append(text)
            return None
        query, errors = read_query(text, self.scope)
        self.errors += errors
        document = self._metadata(file, text)
        if document is None:
            return None
        found = self._declared(file.name, query, document)
        self.errors += document.errors
        return None if document.errors else found

    def _declared(self, name: str, query: Named | None, document: Document) -> Table | View | None:
        """What is known of a model is reported although some of its keys are wrong."""
        given = fitted(document, ModelMetadata, _DECISIVE)
        if given is None:
            return None
        meaning = Meaning(document, given)
        checks = read_checks(document, meaning.value("checks", []), self.naming)
        return None if query is None else declared(name, query, meaning, checks, self.path_of, self.naming)

    def _metadata(self, file: ModelFile, text: Text) -> Document | None:
        """From the one place that has it; a model without metadata has an empty one."""
        before = len(self.errors)
        comment = self._noted(lambda: read_comment(text))
        sidecar = self._noted(lambda: _of_file(file))
        if comment and sidecar:
            problem = f"metadata stands here and in {file.sidecar}"
            self.errors.append(ModelError("models.two_metadata", problem, "keep one of them", span=comment.places.root))
        if len(self.errors) > before:
            return None
        return comment or sidecar or Document({}, Places(text.span(0, 1)))

    def _noted(self, read: Callable[[], Document | None]) -> Document | None:
        try:
            return read()
        except (ModelError, LanguageError) as error:
            self.errors.append(error)
            return None


def _of_file(file: ModelFile) -> Document | None:
    if file.sidecar is None:
        return None
    text = read_text(file.sidecar)
    if isinstance(text, LanguageError):
        raise text
    return read_sidecar(text)
