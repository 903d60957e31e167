"""Reads pipeline files with all that they include: statements, or every error of every file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.frontends.pipeline.blocks import FileReader, Names
from tidemill.frontends.pipeline.declarations import Declarations, Places
from tidemill.frontends.pipeline.substitution import Scope
from tidemill.frontends.pipeline.tokens import lex
from tidemill.model.mistakes import FileError, FileErrors, Text, in_order, suggestion
from tidemill.model.names import Naming
from tidemill.model.variables import Masking, Variables

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Sequence

    from tidemill.errors import ArgumentError
    from tidemill.frontends.pipeline.declarations import Declared
    from tidemill.frontends.pipeline.reader import Named

_PLAIN = Naming()


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
        declarations = Declarations(path.stem, Places(naming, path_of, folder or path.parent))
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

    def __init__(self, path: Path, variables: Variables, names: Names, declarations: Declarations) -> None:
        self.path, self.names, self.declarations = path, names, declarations
        self.scope = Scope(variables)
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
