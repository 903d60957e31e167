"""Which changed tables are taken together when no one rule is for all of them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidemill.ivm.kinds import can_be_counted
from tidemill.ivm.linear import is_linear
from tidemill.ivm.pieces import Locality
from tidemill.ivm.rules import Body, Linear, Local, Telescoped

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tidemill.ivm.blocks import Block
    from tidemill.ivm.pieces import Pieces
    from tidemill.ivm.reading import Occurrence
    from tidemill.ivm.rules import Term

_MOST_TABLES = 5  # whose subsets are tried


@dataclass(frozen=True, slots=True, eq=False)
class Chooser:
    """Finds rules for the rows that come and go, of one query with its tables."""

    block: Block
    occurrences: Mapping[int, Occurrence]
    types: Mapping[int, Mapping[str, str]]
    not_null: frozenset[tuple[int, str]] = frozenset()

    def pieces(self, changed: frozenset[int]) -> list[Pieces]:
        """The classes in which the query is local, those first that cut down the most."""
        used = {n: {name: self.types[n][name] for name in each.used} for n, each in self.occurrences.items()}
        locality = Locality(used, changed, self.not_null)
        found = [each for each in locality.pieces(self.block) if changed <= each.cuts.keys()]
        return sorted(found, key=lambda each: (-len(each.cuts), -len(set(each.cuts.values()))))

    def can_take_back(self) -> bool:
        """Whether what was there before follows from what is there now: bags of all columns in use."""
        kinds = (self.types[n][name] for n, each in self.occurrences.items() for name in each.used)
        return all(can_be_counted(each) for each in kinds)

    def signed(self, changed: frozenset[int]) -> Linear | Local | Telescoped | None:
        """By one rule if there is one, or else by several."""
        return self.term(changed, frozenset()) or self.telescoped(changed)

    def term(self, changed: frozenset[int], before: frozenset[int]) -> Term | None:
        body = Body(self.block, self.occurrences, before)
        if is_linear(self.block, changed):
            return Linear(body, changed)
        pieces = self.pieces(changed) if self.can_take_back() else []
        return Local(body, changed, (pieces[0],)) if pieces else None

    def telescoped(self, changed: frozenset[int]) -> Telescoped | None:
        terms: list[Term] = []
        left = changed
        while left:
            found = next((each for group in self._groups(left) if (each := self.term(group, left - group))), None)
            if found is None:
                return None
            terms.append(found)
            left -= found.changed
        return Telescoped(tuple(terms)) if len(terms) > 1 else None

    def _groups(self, left: frozenset[int]) -> Iterator[frozenset[int]]:
        """Sets of tables, the largest first; then single places of tables."""
        tables = sorted({self.occurrences[each].table for each in left})
        for size in range(min(len(tables), _MOST_TABLES), 0, -1):
            for chosen in itertools.combinations(tables, size):
                yield frozenset(each for each in left if self.occurrences[each].table in chosen)
        yield from (frozenset({each}) for each in sorted(left))
