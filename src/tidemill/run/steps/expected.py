"""How the rows of a function fared with what is expected of them: results that need no Spark."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tidemill.declare.functions import OnUnmet

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidemill.declare.functions import Expectation

_DONE = {OnUnmet.COUNT: "entered all the same", OnUnmet.DROP: "are in {}", OnUnmet.FAIL: "fail the step"}


@dataclass(frozen=True, slots=True)
class Expected:
    """Of so many `rows` that were fetched, `unmet` did not meet the expectation."""

    expectation: Expectation
    rows: int
    unmet: int

    def told(self, table: str) -> str:
        """What came of it, for people."""
        rows = f"{self.unmet:,} of {self.rows:,} row{'' if self.rows == 1 else 's'}"
        done = _DONE[self.expectation.on_unmet].format(rejected_name(table))
        return f"{self.expectation}: {rows} do not meet {self.expectation.condition}, and {done}"

    def to_json(self) -> dict[str, Any]:
        return {
            "expectation": self.expectation.name,
            "condition": self.expectation.condition,
            "on_unmet": str(self.expectation.on_unmet),
            "rows": self.rows,
            "unmet": self.unmet,
        }


def rejected_name(table: str) -> str:
    """The table that keeps the rows which another one turned away."""
    return f"{table}__rejected"


def summed(results: Iterable[Expected]) -> tuple[Expected, ...]:
    """The same expectations of several batches, as of one."""
    found: dict[str, Expected] = {}
    for each in results:
        name = each.expectation.name
        known = found.get(name, replace(each, rows=0, unmet=0))
        found[name] = replace(known, rows=known.rows + each.rows, unmet=known.unmet + each.unmet)
    return tuple(found.values())
