"""What gives a table its rows: a source that is loaded, or a query over other tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidemill.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidemill.declare.sources import Source
    from tidemill.errors import Origin


@dataclass(frozen=True, slots=True)
class Loaded:
    """The rows of a source, as they are."""

    source: Source


@dataclass(frozen=True, slots=True)
class Query:
    """The rows of a query, which goes to Spark as written, but for its @names.

    `pieces` are its text, cut where `parameters` stand. `clock`: its rows may change though its inputs do not.
    `unrepeatable` is an aggregate in it whose value may differ from run to run; `sums` are columns, in lower case,
    of which that holds if they are floats.
    """

    pieces: tuple[str, ...]
    parameters: tuple[str, ...] = ()
    origin: Origin | None = None
    clock: bool = False
    unrepeatable: str | None = None
    sums: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return self.filled({name: f"@{name}" for name in self.parameters})

    def filled(self, literals: Mapping[str, str]) -> str:
        """The query with SQL literals in the place of its @names; all must be given."""
        missing = [name for name in dict.fromkeys(self.parameters) if name not in literals]
        if missing:
            raise ArgumentError(
                "variables.missing",
                f"The query needs {', '.join(f'@{name}' for name in missing)}.",
                f"Give it on the command line: --var {missing[0]}=…",
                origin=self.origin,
            )
        values = [*(literals[name] for name in self.parameters), ""]
        return "".join(piece + value for piece, value in zip(self.pieces, values, strict=True))


Producer = Loaded | Query
