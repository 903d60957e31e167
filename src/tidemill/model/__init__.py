"""Names, paths and formats as users write them, and how Spark SQL quotes names and texts; and mistakes in users' files,
each with its place: the line is shown, with a caret under the word.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import unquote

from tidemill.errors import ArgumentError, Origin, TidemillError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tidemill.model.project import Masking

DEFAULT_SCHEMA = "main"


_SCHEMA_AND_TABLE, _WITH_CATALOG = 2, 3
_PARTS = re.compile(r"`(?:[^`]|``)*`|[^.`]+")


@dataclass(frozen=True, slots=True)
class Naming:
    """How tables are named: `schema` is that of names without one, and `catalog` may stand before a schema of ours."""

    schema: str = DEFAULT_SCHEMA
    catalog: str | None = None

    def full(self, written: str) -> str:
        """A name as users write it, as `schema.table`; one of another catalog stays as it is."""
        parts = _PARTS.findall(written)
        if len(parts) == _WITH_CATALOG and self.is_own_catalog(parts[0]):
            return ".".join(parts[1:])
        return written if len(parts) >= _SCHEMA_AND_TABLE else f"{self.schema}.{written}"

    def key(self, written: str) -> str:
        """What all spellings of one table's name have in common; a name of another catalog stays as it is."""
        full = self.full(written)
        return full if is_foreign(full) else full.lower()

    def is_own_catalog(self, written: str) -> bool:
        return self.catalog is not None and written.strip("`").lower() == self.catalog.lower()


def rejected_name(table: str) -> str:
    """The table that holds the rows which another one turned away; of a path, its path."""
    return f"{table}__rejected"


def is_foreign(full: str) -> bool:
    """Whether a name that `Naming.full` gave is one of another catalog, which Spark has to know."""
    return len(_PARTS.findall(full)) > _SCHEMA_AND_TABLE


def naming_remedy(full: str) -> str:
    """How to name a table of the project, where a name that `Naming.full` gave is none."""
    if not is_foreign(full):
        return "name it table or schema.table, in letters, digits and _"
    catalog = _PARTS.findall(full)[0]
    return f'name it table or schema.table, or say [warehouse] catalog = "{catalog}" in tidemill.toml'


RESET_ALLOWED = "pipelines.reset.allowed"  # the table property by which others say `reset_allowed`
KEPT_FROM_RESET = "tidemill.reset_allowed"  # the table property by which a table that is declared so remembers it


def quote(name: str) -> str:
    """A column name as one SQL identifier, whatever it holds."""
    return "`" + name.replace("`", "``") + "`"


def quoted_name(name: str) -> str:
    """The name of a table as Spark SQL reads it; one that is quoted already stays as it is."""
    return name if "`" in name else ".".join(map(quote, name.split(".")))


def of(alias: str, name: str) -> str:
    return f"{alias}.{quote(name)}"


def field_names(kind: Any) -> Iterator[str]:
    """All names in a schema as JSON has it, also those of fields inside columns."""
    if isinstance(kind, dict):
        for field in kind.get("fields", ()):
            yield field["name"]
            yield from field_names(field["type"])
        for part in ("elementType", "keyType", "valueType"):
            yield from field_names(kind.get(part))


def spelled(name: str, columns: Iterable[str]) -> str | None:
    """The spelling that `columns` have for this name, or None."""
    wanted = name.lower()
    return next((column for column in columns if column.lower() == wanted), None)


