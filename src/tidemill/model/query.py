"""What gives a table its rows: queries, sources, functions and joins; views; and exports, by which rows leave."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from tidemill.errors import ArgumentError, Origin, did_you_mean
from tidemill.formats import Capability, formats_that
from tidemill.model import offset_of
from tidemill.model.cursor import Template
from tidemill.model.project import Masking, secrets_in
from tidemill.model.strategy import Replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from tidemill.model.check import Check
    from tidemill.model.function import Function
    from tidemill.model.join import Join
    from tidemill.model.source import Load, Loaded, Loads
    from tidemill.model.strategy import Append, Merge
    from tidemill.model.table import Table

Where = Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class Bound:
    """The text that goes to Spark; tables in `paths` are read by their path there, all others by their names."""

    text: str
    paths: frozenset[str] = frozenset()


Bind = Callable[[str, Where], Bound]


def by_name(text: str, path_of: Where) -> Bound:  # noqa: ARG001  as others do
    """Binds nothing: the query goes to Spark as it is."""
    return Bound(text)


class Producing:
    """What gives a table its rows. Of those that not every table has, it says itself which one it is."""

    __slots__ = ()

    @property
    def as_function(self) -> Function | None:
        return None

    @property
    def as_join(self) -> Join | None:
        return None

    @property
    def as_loads(self) -> Loads | None:
        """The LOADs, where they are several."""
        return None

    def loads_of(self, table: Table) -> tuple[Load, ...]:
        """The LOADs that give the rows of a table, one or several; none where something else does."""
        del table
        return ()


@dataclass(frozen=True, slots=True)
class Query(Template, Producing):
    """The rows of a query, which goes to Spark as written, but for its @names and the names of its tables.

    `clock`: its rows may change though its inputs do not. `unrepeatable` is an aggregate in it whose value may differ
    from run to run; `sums` are columns, in lower case, of which that holds if they are floats.
    """

    origin: Origin | None = None
    clock: bool = False
    unrepeatable: str | None = None
    sums: tuple[str, ...] = ()

    def at(self, line: int, column: int, word: str) -> Origin | None:
        """Where in its file a word stands that a parser met at this line, from 1, and column, from 0, of the query."""
        written = self.text.splitlines()
        if self.origin is None or line > len(written):
            return self.origin
        column = offset_of(word, written[line - 1], column) + ((self.origin.column or 1) if line == 1 else 1)
        return Origin(self.origin.file, (self.origin.line or 1) + line - 1, column)

    def filled(self, literals: Mapping[str, str]) -> str:
        """The query with SQL literals in the place of its @names; all must be given."""
        missing = self.missing(literals)
        if missing:
            raise ArgumentError(
                "variables.missing",
                f"The query needs {', '.join(f'@{name}' for name in missing)}.",
                f"Give it on the command line: --var {missing[0]}=…",
                origin=self.origin,
            )
        return self.put(literals)


if TYPE_CHECKING:
    Producer: TypeAlias = Loaded | Loads | Query | Join | Function


@dataclass(frozen=True, slots=True)
class View:
    """It keeps no rows, so it has no strategy but its name for one, no window, and its query takes no @names.

    `path` is where a table of its name would be: its record stands beside it.
    """

    strategy: ClassVar[str] = "view"

    name: str
    path: str
    query: Query
    inputs: tuple[str, ...] = ()
    sql_hash: str | None = None
    origin: Origin | None = None
    description: str | None = None
    tags: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()

    @property
    def config_hash(self) -> str | None:
        """Changes when its checks do; their places do not count."""
        if not self.checks:
            return None
        parts = [replace(check, origin=None) for check in self.checks]
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def through(names: Iterable[str], views: Mapping[str, View]) -> list[str]:
    """The names, and all that is read by the views among them: what is read before what reads it, each once.

    `views` are by their names in lower case, and do not read each other in a circle.
    """
    found: dict[str, str] = {}
    for name in names:
        view = views.get(name.lower())
        for each in (*(through(view.inputs, views) if view else ()), name):
            found.setdefault(each.lower(), each)
    return list(found.values())


PLAIN_TABLES = tuple(formats_that(Capability.PLAIN_FILES))  # files that are tables as well
FILE_KINDS = ("csv", "json", *PLAIN_TABLES, "orc")
TABLE_KINDS = tuple(formats_that(Capability.READ_BY_PATH))
DATABASE_KINDS = ("postgres", "postgresql", "jdbc")
KINDS = (*FILE_KINDS, *TABLE_KINDS, *DATABASE_KINDS)
_MERGING = ", ".join(map(str.upper, (*PLAIN_TABLES, *TABLE_KINDS)))


@dataclass(frozen=True, slots=True)
class Export:
    """The rows of a query or a table go to `target`, a path from `folder` on, or a table of a database.

    `secrets` are values that no text may show, beside those that `options` give away.
    """

    name: str
    target: str
    kind: str
    query: Query | None = None
    inputs: tuple[str, ...] = ()
    table: str | None = None
    mode: Replace | Append | Merge = field(default_factory=Replace)
    options: Mapping[str, object] = field(default_factory=dict, repr=False)  # they may hold passwords
    origin: Origin | None = None
    folder: Path | None = None
    secrets: frozenset[str] = field(default=frozenset(), repr=False)

    def __post_init__(self) -> None:
        if (self.query is None) == (self.table is None):
            raise self.wrong("export.no_rows", "needs a query or a table, one of them", "Give what it exports.")
        if self.kind.lower() not in KINDS:
            close = did_you_mean(self.kind, [kind.upper() for kind in KINDS])
            remedy = f"Did you mean {close}?" if close else f"Use one of {', '.join(kind.upper() for kind in KINDS)}."
            raise self.wrong("export.unknown_kind", f"has an unknown kind, {self.kind}", remedy)
        if self.mode.keys and self.kind.lower() in FILE_KINDS and not self.merges_files:
            raise self.wrong(
                "export.no_merge",
                f"cannot merge into {self.kind.upper()} files",
                f"Use MODE REPLACE or APPEND, or another TYPE: {_MERGING} and POSTGRES merge.",
            )

    def __str__(self) -> str:
        return self.name

    @property
    def masking(self) -> Masking:
        return Masking(self.secrets | secrets_in(self.options))

    def wrong(self, code: str, problem: str, remedy: str) -> ArgumentError:
        """What is wrong with the declaration: `problem` follows its name."""
        return ArgumentError(code, f"The export {self} {problem}.", remedy, origin=self.origin)

    @property
    def merges_files(self) -> bool:
        """Whether it changes rows of a folder of files by their keys."""
        return bool(self.mode.keys) and self.kind.lower() in PLAIN_TABLES
