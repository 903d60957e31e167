"""What gives a table its rows: one source or several, a query over other tables, a join of two, or a function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidemill.declare.functions import Function
from tidemill.declare.joins import Join
from tidemill.declare.loads import Loads
from tidemill.declare.templates import Template
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
class Query(Template):
    """The rows of a query, which goes to Spark as written, but for its @names and the names of its tables.

    `clock`: its rows may change though its inputs do not. `unrepeatable` is an aggregate in it whose value may differ
    from run to run; `sums` are columns, in lower case, of which that holds if they are floats.
    """

    origin: Origin | None = None
    clock: bool = False
    unrepeatable: str | None = None
    sums: tuple[str, ...] = ()

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


Producer = Loaded | Loads | Query | Join | Function