def quoted_text(value: str) -> str:
    """A Spark SQL string literal; whatever the text holds, it stays a value."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    escaped = escaped.replace("${", "\\u0024{")  # Spark's parser would put a setting or ${env:NAME} in its place
    return f"'{escaped}'"


def absolute(path: str | Path, folder: Path | None = None) -> str:
    """The path as it is from anywhere, from `folder` or the current one on; URLs stay as they are.

    Spark writes the address of a local file with one slash: `file:/lake/orders`.
    """
    if str(path).startswith("file:/") and "://" not in str(path):
        return f"file://{str(path).removeprefix('file:')}"
    return str(path) if "://" in str(path) else str((folder or Path.cwd()).absolute() / at_home(path))


def local_path(address: str, *, escaped: bool = False) -> Path | None:
    """The path on this machine that an address names: a path, `file:/x`, `file:///x` or `file://localhost/x`.

    None for the address of another place. `escaped`: signs are written as in URLs, `%20` for a space, which Spark does
    where it names files, and not where it takes paths.
    """
    if not address.startswith("file:"):
        return None if "://" in address else Path(address)
    path = "/" + address.removeprefix("file:").removeprefix("//").removeprefix("localhost").lstrip("/")
    return Path(unquote(path) if escaped else path)


def at_home(path: str | Path) -> Path:
    """The path with `~` as the folder that it stands for; where nobody is called so, `~name` is a name."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


OF_WAREHOUSE = ""  # the format of a declaration which says nothing of it, until its project is known


def offset_of(word: str, line: str, column: int) -> int:
    """Where a word that a parser met at this column, from 0, stands in the line as its author wrote it.

    Values in the place of variables may have moved it: then it is looked for.
    """
    return column if line[column : column + len(word)] == word else max(line.find(word), 0)


@dataclass(frozen=True, slots=True)
class Text:
    """A file as it was read, character by character; `file` is the name that users see."""

    file: str
    content: str

    def span(self, start: int, end: int) -> Span:
        return Span(self, start, max(end, start + 1))


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a text, for errors to point at. Lines and columns count from 1, in characters."""

    text: Text
    start: int
    end: int

    @property
    def origin(self) -> Origin:
        number = self.text.content.count("\n", 0, self.start) + 1
        return Origin(self.text.file, number, self.start - self._line_start + 1)

    @property
    def line(self) -> str:
        """The whole line on which it starts."""
        return self.text.content[self._line_start : self._line_end].removesuffix("\r")

    @property
    def width(self) -> int:
        """How many characters of that line it covers, at least one."""
        return max(1, min(self.end, self._line_end) - self.start)

    @property
    def _line_start(self) -> int:
        return self.text.content.rfind("\n", 0, self.start) + 1

    @property
    def _line_end(self) -> int:
        found = self.text.content.find("\n", self.start)
        return len(self.text.content) if found < 0 else found


Error = TypeVar("Error", bound=TidemillError)
_WIDEST = 112
_NARROWEST = 40
_KEPT_LEFT = 30
_BESIDE = 40  # of a remedy; with less room it would be a column of single words


class FileError(ArgumentError):
    """One mistake in a file. `line` is the line as written; the caret covers `width` of it from the origin's column."""

    def __init__(self, code: str, problem: str, remedy: str, *, span: Span | None = None) -> None:
        super().__init__(code, problem, remedy, origin=span.origin if span else None)
        self.line = span.line if span else ""
        self.width = span.width if span else 0

    @classmethod
    def at(cls, span: Span, error: ArgumentError) -> Self:
        """The mistake that a declaration found in itself, shown where its author made it."""
        return cls(error.code, _inside(error.problem), _inside(error.remedy), span=span)

    def __str__(self) -> str:
        where = f"{self.origin}: " if self.origin else ""
        return f"{where}[{self.code}] {self.problem}: {self.remedy}"

    def hide(self, masking: Masking) -> None:
        """Takes secrets out of what it says; the line holds none, because it is the text before variables."""
        self.problem = masking.mask(self.problem)
        self.remedy = masking.mask(self.remedy)
        self.args = (self.code, self.problem, self.remedy)


@dataclass(frozen=True, slots=True)
class Reads:
    """A table or an export that could be read though something else is wrong: names that it reads can be checked."""

    name: str
    inputs: tuple[str, ...]
    origin: Origin | None


