"""Which files of a project are models: `models/<schema>/<name>.sql`, each with a sidecar `<name>.py` or without.

A Python file `models/<schema>/<name>.py` that stands alone may hold functions that keep tables.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidemill.declare.mistakes import suggestion
from tidemill.language.errors import LanguageError
from tidemill.language.pipeline import read_text
from tidemill.models.errors import ModelError
from tidemill.models.modules import declares_tables
from tidemill.models.sidecar import gives_metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from tidemill.declare.text import Text

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
    errors: tuple[ModelError, ...] = field(default=())


def find_models(project: Path, shown: Callable[[Path], Path]) -> ModelFiles:
    """Looks at names only, but for Python files that stand alone. `shown` gives the path that errors show."""
    found = [file for file in sorted((project / FOLDER).rglob("*")) if not _is_hidden(file, project)]
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
    texts = {file: text for file in lone if not isinstance(text := read_text(shown(file)), LanguageError)}
    functions = [FunctionFile(shown(file), file.parent.name) for file, text in texts.items() if declares_tables(text)]
    return ModelFiles(tuple(models), tuple(functions), (*errors, *_without_query(texts, queries)))


def _is_hidden(file: Path, project: Path) -> bool:
    """Files that editors and notebooks keep for themselves."""
    return any(part.startswith((".", "__")) for part in file.relative_to(project).parts)


def _misplaced(file: Path) -> ModelError:
    return ModelError(
        "models.bad_name",
        f"{file} gives no model a name",
        "a model is models/<schema>/<name>.sql, named in letters, digits and _",
    )


def _without_query(texts: Mapping[Path, Text], queries: list[Path]) -> Iterator[ModelError]:
    """Sidecars of models that are not there; other Python files are no business of ours."""
    for file, text in texts.items():
        if gives_metadata(text) and not declares_tables(text):
            wanted = file.with_suffix(".sql").name
            others = [query.name for query in queries if query.parent == file.parent]
            remedy = suggestion(wanted, others, f"write the query into {wanted}, or remove metadata")
            yield ModelError(
                "models.no_query", f"there is no {wanted} beside this metadata", remedy, span=text.span(0, 1)
            )
