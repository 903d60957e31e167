"""What an incremental join is, written down from its meaning in plain Python: rows are few, and times are numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

HOWS = ("inner", "left", "right", "full_outer", "left_anti", "right_anti")


@dataclass(frozen=True)
class Row:
    id: int
    key: int | None
    t: int


@dataclass(frozen=True)
class Out:
    """A row of the join: the ids of its sides, its target time, its status, and how long one side waited."""

    a: int | None
    b: int | None
    target: int
    status: str
    waited: int | None


@dataclass(frozen=True)
class Meaning:
    """Two sides with their look back and look forward. `first` and `end` are a window from one up to the other."""

    a: Sequence[Row]
    b: Sequence[Row]
    lb: int
    lf: int

    def rows(self, how: str, within: Callable[[int], bool]) -> list[Out]:
        """Those whose target time lies in the window."""
        return [out for out in self._everything(how) if within(out.target)]

    def waiting(self, how: str, known: Callable[[int], bool]) -> list[Out]:
        """The rows that have no pair so far and are not outdated yet; `known` times are those up to the end."""
        seen = Meaning([a for a in self.a if known(a.t)], [b for b in self.b if known(b.t)], self.lb, self.lf)
        a = how in {"inner", "left", "left_anti", "full_outer"}
        b = how in {"right", "right_anti", "full_outer"}
        alone = [*(seen._alone_a() if a else ()), *(seen._alone_b() if b else ())]
        return [Out(out.a, out.b, out.target, "waiting", None) for out in alone if not known(out.target)]

    def _everything(self, how: str) -> Iterator[Out]:
        if how in {"inner", "left", "right", "full_outer"}:
            yield from (_pair(a, b) for a, b in self._pairs())
        if how in {"left", "left_anti", "full_outer"}:
            yield from self._alone_a()
        if how in {"right", "right_anti", "full_outer"}:
            yield from self._alone_b()

    def _pairs(self) -> list[tuple[Row, Row]]:
        return [
            (a, b)
            for a in self.a
            for b in self.b
            if a.key is not None and a.key == b.key and a.t - self.lb <= b.t <= a.t + self.lf
        ]

    def _alone_a(self) -> list[Out]:
        paired = {a.id for a, _ in self._pairs()}
        return [Out(a.id, None, a.t + self.lf, "outdated", None) for a in self.a if a.id not in paired]

    def _alone_b(self) -> list[Out]:
        paired = {b.id for _, b in self._pairs()}
        return [Out(None, b.id, b.t + self.lb, "outdated", None) for b in self.b if b.id not in paired]


def _pair(a: Row, b: Row) -> Out:
    status = "same_time" if a.t == b.t else "a_late" if a.t > b.t else "b_late"
    return Out(a.id, b.id, max(a.t, b.t), status, abs(a.t - b.t))