class FileErrors(ArgumentError):  # noqa: N818  it is several
    """All mistakes of the files that were read together, by file and line; there is at least one.

    `reads` is what could be read all the same, None where nobody knows what else the files declare; `perhaps` are
    names that what could not be read may declare.
    """

    def __init__(
        self,
        errors: Sequence[TidemillError],
        reads: Iterable[Reads] | None = None,
        perhaps: Iterable[str] = (),
    ) -> None:
        count = f"{len(errors)} error{'' if len(errors) == 1 else 's'}"
        super().__init__("files.errors", count, "nothing was run", origin=errors[0].origin)
        self.errors = tuple(errors)
        self.reads = None if reads is None else tuple(reads)
        self.perhaps = frozenset(perhaps)

    def __reduce__(self) -> tuple[type[FileErrors], tuple[object, ...]]:
        """An error that cannot be read back would break the pool of processes it comes from, and be lost."""
        return FileErrors, (self.errors, self.reads, self.perhaps)

    def __str__(self) -> str:
        return "\n".join([*(excerpt(error) for error in self.errors), f"{self.problem} · {self.remedy}"])


def in_order(errors: Iterable[Error]) -> list[Error]:
    """Each once (a file may be read for two pipelines), by file in the order of their first errors, then by place."""
    files: dict[str, int] = {}
    once: dict[tuple[str, str, str], Error] = {}
    for error in errors:
        files.setdefault(error.origin.file if error.origin else "", len(files))
        once.setdefault((error.code, error.problem, str(error.origin)), error)

    def place(error: Error) -> tuple[int, int, int]:
        origin = error.origin
        return (files[origin.file], origin.line or 0, origin.column or 0) if origin else (files[""], 0, 0)

    return sorted(once.values(), key=place)


def excerpt(error: TidemillError, columns: int | None = None) -> str:
    """The error as a terminal shows it: code, problem, place, the line with a caret, and the remedy beside it.

    On a terminal of so many columns the line is cut to fit, and a remedy for which no room is left stands below.
    """
    head = f"error[{error.code}] {error.problem}"
    place = [f"  {error.origin}"] if error.origin else []
    if not isinstance(error, FileError) or error.origin is None:
        return "\n".join([head, *place, f"  {error.remedy}"])
    number = str(error.origin.line)
    gutter = f"    {' ' * len(number)} │ "
    room = _WIDEST if columns is None else min(_WIDEST, max(_NARROWEST, columns - len(gutter)))
    line, before = _cropped(error.line, (error.origin.column or 1) - 1, room)
    marks = "^" * min(error.width, max(1, len(line) - before))
    caret = f"{gutter}{' ' * cells(line[:before])}{marks}"
    beside = columns is None or columns - len(caret) > min(len(error.remedy), _BESIDE)
    remedy = [f"{caret} {error.remedy}"] if beside else [caret, f"{gutter}{error.remedy}"]
    return "\n".join([head, *place, f"    {number} │ {line.replace(chr(9), ' ')}".rstrip(), *remedy])


def suggestion(name: str, known: Iterable[str], otherwise: str) -> str:
    """The remedy for a word that is not known."""
    close = did_you_mean(name, known)
    return f"did you mean {close}?" if close else otherwise


def _inside(sentence: str) -> str:
    """The sentence as a part of a line: texts beside a caret neither begin nor end like one."""
    return (sentence[:1].lower() + sentence[1:]).removesuffix(".")


def _cropped(line: str, column: int, room: int) -> tuple[str, int]:
    """A line that fits a terminal, and where the column is in it."""
    if len(line) <= room:
        return line, column
    kept = room - 2  # an ellipsis on either side
    first = max(0, min(column - _KEPT_LEFT, len(line) - kept))
    shown = line[first : first + kept]
    left = "…" if first else ""
    right = "…" if first + kept < len(line) else ""
    return f"{left}{shown}{right}", column - first + len(left)


def cells(text: str) -> int:
    """How many columns of a terminal the text takes."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )
