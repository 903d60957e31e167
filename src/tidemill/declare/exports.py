"""An export: rows that leave for files, another table or a database."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidemill.declare.formats import PARQUET
from tidemill.declare.secrets import Masking, secrets_in
from tidemill.declare.strategies import Append, Merge, Replace
from tidemill.errors import ArgumentError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tidemill.declare.producers import Query
    from tidemill.errors import Origin

FILE_KINDS = ("csv", "json", "parquet", "orc")
DATABASE_KINDS = ("postgres", "postgresql", "jdbc")
KINDS = (*FILE_KINDS, "delta", *DATABASE_KINDS)


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
        if isinstance(self.mode, Merge) and self.kind.lower() in FILE_KINDS and not self.merges_files:
            raise self.wrong(
                "export.no_merge",
                f"cannot merge into {self.kind.upper()} files",
                "Use MODE REPLACE or APPEND, or another TYPE: PARQUET, DELTA and POSTGRES merge.",
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
        """Whether it changes rows of a folder of Parquet files by their keys."""
        return isinstance(self.mode, Merge) and self.kind.lower() == PARQUET
