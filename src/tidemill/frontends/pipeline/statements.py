"""The statements of a SQL pipeline, as data. Variables have their values, IF blocks are resolved."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from tidemill.errors import Origin
    from tidemill.model.cursor import Duration
    from tidemill.model.join import JoinType
    from tidemill.model.window import StartVariable, Template

JsonValue: TypeAlias = str | int | float | bool | list["JsonValue"] | dict[str, "JsonValue"] | None
OptionValue = str | float | bool | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Replace:
    """The table becomes what the source or the query gives."""

    def __str__(self) -> str:
        return "REPLACE"


@dataclass(frozen=True, slots=True)
class Append:
    """New rows enter once."""

    def __str__(self) -> str:
        return "APPEND"


@dataclass(frozen=True, slots=True)
class Merge:
    """Rows enter by their keys. UPSERT KEY and INCREMENTAL_MERGE ON are other spellings."""

    keys: tuple[str, ...]

    def __str__(self) -> str:
        return f"MERGE ON {', '.join(self.keys)}"


@dataclass(frozen=True, slots=True)
class FullMerge:
    """As Merge, and keys that the source no longer has are deleted."""

    keys: tuple[str, ...]

    def __str__(self) -> str:
        return f"FULL_MERGE ON {', '.join(self.keys)}"


@dataclass(frozen=True, slots=True)
class IncrementalBy:
    """The rows of the run's window are replaced by the query's."""

    column: str
    lookback: Duration | int | None = None

    def __str__(self) -> str:
        return f"INCREMENTAL BY {self.column}"


LoadMode = Replace | Append | Merge | FullMerge
TableMode = Replace | Append | Merge | IncrementalBy
ExportMode = Replace | Append | Merge
Mode = LoadMode | TableMode


@dataclass(frozen=True, slots=True)
class Query:
    """A query as it is written, from its first word to its last, but for variables."""

    text: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class SetVariable:
    """`value` is what is written; --var and the profile may have given another."""

    name: str
    value: str = field(repr=False)  # it may come from the environment
    origin: Origin


@dataclass(frozen=True, slots=True)
class Include:
    """The statements of the file follow this one."""

    path: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class SourceStatement:
    """Rows from outside. `params` no longer hold `primary_key`, `cursor_field` and `start_date`."""

    name: str
    kind: str
    params: dict[str, JsonValue] = field(repr=False)  # they may hold passwords
    origin: Origin
    cursor: str | None = None
    lookback: Duration | int | None = None
    primary_key: tuple[str, ...] = ()
    start: str | None = None


@dataclass(frozen=True, slots=True)
class Load:
    table: str
    source: str
    mode: LoadMode
    options: dict[str, OptionValue]
    origin: Origin


@dataclass(frozen=True, slots=True)
class CreateTable:
    table: str
    mode: TableMode
    options: dict[str, OptionValue]
    query: Query
    origin: Origin


@dataclass(frozen=True, slots=True)
class JoinedTable:
    """One side of a join: the table, what the join calls it, and its time column."""

    table: str
    alias: str
    time: str


@dataclass(frozen=True, slots=True)
class JoinClauses:
    """What stands between the condition of a join and its SELECT."""

    look_back: Duration | int
    look_forward: Duration | int
    start: str | None
    up_to: str | StartVariable | None
    time: str
    status: str
    suffixes: tuple[str, str]


@dataclass(frozen=True, slots=True)
class CreateJoin:
    """`on` and `select` are texts as written, but for variables; `query` is the SELECT as one."""

    table: str
    how: JoinType
    a: JoinedTable
    b: JoinedTable
    on: Template
    clauses: JoinClauses
    select: tuple[Template, ...]
    query: Query
    options: dict[str, OptionValue]
    origin: Origin


@dataclass(frozen=True, slots=True)
class Export:
    """Either `query` or `table` is given."""

    query: Query | None
    table: str | None
    target: str
    kind: str
    mode: ExportMode
    options: dict[str, JsonValue] = field(repr=False)
    origin: Origin


Statement = SetVariable | Include | SourceStatement | Load | CreateTable | CreateJoin | Export
