"""A sample of a view: all rows of a share of its keys, by a hash that is the same on both sides.

Its query falls into pieces by the key, and Spark takes a condition on it down to the tables that have it, so that only
the pieces of these keys are computed. The condition decides nothing but which rows are compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidemill.changes.bags import has_floats
from tidemill.ivm import NotIncremental
from tidemill.model import quote, spelled
from tidemill.planning.refresh import view_of
from tidemill.verify.share import PARTS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from pyspark.sql.types import StructType

    from tidemill.ivm import ViewQuery
    from tidemill.planning.refresh import ViewInputs

NO_KEY = "no column of it is a key by which its query falls into pieces"
NO_VIEW = "samples are of materialized views"


@dataclass(frozen=True, slots=True)
class KeySample:
    """The rows whose values in these columns fall into a share of all; NULL is a value as any other."""

    share: float
    columns: tuple[str, ...]

    @property
    def condition(self) -> str:
        values = ", ".join(map(quote, self.columns))
        return f"pmod(xxhash64({values}), {PARTS}) < {round(self.share * PARTS)}"


def sample_of(
    share: float, inputs: ViewInputs, given: StructType, held: StructType, volatile: Collection[str]
) -> KeySample:
    """The sample of a view whose query gives some columns and whose table has some; `NotIncremental` without a key.

    A column counts that has the very same values on both sides.
    """
    left_out = {name.lower() for name in volatile}

    def is_same(name: str) -> bool:
        spelling, kind = spelled(name, held.names), given[name].dataType
        return spelling is not None and held[spelling].dataType == kind and not has_floats(kind)

    columns = tuple(
        name for name in _key_columns(inputs, given.names) if name.lower() not in left_out and is_same(name)
    )
    if not columns:
        raise NotIncremental(NO_KEY)
    return KeySample(share, columns)


def _key_columns(inputs: ViewInputs, output: Sequence[str]) -> list[str]:
    """The columns of the `output` of a view by which its query falls into pieces."""
    view = view_of(inputs)
    return [output[view.output.index(each)] for each in next(_keys(view, inputs), ())]


def _keys(view: ViewQuery, inputs: ViewInputs) -> Iterator[tuple[str, ...]]:
    """Of all tables, where they have a common one; else of the largest."""
    tables = [frozenset(each.written) for each in sorted(inputs.states, key=lambda each: -(each.size or 0))]
    for changed in filter(None, (frozenset[str]().union(*tables), *tables)):
        yield from (rule.on for rule in view.rules(changed) if rule.on)
