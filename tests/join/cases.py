"""Random joins: two sides, their waits, a type of join, and a period cut into windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from oracle import HOWS, Meaning, Row

from tidemill.model.join import Span, Waits

if TYPE_CHECKING:
    from oracle import Out

TIMES = st.integers(0, 16)
WAITS = st.one_of(st.just(0), st.integers(0, 6))


@dataclass(frozen=True)
class Case:
    how: str
    a: tuple[Row, ...]
    b: tuple[Row, ...]
    lb: int
    lf: int
    cuts: tuple[int, ...]
    """The bounds of neighbouring windows, each half-open."""

    @property
    def meaning(self) -> Meaning:
        return Meaning(self.a, self.b, self.lb, self.lf)

    @property
    def waits(self) -> Waits:
        return Waits(self.lb, self.lf)

    @property
    def windows(self) -> list[Span]:
        return [Span(start, end) for start, end in zip(self.cuts, self.cuts[1:], strict=False)]

    @property
    def history(self) -> list[Out]:
        """What one window over all of it gives."""
        return self.meaning.rows(self.how, lambda t: self.cuts[0] <= t < self.cuts[-1])

    def waiting(self, window: Span) -> list[Out]:
        return self.meaning.waiting(self.how, lambda t: t < window.end)

    @property
    def size(self) -> int:
        return len(self.a) + len(self.b) + len(self.cuts) + self.lb + self.lf


@st.composite
def sides(draw: st.DrawFn) -> tuple[Row, ...]:
    """Few keys and few times, so that ties, one-to-many and many-to-many are the rule."""
    found = draw(st.lists(st.tuples(st.sampled_from((1, 1, 2, 3, None)), TIMES), max_size=7))
    return tuple(Row(number, key, t) for number, (key, t) in enumerate(found))


@st.composite
def cuttings(draw: st.DrawFn) -> tuple[int, ...]:
    """One window, day by day, weeks, or anyhow."""
    start, length = draw(st.integers(-2, 10)), draw(st.integers(1, 21))
    inside = range(start + 1, start + length)
    ways = [st.just(()), st.just(tuple(inside)), st.just(tuple(range(start + 7, start + length, 7)))]
    if inside:
        ways.append(st.sets(st.sampled_from(inside), max_size=4).map(lambda each: tuple(sorted(each))))
    return (start, *draw(st.one_of(ways)), start + length)


CASES = st.builds(Case, st.sampled_from(HOWS), sides(), sides(), WAITS, WAITS, cuttings())


def drawn(count: int) -> list[Case]:
    """So many cases that hypothesis thinks of, the same ones each time."""
    found: list[Case] = []

    @settings(
        max_examples=count,
        phases=[Phase.generate],
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(CASES)
    def collect(case: Case) -> None:
        found.append(case)

    collect()
    return found
