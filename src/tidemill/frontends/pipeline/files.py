"""Reads pipeline files with all that they include: statements, or every error of every file."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.frontends.pipeline.blocks import FileReader, Names
from tidemill.frontends.pipeline.statements import CreateJoin, CreateTable, Export, Load, SourceStatement
from tidemill.frontends.pipeline.substitution import Scope
from tidemill.frontends.pipeline.tokens import lex
from tidemill.model.mistakes import FileError, FileErrors, Text, in_order, suggestion
from tidemill.model.names import Naming
from tidemill.model.variables import Masking, Variables

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from tidemill.frontends.pipeline.reader import Named
    from tidemill.frontends.pipeline.statements import Statement
    from tidemill.model.mistakes import Reads


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline file with its includes in place. Paths in it stay as written: they are relative to `folder`.

    `secrets` are the values that came from `.env` or the environment: nothing that is shown or kept may hold one.
    """

    name: str
    path: Path
    statements: tuple[Statement, ...]
    secrets: frozenset[str] = field(default=frozenset(), repr=False)

    @property
    def folder(self) -> Path:
        return self.path.parent

    @property
    def masking(self) -> Masking:
        return Masking(self.secrets)

    @property
    def sources(self) -> dict[str, SourceStatement]:
        """By name, in lower case."""
        return {each.name.lower(): each for each in self.statements if isinstance(each, SourceStatement)}

    @property
    def tables(self) -> tuple[Load | CreateTable | CreateJoin, ...]:
        return tuple(each for each in self.statements if isinstance(each, Load | CreateTable | CreateJoin))

    @property
    def exports(self) -> tuple[Export, ...]:
        return tuple(each for each in self.statements if isinstance(each, Export))


_PLAIN = Naming()


class PipelineErrors(FileErrors):
    """All mistakes of all pipelines; `pipelines` have the statements that could be read."""

    def __init__(
        self,
        errors: Sequence[FileError],
        reads: tuple[Reads, ...] | None,
        perhaps: Iterable[str],
        pipelines: tuple[Pipeline, ...],
    ) -> None:
        super().__init__(errors, reads, perhaps)
        self.pipelines = pipelines


def read_pipeline(
    path: Path | str,
    variables: Variables | None = None,
    *,
    naming: Naming = _PLAIN,
    known: Container[str] = (),
) -> Pipeline:
    """One pipeline; see `read_pipelines`."""
    return read_pipelines([path], variables, naming=naming, known=known)[0]


def read_pipelines(
    paths: Iterable[Path | str],
    variables: Variables | None = None,
    *,
    naming: Naming = _PLAIN,
    known: Container[str] = (),
) -> tuple[Pipeline, ...]:
    """Reads files and changes nothing. Raises `PipelineErrors` with everything that is wrong in any of them.

    Tables are one namespace over all of them; `naming` says what their names mean. `known` holds tables that
    are declared elsewhere or exist (as `schema.table` in lower case): EXPORT may name them.
    """
    tables: dict[str, Named] = {}
    readers = [PipelineReader(Path(path), variables or Variables(), Names(tables, naming)) for path in paths]
    pipelines = tuple(reader.read() for reader in readers)
    for reader in readers:
        reader.names.check(known)
    errors = [error for reader in readers for error in reader.all_errors()]
    if errors:
        whole = all(reader.names.whole for reader in readers)
        perhaps = {naming.key(word) for reader in readers for word in reader.names.doubtful}
        raise PipelineErrors(in_order(errors), () if whole else None, perhaps.union(tables), pipelines)
    return pipelines


class PipelineReader:
    """Reads one pipeline: what its files share is here."""

    def __init__(self, path: Path, variables: Variables, names: Names) -> None:
        self.path = path
        self.names = names
        self.scope = Scope(variables)
        self.statements: list[Statement] = []
        self.errors: list[FileError] = []
        self._open: list[Path] = []
        self._done: set[Path] = set()

    def read(self) -> Pipeline:
        self.read_file(self.path, None)
        return Pipeline(self.path.stem, self.path, tuple(self.statements), frozenset(self.scope.secrets))

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

    def all_errors(self) -> list[FileError]:
        masking = Masking(frozenset(self.scope.secrets))
        errors = [*self.errors, *self.names.errors]
        for error in errors:
            error.hide(masking)
        return errors

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
